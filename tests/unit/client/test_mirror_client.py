"""MirrorClient's configuration, and how a checkpoints topic is read; real brokers: tests/integration."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Sequence

import pytest

from bridge.client import MirrorClient
from bridge.client.consumers import Offsets, read_offsets
from bridge.client.mirror_client import read_config
from bridge.errors import ConfigRejected, KafkaFailure, KafkaFault
from bridge.mm2.records import Checkpoint
from bridge.mm2.replication_policy import IdentityReplicationPolicy
from bridge.model.values import Committed, LogRecord, Side, TailPart, TopicPartition
from tests.support.messages import message

PLACE = TopicPartition("A.orders", 3)


def rejected(props: dict[str, str], side: Side | None = None) -> dict[str, str]:
    with pytest.raises(ConfigRejected) as caught:
        read_config(props, side)
    return {error.key: error.message for error in caught.value.errors}


def test_all_errors_at_once() -> None:
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="s3cret'
    errors = rejected(
        {
            "bootstrap.servers": "nohost",
            "replication.policy.class": "com.example.Mine",
            "replication.policy.internal.topic.separator.enabled": "yes",
            "forwarding.admin.class": "com.example.Forwarding",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": jaas,
            "admin.request.timeout.ms": "soon",
            "consumer.no.such": "s3cret",
        }
    )
    assert set(errors) == {
        *("bootstrap.servers", "replication.policy.class", "forwarding.admin.class", "sasl.jaas.config"),
        *("replication.policy.internal.topic.separator.enabled", "admin.request.timeout.ms"),
        "consumer.no.such",
    }
    assert "s3cret" not in str(errors)
    assert "org.apache.kafka.connect.mirror.DefaultReplicationPolicy" in errors["replication.policy.class"]


@pytest.mark.parametrize(
    ("servers", "text"),
    [
        (None, 'Missing required configuration "bootstrap.servers" which has no default value.'),
        (
            "",
            "Configuration 'bootstrap.servers' must not be empty. Valid values include: any non-empty value",
        ),
        ("a:1,a:1", "Configuration 'bootstrap.servers' values must not be duplicated."),
        ("a:1,,b:1", "Configuration 'bootstrap.servers' values must not be empty."),
    ],
)
def test_bootstrap_servers(servers: str | None, text: str) -> None:
    """D8, in stock's words (compared with stock in tests/integration/test_mirror_client.py)."""
    assert rejected({} if servers is None else {"bootstrap.servers": servers}) == {"bootstrap.servers": text}


def test_roles_override_and_strangers_are_left_alone() -> None:
    config = read_config(
        {
            "bootstrap.servers": "a:1",
            "client.id": "mine",
            "admin.bootstrap.servers": "b:2",
            "consumer.request.timeout.ms": "1234",
            "replication.policy.class": "IdentityReplicationPolicy",
            "source.cluster.alias": "A",
            "group.id": "what a console tool's file may have",
            "clusters": "A, B",
        }
    )
    assert config.settings.admin["bootstrap.servers"] == "b:2"
    assert config.settings.admin["client.id"] == "mine"
    assert config.settings.raw.bootstrap_servers == ("a:1",)
    assert config.settings.raw.numbers["request_timeout_ms"] == 1234
    assert isinstance(config.policy, IdentityReplicationPolicy)
    assert config.policy.source_alias == "A"


def test_a_side_of_a_connector() -> None:
    props = {
        "name": "checkpoints",
        "source.cluster.bootstrap.servers": "a:1",
        "target.cluster.bootstrap.servers": "b:2",
        "target.consumer.request.timeout.ms": "1234",
        "admin.timeout.ms": "60000",
        "replication.policy.separator": "__",
    }
    config = read_config(props, Side.TARGET)
    assert config.settings.raw.bootstrap_servers == ("b:2",)
    assert config.settings.raw.numbers["request_timeout_ms"] == 1234
    assert config.policy.checkpoints_topic("A") == "A__checkpoints__internal"
    del props["source.cluster.bootstrap.servers"]
    assert set(rejected(props, Side.SOURCE)) == {"source.cluster.bootstrap.servers"}
    MirrorClient(props, Side.TARGET)


# -- reading ---------------------------------------------------------------------------------------------------------


def record(group: str, offset: int, *, gone: bool = False, place: TopicPartition = PLACE) -> LogRecord:
    checkpoint = Checkpoint(group, place, 2 * offset, offset, f"m{offset}")
    return LogRecord(offset, 0, checkpoint.key(), None if gone else checkpoint.value())


