"""What docker-compose.yml starts, from Kafka's jars: its settings, its init script, its health checks, and the commands
that deploy/README.md shows for it. Only the addresses are others."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import ssl
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import httpx
import pytest

from bridge.local import BridgeService, Broker, ConnectWorker, LocalStack, kafka_jars
from tests import ROOT
from tests.e2e.flow import ServiceClient, committed_offsets
from tests.support import read
from tests.unit.repository.deployed import (
    DEPLOY,
    KAFKA_BIN,
    SCRIPTS,
    commands,
    compose,
    environment,
    health_check,
    properties,
)

pytestmark = pytest.mark.long

README = DEPLOY / "README.md"
TRYING_OUT = "Trying it out"
SERVICES = compose()["services"]
ORDERS = [b"order %d" % number for number in range(201, 1001)]
READ_TOKEN = "r3ad-token-of-the-environment"
_LISTENING = ("listener", "inter.broker", "controller.", "node.id", "process.roles", "advertised")
"""Beginnings and parts of keys that say where a broker listens: here it does elsewhere."""
_ADDRESSES = ("listeners", "rest.advertised.host.name", "rest.advertised.port", "plugin.path")
_LOGGING = """\
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d %p %m (%c)%n
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = stderr
"""


def broker_properties(given: Mapping[str, str]) -> dict[str, str]:
    """What the official image makes of its environment (KAFKA_NUM_PARTITIONS is num.partitions), but for the JVM's."""
    return {
        name.removeprefix("KAFKA_").lower().replace("_", "."): value
        for name, value in given.items()
        if name.startswith("KAFKA_") and not name.endswith("_OPTS")
    }


def kafka_scripts(directory: Path) -> Path:
    """Scripts of Kafka's names that run the same main classes from our jars, in a new directory; as Kafka's they write
    warnings to standard error, and nothing else that was not asked for."""
    directory.mkdir(parents=True)
    logging = directory / "log4j2.properties"
    logging.write_text(_LOGGING, "utf-8")
    option = f"-Dlog4j2.configurationFile={logging.as_uri()}"
    for name, main in SCRIPTS.items():
        script = directory / name
        command = kafka_jars().command(main, heap="128m", options=(option,))
        script.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n', "utf-8")
        script.chmod(0o755)
    return directory


