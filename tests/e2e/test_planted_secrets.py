"""Secrets in every place of a configuration that may have one, and a search of everything that exists meanwhile and
afterwards: command lines, environments, files, logs, answers, metrics, Spark's UI and event log, state topics."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import jks
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

from bridge.local import (
    NO_AUTHORITIES,
    BridgeService,
    Broker,
    ConnectFailed,
    ConnectWorker,
    LocalStack,
    Security,
)
from bridge.local.security import TlsFiles, make_tls
from bridge.pipeline.driver.spark_settings import JAVA_OPTIONS
from tests.e2e.flow import LEASE_MS
from tests.e2e.planted import Place, Planted, control, listening
from tests.support import Record, commit, create_topic, eventually, numbered, produce, read, unique
from tests.support.jwts import unsigned
from tests.support.processes import processes
from tests.support.topics import admin
from tests.support.waits import WAIT

pytestmark = pytest.mark.long

MODULE = "org.apache.kafka.common.security"
ONE = {"replication.factor": "1", "offset-syncs.topic.replication.factor": "1"}
"""Broker."""
ODD = "plänted 'app' =:#!\\ \N{MUSICAL SYMBOL G CLEF}"
"""A name of a Spark application that has all that a file of properties has to escape."""
LOGINS = (
    *(
        "source login",
        "target login",
        "admin login",
        "producer login",
        "checkpoints login",
        "heartbeats login",
    ),
    *("consumer login", "offsets login"),
)
"""Each of the user that it begins with."""
NAMES = (
    *LOGINS,
    *("truststore password", "keystore password", "key password", "encrypted key", "decrypted key"),
    *("wrong login", "wrong plain login", "wrong keystore password", "password of another's key"),
    *("misspelt key", "oauth secret", "oauth secret in jaas", "spark secret key", "shared spark key"),
    *("spark account key", "java options", "transform parameter", "unknown key", "bridge token"),
    *("option of a function", "token in a file", "token of Spark Connect", "token in an address"),
)
CONTROL = "what is there to be found"
TRANSFORM = """
def sign(batch, *, signing_secret):
    assert signing_secret.startswith("planted-")
    return batch

def token(properties, options):
    raise ValueError(f"no token for {options['password']}")
