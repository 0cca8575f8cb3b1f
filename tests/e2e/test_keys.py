"""Keys that Connect and Kafka's clients define, in connectors on a real worker: honoured, named, or refused."""

from __future__ import annotations

from dataclasses import replace

import httpx
import pytest

from bridge.local import ConnectFailed, LocalStack
from bridge.mm2.records import Checkpoint, Heartbeat
from tests.e2e.control import aliased, checkpoints_topic, our_control
from tests.e2e.copying import SHARED_SPARK, fill, wait_copied
from tests.e2e.flow import SHIFT, Flow
from tests.e2e.mirrored_flow import PARTITIONS
from tests.support import commit, connector, create_topic, eventually, read, stock_config, unique
from tests.support.forms import mostly_long
from tests.support.messages import message
from tests.support.waiting import wait_true
from tests.support.waits import WAIT

OURS, STOCK = "BridgeMirrorSourceConnector", "MirrorSourceConnector"
JSON = "org.apache.kafka.connect.json.JsonConverter"
BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
TRANSFORMS = "org.apache.kafka.connect.transforms."


REFUSED: dict[str, tuple[dict[str, str], str]] = {
    # what a take-over would drop in silence: the settings, and the key that has to be named
    "mask": (
        {
            "transforms": "m",
            "transforms.m.type": f"{TRANSFORMS}MaskField$Value",
            "transforms.m.fields": "ssn",
        },
        "transforms",
    ),
    "filter": (
        {
            "transforms": "f",
            "transforms.f.type": f"{TRANSFORMS}Filter",
            "transforms.f.predicate": "p",
            "predicates": "p",
            "predicates.p.type": f"{TRANSFORMS}predicates.RecordIsTombstone",
        },
        "transforms,predicates",
    ),
    "json": ({"key.converter": JSON, "value.converter": JSON}, "key.converter,value.converter"),
    "headers": (
        {"header.converter": "org.apache.kafka.connect.storage.SimpleHeaderConverter"},
        "header.converter",
    ),
    "errors": ({"errors.tolerance": "all"}, "errors.tolerance"),
    "topics": (
        {"topic.creation.default.replication.factor": "1", "topic.creation.default.partitions": "4"},
        "topic.creation.default.replication.factor,topic.creation.default.partitions",
    ),
    "cluster": (
        {"producer.override.bootstrap.servers": "elsewhere:9092"},
        "producer.override.bootstrap.servers",
    ),
    "serializer": (
        {"producer.override.value.serializer": "org.apache.kafka.common.serialization.StringSerializer"},
        "producer.override.value.serializer",
    ),
    "interceptor": ({"source.consumer.interceptor.classes": "x.Mask"}, "source.consumer.interceptor.classes"),
}


@pytest.fixture(scope="module")
def unique_flow(sparking: Flow) -> Flow:
    return aliased(sparking)


@pytest.mark.parametrize("case", mostly_long(REFUSED))
def test_a_take_over_is_told_of_what_would_be_dropped(unique_flow: Flow, case: str) -> None:
    changes, keys = REFUSED[case]
    name, rest = unique("take-over"), unique_flow.worker.rest
    stocks = {
        **stock_config("Source", unique_flow.source, unique_flow.target, topics="x"),
        "name": name,
        **changes,
    }
    assert rest.validation_errors(STOCK, stocks) == {}, "stock takes it"
    ours = {**our_control("Source", unique_flow, topics="x"), "name": name, **changes}
    errors = rest.validation_errors(OURS, ours)
    assert set(errors) == set(keys.split(","))
    with pytest.raises(ConnectFailed) as refused:
        rest.put(name, ours)
    assert refused.value.status == httpx.codes.BAD_REQUEST
    for key in errors:
        assert f"configuration {key}: " in str(refused.value)
    wait_true(lambda: name not in rest.connectors())


