"""What Connect's REST API shows of our plugin, and what it says of wrong configurations."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridge.local import BridgeService, ConnectFailed, LocalStack
from connectors.export import definition_json
from tests.e2e.control import our_control
from tests.e2e.flow import CLASS, FULL_CLASS, SHIFT, Flow, exactly
from tests.support import commit, connector, eventually, unique
from tests.support.messages import message
from tests.support.waits import WAIT

STOCK = ("MirrorSourceConnector", "MirrorCheckpointConnector", "MirrorHeartbeatConnector")
SECRET = "wonderland-9137"
JAAS = (
    f'org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="{SECRET}";'
)

WRONG: dict[str, tuple[dict[str, str | None], str, str]] = {
    # what is wrong: the settings, the key that has to be named, words of the error
    "no source": ({"source.cluster.bootstrap.servers": None}, "source.cluster.bootstrap.servers", "Missing required"),
    "no alias": ({"source.cluster.alias": None}, "source.cluster.alias", "Missing required"),
    "no number": ({"sync.group.offsets.interval.seconds": "soon"}, "sync.group.offsets.interval.seconds", "LONG"),
    "too small": ({"refresh.groups.interval.seconds": "-1"}, "refresh.groups.interval.seconds", "at least 1"),
    "short lease": ({"bridge.task.lease.ms": "10"}, "bridge.task.lease.ms", "at least 5000"),
    "no boolean": ({"dry.run": "perhaps"}, "dry.run", "true or false"),
    "no regex": ({"groups": "a,orders-["}, "groups", "orders-["),
    "not a choice": ({"sync.group.offsets.rewind": "always"}, "sync.group.offsets.rewind", "empty-groups"),
    "equal aliases": ({"target.cluster.alias": "A"}, "target.cluster.alias", "must differ"),
    "separator": ({"source.cluster.alias": "a.b"}, "source.cluster.alias", "separator '.'"),
    "twice": ({"group": "x"}, "group", "groups is given too"),
    "no filter": ({"group.filter.class": "com.example.Mine"}, "group.filter.class", "com.example.Mine"),
    "no url": ({"bridge.url": "localhost:8900"}, "bridge.url", "localhost:8900"),
    "unknown login": ({"source.cluster.sasl.jaas.config": JAAS.replace("plain.Plain", "x.X"),
                       "source.cluster.security.protocol": "SASL_PLAINTEXT",
                       "source.cluster.sasl.mechanism": "PLAIN"}, "source.cluster.sasl.jaas.config", "LoginModule"),
    "too large": ({"topics": "x" * 1_100_000}, "topics", "the limit is 1048576 bytes"),
    "no property": ({"source.consumer.interceptor.classes": "com.example.Mine"},
                    "source.consumer.interceptor.classes", "interceptor"),
}  # fmt: skip


def _full(flow: Flow) -> dict[str, str | None]:
    return {**flow.config("validated"), "name": unique("validated")}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_configuration_is_told_under_its_key(flow: Flow, case: str) -> None:
    changes, key, words = WRONG[case]
    errors = flow.worker.rest.validation_errors(CLASS, {**_full(flow), **changes})
    assert list(errors) == [key], errors
    assert words in " ".join(errors[key])


def test_ten_errors_are_told_at_once_and_no_secret_with_them(flow: Flow) -> None:
    wrong = {
        "source.cluster.bootstrap.servers": None,
        "source.cluster.alias": "",
        "sync.group.offsets.interval.seconds": "0",
        "refresh.groups.interval.seconds": "x",
        "bridge.task.lease.ms": "1",
        "dry.run": "no",
        "translation.verify": "yes",
        "groups": "(",
        "topics": "*",
        "sync.group.offsets.rewind": "ever",
    }
    secrets = {
        "target.cluster.sasl.jaas.config": JAAS,
        "bridge.auth.token": SECRET,
        "source.cluster.ssl.truststore.password": SECRET,
    }
    answer = flow.worker.rest.validate(CLASS, {**_full(flow), **wrong, **secrets})
    errors = {entry["value"]["name"]: entry["value"]["errors"] for entry in answer["configs"]}
    assert {key for key, each in errors.items() if each} == set(wrong)
    assert answer["error_count"] == sum(map(len, errors.values()))
    shown = {entry["value"]["name"]: entry["value"]["value"] for entry in answer["configs"]}
    assert {shown[key] for key in secrets} == {"[hidden]"}
    assert SECRET not in json.dumps(answer)


def test_errors_of_the_service_show_no_secret_either(flow: Flow) -> None:
    """Locally these values are fine; the service finds what is wrong with them, and their text is secret."""
    broken = {
        "source.cluster.security.protocol": "SASL_PLAINTEXT",
        "source.cluster.sasl.mechanism": "PLAIN",
        "source.cluster.sasl.jaas.config": JAAS.rstrip(";").replace('="alice"', ""),
        "target.cluster.security.protocol": "SSL",
        "target.cluster.ssl.keystore.type": "PEM",
        "target.cluster.ssl.keystore.key": f"-----BEGIN {SECRET}",
    }
    answer = flow.worker.rest.validate(CLASS, {**_full(flow), **broken})
    wrong = {entry["value"]["name"] for entry in answer["configs"] if entry["value"]["errors"]}
    assert "source.cluster.sasl.jaas.config" in wrong
    assert any(key.startswith("target.cluster.ssl.keystore") for key in wrong), wrong
    assert SECRET not in json.dumps(answer)
    with pytest.raises(ConnectFailed) as refused:
        flow.worker.rest.put(unique("refused"), {**flow.config("x"), **broken})
    assert SECRET not in str(refused.value)


def test_every_key_is_shown_as_python_defines_it(flow: Flow) -> None:
    shown = {key["name"]: key for key in flow.worker.rest.plugin_config(CLASS)}
    keys = definition_json("group_offset")["keys"]
    assert isinstance(keys, list)
    for key in keys:
        result = shown[key["name"]]
        default = None if key["required"] else key["default"]
        described = (
            result["type"],
            result["required"],
            result["default_value"],
            result["importance"],
            result["group"],
        )
        expected = (key["type"], key["required"], default, key["importance"], key["group"])
        assert described == expected, key["name"]
        assert (result["documentation"], result["order_in_group"]) == (key["documentation"], key["order"])
    ours = {key["name"] for key in keys}
    # Beside them stands only what Connect has for every connector.
    assert {"name", "connector.class", "tasks.max"} <= shown.keys() - ours
    assert not any(
        name.startswith(("bridge.", "source.", "target.", "sync.")) for name in shown.keys() - ours
    )
    assert flow.worker.rest.plugin_config(FULL_CLASS) == flow.worker.rest.plugin_config(CLASS)


def test_what_worker_and_service_do_not_allow_is_told_and_done_by_nobody(flow: Flow, tmp_path: Path) -> None:
    """Keys of Spark, modules and files by the service; where configurations are sent by the worker."""
    written, fifo = tmp_path / "written", tmp_path / "fifo"
    os.mkfifo(fifo)
    config = {
        **our_control("Source", flow),
        "name": unique("policy"),
        "spark.master": "spark://127.0.0.1:1",
        "spark.authenticate": "true",
        "spark.authenticate.secret": SECRET,
        "spark.plugins": "org.example.Evil",
        "spark.driver.extraJavaOptions": f"-Xlog:gc:file={written}",
        "topic.filter.class": "python:subprocess.Popen",
        "source.cluster.security.protocol": "SSL",
        "source.cluster.ssl.truststore.location": str(fifo),
    }
    kind = config["connector.class"]
    errors = flow.worker.rest.validation_errors(kind, config)
    assert set(errors) == {
        *("spark.master", "spark.plugins", "spark.driver.extraJavaOptions", "topic.filter.class"),
        "source.cluster.ssl.truststore.location",
    }
    assert "MIRROR_BRIDGE_ALLOWED_SPARK_KEYS=spark.plugins" in errors["spark.plugins"][0]
    with pytest.raises(ConnectFailed, match="MIRROR_BRIDGE_ALLOWED_SPARK_KEYS"):
        flow.worker.rest.put(config["name"], config)
    assert not written.exists()
    elsewhere = {**_full(flow), "bridge.url": flow.process.url.replace("127.0.0.1", "0.0.0.0")}
    refused = flow.worker.rest.validation_errors(CLASS, elsewhere)
    assert list(refused) == ["bridge.url"]
    assert message("connect.other_url") in refused["bridge.url"][0]


def test_short_names_are_clear_beside_connect_mirror(flow: Flow) -> None:
    plugins = [plugin["class"] for plugin in flow.worker.rest.plugins()]
    assert plugins.count(FULL_CLASS) == 1
    simple = [each.rpartition(".")[2] for each in plugins]
    assert len(simple) == len(set(simple)), f"a short name stands for two classes: {sorted(simple)}"
    for name in STOCK:
        stock = f"org.apache.kafka.connect.mirror.{name}"
        assert stock in plugins
        assert flow.worker.rest.plugin_config(name) == flow.worker.rest.plugin_config(stock)
        # A running connector is found by the short name too; the error is of its configuration, not of its class.
        errors = flow.worker.rest.validation_errors(name, {"connector.class": name, "name": "x"})
        assert "source.cluster.alias" in errors
        assert "connector.class" not in errors
    assert flow.worker.rest.validation_errors(CLASS, _full(flow)) == {}


def test_the_json_of_the_kip_runs_as_it_stands(flow: Flow) -> None:
    """KIP-1292's own example, with the addresses and the group of this test, and where the service is."""
    topic, group = flow.topic(), unique("kip")
    commit(flow.source.bootstrap, group, {(topic, 0): 40})
    config = {
        "connector.class": "org.apache.kafka.connect.mirror.MirrorGroupOffsetConnector",
        "source.cluster.alias": flow.source.name,
        "target.cluster.alias": flow.target.name,
        "group": exactly(group),
        "source.cluster.bootstrap.servers": flow.source.bootstrap,
        "target.cluster.bootstrap.servers": flow.target.bootstrap,
        "bridge.url": flow.process.url,
    }
    with connector(flow.worker, config, unique("A-to-B-MirrorGroupOffsetConnector")) as name:
        flow.wait_there(group, {(topic, 0): 40 + SHIFT})
        flow.worker.rest.wait_running(name)