"""


@dataclass(frozen=True)
class Plot:
    """A guarded cluster, a service with a token, key stores, and the secrets of all of them."""

    secrets: Mapping[str, str]
    planted: Planted
    broker: Broker
    worker: ConnectWorker
    service: BridgeService
    stores: Path
    home: Path
    """Temporary folder of the service and of all that it starts."""
    folder: Path
    """Where service and worker run, and log."""
    ui: int

    @property
    def watched(self) -> tuple[Any, ...]:
        return (*self.broker.watched, self.worker.process, self.service.process)

    def login(self, user: str, kind: str = "plain.Plain") -> str:
        return f'{MODULE}.{kind}LoginModule required username="{user.split()[0]}" password="{self.secrets[user]}";'

    def config(self, kind: str, mark: str) -> dict[str, str]:
        """Logins of every form, on both sides."""
        address, secret = self.broker.address("SASL_SSL"), self.secrets
        common = {
            "connector.class": kind,
            "tasks.max": "1",
            "source.cluster.alias": f"a-{mark}",
            "target.cluster.alias": f"b-{mark}",
            "bridge.same.cluster": "true",
            "bridge.url": self.service.url,
            "bridge.auth.token": secret["bridge token"],
            "bridge.task.lease.ms": str(LEASE_MS),
            "my.vault.password": secret["unknown key"],
        }
        source = {
            "bootstrap.servers": address,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.jaas.config": self.login("source login", "scram.Scram"),
            "ssl.truststore.location": str(self.stores / "trust.jks"),
            "ssl.truststore.password": secret["truststore password"],
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": str(self.stores / "own.p12"),
            "ssl.keystore.password": secret["keystore password"],
        }
        target = {
            "bootstrap.servers": address,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": self.login("target login"),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.stores / "ca.pem"),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": (self.stores / "key.pem").read_text(),
            "ssl.keystore.certificate.chain": (self.stores / "chain.pem").read_text(),
            "ssl.key.password": secret["key password"],
        }
        return {
            **common,
            **{f"source.cluster.{name}": value for name, value in source.items()},
            **{f"target.cluster.{name}": value for name, value in target.items()},
            "source.admin.sasl.jaas.config": self.login("admin login", "scram.Scram"),
        }

    def override(self, role: str, user: str) -> dict[str, str]:
        """Connect's own client of that role, at the guarded cluster."""
        given = {
            "bootstrap.servers": self.broker.address("SASL_SSL"),
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": self.login(user),
            "ssl.truststore.type": "JKS",
            "ssl.truststore.location": str(self.stores / "trust.jks"),
            "ssl.truststore.password": self.secrets["truststore password"],
        }
        return {f"{role}.override.{name}": value for name, value in given.items()}

    def checkpoints(self, mark: str, group: str) -> dict[str, str]:
        return (
            self.config("BridgeMirrorCheckpointConnector", mark)
            | {
                "groups": group,
                "emit.checkpoints.interval.seconds": "1",
                "refresh.groups.interval.seconds": "1",
                "checkpoints.topic.replication.factor": "1",
                "offset-syncs.topic.replication.factor": "1",
            }
            | self.override("producer", "checkpoints login")
        )

    def heartbeats(self, mark: str) -> dict[str, str]:
        return (
            self.config("BridgeMirrorHeartbeatConnector", mark)
            | {"emit.heartbeats.interval.seconds": "1", "heartbeats.topic.replication.factor": "1"}
            | self.override("producer", "heartbeats login")
        )

    def sink(self, mark: str, topic: str) -> dict[str, str]:
        """In a Spark that it shares with others; Connect's consumer reads the guarded cluster, as one at the source."""
        return (
            self.config("BridgeMirrorSinkConnector", mark)
            | ONE
            | {
                "topics": topic,
                "heartbeats.replication.enabled": "false",
                "refresh.topics.interval.seconds": "1",
                "sync.topic.acls.enabled": "false",
                "spark.master": "local[2]",
                "spark.shared": "true",
                "spark.local.dir": str(self.home),
                "spark.hadoop.fs.s3a.secret.key": self.secrets["shared spark key"],
            }
            | self.override("consumer", "consumer login")
            | self.override("admin", "offsets login")
        )

    def copying(self, mark: str) -> dict[str, str]:
        """With everything that Spark and transforms may have besides."""
        java = self.secrets["java options"]
        return (
            self.config("BridgeMirrorSourceConnector", mark)
            | ONE
            | {
                "topics": f"{mark}.*",
                # Of a cluster that is mirrored onto itself, under two aliases, every copy would have copies.
                "heartbeats.replication.enabled": "false",
                "refresh.topics.interval.seconds": "1",
                "sync.topic.acls.enabled": "false",
                "producer.override.sasl.jaas.config": self.login("producer login"),
                "bridge.transforms": "sign",
                "bridge.transforms.sign.type": "python:planted_signing.sign",
                "bridge.transforms.sign.signing_secret": self.secrets["transform parameter"],
                "spark.master": "local[2]",
                "spark.app.name": ODD,
                "spark.log.level": "INFO",
                "spark.logConf": "true",
                # Each event is a slow one, as on a busy machine.
                "spark.scheduler.listenerbus.logSlowEvent.threshold": "0ms",
                "spark.ui.enabled": "true",
                "spark.ui.port": str(self.ui),
                "spark.local.dir": str(self.home),
                "spark.eventLog.enabled": "true",
                "spark.eventLog.compress": "false",
                "spark.eventLog.dir": self.home.as_uri(),
                "spark.hadoop.fs.s3a.secret.key": self.secrets["spark secret key"],
                "spark.hadoop.fs.azure.account.key.store": self.secrets["spark account key"],
                # Our own defaults first, which these take the place of.
                "spark.driver.extraJavaOptions": f"{JAVA_OPTIONS} -Djava.io.tmpdir={self.home} "
                f"-Dvault.password='{java}'",
            }
        )

    @contextmanager
    def asking(self) -> Iterator[Callable[[str], httpx.Response]]:
        """GETs something of the service; what it answers is searched."""
        headers = {"Authorization": f"Bearer {self.secrets['bridge token']}"}
        with httpx.Client(
            base_url=self.service.url, headers=headers, timeout=60.0, verify=NO_AUTHORITIES
        ) as client:

            def get(path: str) -> httpx.Response:
                answer = client.get(path)
                self.planted.search(f"answer of {path}", f"{answer.headers}\n".encode() + answer.content)
                return answer

            yield get

    def answers(self, **names: str) -> dict[str, httpx.Response]:
        """Of every GET that the service has, by its path in the contract."""
        query = f"?{urlencode({'alias': names['alias'], 'group': names['group']})}"
        with self.asking() as get:
            known = get("/v1/openapi.json")
            paths = [path for path, verbs in known.json()["paths"].items() if "get" in verbs]
            for path in ("/docs", "/redoc", "/openapi.json", "/no/such/page"):
                assert get(path).status_code == httpx.codes.NOT_FOUND
            return {path: get(path.format(**names) + query) for path in paths}

    def status(self, name: str) -> str:
        with self.asking() as get:
            return get(f"/v1/connectors/{name}/status").text

    def search_spark(self) -> None:
        """Every page of Spark's UI that shows settings, and the same as JSON."""
        with httpx.Client(
            base_url=f"http://127.0.0.1:{self.ui}", timeout=60.0, follow_redirects=True, verify=NO_AUTHORITIES
        ) as ui:
            (application,) = ui.get("/api/v1/applications").json()
            assert application["name"] == ODD
            api = f"/api/v1/applications/{application['id']}"
            pages = (
                "/environment/",
                "/jobs/",
                "/stages/",
                "/executors/",
                "/executors/threadDump/?executorId=driver",
            )
            for path in (
                *pages,
                *(f"{api}/{what}" for what in ("environment", "jobs", "stages", "allexecutors")),
            ):
                self.planted.search(f"Spark's {path}", ui.get(path).raise_for_status().content)
            settings = dict(ui.get(f"{api}/environment").json()["sparkProperties"])
        assert settings["spark.authenticate"] == settings["spark.io.encryption.enabled"] == "true"
        assert settings["spark.network.crypto.enabled"] == "true"

    def search_topics(self) -> int:
        """Every record of every topic; how many there were."""
        count = 0
        for topic in admin(self.broker.bootstrap).list_topics(timeout=60).topics:
            for record in read(self.broker.bootstrap, topic):
                count += 1
                self.planted.search(
                    f"topic {topic}", b"%r %r %r" % (record.key, record.value, record.headers)
                )
        return count