def part(*records: LogRecord, restarted: bool = False, at_end: bool = True) -> TailPart:
    return TailPart(records, restarted, at_end)


class Script:
    """A tail that reads these one by one, and then waits for ever."""

    topic = "A.checkpoints.internal"

    def __init__(self, *steps: TailPart | KafkaFailure) -> None:
        self.steps = list(steps)

    async def read(self) -> TailPart:
        if not self.steps:
            await asyncio.Event().wait()
        step = self.steps.pop(0)
        if isinstance(step, KafkaFailure):
            raise step
        return step


def offsets(*steps: TailPart | KafkaFailure, pattern: str = ".*", timeout_s: float = 20) -> Offsets:
    expected = re.compile(pattern).fullmatch
    return asyncio.run(read_offsets(Script(*steps), expected, timeout_s))  # type: ignore[arg-type]


def test_the_last_checkpoint_of_each_partition_counts() -> None:
    other = TopicPartition("A.orders", 4)
    result = offsets(
        part(record("g", 1), record("g", 2), record("h", 3), at_end=False),
        part(record("g", 1, place=other), record("other", 9)),
        pattern="g|h",
    )
    assert result == {
        "g": {PLACE: Committed(2, "m2"), other: Committed(1, "m1")},
        "h": {PLACE: Committed(3, "m3")},
    }


def test_a_pattern_matches_whole_ids() -> None:
    assert set(offsets(part(record("g", 1), record("gg", 1)), pattern="g")) == {"g"}


def test_what_cannot_be_read_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    bad = [LogRecord(5, 0, None, b"x"), LogRecord(6, 0, b"\0\1g", b"\0"), LogRecord(7, 0, b"x", None)]
    with caplog.at_level(logging.WARNING):
        assert offsets(part(record("g", 1), *bad, record("g", 2))) == {"g": {PLACE: Committed(2, "m2")}}
    assert [each.getMessage() for each in caplog.records] == [
        message("groups.checkpoints_skipped", topic="A.checkpoints.internal", count=3)
    ]


def test_a_tombstone_takes_the_checkpoint_away() -> None:
    assert offsets(part(record("g", 1), record("h", 1), record("g", 1, gone=True))) == {
        "h": {PLACE: Committed(1, "m1")}
    }
    assert offsets(part(record("g", 1, gone=True), record("g", 2))) == {"g": {PLACE: Committed(2, "m2")}}


def test_a_topic_made_anew_begins_anew() -> None:
    result = offsets(part(record("g", 1), at_end=False), part(record("h", 2), restarted=True))
    assert result == {"h": {PLACE: Committed(2, "m2")}}


def test_what_was_read_in_time_is_answered(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        result = offsets(part(record("g", 1), at_end=False), timeout_s=0.05)
    assert result == {"g": {PLACE: Committed(1, "m1")}}
    assert "not read to its end within 0.05 s" in caplog.text


def moved(fault: KafkaFault) -> KafkaFailure:
    return KafkaFailure(fault, f"it is {fault}")


def test_trouble_that_passes_is_waited_for() -> None:
    result = offsets(moved(KafkaFault.LEADER_MOVED), moved(KafkaFault.UNREACHABLE), part(record("g", 1)))
    assert result == {"g": {PLACE: Committed(1, "m1")}}


@pytest.mark.parametrize(
    "steps",
    [
        [moved(KafkaFault.UNREACHABLE)] * 50,
        [part(record("g", 1), at_end=False), *[moved(KafkaFault.UNREACHABLE)] * 50],
    ],
    ids=["at once", "on the way"],
)
def test_a_cluster_that_does_not_answer_in_time_is_no_empty_answer(
    steps: Sequence[TailPart | KafkaFailure],
) -> None:
    with pytest.raises(KafkaFailure, match="it is unreachable"):
        offsets(*steps, timeout_s=0.05)


def test_nor_is_one_that_says_nothing() -> None:
    with pytest.raises(KafkaFailure, match=r"No answer in time.*A\.checkpoints\.internal") as caught:
        offsets(timeout_s=0.05)
    assert caught.value.fault is KafkaFault.TIMEOUT


@pytest.mark.parametrize(
    "fault", [KafkaFault.UNKNOWN_TOPIC, KafkaFault.NOT_AUTHORIZED, KafkaFault.CREDENTIALS]
)
def test_trouble_that_lasts_is_raised_at_once(fault: KafkaFault) -> None:
    with pytest.raises(KafkaFailure, match=f"it is {fault}"):
        offsets(moved(fault), part(record("g", 1)))
