"""Options of mirror-records: Spark's names, and one clear line for each that is wrong."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from bridge.model.values import TopicPartition
from bridge.spark.offsets import AtTime, Each, LogEdge
from bridge.spark.options import RecordsOptions, for_batch, for_stream, read_options
from bridge.spark.rejected import SourceRejected, in_one_line
from tests.support.messages import message

GIVEN = {"kafka.bootstrap.servers": "a:9092", "subscribe": "orders"}
PASSWORD = "s3cr3t-of-a-user"


def options(**more: str) -> RecordsOptions:
    return for_batch(GIVEN | more)


def refused(read: Callable[[dict[str, str]], object], given: dict[str, str]) -> str:
    with pytest.raises(SourceRejected) as caught:
        read(given)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_defaults_are_those_of_sparks_own_source_but_for_isolation() -> None:
    read = options()
    assert (read.topics, read.start, read.end) == (("orders",), None, LogEdge.LATEST)
    assert read.committed_only
    assert read.fail_on_data_loss
    assert read.max_offsets is None
    assert read.settings().bootstrap_servers == ("a:9092",)


def test_names_are_read_in_any_case_as_spark_gives_them() -> None:
    given = {name.lower(): value for name, value in GIVEN.items()}
    read = for_batch(
        given
        | {
            "startingoffsets": '{"orders": {"0": 5, "1": -2}}',
            "ENDINGTIMESTAMP": "1700",
            "minpartitions": "4",
        }
    )
    assert read.start == Each(
        "startingOffsets", {TopicPartition("orders", 0): 5, TopicPartition("orders", 1): LogEdge.EARLIEST}
    )
    assert read.end == AtTime(1700)
    assert read.min_partitions == 4


def test_topics_are_selected_by_name_by_pattern_or_by_partition() -> None:
    servers = {"kafka.bootstrap.servers": "a:9092"}
    assert read_options(servers | {"subscribe": "b, a,b"}).topics == ("b", "a")
    assert read_options(servers | {"subscribePattern": "ord.*"}).pattern == "ord.*"
    assert read_options(servers | {"assign": '{"orders": [3, 1, 3]}'}).assigned == {"orders": [1, 3]}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"startingOffset": "earliest"}, "there is no option startingoffset; did you mean startingOffsets?"),
        ({"bootstrap.servers": "a:1"}, "did you mean kafka.bootstrap.servers?"),
        (
            {"kafka.sasl.mechanisms": "PLAIN"},
            "option kafka.sasl.mechanisms is no property of Kafka's consumer; did you mean kafka.sasl.mechanism?",
        ),
        ({"kafka.acks": "all"}, "option kafka.acks is not a property of Kafka's consumer"),
        (
            {"kafka.auto.offset.reset": "latest"},
            "option kafka.auto.offset.reset is not supported: use startingOffsets",
        ),
        ({"includeHeaders": "yes"}, "option includeHeaders is 'yes'; it must be true or false"),
        ({"minOffsetsPerTrigger": "10"}, "option minOffsetsPerTrigger is for a stream only"),
        ({"startingOffsetsByTimestamp": "5"}, "must be JSON such as"),
        ({"startingOffsetsByTimestampStrategy": "none"}, "it must be error or latest"),
        ({"kafka.group.id": "g"}, "option kafka.group.id is not supported: it joins no group"),
        ({"path": "orders"}, "records are in topics, not at a path"),
        ({"provider": "mirror-records", "option.subscribe": "orders"}, "use CREATE TEMPORARY VIEW"),
        ({"assign": '{"orders": [0]}'}, "options subscribe and assign exclude each other"),
        (
            {"startingOffsets": "first"},
            "option startingOffsets is 'first'; it must be earliest, latest or JSON",
        ),
        ({"startingOffsets": "latest"}, "option startingOffsets can't be latest in a batch"),
        ({"startingOffsets": '{"orders": {"0": -1}}'}, "can't be latest in a batch"),
        ({"endingOffsets": '{"orders": {"0": -2}}'}, "option endingOffsets has offset -2 for orders-0"),
        (
            {"endingOffsets": "earliest"},
            "option endingOffsets can't be earliest here; it must be latest or JSON",
        ),
        ({"startingOffsets": '{"orders": [5]}'}, "that of topic 'orders' is not"),
        ({"startingOffsets": "{"}, "this is no JSON"),
        ({"startingTimestamp": "today"}, "it must be a time in milliseconds since 1970"),
        ({"startingOffsets": "earliest", "startingTimestamp": "5"}, "exclude each other"),
        ({"failOnDataLoss": "yes"}, "option failOnDataLoss is 'yes'; it must be true or false"),
        ({"minPartitions": "0"}, "option minPartitions is '0'; it must be a number above 0"),
        ({"maxOffsetsPerTrigger": "10"}, "option maxOffsetsPerTrigger is for a stream only"),
        ({"isolation.level": "committed"}, "it must be read_committed or read_uncommitted"),
        ({"kafka.isolation.level": "read_uncommitted", "isolation.level": "read_committed"}, "differ"),
        ({"kafka.security.protocol": "TLS"}, "for configuration kafka.security.protocol"),
        ({"kafka.request.timeout.ms": "soon"}, "for configuration kafka.request.timeout.ms"),
    ],
)
def test_a_wrong_option_is_one_line_that_names_what_is_right(given: dict[str, str], says: str) -> None:
    assert says in refused(for_batch, GIVEN | given)


def test_all_wrong_names_are_in_the_line() -> None:
    text = refused(for_batch, GIVEN | {"startOffsets": "1", "kafka.group": "x"})
    assert "startoffsets" in text
    assert "kafka.group" in text


def test_all_that_is_wrong_is_in_the_line() -> None:
    text = refused(
        for_batch,
        {
            "assign": "x",
            "startOffsets": "1",
            "startingOffsets": "first",
            "maxOffsetsPerTrigger": "10",
            "minPartitions": "0",
            "failOnDataLoss": "maybe",
            "kafka.group.id": "g",
        },
    )
    for part in (
        "option assign must be JSON",
        "there is no option startoffsets",
        "option startingOffsets is 'first'",
        "option maxOffsetsPerTrigger is for a stream only",
        "option minPartitions is '0'",
        "option failOnDataLoss is 'maybe'",
        "it joins no group",
        "bootstrap.servers",
    ):
        assert part in text


def test_what_is_missing_is_named() -> None:
    assert message("spark.one_of") in refused(for_batch, {"kafka.bootstrap.servers": "a:9092"})
    assert "kafka.bootstrap.servers" in refused(for_batch, {"subscribe": "orders"})
    assert "subscribePattern" in refused(
        for_batch, {"kafka.bootstrap.servers": "a:9092", "subscribePattern": "ord("}
    )


def test_ends_are_for_batches_and_rates_for_streams() -> None:
    assert "endingOffsets is for a batch only" in refused(for_stream, GIVEN | {"endingOffsets": "latest"})
    assert for_stream(GIVEN | {"maxOffsetsPerTrigger": "10", "startingOffsets": "latest"}).max_offsets == 10


def test_a_file_has_the_secrets_and_options_come_over_it(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    login = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="{PASSWORD}";'
    file.write_text(
        "bootstrap.servers=from-file:9092\nsecurity.protocol=SASL_PLAINTEXT\n"
        f"sasl.mechanism=PLAIN\nsasl.jaas.config={login}\n"
    )
    read = for_batch({"commandConfig": str(file), "subscribe": "orders"})
    assert read.settings().bootstrap_servers == ("from-file:9092",)
    assert read.settings().sasl is not None
    over = for_batch(GIVEN | {"commandConfig": str(file)})
    assert over.settings().bootstrap_servers == ("a:9092",)
    assert PASSWORD not in repr(read)
    file.write_text("bootstrap.server=a:9092\n")
    assert "has bootstrap.server" in refused(for_batch, GIVEN | {"commandConfig": str(file)})
    assert "can't read" in refused(for_batch, GIVEN | {"commandConfig": str(tmp_path / "none")})


def test_no_error_has_a_secret() -> None:
    login = f'sasl.jaas.config of "{PASSWORD}"'
    given = GIVEN | {"kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "PLAIN"}
    assert PASSWORD not in refused(for_batch, given | {"kafka.sasl.jaas.config": login})


def test_spark_shows_one_line_without_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HIDE_TRACEBACK", "")
    with (
        pytest.raises(SourceRejected, match=r"^mirror-records: there is no topic x$"),
        in_one_line("mirror-records"),
    ):
        raise SourceRejected("there is no topic x")
    assert os.environ["SPARK_HIDE_TRACEBACK"] == "1"


def test_internal_topics_are_found_by_their_names_and_have_a_history() -> None:
    servers = {"kafka.bootstrap.servers": "a:9092"}
    assert for_batch(servers, "heartbeats").pattern == "heartbeats"
    assert for_batch(servers | {"history": "true", "subscribe": "x"}, "heartbeats").history
    assert "for internal topics" in refused(for_batch, GIVEN | {"history": "true"})