def make_stores(tls: TlsFiles, folder: Path, secret: Mapping[str, str]) -> dict[str, str]:
    """Key stores of every form with these passwords; a line of the private key, encrypted and not."""
    folder.mkdir()
    ca = x509.load_pem_x509_certificate(tls.authority.read_bytes())
    own = tls.client.read_bytes()
    key = serialization.load_pem_private_key(own, None)
    certificates = x509.load_pem_x509_certificates(own)
    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    encryption = serialization.BestAvailableEncryption(secret["key password"].encode())
    encrypted = key.private_bytes(pem, pkcs8, encryption).decode()
    plain = key.private_bytes(pem, pkcs8, serialization.NoEncryption()).decode()
    (folder / "key.pem").write_text(encrypted)
    (folder / "chain.pem").write_bytes(b"".join(each.public_bytes(pem) for each in certificates))
    (folder / "ca.pem").write_bytes(tls.authority.read_bytes())
    entry = jks.TrustedCertEntry.new("ca", ca.public_bytes(serialization.Encoding.DER))
    jks.KeyStore.new("jks", [entry]).save(str(folder / "trust.jks"), secret["truststore password"])
    store = serialization.BestAvailableEncryption(secret["keystore password"].encode())
    (folder / "own.p12").write_bytes(
        pkcs12.serialize_key_and_certificates(b"own", key, certificates[0], certificates[1:], store)  # type: ignore[arg-type]
    )
    # Its last whole line: the first ones are the same for all keys.
    return {"encrypted key": encrypted.splitlines()[-3], "decrypted key": plain.splitlines()[-3]}


def another_key(folder: Path, password: str) -> Path:
    """A key store whose certificate is of an authority that the broker does not know."""
    pem = make_tls(folder, "Another Authority").client.read_bytes()
    certificates = x509.load_pem_x509_certificates(pem)
    key = serialization.load_pem_private_key(pem, None)
    store = serialization.BestAvailableEncryption(password.encode())
    (folder / "own.p12").write_bytes(
        pkcs12.serialize_key_and_certificates(b"own", key, certificates[0], certificates[1:], store)  # type: ignore[arg-type]
    )
    return folder / "own.p12"