@pytest.fixture
def late_service(stack: LocalStack) -> Iterator[BridgeService]:
    """A service that has an address but does not run yet."""
    service = BridgeService(stack.directory, name=unique("late"))
    yield service
    service.close()


def test_with_the_service_away_local_checks_decide_and_it_is_said_once(
    flow: Flow, late_service: BridgeService
) -> None:
    rest, url = flow.worker.rest, late_service.url
    away = {**_full(flow), "bridge.url": url}
    assert rest.validation_errors(CLASS, away) == {}
    assert list(rest.validation_errors(CLASS, {**away, "dry.run": "perhaps"})) == ["dry.run"]
    log = flow.worker.process.log.read_text()
    messages = [
        line for line in log.splitlines() if "could not validate the configuration" in line and url in line
    ]
    assert len(messages) == 1, messages
    assert "WARN" in messages[0]


def test_what_the_service_rejects_later_is_raised_with_its_words(
    flow: Flow, late_service: BridgeService
) -> None:
    """Equal aliases are a rule across keys: the worker alone lets them pass."""
    rest = flow.worker.rest
    config = {
        **flow.config("x"),
        "bridge.url": late_service.url,
        "target.cluster.alias": flow.source.name,
    }
    with connector(flow.worker, config) as name:
        late_service.start()

        def failed() -> None:
            status = rest.status(name)
            assert status["connector"]["state"] == "FAILED", status
            assert "must differ from source.cluster.alias" in status["connector"]["trace"]
            assert [task["state"] for task in status["tasks"]] == ["FAILED"], status
            assert "must differ from source.cluster.alias" in status["tasks"][0]["trace"]

        eventually(
            failed, WAIT, what="connector and task fail with the service's words", watched=flow.watched
        )
        rest.put(name, {**config, "target.cluster.alias": flow.target.name})
        rest.wait_running(name)