def test_what_does_nothing_is_named_in_status_log_and_validation(unique_flow: Flow) -> None:
    topic = create_topic(unique_flow.source.bootstrap, unique("named"), PARTITIONS)
    fill(unique_flow, topic, 0)
    given = {
        "tasks.max": "3",
        "producer.override.linger.ms": "50",
        "target.producer.buffer.memory": "1000000",
        "source.consumer.fetch.max.bytes": "1000",
        "errors.log.enable": "true",
        "consumer.poll.timeout.ms": "200",
        "cron.schedule": "daily",
    }
    config = our_control("Source", unique_flow, topics=topic, **SHARED_SPARK) | given
    validated = unique_flow.worker.rest.validate(OURS, {**config, "name": "x"})
    assert validated["error_count"] == 0
    values = [entry["value"] for entry in validated["configs"]]
    unseen = {value["name"] for value in values if not value["visible"]}
    connects = {"tasks.max", "errors.log.enable", "producer.override.linger.ms"}
    # Of its own keys Connect shows what it finds itself.
    assert unseen & given.keys() == given.keys() - connects
    # Stock's JSON has keys of all three connectors.
    others = unseen - given.keys()
    assert "emit.checkpoints.interval.seconds" in others
    with connector(unique_flow.worker, config, unique("named")) as name:
        wait_copied(unique_flow, topic)
        status = unique_flow.service.status(name)
        assert [each["key"] for each in status["ignored_settings"]] == sorted(given.keys() | others)
        assert all(each["reason"] for each in status["ignored_settings"])
        assert status["errors"] == []
        log = unique_flow.process.process.log.read_text()
        lines = [
            line
            for line in log.splitlines()
            if "setting(s) of the configuration have no effect" in line and name in line
        ]
        assert len(lines) == 1
        assert all(key in lines[0] for key in given)
        workers = unique_flow.worker.process.log.read_text()
        assert message("connect.no_effect", connector=name, count=len(given.keys() | others)) in workers


def test_a_transform_of_heartbeats_works_as_for_every_source_connector(unique_flow: Flow) -> None:
    other = create_topic(unique_flow.target.bootstrap, unique("renamed"))
    renamed = {
        "transforms": "r",
        "transforms.r.type": f"{TRANSFORMS}RegexRouter",
        "transforms.r.regex": "heartbeats",
        "transforms.r.replacement": other,
    }
    with connector(unique_flow.worker, our_control("Heartbeat", unique_flow) | renamed, unique("renamed")):

        def there() -> None:
            (record, *_) = read(unique_flow.target.bootstrap, other)
            beat = Heartbeat.decode(record.key, record.value)
            assert (beat.source_alias, beat.target_alias) == (
                unique_flow.source.name,
                unique_flow.target.name,
            )

        eventually(
            there, WAIT, what="heartbeats are where the transform puts them", watched=unique_flow.watched
        )


def test_a_workers_default_converter_that_is_not_of_bytes_fails_the_task_with_what_to_put(
    flow: Flow, stack: LocalStack
) -> None:
    """A connector does not see the worker's configuration; JSON is what Kafka's own example of one has."""
    own = replace(
        aliased(flow),
        worker=stack.worker("json", properties={"key.converter": JSON, "value.converter": JSON}),
    )
    topic, group = own.topic(), unique("json")
    commit(own.source.bootstrap, group, {(topic, 0): 40})
    config = our_control("Checkpoint", own, groups=group, translation_evidence="timestamps")
    converters = {key: config.pop(key) for key in ("key.converter", "value.converter")}
    rest, name = own.worker.rest, unique("json")
    rest.put(name, config)

    def failed() -> str:
        (task,) = rest.status(name)["tasks"]
        assert task["state"] == "FAILED", task
        return str(task["trace"])

    trace = eventually(failed, WAIT, what="the task fails", watched=own.watched)
    assert all(f'"{key}": "{BYTES}"' in trace for key in converters)
    rest.put(name, config | converters)
    rest.wait_running(name)

    def written() -> None:
        last = read(own.target.bootstrap, checkpoints_topic(own))[-1]
        decoded = Checkpoint.decode(last.key, last.value)
        assert (decoded.group, decoded.upstream_offset, decoded.downstream_offset) == (group, 40, 40 + SHIFT)

    eventually(written, WAIT, what="the checkpoint is written as bytes", watched=own.watched)
    rest.delete(name)
    own.worker.close()