@pytest.fixture
def plot(stack: LocalStack, worker: ConnectWorker, tmp_path: Path) -> Iterator[Plot]:
    secret = {name: f"planted-{secrets.token_hex(12)}" for name in NAMES}
    tls = make_tls(tmp_path / "tls")
    secret |= make_stores(tls, tmp_path / "stores", secret)
    users = {user.split()[0]: secret[user] for user in LOGINS}
    tokens = f'{MODULE}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";'
    properties = {
        "listener.name.sasl_ssl.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        "listener.name.sasl_ssl.oauthbearer.sasl.jaas.config": tokens,
    }
    broker = stack.broker(unique("guarded"), security=Security(users=users, tls=tls), properties=properties)
    (tmp_path / "planted_signing.py").write_text(TRANSFORM)
    token = tmp_path / "token"
    token.touch(mode=0o600)
    token.write_text(secret["bridge token"])
    # Short, as sockets in it have paths of 104 characters at most.
    home = Path(tempfile.mkdtemp(prefix="planted-", dir="/tmp"))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        ui = free.getsockname()[1]
    keys = (
        "spark.hadoop.*,spark.eventLog.*,spark.local.dir,spark.driver.extraJavaOptions=*,spark.logConf,"
        "spark.scheduler.listenerbus.*"
    )
    environment = {
        "TMPDIR": str(home),
        "PYTHONPATH": os.pathsep.join((str(tmp_path), os.environ.get("PYTHONPATH", ""))),
        "MIRROR_BRIDGE_LOG_LEVEL": "debug",
        "MIRROR_BRIDGE_AUTH_TOKEN_FILE": str(token),
        "MIRROR_BRIDGE_ALLOWED_SPARK_KEYS": keys,
        "MIRROR_BRIDGE_ALLOWED_SPARK_MASTERS": "sc://localhost:*",
        "MIRROR_BRIDGE_ALLOWED_PYTHON_MODULES": "planted_signing",
        "MIRROR_BRIDGE_ALLOWED_TOKEN_ENDPOINTS": "127.0.0.1:*,localhost:*",
        "MIRROR_BRIDGE_ALLOWED_FOLDERS": str(tmp_path),
        # The machine may be busy.
        "MIRROR_BRIDGE_IMPORT_SECONDS": "30",
    }
    planted = Planted(secret | {CONTROL: f"planted-{secrets.token_hex(12)}"})
    folder = stack.directory
    # The broker has the passwords in its own files, and Connect's configurations in the data of the other one. Logs are
    # searched at the end.
    places = (
        Place(home),
        Place(folder, "*-data", f"{broker.name}.properties", "*.log"),
        *(Place(each) for each in Path("/tmp").glob("hsperfdata_*")),
        *(Place(Path(each), "pytest-of-*", home.name, new=True) for each in ("/tmp", "/dev/shm")),
    )
    with planted.watching(*places):
        service = stack.service(unique("planted"), environment=environment)
        try:
            yield Plot(secret, planted, broker, worker, service, tmp_path / "stores", home, folder, ui)
        finally:
            service.stop()
            broker.stop()
            shutil.rmtree(home)


@contextmanager
def put(plot: Plot, config: Mapping[str, str], name: str) -> Iterator[str]:
    plot.worker.rest.put(name, config)
    try:
        yield name
    finally:
        plot.planted.search(f"Connect's status of {name}", str(plot.worker.rest.status(name)))
        plot.status(name)
        plot.worker.rest.delete(name)


class Echo(BaseHTTPRequestHandler):
    """An identity provider that refuses, and says more than it should."""

    def do_POST(self) -> None:
        asked = self.rfile.read(int(self.headers["Content-Length"]))
        body = (
            f'{{"error": "invalid_client", "error_description": "{self.headers["Authorization"]} {asked!r}"}}'
        )
        self.send_response(401, "Refused")
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def provider() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/token"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def find_controls(plot: Plot) -> None:
    """Shows that the watch, the search of topics and that of logs find what is there."""
    value = plot.planted.secrets[CONTROL]
    places = plot.planted.places[CONTROL]
    with control(value, [plot.home, plot.folder, Path("/tmp"), Path("/dev/shm")]) as files:

        def found() -> None:
            missing = {f"file {name}" for name in files} - places
            assert not missing, missing
            assert {"cmdline", "environ"} <= {each.partition(" of ")[0] for each in places}

        eventually(found, WAIT, what="the controls are found", watched=plot.watched)


