"""What a configuration may name: everything else is an error of validate, before it is loaded, opened or reached."""

from __future__ import annotations

import os
import re
import sys
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyspark
import pytest

from bridge.errors import ConfigError, ConfigRejected
from bridge.kafka.config.files import Files
from bridge.kafka.config.settings import StaticClientCheck
from bridge.policy import Policy, fits, fits_server
from bridge.settings import SettingsRejected, load_settings
from connectors.base import Kind
from connectors.config.allowed_names import allowed, code, refused
from connectors.config.client_keys import looks_secret
from connectors.config.spark_keys import HARMLESS, NEED_A_VALUE
from connectors.registry import KINDS
from connectors.source.options import SourceOptions
from tests.support.messages import message
from tests.unit.connectors.configs import SOURCE

KIND = KINDS["source"]
OPEN = Policy(("*",), ("*",), ("*",))


def errors(props: Mapping[str, str], policy: Policy | None = None, kind: Kind = KIND) -> dict[str, list[str]]:
    checks = allowed(StaticClientCheck(), policy or Policy())
    collected: dict[str, list[str]] = {}
    for error in kind.validate({**SOURCE, **props}, checks).errors:
        collected.setdefault(error.key, []).append(error.message)
    return collected


def test_what_docs_and_tests_use_needs_no_setting() -> None:
    props = {
        "spark.master": " local[2] ",
        "spark.default.parallelism": "4",
        "spark.driver.host": "bridge.example.org",
        "spark.executor.memory": "512m",
        "spark.executor.cores": "2",
        "spark.executor.instances": "2",
        "spark.executor.memoryOverhead": "512m",
        "spark.cores.max": "8",
        "spark.dynamicAllocation.enabled": "false",
        "spark.task.maxFailures": "8",
        "spark.ui.enabled": "true",
        "spark.network.timeout": "120s",
        "spark.log.level": "INFO",
        "spark.kubernetes.namespace": "mirror",
        "spark.yarn.queue": "mirror",
        "spark.authenticate": "true",
        "topic.filter.class": "python:bridge.mm2.filters.DefaultTopicFilter",
        "replication.policy.class": "python:bridge.mm2.replication_policy.IdentityReplicationPolicy",
        "bridge.transforms": "mask",
        "bridge.transforms.mask.type": "python:bridge.transforms.mask_fields",
        "bridge.transforms.mask.fields": "a,python:b.c",
    }
    assert errors(props) == {}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("spark.plugins", "org.example.Evil"),
        ("spark.plugins ", "org.example.Evil"),
        ("spark.jars", "/tmp/evil.jar"),
        ("spark.jars.packages", "org:evil:1"),
        ("spark.driver.extraClassPath", "/tmp/evil.jar"),
        ("spark.driver.extraJavaOptions", "-XX:OnOutOfMemoryError=/tmp/evil"),
        ("spark.driver.defaultJavaOptions", "-javaagent:/tmp/evil.jar"),
        ("spark.executor.extraJavaOptions", "-javaagent:/tmp/evil.jar"),
        ("spark.executor.extraLibraryPath", "/tmp"),
        ("spark.executorEnv.LD_PRELOAD", "/tmp/evil.so"),
        ("spark.pyspark.python", "/tmp/evil"),
        ("spark.pyspark.driver.python", "/tmp/evil"),
        ("spark.python.daemon.module", "evil"),
        ("spark.python.worker.module", "evil"),
        ("spark.submit.pyFiles", "/tmp/evil.py"),
        ("spark.archives", "/tmp/evil.tar.gz"),
        ("spark.files", "/etc/passwd"),
        ("spark.eventLog.dir", "file:///tmp/evil"),
        ("spark.local.dir", "/etc"),
        ("spark.metrics.conf", "/tmp/evil"),
        ("spark.extraListeners", "org.example.Evil"),
        ("spark.serializer", "org.example.Evil"),
        ("spark.hadoop.fs.evil.impl", "org.example.Evil"),
        ("spark.sql.extensions", "org.example.Evil"),
        ("spark.ui.filters", "org.example.Evil"),
        ("spark.scheduler.allocation.file", "/etc/passwd"),
        ("spark.executor.resource.gpu.discoveryScript", "/tmp/evil"),
        ("spark.kubernetes.allocation.pods.allocator", "org.example.Evil"),
        ("spark.kubernetes.executor.podTemplateFile", "/tmp/evil"),
        ("spark.kubernetes.executor.volumes.hostPath.root.mount.path", "/root"),
        ("spark.kubernetes.executor.secretKeyRef.A", "a:b"),
        ("spark.kerberos.keytab", "/etc/krb5.keytab"),
        ("spark.driver.bindAddress", "0.0.0.0"),
        ("spark.redaction.regex", "x"),
        ("spark.authenticate", "false"),
        ("spark.network.crypto.enabled", "no"),
        ("spark.io.encryption.enabled", "false"),
    ],
)
def test_keys_that_load_run_read_or_write_are_refused(key: str, value: str) -> None:
    rejected = errors({key: value})
    assert list(rejected) == [key]
    (message,) = rejected[key]
    assert message.startswith("Invalid value ")
    assert f" for configuration {key}: " in message
    by_value = fits(key, NEED_A_VALUE)
    named = f"{key}={'VALUE' if looks_secret(key) else value}" if by_value else key
    assert f"MIRROR_BRIDGE_ALLOWED_SPARK_KEYS={named}, which is empty now" in message
    for pattern in (key, "spark.*"):
        assert (errors({key: value}, Policy(spark_keys=(pattern,))) == {}) == (not by_value)
        assert errors({key: value}, Policy(spark_keys=(f"{pattern}={value}",))) == {}
        assert errors({key: value}, Policy(spark_keys=(f"{pattern}=another",))) != {}