@dataclass(frozen=True)
class Composed:
    """The services of the compose file, as processes."""

    stack: LocalStack
    service: BridgeService
    worker: ConnectWorker
    replaced: Mapping[str, str]
    """What the files name, and what it is called here."""
    asked: ServiceClient

    def local(self, text: str) -> str:
        names = "|".join(map(re.escape, self.replaced))
        return re.sub(names, lambda match: self.replaced[match[0]], text)

    def run(
        self, command: Sequence[str], given: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """A command of the compose file, an image or a document, with addresses and paths of this machine."""
        return subprocess.run(
            [self.local(word) for word in command],
            env={**os.environ, **{name: self.local(value) for name, value in (given or {}).items()}},
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )

    def init(self) -> str:
        """Runs the init service to its end; what it has printed."""
        asked = SERVICES["init"]
        done = self.run(asked["entrypoint"], asked["environment"])
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{self.service.process.log_tail(40)}"
        return done.stdout


@pytest.fixture(scope="module")
def composed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Composed]:
    """Clusters, service and worker, with the settings of the compose file; the init service has ended."""
    directory = tmp_path_factory.mktemp("compose")
    settings = {
        key: value
        for key, value in broker_properties(SERVICES["cluster-a"]["environment"]).items()
        if not any(part in key for part in _LISTENING)
    }
    own = {
        key: value for key, value in properties(DEPLOY / "worker.properties").items() if key not in _ADDRESSES
    }
    with LocalStack(directory, broker_properties=settings) as stack:
        stack.start_clusters()
        given = {**environment("service"), **SERVICES["service"].get("environment", {})}
        keys = directory / "keys"
        keys.mkdir()
        given = {name: value.replace("/keys/", f"{keys}/") for name, value in given.items()}
        _make_keys(keys)
        tls = ssl.create_default_context(cafile=keys / "cert.pem")
        service = stack.service(
            environment={
                **{name: value for name, value in given.items() if name.startswith("MIRROR_BRIDGE_")},
                "MIRROR_BRIDGE_READ_TOKEN": READ_TOKEN,
            },
            tls=tls,
        )
        inside = {"cluster-a:19092": stack.source.bootstrap, "cluster-b:19092": stack.target.bootstrap}
        joined = SERVICES["worker"]["environment"]
        worker = stack.worker(
            properties={key: re.sub("^/keys$", str(keys), value) for key, value in own.items()},
            environment={name: inside.get(value, value) for name, value in joined.items()},
        )
        mounted = directory / "mounted"
        replaced = {
            **inside,
            "localhost:19092": stack.target.bootstrap,
            "https://service:8900": service.url,
            "https://localhost:8900": service.url,
            "http://worker:8083": worker.url,
            "localhost:8083": worker.url.removeprefix("http://"),
            '"127.0.0.1", 8900': '"127.0.0.1", ' + service.url.rpartition(":")[2],
            "/opt/mirror-bridge/bin/python": sys.executable,
            KAFKA_BIN: str(kafka_scripts(directory / "bin")),
            "/compose/": f"{mounted}/",
            "/keys": str(keys),
        }
        token = (keys / "token").read_text("utf-8").strip()
        result = Composed(stack, service, worker, replaced, ServiceClient(service.url, tls, token))
        volume, _ = SERVICES["init"]["volumes"]
        source, target = volume.split(":")[:2]
        assert target == "/compose"
        shutil.copytree(ROOT / source, mounted)
        for each in mounted.glob("*.json"):
            each.write_text(result.local(each.read_text("utf-8")), "utf-8")
        assert '"verdict":"exact"' in result.init()
        yield result


def _make_keys(directory: Path) -> None:
    """Runs the service that does it, with a folder of ours as its volume."""
    script = DEPLOY / "compose" / SERVICES["keys"]["entrypoint"][1].removeprefix("/compose/")
    given = {"KEYS": str(directory), "KEY_OWNER": str(os.getuid())}
    assert set(given) == set(SERVICES["keys"]["environment"])
    subprocess.run(["/bin/sh", str(script)], env={**os.environ, **given}, check=True, capture_output=True)


def test_records_are_copied_and_the_group_is_exact(composed: Composed) -> None:
    target = composed.stack.target.bootstrap
    copied = read(target, "A.orders", committed_only=True)
    assert [record.value for record in copied] == ORDERS
    resume = next(record.offset for record in copied if record.value == b"order 601")
    assert resume != 600, "there is nothing to translate"
    assert committed_offsets(target, "billing") == {("A.orders", 0): resume}
    service = composed.asked
    (group,) = service.get("/v1/groups")["groups"]
    assert (group["group"], group["ready"], group["verdict"], group["bound"]) == ("billing", True, "exact", 0)
    (row,) = service.report("billing")["partitions"]
    assert (row["committed"], row["target_offset"], row["written"]) == (600, resume, resume)
    known = service.get("/v1/connectors")["connectors"]
    assert {each["name"]: (each["state"], each["waiting_for"], each["errors"]) for each in known} == {
        "source": ("running", [], []),
        "group-offsets": ("running", [], []),
    }


def test_no_child_of_the_service_inherits_a_token(composed: Composed) -> None:
    """Neither the rounds, nor the driver that copies, nor its JVM, nor a Python worker of that."""
    service = composed.service.process.pid
    assert READ_TOKEN.encode() in Path(f"/proc/{service}/environ").read_bytes(), "it was given one"
    inherited = dict(environments(service))
    for part in (b"bridge.service.rounds.main", b"bridge.pipeline.driver.main", b"java", b"pyspark"):
        assert any(part in command and environment for command, environment in inherited.items()), part
    assert not any(READ_TOKEN.encode() in environment for environment in inherited.values())