def test_no_planted_secret_comes_up_anywhere(plot: Plot, provider: str) -> None:
    mark, group = unique("planted"), unique("group")
    topic = create_topic(plot.broker.bootstrap, f"{mark}-orders")
    produce(plot.broker.bootstrap, topic, [Record(plot.planted.secrets[CONTROL].encode())])
    commit(plot.broker.bootstrap, group, {(topic, 0): 0})
    copy, groups = unique("copy"), unique("groups")
    following = plot.config("MirrorGroupOffsetConnector", mark) | {
        "groups": group,
        "refresh.groups.interval.seconds": "1",
        "sync.group.offsets.interval.seconds": "1",
        "group-readiness.topic.replication.factor": "1",
    }

    def copied(count: int, alias: str = f"a-{mark}", by: str = copy) -> None:
        produce(plot.broker.bootstrap, topic, numbered(count))
        total = read_count(plot, topic)

        def there() -> None:
            copies = read_count(plot, f"{alias}.{topic}")
            assert copies == total, f"{copies}; {plot.worker.rest.status(by)}; {plot.status(by)}"

        eventually(there, WAIT, what=f"{total} records are copied", watched=plot.watched)

    find_controls(plot)
    with put(plot, plot.copying(mark), copy), put(plot, following, groups):
        copied(50)
        (machine,) = processes(plot.service.process.pid, "org.apache.spark.deploy.SparkSubmit")
        assert listening(machine) == {"0000000000000000FFFF00000100007F"}
        plot.search_spark()
        (driver,) = processes(plot.service.process.pid, "bridge.pipeline.driver.main")
        refused(plot, mark, provider)
        os.kill(driver, signal.SIGKILL)
        copied(50)
        checkpoints, heartbeats = unique("checkpoints"), unique("heartbeats")
        with (
            put(plot, plot.checkpoints(mark, group), checkpoints),
            put(plot, plot.heartbeats(mark), heartbeats),
        ):
            for written in (f"a-{mark}.checkpoints.internal", "heartbeats"):
                eventually(
                    lambda written=written: read_count(plot, written),  # type: ignore[misc]
                    WAIT,
                    what=f"Connect's producer writes to {written}",
                    watched=plot.watched,
                )
            with put(plot, plot.sink(f"sink-{mark}", topic), sink := unique("sink")):
                copied(50, f"a-sink-{mark}", sink)
            answers = plot.answers(name=copy, connector=copy, group=group, side="source", alias=f"a-{mark}")
        assert copy in answers["/health"].text
        assert copy in answers["/metrics"].text
        assert answers["/v1/groups/{group}"].status_code == httpx.codes.OK
        plot.service.process.kill()
        plot.service.start()
        copied(50)
    assert plot.search_topics() > 300
    assert {f"topic {topic}", f"topic a-{mark}.{topic}"} <= plot.planted.places[CONTROL]
    plot.service.stop()
    for log in (plot.service.process.log, plot.worker.process.log):
        plot.planted.search(f"log {log.name}", log.read_bytes())
    assert copy.encode() in plot.service.process.log.read_bytes()
    assert ODD.split()[0].encode() in b"".join(each.read_bytes() for each in plot.home.rglob("events_*"))
    del plot.planted.places[CONTROL]
    result = {name: sorted(places) for name, places in plot.planted.places.items()}
    assert len(plot.secrets) == len(set(plot.secrets.values())) == len(NAMES)
    assert not result, f"{len(result)} of {len(NAMES)} were found: {result}"


def read_count(plot: Plot, topic: str) -> int:
    known = admin(plot.broker.bootstrap).list_topics(timeout=60).topics
    return len(read(plot.broker.bootstrap, topic, committed_only=True)) if topic in known else 0