def test_no_name_that_spark_itself_knows_sounds_like_code_or_files() -> None:
    """Of the names in Spark's own classes those that any configuration may have: patterns hold no surprise."""
    jars = Path(pyspark.__file__).parent / "jars"
    names = {
        each.decode()
        for part in ("core", "kubernetes", "yarn")
        for jar in jars.glob(f"spark-{part}_*.jar")
        for each in _names(jar)
    }
    assert len(names) > 900
    allowed = {name for name in names if fits(name, HARMLESS)}
    print(f"{len(allowed)} of {len(names)} names")
    assert len(allowed) > 100
    risky = re.compile(
        r"class|jar|file|path|dir|uri|url|java|option|script|plugin|command|module|image|template|volume|"
        r"mount|env|filter|serializer|codec|allocator|factory|provider|hadoop|keytab|secret|password|bind",
        re.IGNORECASE,
    )
    secret = {"spark.authenticate.secret", "spark.authenticate.secretBitLength"}
    assert {name for name in allowed if risky.search(name)} == secret
    assert {name for name in allowed if "python" in name.lower()} == {"spark.python.worker.reuse"}


def _names(jar: Path) -> Iterator[bytes]:
    with zipfile.ZipFile(jar) as packed:
        for each in packed.namelist():
            if each.endswith(".class"):
                yield from re.findall(rb"spark\.[a-zA-Z][a-zA-Z0-9.]*[a-zA-Z0-9]", packed.read(each))


def test_values_of_spark_that_may_be_secrets_are_not_shown() -> None:
    for key in ("spark.ssl.keyPassword", "spark.hadoop.fs.s3a.access.key", "spark.driver.extraJavaOptions"):
        (message,) = errors({key: "geheim"})[key]
        assert "geheim" not in message


def test_a_value_is_one_line() -> None:
    assert (
        "line breaks" in errors({"spark.app.name": "a\nspark.plugins=org.example.Evil"})["spark.app.name"][0]
    )


@pytest.mark.parametrize("master", ["local", "local[*]", "local[4]", "local[2,8]"])
def test_masters_on_this_machine(master: str) -> None:
    assert errors({"spark.master": master}) == {}