def environments(parent: int) -> Iterator[tuple[bytes, bytes]]:
    """Of every process below this one, by its command line; those that end meanwhile are left out."""
    for child in below(parent):
        with suppress(FileNotFoundError, ProcessLookupError):
            of = Path(f"/proc/{child}")
            yield b"%d " % child + (of / "cmdline").read_bytes(), (of / "environ").read_bytes()


def below(parent: int) -> Iterator[int]:
    """Every process that this one has started, and those that they have."""
    with suppress(FileNotFoundError, ProcessLookupError):
        for task in Path(f"/proc/{parent}/task").iterdir():
            for child in map(int, (task / "children").read_text().split()):
                yield child
                yield from below(child)


def test_a_second_run_changes_nothing(composed: Composed) -> None:
    assert "already" in composed.init()
    assert [record.value for record in read(composed.stack.source.bootstrap, "orders")] == ORDERS


def test_what_the_readme_shows_is_answered(composed: Composed) -> None:
    shown = [line for line in commands(README, TRYING_OUT) if re.search(r"curl |mirror-bridge ", line)]
    assert len(shown) >= 5
    given = SERVICES["service"]["environment"]
    for line in shown:
        words = shlex.split(re.sub(r"^docker compose exec (service|worker) ", "", line))
        if words[0] == "curl":
            done = composed.run([*words, "--fail"])
            assert done.returncode == 0, f"{line}: {done.stderr}"
            assert json.loads(done.stdout), line
        else:
            done = composed.run([sys.executable, "-m", "bridge", *words[1:]], given)
            assert done.returncode == 0, f"{line}: {done.stderr}"
            assert re.search("billing|orders", done.stdout), line


def test_nobody_else_gets_an_answer(composed: Composed) -> None:
    """The token is wanted, and nothing of it or of the key is in a log."""
    for headers in ({}, {"Authorization": "Bearer guessed"}):
        tls = ssl.create_default_context(cafile=composed.local("/keys/cert.pem"))
        answer = httpx.get(f"{composed.service.url}/v1/groups", verify=tls, headers=headers, timeout=60.0)
        assert answer.status_code == httpx.codes.UNAUTHORIZED
    token = Path(composed.local("/keys/token")).read_text("utf-8").strip()
    for process in (composed.service.process, composed.worker.process):
        assert token not in process.log.read_text("utf-8")


CHECKS = {
    **{name: SERVICES[name]["healthcheck"]["test"][1:] for name in ("cluster-a", "cluster-b", "service")},
    "image of the service": health_check("service"),
    "image of the worker": health_check("worker"),
}
"""Commands of health checks, by whose they are."""


@pytest.mark.parametrize("whose", CHECKS)
def test_health_checks_pass_on_what_is_healthy_and_on_nothing_else(composed: Composed, whose: str) -> None:
    given = {"MIRROR_BRIDGE_TLS_CERT": "/keys/cert.pem"}
    port = {**given, "MIRROR_BRIDGE_PORT": composed.service.url.rpartition(":")[2]}
    done = composed.run(CHECKS[whose], port)
    assert done.returncode == 0, done.stderr
    # Nobody listens on port 1.
    addresses = dict.fromkeys(("localhost:19092", "localhost:8083"), "127.0.0.1:1")
    nowhere = {**composed.replaced, **addresses, '"127.0.0.1", 8900': '"127.0.0.1", 1'}
    assert (
        replace(composed, replaced=nowhere)
        .run(CHECKS[whose], {**given, "MIRROR_BRIDGE_PORT": "1"})
        .returncode
        != 0
    )


def test_when_a_is_gone_the_group_goes_on_at_the_next_order(composed: Composed) -> None:
    """The last one: nothing works on A after it."""
    (shown,) = [line for line in commands(README, TRYING_OUT) if "--group billing" in line]
    where = "docker compose exec cluster-b "
    assert shown.startswith(where)
    cluster = composed.stack.source
    assert isinstance(cluster, Broker)
    cluster.process.stop()
    done = composed.run(shlex.split(shown.removeprefix(where)))
    assert done.stdout.splitlines() == ["order 601", "order 602", "order 603"], done.stderr