def test_a_misspelt_key_is_told_with_the_right_one(flow: Flow) -> None:
    errors = flow.worker.rest.validation_errors(CLASS, {**_full(flow), "groupz": "x", "owner": "me"})
    assert errors == {"groupz": [message("config.misspelt", key="groupz", meant="groups")]}


def test_a_cluster_that_can_not_be_reached_refuses_only_what_asks_for_that(flow: Flow) -> None:
    key, name = "source.cluster.bootstrap.servers", unique("unreachable")
    config = {**_full(flow), "name": name, key: f"{unique('nowhere')}.invalid:9092"}
    assert flow.worker.rest.validation_errors(CLASS, config) == {}
    errors = flow.worker.rest.validation_errors(CLASS, {**config, "bridge.validate.reachability": "error"})
    assert list(errors) == [key]
    (text,) = errors[key]
    assert f"the source cluster can't be reached: {config[key]} has no address in DNS" in text
    flow.worker.rest.put(name, config)
    try:

        def listed() -> None:
            status = flow.service.get(f"/v1/connectors/{name}/status")
            assert any("has no address in DNS" in error for error in status["errors"]), status
            assert flow.service.health()["status"] == "degraded"

        eventually(listed, WAIT, what="the status says what can't be reached")
    finally:
        flow.worker.rest.delete(name)


def test_a_target_that_is_the_source_is_refused_unless_that_is_meant(flow: Flow) -> None:
    key = "target.cluster.bootstrap.servers"
    config = {**_full(flow), "name": unique("loop"), key: flow.source.bootstrap}
    errors = flow.worker.rest.validation_errors(CLASS, config)
    assert list(errors) == [key]
    assert "bridge.same.cluster=true" in errors[key][0]
    assert flow.worker.rest.validation_errors(CLASS, {**config, "bridge.same.cluster": "true"}) == {}