@pytest.mark.parametrize(
    "master",
    [
        "spark://evil:7077",
        "yarn",
        "k8s://https://evil",
        "local-cluster[2,1,1024]",
        "localhost",
        "local[2]evil",
    ],
)
def test_other_masters_are_allowed_by_the_service(master: str) -> None:
    (message,) = errors({"spark.master": master})["spark.master"]
    assert f"Invalid value {master} for configuration spark.master: " in message
    assert f"MIRROR_BRIDGE_ALLOWED_SPARK_MASTERS={master}, which is empty now" in message
    secured = {"spark.authenticate": "true", "spark.authenticate.secret": "s"}
    assert errors({"spark.master": master, **secured}, OPEN) == {}
    other = Policy(spark_masters=("spark://ours:*",))
    assert "which is spark://ours:* now" in errors({"spark.master": master}, other)["spark.master"][0]


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the module `writing_module` writes when it is imported."""
    there = tmp_path / "written"
    (tmp_path / "writing_module.py").write_text(
        f"open({str(there)!r}, 'w').close()\n"
        "class Filter:\n    def should_replicate_topic(self, topic): return True\n"
        "    def should_replicate_group(self, group): return True\n"
        "def through(batch): return batch\n"
        "def token(properties, options): raise AssertionError('called')\n"
        "def of_one(properties): pass\n"
        "async def awaited(properties, options): pass\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "writing_module", raising=False)
    return there


@pytest.mark.parametrize(
    "props",
    [
        {"topic.filter.class": " python:writing_module.Filter"},
        {"replication.policy.class": "python:writing_module.Filter"},
        {"config.property.filter.class": "python:writing_module.Filter"},
        {"bridge.transforms": "python:bridge.transforms.drop_where, python:writing_module.through"},
        {"bridge.transforms.a.type": "python:writing_module.through", "bridge.transforms": "a"},
        {"target.cluster.sasl.login.callback.handler.class": "python:writing_module.token"},
        {"producer.override.sasl.login.callback.handler.class": "python:writing_module.token"},
    ],
)
def test_a_module_that_is_not_allowed_is_not_loaded(written: Path, props: dict[str, str]) -> None:
    rejected = errors(props)
    key = next(iter(props))
    assert list(rejected) == [key]
    (said,) = rejected[key]
    assert "writing_module" in said
    assert message("config.no_modules") in said
    assert not written.exists()
    with pytest.raises(ConfigRejected):
        SourceOptions.from_props(SOURCE | props, allowed(StaticClientCheck(), Policy()))
    assert not written.exists()


@pytest.mark.parametrize("kind", ["group_offset", "checkpoint", "heartbeat"])
def test_no_kind_of_connector_loads_it(written: Path, kind: str) -> None:
    props = {"replication.policy.class": "python:writing_module.Filter"}
    assert list(errors(props, kind=KINDS[kind])) == ["replication.policy.class"]
    assert not written.exists()


@pytest.mark.parametrize(
    ("module", "fine"),
    [
        ("writing_module", True),
        ("*", True),
        ("writing", False),
        ("writing_module.deeper", False),
    ],
)
def test_allowed_modules_have_all_below_them(written: Path, module: str, fine: bool) -> None:
    rejected = errors(
        {"topic.filter.class": "python:writing_module.Filter"}, Policy(python_modules=(module,))
    )
    assert (not rejected) == fine == written.exists()


@pytest.mark.parametrize(
    ("function", "why"),
    [
        ("token", None),
        ("of_one", "it must take two arguments"),
        ("awaited", "it must be a plain function"),
        ("missing", "has no function missing"),
        ("Filter", "it must take two arguments"),
    ],
)
def test_a_function_that_gets_tokens_is_loaded_and_not_called(
    written: Path, function: str, why: str | None
) -> None:
    key = "source.admin.sasl.login.callback.handler.class"
    rejected = errors({key: f"python:writing_module.{function}"}, Policy(python_modules=("*",)))
    assert written.exists()
    assert list(rejected) == ([key] if why else [])
    assert why is None or why in rejected[key][0]


def test_a_token_in_a_file_needs_a_folder_and_no_host(tmp_path: Path) -> None:
    (tmp_path / "token").touch()
    given = {
        "source.cluster.security.protocol": "SASL_SSL",
        "source.cluster.sasl.mechanism": "OAUTHBEARER",
        f"source.cluster.{TOKEN_ENDPOINT}": (tmp_path / "token").as_uri(),
    }
    hosts = ("login.example.org",)
    (said,) = errors(given, Policy(token_endpoints=hosts))[f"source.cluster.{TOKEN_ENDPOINT}"]
    assert message("config.no_folders") in said
    assert not errors(given, Policy(token_endpoints=hosts, folders=(str(tmp_path),)))
    policy = Policy(token_endpoints=hosts, folders=("/etc/tokens",))
    collected = KIND.validate(
        {**SOURCE, **given}, allowed(StaticClientCheck(Files(policy.folders)), policy)
    ).errors
    assert "below no folder that this service allows" in str(collected)


def test_the_file_of_a_topic_map_lies_below_an_allowed_folder(tmp_path: Path) -> None:
    key = "replication.policy.topic.map.file"
    inside = tmp_path / "inside"
    inside.mkdir()
    for folder in (inside, tmp_path):
        (folder / "topics.map").write_text("orders=bills")
    (tmp_path / "in").symlink_to(inside / "topics.map")
    (inside / "out").symlink_to(tmp_path / "topics.map")
    policy = Policy(folders=(str(inside),))

    def said(name: str, policy: Policy | None = None) -> list[str]:
        props = {"replication.policy.class": "python:bridge.policies.TopicMap", key: str(tmp_path / name)}
        return errors(props, policy).get(key, [])

    for name in ("inside/topics.map", "in", f"{inside}/topics.map "):
        assert said(name, policy) == [], name
    for name in ("topics.map", "inside/out", "inside/../topics.map", "inside", ""):
        why = said(name, policy)[-1]
        assert message("config.other_folder", folders=inside) in why, name
    assert said("topics.map") == []
    os.mkfifo(inside / "fifo.map")
    assert "it is no regular file" in str(said("inside/fifo.map", policy))


@pytest.mark.parametrize(
    "signed",
    [
        {"source.cluster.sasl.mechanism": "AWS_MSK_IAM"},
        {"admin.sasl.mechanism": " AWS_MSK_IAM"},
        {
            "source.consumer.sasl.login.callback.handler.class": "software.amazon.msk.auth.iam."
            "IAMOAuthBearerLoginCallbackHandler"
        },
    ],
)
def test_the_services_own_aws_login_goes_to_aws_alone(signed: dict[str, str]) -> None:
    key, why = "source.cluster.bootstrap.servers", "MIRROR_BRIDGE_ALLOWED_BOOTSTRAP, which is empty now"
    fine = "b-1.o.c4.kafka.eu-west-1.amazonaws.com:9098"
    for wrong in (
        "ec2-1-2-3-4.compute.amazonaws.com:9098",
        "evil-kafka.eu-west-1.amazonaws.com:1",
        f"{fine},e:1",
    ):
        assert why in str(errors({**signed, key: wrong}).get(key)), wrong
        assert why not in str(errors({**signed, key: wrong}, Policy(bootstrap=("*",)))), wrong
        assert why not in str(errors({key: wrong}))
    assert why not in str(errors({**signed, key: fine}).get(key))
    for other in ("source.admin", "source.consumer", "consumer", "admin"):
        elsewhere = f"{other}.bootstrap.servers"
        assert why in str(errors({**signed, key: fine, elsewhere: "evil:1"}).get(elsewhere)), elsewhere
    check = "source.cluster.ssl.endpoint.identification.algorithm"
    for policy in (Policy(), Policy(bootstrap=("*",))):
        assert "host name it has verified" in str(errors({**signed, key: fine, check: ""}, policy).get(check))
    assert errors({**signed, key: fine, check: "https"}).get(check) is None
    assert "host name it has verified" not in str(errors({key: fine, check: ""}))


def test_names_that_are_no_module_of_ours() -> None:
    """`bridge` itself is not among them: it can start processes."""
    for name in ("bridge.local.processes.Process", "bridge.transforms_of_others.f", "os.system", "system"):
        assert list(errors({"bridge.transforms": f"python:{name}"})) == ["bridge.transforms"]


def test_code_of_others() -> None:
    props = {
        "topic.filter.class": "python:a.B",
        "replication.policy.class": "python:bridge.mm2.replication_policy.DefaultReplicationPolicy",
        "bridge.transforms": "mask,python:c.d,python:bridge.transforms.mask_fields",
        "bridge.transforms.mask.type": "python:e.f.g",
        "bridge.transforms.mask.fields": "python:h.i",
        "topics": "python",
    }
    assert code(props) == {
        "topic.filter.class": ["a.B"],
        "bridge.transforms": ["c.d"],
        "bridge.transforms.mask.type": ["e.f.g"],
    }


@pytest.mark.parametrize("key", ["source.cluster.bootstrap.servers", "source.consumer.bootstrap.servers"])
def test_servers_that_the_service_may_connect_to(key: str) -> None:
    ours = Policy(
        bootstrap=("*.prod.example.org:9092", "10.0.0.?:*", SOURCE["target.cluster.bootstrap.servers"])
    )
    base = {"source.cluster.bootstrap.servers": "a.prod.example.org:9092"}
    for fine in ("A.prod.example.org:9092", "a.prod.example.org:9092, 10.0.0.1:19", "SSL://10.0.0.2:1"):
        assert errors(base | {key: fine}, ours) == {}
    for wrong in ("a.prod.example.org:9093", "169.254.169.254:80", "x:1@10.0.0.1:9", "10.0.0.1:9,evil:1"):
        (message, *_) = errors(base | {key: wrong}, ours)[key]
        assert f"Invalid value {wrong} for configuration {key}: " in message
        assert "MIRROR_BRIDGE_ALLOWED_BOOTSTRAP is *.prod.example.org:9092,10.0.0.?:*," in message
    assert errors(base | {key: "anything:1"}) == {}


TOKEN_ENDPOINT = "sasl.oauthbearer.token.endpoint.url"


@pytest.mark.parametrize(
    "host",
    ["localhost", "a.localhost", "127.0.0.1", "127.1", "2130706433", "0.0.0.0", "169.254.169.254", "[::1]"],
)
def test_the_service_asks_none_of_its_own_machine_for_tokens_unless_that_is_named(host: str) -> None:
    key = f"source.cluster.{TOKEN_ENDPOINT}"
    for url in (f"https://{host}/token", f"HTTP://{host}:8080"):
        assert "MIRROR_BRIDGE_ALLOWED_TOKEN_ENDPOINTS" in str(errors({key: url})[key])
    if host != "[::1]":
        assert "TOKEN_ENDPOINTS" not in str(
            errors({key: f"http://{host}:8080"}, Policy(token_endpoints=(f"{host}:*",)))
        )
    for fine in ("https://login.example.org/token", "https://10.0.0.1:8443", "https://localhost.example.org"):
        assert errors({key: fine}).get(key) is None


@pytest.mark.parametrize("prefix", ["source.cluster.", "target.admin.", "consumer.", "producer.override."])
def test_token_endpoints_that_the_service_may_ask(prefix: str) -> None:
    key = prefix + TOKEN_ENDPOINT
    ours = Policy(token_endpoints=("login.example.org", "*.idp.example.org:8443", "any:*"))
    for fine in (
        "https://login.example.org/token",
        " https://Login.example.org:443/token?a=b",
        "http://login.example.org/token",
        "https://a.idp.example.org:8443/token",
        "https://any:1",
    ):
        assert "may ask for tokens" not in str(errors({key: fine}, ours)), fine
    for wrong in (
        "https://evil.example.org/token",
        "https://evil/login.example.org",
        "https://login.example.org:444/token",
        "http://login.example.org:443/token",
        "https://a.idp.example.org/token",
        "https://a.idp.example.org:8443@evil/token",
        "https://evil?@login.example.org/",
        "https://evil\\@login.example.org/",
        "https://evil\n.idp.example.org:8443/",
        "https://[::1]/token",
        "ldap://login.example.org/",
    ):
        said = errors({key: wrong}, ours)[key]
        assert any("MIRROR_BRIDGE_ALLOWED_TOKEN_ENDPOINTS is login.example.org," in each for each in said), (
            wrong
        )
        assert "may ask for tokens" not in str(errors({key: wrong}))


def test_all_refusals_come_at_once_and_beside_other_errors() -> None:
    rejected = errors(
        {
            "spark.plugins": "org.example.Evil",
            "spark.master": "spark://evil:1",
            "spark.authenticate": "true",
            "spark.authenticate.secret": "s",
            "topic.filter.class": "python:no.such.Filter",
            "replication.policy.class": "python:os.system",
            "bridge.transforms": "a",
            "bridge.transforms.a.type": "python:no.such.function",
            "source.cluster.bootstrap.servers": "evil:1",
            "replication.factor": "many",
            "source.cluster.security.protocol": "NOTLS",
        },
        Policy(bootstrap=(SOURCE["target.cluster.bootstrap.servers"],)),
    )
    assert {key: len(messages) for key, messages in rejected.items()} == dict.fromkeys(
        (
            *("spark.plugins", "spark.master", "topic.filter.class", "replication.policy.class"),
            *("bridge.transforms.a.type", "source.cluster.bootstrap.servers", "replication.factor"),
        ),
        1,
    ) | {"source.cluster.security.protocol": len(rejected["source.cluster.security.protocol"])}


@pytest.mark.parametrize("kind", ["group_offset", "checkpoint", "heartbeat"])
def test_what_is_refused_is_not_said_to_be_ignored(kind: str) -> None:
    """Connect shows keys that do nothing as not visible, and an error of one would not be seen."""
    checks = allowed(StaticClientCheck(), Policy())
    props = {"spark.plugins": "org.example.Evil", "spark.app.name": "mine"}
    found = KINDS[kind].validate({**SOURCE, **props}, checks)
    assert "spark.plugins" in {error.key for error in found.errors}
    assert "spark.plugins" not in {each.key for each in found.ignored}
    assert "spark.app.name" in {each.key for each in found.ignored}
    visible = {entry.key.name: entry.visible for entry in found.entries}
    assert (visible["spark.plugins"], visible["spark.app.name"]) == (True, False)
    (other,) = [each for each in found.ignored if each.key == "spark.app.name"]
    later = found.with_errors([ConfigError(other.key, "wrong after all")])
    assert other not in later.ignored


def test_settings_of_the_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_settings().policy() == Policy()
    for name, value in {
        "SPARK_KEYS": "spark.archives, spark.yarn.*",
        "SPARK_MASTERS": "yarn,k8s://*",
        "PYTHON_MODULES": "mycompany.mirror",
        "FOLDERS": "/etc/kafka,/run/secrets",
        "BOOTSTRAP": "*.Prod.example.org:9092",
        "TOKEN_ENDPOINTS": "Login.example.org, idp:8443",
        "AWS_ROLES": "arn:aws:iam::1:role/Mirror, ops",
    }.items():
        monkeypatch.setenv(f"MIRROR_BRIDGE_ALLOWED_{name}", value)
    monkeypatch.setenv("MIRROR_BRIDGE_IMPORT_SECONDS", "2")
    assert load_settings(allowed_folders="/etc/kafka").policy() == Policy(
        ("spark.archives", "spark.yarn.*"),
        ("yarn", "k8s://*"),
        ("mycompany.mirror",),
        ("/etc/kafka",),
        ("*.prod.example.org:9092",),
        ("login.example.org", "idp:8443"),
        ("arn:aws:iam::1:role/Mirror", "ops"),
        import_seconds=2.0,
    )


@pytest.mark.parametrize(
    ("setting", "value", "why"),
    [
        ("allowed_spark_keys", "plugins", "'plugins' is no spark"),
        ("allowed_python_modules", "a/b.py", "is no module"),
        ("allowed_folders", "secrets", "its whole path"),
        ("allowed_bootstrap", "host", "host:port"),
        ("allowed_token_endpoints", "https://idp/token", "host or host:port"),
        ("import_seconds", 0, "greater than 0"),
    ],
)
def test_settings_that_mean_nothing(setting: str, value: object, why: str) -> None:
    with pytest.raises(SettingsRejected, match=f"{setting}: .*{why}"):
        load_settings(**{setting: value})


def test_a_connect_server_is_allowed_as_masters_are_and_without_its_parameters() -> None:
    server = "sc://spark:15002/;use_ssl=true;user_id=mirror"
    (error,) = refused({"spark.remote": server}, Policy())
    assert "MIRROR_BRIDGE_ALLOWED_SPARK_MASTERS=sc://spark:15002," in error.message
    assert not refused({"spark.remote": server}, Policy(spark_masters=("sc://spark:15002",)))
    assert refused({"spark.remote": "sc://spark:15003"}, Policy(spark_masters=("sc://spark:15002",)))


KEYTAB = (
    'com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true keyTab="/k.tab" principal="u@R";'
)
QUOTED = 'com.sun.security.auth.module.Krb5LoginModule required "keyTab" /* = */ = "/k.tab" principal="u@R";'
NO_OPTIONS = "com.sun.security.auth.module.Krb5LoginModule required;"
TICKETS = "com.sun.security.auth.module.Krb5LoginModule required useTicketCache=true;"


@pytest.mark.parametrize(
    ("key", "value", "setting", "with_it"),
    [
        (
            "source.cluster.sasl.jaas.config",
            KEYTAB,
            "MIRROR_BRIDGE_ALLOWED_FOLDERS",
            Policy(folders=("/etc",), open_to_others=True),
        ),
        (
            "source.consumer.ssl.keystore.location",
            "/k.p12",
            "MIRROR_BRIDGE_ALLOWED_FOLDERS",
            Policy(folders=("/etc",), open_to_others=True),
        ),
        (
            "sasl.jaas.config",
            TICKETS,
            "MIRROR_BRIDGE_ALLOWED_BOOTSTRAP",
            Policy(bootstrap=("*",), open_to_others=True),
        ),
        (
            "sasl.jaas.config",
            NO_OPTIONS,
            "MIRROR_BRIDGE_ALLOWED_BOOTSTRAP",
            Policy(bootstrap=("*",), open_to_others=True),
        ),
        (
            "source.cluster.sasl.jaas.config",
            QUOTED,
            "MIRROR_BRIDGE_ALLOWED_FOLDERS",
            Policy(folders=("/etc",), open_to_others=True),
        ),
    ],
)
def test_the_services_own_credentials_need_a_setting_where_others_send_configurations(
    key: str, value: str, setting: str, with_it: Policy
) -> None:
    (error,) = refused({key: value}, Policy(open_to_others=True))
    assert error.key == key
    assert f"{setting}" in error.message
    assert "empty now" in error.message
    assert refused({key: value}, with_it) == []
    assert refused({key: value}, Policy()) == []
    assert refused({f"bridge.{key}": value}, Policy(open_to_others=True)) == []


def test_who_is_open_to_others(tmp_path: Path) -> None:
    assert not load_settings().policy().open_to_others
    assert load_settings(auth_token="0123456789abcdef0123456789abcdef").policy().open_to_others
    assert load_settings(host="0.0.0.0", insecure_no_auth=True).policy().open_to_others


@pytest.mark.parametrize(
    "option",
    [
        'awsRoleArn="{}"',
        "awsProfileName={}",
        "awsRoleArn='{}'",
        '"awsRoleArn"="{}"',
        'awsRoleArn /**/ = "{}"',
        "'awsProfileName' // =\n = '{}'",
    ],
)
def test_roles_of_aws_are_those_that_the_service_allows(option: str) -> None:
    role = "arn:aws:iam::1:role/mirror"
    props = {
        "source.cluster.sasl.mechanism": "AWS_MSK_IAM",
        "source.cluster.sasl.jaas.config": (
            f"software.amazon.msk.auth.iam.IAMLoginModule required {option.format(role)};"
        ),
    }
    (error,) = refused(props, Policy(open_to_others=True, aws_roles=("arn:aws:iam::1:role/other",)))
    assert error.key == "source.cluster.sasl.jaas.config"
    assert "MIRROR_BRIDGE_ALLOWED_AWS_ROLES" in error.message
    assert role in error.message
    assert refused(props, Policy(open_to_others=True, aws_roles=("arn:aws:iam::1:role/m*",))) == []
    assert refused(props, Policy()) == []


def test_a_trust_store_of_its_own_brings_no_broker_the_services_aws_login() -> None:
    props = {
        "source.cluster.sasl.mechanism": "AWS_MSK_IAM",
        "source.consumer.ssl.truststore.certificates": "x",
    }
    (error,) = refused(props, Policy())
    assert error.key == "source.consumer.ssl.truststore.certificates"
    assert refused(props, Policy(bootstrap=("*",))) == []
    assert refused({"target.cluster.ssl.truststore.location": "x", **props}, Policy())[0].key == error.key


def test_a_topic_map_is_in_a_file_of_its_own_kind(tmp_path: Path) -> None:
    """Or the values of any file of `a=b` would be names of topics."""
    key = "replication.policy.topic.map.file"
    (tmp_path / "secrets.properties").write_text("password=planted")
    (tmp_path / "link.map").symlink_to(tmp_path / "secrets.properties")
    for name in ("secrets.properties", "link.map"):
        (error,) = refused({key: str(tmp_path / name)}, Policy())
        assert (error.key, ".map" in error.message) == (key, True)
        assert "planted" not in error.message


@pytest.mark.parametrize(
    ("pattern", "address", "allowed_"),
    [
        ("*", "any.thing:1", True),
        ("*.prod.example.org:9092", "b-1.x.prod.example.org:9092", True),
        ("*.prod.example.org:9092", "prod.example.org:9092", False),
        ("*.prod.example.org:9092", "evil.org:1/.prod.example.org:9092", False),
        ("10.0.0.*:*", "10.0.0.17:9093", True),
        ("10.0.0.*:*", "10.0.0.evil.example.com:9092", False),
        ("kafka-?:9092", "kafka-2:9092", True),
        ("kafka:909?", "kafka:9092", True),
        ("kafka:909?", "kafka:909x", False),
        ("[2001:db8::1]:9092", "[2001:db8::1]:9092", True),
        ("[2001:db8::1]:9092", "d:9092", False),
        ("kafka.example.org:9092", "kafkaxexample.org:9092", False),
    ],
)
def test_patterns_of_addresses_fit_no_name_of_somebody_else(
    pattern: str, address: str, allowed_: bool
) -> None:
    assert fits_server(address, [pattern]) == allowed_


@pytest.mark.parametrize(
    "url", ["https://localhost./t", "https://127.0.0.1./t", "https://LOCALHOST/t", "https://localho\u017ft/t"]
)
def test_an_endpoint_here_is_one_however_it_is_written(url: str) -> None:
    (error,) = refused({"source.cluster.sasl.oauthbearer.token.endpoint.url": url}, Policy())
    assert "MIRROR_BRIDGE_ALLOWED_TOKEN_ENDPOINTS" in error.message


def test_no_value_breaks_the_check_and_no_password_is_shown() -> None:
    url = "source.cluster.sasl.oauthbearer.token.endpoint.url"
    named = Policy(token_endpoints=("*.idp.example.org",))
    for key, value, policy in (
        ("replication.policy.topic.map.file", "/x/a\0b.map", Policy()),
        (url, f"https://x.idp.example.org:{'9' * 5_000}/", named),
        (url, "https://user:planted@example.org/", Policy()),
    ):
        (error,) = refused({key: value}, policy)
        assert error.key == key
        assert "planted" not in error.message