def refused(plot: Plot, mark: str, provider: str) -> None:
    """Logins that fail, each in its own way."""
    source, secret = plot.config("MirrorGroupOffsetConnector", f"{mark}-no") | {"groups": "x"}, plot.secrets
    stores = {
        "source.cluster.ssl.keystore.password": secret["wrong keystore password"],
        "source.cluster.ssl.truststore.password": secret["wrong keystore password"],
        "source.cluster.sasl.passwort": secret["misspelt key"],
    }
    copying = plot.config("BridgeMirrorSourceConnector", f"{mark}-no") | {"topics": "x"}
    remote = {"spark.remote": f"sc://localhost:1/;token={secret['token in an address']}"}
    for changes, words in (
        (source | stores, "the password does not open the store"),
        (copying | remote, "spark.connect.authenticate.token"),
    ):
        with pytest.raises(ConnectFailed, match=words) as broken:
            plot.worker.rest.put(unique("broken"), changes)
        plot.planted.search("Connect's answer", str(broken.value))
    # Nobody listens there, and no Spark is started here.
    away = ONE | {
        "spark.remote": "sc://localhost:1",
        "spark.connect.authenticate.token": secret["token of Spark Connect"],
        "topics": f"{mark}.*",
    }
    login = {"source.cluster.sasl.jaas.config": plot.login("wrong login", "scram.Scram")}
    plain = {
        "source.cluster.sasl.mechanism": "PLAIN",
        "source.cluster.sasl.jaas.config": plot.login("wrong plain login"),
        "source.admin.sasl.jaas.config": plot.login("wrong plain login"),
    }
    other = another_key(plot.stores.parent / "other", secret["password of another's key"])
    certificate = {
        "source.cluster.security.protocol": "SSL",
        "source.cluster.bootstrap.servers": plot.broker.address("SSL"),
        "source.cluster.ssl.keystore.location": str(other),
        "source.cluster.ssl.keystore.password": secret["password of another's key"],
    }
    oauth = f"{MODULE}.oauthbearer.OAuthBearerLoginModule required"
    tokens = {
        "source.cluster.sasl.mechanism": "OAUTHBEARER",
        "source.cluster.sasl.jaas.config": f"{oauth};",
        "source.cluster.sasl.oauthbearer.token.endpoint.url": provider,
        "source.cluster.sasl.oauthbearer.client.credentials.client.id": "mirror",
        "source.cluster.sasl.oauthbearer.client.credentials.client.secret": secret["oauth secret"],
        "source.admin.sasl.jaas.config": f'{oauth} clientId="mirror" clientSecret="{secret["oauth secret in jaas"]}";',
    }
    function = {
        "source.cluster.sasl.mechanism": "OAUTHBEARER",
        "source.cluster.sasl.jaas.config": f'{oauth} password="{secret["option of a function"]}";',
        "source.cluster.sasl.login.callback.handler.class": "python:planted_signing.token",
        "source.admin.sasl.jaas.config": f'{oauth} password="{secret["option of a function"]}";',
    }
    kept = plot.stores / "token.jwt"
    head, said, _ = unsigned("mirror", time.time() + 3600).split(".")
    kept.write_text(f"{head}.{said}.{secret['token in a file']}")
    file = {
        "source.cluster.sasl.mechanism": "OAUTHBEARER",
        "source.cluster.sasl.jaas.config": f"{oauth};",
        "source.cluster.sasl.oauthbearer.token.endpoint.url": kept.as_uri(),
        "source.admin.sasl.jaas.config": f"{oauth};",
    }
    cases = (
        (copying | away, "no Spark Connect server answers"),
        (login, "Authentication failed"),
        (plain, "uthentication failed"),
        (certificate, plot.broker.address("SSL")),
        (tokens, "no token from"),
        (
            function,
            "no token from python:planted_signing.token: it failed with ValueError: no token for [hidden]",
        ),
        (file, "uthentication"),
    )
    with ExitStack() as running:
        names = [
            running.enter_context(put(plot, source | changes, unique("refused"))) for changes, _ in cases
        ]
        for name, (_, words) in zip(names, cases, strict=True):
            eventually(
                lambda name=name, words=words: words in plot.status(name),  # type: ignore[misc]
                WAIT,
                what=f"{name} says {words}",
                watched=plot.watched,
            )
    assert b"SSL handshake failed" in plot.broker.process.log.read_bytes()
