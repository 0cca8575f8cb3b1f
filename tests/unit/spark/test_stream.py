"""What a stream reads when another process tries its first micro-batch again, from the checkpoint."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from bridge.kafka.network.client import NetworkClient
from bridge.model.values import TopicPartition
from bridge.spark import stream
from bridge.spark.internal_topics import MirrorRuns
from bridge.spark.offsets import Log, OffsetRange, Where, resolved
from bridge.spark.options import RecordsOptions, for_stream
from bridge.spark.records import MirrorRecords, RecordsPartition
from bridge.spark.rejected import SourceRejected
from bridge.spark.schema import RECORDS
from bridge.spark.stream import RecordsStreamReader
from tests.support.messages import message_pattern

A, B = TopicPartition("orders", 0), TopicPartition("orders", 1)


class Cluster:
    """The logs that readers find."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.logs = {A: Log("id", 0, 18)}
        self.readers: list[RecordsStreamReader] = []

        async def described(client: NetworkClient, options: RecordsOptions) -> Mapping[TopicPartition, Log]:
            return self.logs

        async def offsets_at(
            client: NetworkClient, where: Where, logs: Mapping[TopicPartition, Log], **_: bool
        ) -> dict[TopicPartition, int]:
            return resolved(where, logs, {})

        async def sampled(*_: object, **__: object) -> dict[TopicPartition, float]:
            return {}

        for replacement in (described, offsets_at, sampled):
            monkeypatch.setattr(stream, replacement.__name__, replacement)

    def reader(self, **options: str) -> RecordsStreamReader:
        """Returns that of a query that was started anew."""
        named = {"subscribe": "orders", "kafka.bootstrap.servers": "127.0.0.1:1", **options}
        self.readers.append(RecordsStreamReader("mirror-records", for_stream(named), RECORDS))
        return self.readers[-1]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    made = Cluster(monkeypatch)
    yield made
    for reader in made.readers:
        reader.stop()


def kept(offset: dict[str, Any]) -> dict[str, Any]:
    """As it comes back from the checkpoint."""
    return json.loads(json.dumps(offset))  # type: ignore[no-any-return]


def first_end(query: RecordsStreamReader) -> dict[str, Any]:
    return kept(query.latestOffset(kept(query.initialOffset()), ReadAllAvailable()))


def ranges(query: RecordsStreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[OffsetRange]:
    parts = query.partitions(start, end)
    assert all(isinstance(part, RecordsPartition) for part in parts)
    return [each for part in parts if isinstance(part, RecordsPartition) for each in part.ranges]


def grow(cluster: Cluster, end: int) -> None:
    cluster.logs = {A: cluster.logs[A]._replace(end=end)}


def test_what_came_while_the_first_batch_failed_is_read(cluster: Cluster) -> None:
    first = cluster.reader()
    end = first_end(first)
    assert ranges(first, first.initialOffset(), end) == []
    grow(cluster, 30)
    again = cluster.reader()
    then = kept(again.latestOffset(end, ReadAllAvailable()))
    assert ranges(again, end, then) == [OffsetRange(A, "id", 18, 30)]


def test_a_first_batch_that_is_tried_again_reads_what_it_read(cluster: Cluster) -> None:
    first = cluster.reader(startingOffsets='{"orders": {"0": 6}}')
    end = first_end(first)
    read = ranges(first, first.initialOffset(), end)
    assert read == [OffsetRange(A, "id", 6, 18)]
    cluster.logs = {A: Log("id", 0, 40), B: Log("id", 0, 5)}
    for options in ({}, {"startingOffsets": "earliest"}, {"startingOffsets": '{"orders": {"0": 6}}'}):
        again = cluster.reader(**options)
        assert ranges(again, again.initialOffset(), end) == read


def test_what_retention_took_before_the_first_batch_was_read_is_missed(cluster: Cluster) -> None:
    end = first_end(cluster.reader(startingOffsets="earliest"))
    cluster.logs = {A: Log("id", 15, 30)}
    with pytest.raises(SourceRejected, match="offsets 0 to 14 of orders-0 are gone"):
        ranges(cluster.reader(), cluster.reader().initialOffset(), end)
    go_on = cluster.reader(failOnDataLoss="false")
    assert ranges(go_on, go_on.initialOffset(), end) == [OffsetRange(A, "id", 15, 18)]


def test_an_offset_that_no_log_has_is_an_error(cluster: Cluster) -> None:
    said = message_pattern("spark.no_such_offset", partition="orders-0", offset=19, end=18)
    with pytest.raises(SourceRejected, match=said):
        first_end(cluster.reader(startingOffsets='{"orders": {"0": 19}}'))


def test_a_checkpoint_that_does_not_say_where_it_began_is_read_on(cluster: Cluster) -> None:
    end = first_end(cluster.reader())
    old = {topic: entry for topic, entry in end.items() if topic == "orders"}
    query = cluster.reader(startingOffsets="earliest")
    assert ranges(query, query.initialOffset(), old) == [OffsetRange(A, "id", 0, 18)]


def test_a_trigger_waits_for_enough_offsets_and_not_for_too_long(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr(stream, "time", SimpleNamespace(monotonic=lambda: now[0]))
    query = cluster.reader(minOffsetsPerTrigger="10", maxTriggerDelay="30s")

    def end_after(start: dict[str, Any]) -> dict[str, Any]:
        return kept(query.latestOffset(start, ReadAllAvailable()))

    end = end_after(kept(query.initialOffset()))
    grow(cluster, 27)
    assert end_after(end) == end
    grow(cluster, 28)
    end = end_after(end)
    assert end["orders"]["offsets"] == {"0": 28}
    grow(cluster, 29)
    now[0] += 29
    assert end_after(end) == end
    now[0] += 1
    assert end_after(end)["orders"]["offsets"] == {"0": 29}


def test_what_is_lost_is_told_though_the_trigger_waits(cluster: Cluster) -> None:
    query = cluster.reader(minOffsetsPerTrigger="10", maxTriggerDelay="30s")
    end = first_end(query)
    cluster.logs = {A: Log("id", 20, 21)}
    with pytest.raises(SourceRejected, match="offsets 18 to 19 of orders-0 are gone"):
        query.latestOffset(end, ReadAllAvailable())


@pytest.mark.parametrize(
    ("source", "options"),
    [(MirrorRecords, {"subscribe": "orders"}), (MirrorRuns, {})],
)
def test_what_is_wrong_is_told_where_spark_shows_it(source: Any, options: dict[str, str]) -> None:
    """Of an error of `streamReader` it shows its own, of a variable that has no value."""
    made = source({**options, "kafka.bootstrap.servers": "127.0.0.1:1", "endingOffsets": "latest"})
    rejected = made.streamReader(made.schema())
    for ask in (rejected.initialOffset, lambda: rejected.latestOffset({}, ReadAllAvailable())):
        with pytest.raises(SourceRejected, match="option endingOffsets is for a batch only"):
            ask()
