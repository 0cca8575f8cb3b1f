"""Values as Java reads them, by each way in; Java's own answers: tests/integration/test_values_of_java.py."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.client.mirror_client import read_config
from bridge.commands.legacy_config import Clients, LegacyOptions, connector_config
from bridge.commands.options import properties
from bridge.connector_files import load_connector
from bridge.dedicated.config.plan import all_worker_settings
from bridge.dedicated.config.reading import plan_of_properties
from bridge.kafka.config.properties import ClientProps, KeyPrefixes
from bridge.kafka.config.settings import StaticClientCheck
from bridge.model import java_values
from bridge.model.java_values import split_list
from bridge.service.state.task_table import TaskTable
from bridge.spark.options import for_batch
from bridge.spark.writing.options import read_sink_options
from connectors.base import CopiedTopics
from connectors.registry import KINDS
from connectors.source.connector import taken
from connectors.source.options import SourceOptions

Props = Mapping[str, str]

BLANKS = (" ", "\t", "  \t", "\n", "\x01 ")
LOGIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p";'
CONNECTOR = {
    "name": "mirror",
    "connector.class": "BridgeMirrorSourceConnector",
    "source.cluster.alias": "A",
    "target.cluster.alias": "B",
    "source.cluster.bootstrap.servers": "a:9092,a:9093",
    "target.cluster.bootstrap.servers": "b:9092",
    "source.cluster.security.protocol": "SASL_PLAINTEXT",
    "source.cluster.sasl.mechanism": "PLAIN",
    "source.cluster.sasl.jaas.config": LOGIN,
    "source.consumer.isolation.level": "read_uncommitted",
    "consumer.auto.offset.reset": "latest",
    "producer.override.compression.type": "zstd",
    "producer.override.compression.zstd.level": "7",
    "target.producer.batch.size": "100000",
    "topics": "orders,payments",
    "replication.policy.separator": "_",
    "replication.policy.aliases": "A,us_west",
    "use.defaults.from": "source",
    "offset.lag.max": "7",
    "emit.offset-syncs.enabled": "FALSE",
    "bridge.same.cluster": "true",
    "bridge.merge.with": "one,other",
    "bridge.batch.decompressed.max.bytes": "2000000",
    "spark.master": "local[3]",
    "spark.shared": "true",
}
DEDICATED = {
    "clusters": "A, B",
    "A.bootstrap.servers": "a:9092",
    "B.bootstrap.servers": "b:9092",
    "B.group.id": "mine",
    "B.config.storage.topic": "configs",
    "B.offset.storage.topic": "offsets",
    "B.session.timeout.ms": "20000",
    "A->B.enabled": "true",
    "A->B.topics": "orders",
    "A->B.translation.evidence": "timestamps",
    "A->B.sync.group.offsets.enabled": "true",
    "B->A.enabled": "false",
    "B->A.emit.heartbeats.enabled": "false",
    "emit.offset-syncs.enabled": "false",
    "tasks.max": "3",
}
CONSUMER = {
    "bootstrap.servers": "a:9092",
    "group.id": "g",
    "auto.offset.reset": "earliest",
    "metadata.max.age.ms": "9000",
}
PRODUCER = {"bootstrap.servers": "b:9092", "compression.type": "lz4"}
CLIENT = {
    "bootstrap.servers": "a:9092",
    "consumer.isolation.level": "read_committed",
    "replication.policy.class": "IdentityReplicationPolicy",
    "replication.policy.separator": "_",
}
READING = {
    "kafka.bootstrap.servers": "a:9092",
    "kafka.isolation.level": "read_committed",
    "kafka.default.api.timeout.ms": "7000",
    "subscribePattern": "orders.*",
    "startingOffsets": "earliest",
    "endingTimestamp": "1700",
    "minPartitions": "4",
    "failOnDataLoss": "false",
}
WRITING = {
    "kafka.bootstrap.servers": "b:9092",
    "kafka.acks": "all",
    "kafka.compression.type": "zstd",
    "kafka.compression.zstd.level": "+7",
    "kafka.batch.size": "100000",
    "topic": "orders",
    "transactionalIdPrefix": "mine",
}


def _connector(props: Props) -> object:
    """What a source connector copies and how."""
    options = SourceOptions.from_props(props, StaticClientCheck())
    names = (
        options.remote("orders"),
        options.policy.topic_source("us_west_orders"),
        options.policy.offset_syncs_topic("A"),
    )
    topics = [options.replicates(topic) for topic in ("orders", "payments", "others")]
    from_source = options.config_filter.should_replicate_source_default("retention.ms")
    ignored = KINDS["source"].validate(props, StaticClientCheck()).ignored
    return (
        options.spec("mirror", java_values.given(props)),
        options.same_cluster,
        names,
        topics,
        from_source,
        ignored,
    )


def _service(props: Props) -> object:
    """What the service keeps of a connector."""
    table = TaskTable(lambda: 0.0)
    connector = table.start_connector("mirror", "1700000000000-x", "source", {**props, "groups": None})
    return connector.config, connector.flow, list(connector.merges_with), connector.lease_ms


def _conflicts(props: Props) -> object:
    """What another connector copies already."""
    other = CopiedTopics("other", CONNECTOR, [("orders", "A_orders")])
    return [error.key for error in taken(props, [other])]


def _dedicated(props: Props) -> object:
    plan = plan_of_properties(props, StaticClientCheck(), {})
    return plan, all_worker_settings(plan.flows)


def _legacy(props: Props) -> object:
    options = LegacyOptions("orders", None, 1, "true", None, None, None, None, False)
    parts = [
        {key.removeprefix(f"{of}."): value for key, value in props.items() if key.startswith(of)}
        for of in ("reading", "writing")
    ]
    return connector_config(options, Clients.from_properties(*parts), "A", "B")


LEGACY = {f"reading.{key}": value for key, value in CONSUMER.items()} | {
    f"writing.{key}": value for key, value in PRODUCER.items()
}


def _client(props: Props) -> object:
    config = read_config(props)
    return config.settings.raw.bootstrap_servers, config.policy.offset_syncs_topic("A")


WAYS: Mapping[str, tuple[Callable[[Props], object], Props]] = {
    "connector": (_connector, CONNECTOR),
    "service": (_service, CONNECTOR),
    "conflicts": (_conflicts, CONNECTOR),
    "dedicated": (_dedicated, DEDICATED),
    "legacy": (_legacy, LEGACY),
    "client": (_client, CLIENT),
    "spark source": (for_batch, READING),
    "spark sink": (read_sink_options, WRITING),
}


@pytest.mark.parametrize("way", WAYS)
def test_blanks_around_a_value_are_no_part_of_it(way: str) -> None:
    """All values with blanks around them, and each alone."""
    read, plain = WAYS[way]
    expected = read(plain)
    for blanks in BLANKS:
        assert read({key: f"{blanks}{value}{blanks}" for key, value in plain.items()}) == expected
    for key, value in plain.items():
        assert read({**plain, key: f"\t{value} "}) == expected, key


def test_files_of_connectors(tmp_path: Path) -> None:
    """In JSON numbers and booleans are the texts that were written, and null is as nothing."""
    file = tmp_path / "source.properties"
    file.write_text("".join(f"{key} = {value}  \t\n" for key, value in CONNECTOR.items()))
    assert load_connector(file) == CONNECTOR
    file = tmp_path / "source.json"
    file.write_text(
        json.dumps({"name": " mirror ", "config": {key: f" {text}\t" for key, text in CONNECTOR.items()}})
    )
    assert load_connector(file) == CONNECTOR
    file.write_text(
        '{"tasks.max": 1.50, "offset.lag.max": -0, "x": 1e3, "enabled": true, "topics": null, "y": " "}'
    )
    assert load_connector(file) == {
        "tasks.max": "1.50",
        "offset.lag.max": "-0",
        "x": "1e3",
        "enabled": "true",
        "y": "",
    }


def test_files_of_clients(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers = a:9092 \nreplication.policy.separator = _\t\n")
    assert properties(file, None) == {"bootstrap.servers": "a:9092", "replication.policy.separator": "_"}
    for read, name in ((for_batch, "isolation.level"), (read_sink_options, "acks")):
        file.write_text(
            f"bootstrap.servers = a:9092 \n{name} = {'all' if name == 'acks' else 'read_committed'}\t \n"
        )
        more = {"topic": "t"} if name == "acks" else {"subscribe": "t"}
        assert read({"commandConfig": f" {file} ", **more}).settings().bootstrap_servers == ("a:9092",)


@pytest.mark.parametrize(
    "value", ["1_000", "1000\u00a0", "\u20031000", "1e3", "0x10", "\U0001d7cf\U0001d7cf"]
)
def test_what_only_python_takes_for_a_number_is_none(value: str) -> None:
    client = ClientProps(KeyPrefixes(), "admin", {"request.timeout.ms": value})
    assert client.number("request.timeout.ms") is None
    assert client.errors[0].key == "request.timeout.ms"
    assert java_values.integer(value) is None


def test_a_blank_of_unicode_is_part_of_a_value() -> None:
    assert java_values.trimmed(" \0\x1f\u00a0a\u2003\t") == "\u00a0a\u2003"
    assert java_values.given({"a": " x ", "b": None, "c": ""}) == {"a": "x", "c": ""}
    plan = plan_of_properties({**DEDICATED, "B.group.id": "mine\u00a0"}, StaticClientCheck(), {})
    assert all_worker_settings(plan.flows)["A->B"].group == "mine\u00a0"


@given(st.text(st.sampled_from("a, \t\n\v\x1f\u00a0"), max_size=12))
def test_lists_are_split_as_by_kafkas_expression(text: str) -> None:
    trimmed = text.strip("".join(map(chr, range(33))))
    assert split_list(text) == (tuple(re.split(r"[ \t\n\r\f\v]*,[ \t\n\r\f\v]*", trimmed)) if trimmed else ())


def test_spaces_in_a_list_take_no_time() -> None:
    """By Kafka's expression these took a minute, in which nothing else was answered."""
    began = time.thread_time()
    assert split_list("a" + " " * 200_000 + "b") == ("a" + " " * 200_000 + "b",)
    assert time.thread_time() - began < 1
