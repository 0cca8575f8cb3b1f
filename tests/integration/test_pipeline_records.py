"""The pipeline without Spark, between two real brokers: records of every kind, and those that the target refuses."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial

import pytest

from bridge.kafka.network.in_flight import InFlightWindow
from bridge.local import Cluster
from bridge.model.copying import PipelineState
from bridge.model.partition_states import PartitionState, PartitionStatus
from bridge.model.values import TopicPartition
from bridge.pipeline.layouts.records import SliceReport
from bridge.translation.runs.holes import decoded
from bridge.translation.runs.runs import OffsetRun
from tests.integration.copy_flow import CopyFlow, fetch_by_name, gaps_of
from tests.support import (
    Record,
    add_partitions,
    bounds,
    compact,
    delete_records,
    eventually,
    numbered,
    produce,
    produce_transaction,
)
from tests.support.forms import mostly_long
from tests.support.records import FLUSH_SECONDS, open_transaction, read, varied
from tests.support.topics import set_topic_config
from tests.support.waits import WAIT

LARGE = {"max.message.bytes": str(12 * 1024 * 1024)}
OLD, NOW = 1_000_000_000_000, int(time.time() * 1000)


@pytest.fixture
def flow(source: Cluster, target: Cluster) -> CopyFlow:
    return CopyFlow(source, target)


@pytest.fixture(params=mostly_long(["report", "fail"]))
def policy(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def contents(records: Sequence[Record]) -> list[tuple[object, ...]]:
    return [each.content for each in records]


def caught_up(flow: CopyFlow, *, slots: int = 2) -> None:
    assert flow.copy(slots=slots).state is PipelineState.CAUGHT_UP
    flow.assert_copied()
    flow.assert_runs_true()


# -- sizes ---------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_batches_of_one_record_and_of_ten_megabytes(flow: CopyFlow) -> None:
    """In one slot, so that the large ones have to find room beside the small ones."""
    large, small = flow.topic(configs=LARGE, remote=LARGE), flow.topic(3)
    ten = [Record(bytes([number]) * 10_000_000) for number in range(3)]
    produce(flow.source.bootstrap, large, ten, message_max_bytes=12_000_000)
    ones = [Record(b"%d" % number, timestamp=NOW, partition=number % 3) for number in range(600)]
    produce(flow.source.bootstrap, small, ones, batch_num_messages=1)
    produce(
        flow.source.bootstrap,
        large,
        [Record(b"x" * 1_000_000) for _ in range(10)],
        compression="lz4",
        message_max_bytes=12_000_000,
    )
    caught_up(flow, slots=1)


def test_a_batch_larger_than_the_target_takes_is_split(flow: CopyFlow) -> None:
    topic = flow.topic(configs=LARGE, remote={"max.message.bytes": "20000"})
    for codec in ("none", "zstd"):
        produce(
            flow.source.bootstrap,
            topic,
            [Record(b"%d" % number * 1000, timestamp=NOW) for number in range(200)],
            compression=codec,
            linger_ms=200,
        )
    caught_up(flow)


def test_batches_that_the_target_stores_larger_are_cut_before_it_refuses_them(flow: CopyFlow) -> None:
    """A refusal costs an aborted transaction, with all that was sent in it."""
    remote = {"max.message.bytes": "100000", "compression.type": "uncompressed"}
    large, beside = flow.topic(configs=LARGE, remote=remote), flow.topic()
    records = [Record(b"x" * 10_000, timestamp=NOW) for _ in range(200)]
    produce(flow.source.bootstrap, large, records, compression="zstd", linger_ms=200)
    produce(flow.source.bootstrap, beside, numbered(100))
    caught_up(flow, slots=1)
    with_aborted = [len(read(flow.target.bootstrap, flow.remote(topic))) for topic in (large, beside)]
    assert with_aborted == [200, 100]


@pytest.mark.long
@pytest.mark.parametrize("policy", ["fail", "report"])
def test_the_target_stores_batches_larger_from_some_moment_on(flow: CopyFlow, policy: str) -> None:
    """The slice knows the topic's configs as they were: what is refused is cut anew, and nothing is left out."""
    flow.settings = {**flow.settings, "fail_on_refused_record": policy == "fail"}
    large, beside = flow.topic(configs=LARGE, remote={"max.message.bytes": "100000"}), flow.topic()
    places = {TopicPartition(topic, 0): 200 for topic in (large, beside)}
    with flow.pipeline(slots=1) as running:
        for number in range(2):
            records = [Record(b"x" * 10_000, timestamp=NOW) for _ in range(200)]
            produce(flow.source.bootstrap, large, records, compression="zstd", linger_ms=200)
            produce(flow.source.bootstrap, beside, numbered(200))
            running.wait_position({place: end * (number + 1) for place, end in places.items()})
            uncompressed = {"compression.type": "uncompressed"}
            set_topic_config(flow.target.bootstrap, flow.remote(large), uncompressed)
        assert gaps_of(running.status) == []
        eventually(lambda: not running.status.partitions, WAIT, what="nothing waits")
    flow.assert_copied()
    flow.assert_runs_true()


# -- records that the target refuses -------------------------------------------------------------------------------


def run_offsets(run: OffsetRun) -> list[int]:
    """Those of the source that the run says have a copy."""
    if not run.holes:
        assert not run.skipped
        return list(range(run.upstream_start, run.upstream_end))
    return [run.upstream_start + decoded(run.holes).upstream(number) for number in range(run.copies)]


def refused(flow: CopyFlow, policy: str, topic: str, poison: Sequence[int], *named: str) -> None:
    """Exactly the poison records of partition 0 are left out, or it is copied up to the first one, which is named. One
    slot: whatever its other partitions have to do with it, they are copied."""
    flow.settings = {**flow.settings, "fail_on_refused_record": policy == "fail"}
    status = flow.copy(slots=1)
    here, there = flow.original(topic), flow.copies(topic)
    for number in bounds(flow.source.bootstrap, topic):
        if number:
            assert contents(flow.copies(topic, number)) == contents(flow.original(topic, number))
    if policy == "fail":
        assert status.state is PipelineState.FAILED
        assert status.failure is not None
        for words in (topic, f"{topic}-0 at offset {poison[0]}", "source.record.policy", *named):
            assert words in status.failure
        assert contents(there) == contents([each for each in here if each.offset < poison[0]])
        assert gaps_of(status) == []
        return
    assert status.state is PipelineState.CAUGHT_UP
    assert contents(there) == contents([each for each in here if each.offset not in poison])
    # Neighbours that are refused for the same reason are one entry.
    ranges = [(at, at + 1) for at in poison]
    for one, other in zip(ranges[::-1][1:], ranges[::-1][:-1], strict=True):
        if one[1] == other[0]:
            ranges[ranges.index(one)] = (one[0], other[1])
            ranges.remove(other)
    assert gaps_of(status) == [("record_refused", *each) for each in ranges]
    runs = flow.runs()[TopicPartition(topic, 0)]
    copied = [at for run in runs.runs for at in run_offsets(run)]
    assert copied == [each.offset for each in here if each.offset not in poison]


def test_a_record_too_large_for_the_target(flow: CopyFlow, policy: str) -> None:
    topic = flow.topic(2, LARGE, remote={"max.message.bytes": "50000"})
    records = [Record(b"x" * 100, timestamp=NOW, partition=number % 2) for number in range(60)]
    records[20] = Record(b"y" * 60_000, timestamp=NOW)
    produce(flow.source.bootstrap, topic, records, linger_ms=200)
    refused(flow, policy, topic, [10], "max.message.bytes", "50000")


def test_records_without_a_key_for_a_compacted_topic(flow: CopyFlow, policy: str) -> None:
    topic = flow.topic(2, remote={"cleanup.policy": "compact"})
    records = [Record(b"%d" % number, b"key-%d" % number, NOW, partition=number % 2) for number in range(80)]
    for at in (20, 22, 60):
        records[at] = Record(b"poison", None, NOW)
    produce(flow.source.bootstrap, topic, records, linger_ms=200, compression="lz4")
    refused(flow, policy, topic, [10, 11, 30], "cleanup.policy")


def test_a_record_that_is_refused_holds_up_its_partition_until_the_target_takes_it(flow: CopyFlow) -> None:
    bad, well = flow.topic(remote={"cleanup.policy": "compact"}), flow.topic()
    good, place = numbered(10), TopicPartition(bad, 0)
    keyed = [Record(each.value, b"key", NOW) for each in good]
    produce(flow.source.bootstrap, bad, [*keyed, Record(b"poison", None, NOW), *keyed], linger_ms=50)
    produce(flow.source.bootstrap, well, good)
    with flow.pipeline(slots=1) as running:

        def failed() -> PartitionStatus:
            (status,) = running.status.partitions
            assert status.state is PartitionState.FAILED
            return status

        status = eventually(failed, WAIT, what="the record is named")
        assert status.source == place
        assert f"{bad}-0 at offset 10" in status.why
        assert "cleanup.policy" in status.way_out
        assert "source.record.policy" in status.way_out
        running.wait_position({place: 10, TopicPartition(well, 0): 10})
        produce(flow.source.bootstrap, well, good)
        running.wait_position({TopicPartition(well, 0): 20})

        def log_end() -> int:
            return bounds(flow.target.bootstrap, flow.remote(bad))[0][1]

        before = log_end()
        eventually(lambda: log_end() > before + 1, WAIT, what="it is tried again, and again")
        set_topic_config(flow.target.bootstrap, flow.remote(bad), {"cleanup.policy": "delete"})
        running.wait_position({place: 21})
        eventually(lambda: not running.status.partitions, WAIT, what="nothing has failed any more")
    written = read(flow.target.bootstrap, flow.spec.layout_topic)
    reports = [report for each in written if (report := SliceReport.decode(each.value)) is not None]
    failing = [bool(report.partitions) for report in reports if not report.error]
    assert failing == sorted(failing, reverse=True), f"a try is no success: {reports}"
    flow.assert_copied()
    flow.assert_runs_true()


@pytest.mark.parametrize("count", mostly_long([1_000, 60, 20_000]))
def test_many_records_that_are_refused_hold_up_nothing(flow: CopyFlow, count: int) -> None:
    """One slot copies them beside a topic that is well, in a handful of transactions."""
    bad, well = flow.topic(remote={"cleanup.policy": "compact"}), flow.topic()
    produce(flow.source.bootstrap, bad, [Record(b"x" * 100, None, NOW) for _ in range(count)], linger_ms=50)
    produce(flow.source.bootstrap, well, [Record(b"%d" % number, b"key", NOW) for number in range(1_000)])
    flow.settings = {**flow.settings, "fail_on_refused_record": False}
    status = flow.copy(slots=1)
    assert status.state is PipelineState.CAUGHT_UP
    gaps = gaps_of(status)
    assert len(gaps) <= 10, "what a commit does not part is one entry"
    assert {kind for kind, *_ in gaps} == {"record_refused"}
    assert [first for _, first, _ in gaps] == [0, *(end for *_, end in gaps[:-1])]
    assert gaps[-1][-1] == count
    assert flow.copies(bad) == []
    assert contents(flow.copies(well)) == contents(flow.original(well))
    ends = [bounds(flow.target.bootstrap, flow.remote(topic))[0][1] for topic in (bad, well)]
    assert ends[0] <= 2 * count
    assert ends[1] < 10_000, "what is well was not aborted again and again"


def test_timestamps_outside_of_the_targets_limits(flow: CopyFlow, policy: str) -> None:
    """Many batches of the other partition beside them, which are not at fault."""
    topic = flow.topic(2, remote={"message.timestamp.before.max.ms": str(24 * 3600 * 1000)})
    produce(
        flow.source.bootstrap,
        topic,
        [Record(b"x" * 900, timestamp=NOW, partition=1) for _ in range(300)],
        batch_num_messages=10,
    )
    records = [Record(b"%d" % number, timestamp=NOW) for number in range(40)]
    records[7], records[39] = Record(b"old", timestamp=OLD), Record(b"old", timestamp=OLD)
    produce(flow.source.bootstrap, topic, records, linger_ms=200)
    refused(flow, policy, topic, [7, 39], "message.timestamp.before.max.ms")


def test_a_poison_record_behind_more_than_is_held_in_flight(
    flow: CopyFlow, policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bridge.pipeline.slices.running.InFlightWindow", partial(InFlightWindow, 20_000))
    monkeypatch.setattr("bridge.kafka.network.in_flight.MOST", 20_000)
    topic = flow.topic(2, remote={"message.timestamp.before.max.ms": str(24 * 3600 * 1000)})
    records = [Record(b"x" * 900, timestamp=NOW, partition=number % 2) for number in range(300)]
    records[100] = Record(b"old", timestamp=OLD)
    produce(flow.source.bootstrap, topic, records, batch_num_messages=5)
    refused(flow, policy, topic, [50], "message.timestamp.before.max.ms")


# -- what the source's log is like ---------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", mostly_long(["none", "zstd"]))
def test_a_compacted_source_with_holes(flow: CopyFlow, codec: str) -> None:
    topic = flow.topic()
    for at in range(3):
        produce(
            flow.source.bootstrap,
            topic,
            [Record(b"%d-%d" % (at, number), b"key-%d" % number, NOW) for number in range(0, 40, at + 1)],
            compression=codec,
        )
    left = compact(flow.source.bootstrap, topic)
    assert len(left) < left[-1] + 1
    caught_up(flow)


def test_append_time_of_the_source_becomes_the_records_own(flow: CopyFlow) -> None:
    topic = flow.topic(configs={"message.timestamp.type": "LogAppendTime"})
    for start in (0, 100):
        produce(flow.source.bootstrap, topic, numbered(100, start=start, timestamp=OLD), compression="gzip")
    caught_up(flow)
    assert all(each.timestamp is not None and each.timestamp > OLD for each in flow.copies(topic))


def test_an_open_transaction_is_waited_for(flow: CopyFlow) -> None:
    topic = flow.topic(2)
    place = TopicPartition(topic, 0)
    with flow.pipeline() as running:
        produce(flow.source.bootstrap, topic, varied(20))
        with open_transaction(flow.source.bootstrap, topic, numbered(10)) as kept:
            produce(flow.source.bootstrap, topic, varied(20, 20))
            produce(flow.source.bootstrap, topic, numbered(20, partition=1))
            produce_transaction(flow.source.bootstrap, topic, numbered(5, start=100), commit=False)
            running.wait_position({place: 20, TopicPartition(topic, 1): 20})
            assert len(flow.copies(topic)) == 20
            kept.commit_transaction(FLUSH_SECONDS)
        produce(flow.source.bootstrap, topic, numbered(3, start=200))
        running.wait_position({place: 60})  # 20, 10, 20, 5, and the markers of both, and 3
    flow.assert_copied()
    flow.assert_runs_true()


def test_read_uncommitted_copies_open_and_aborted_records_too(flow: CopyFlow) -> None:
    flow.settings = {"committed_only": False}
    topic = flow.topic()
    produce_transaction(flow.source.bootstrap, topic, varied(30), commit=False)
    produce_transaction(flow.source.bootstrap, topic, varied(30, 30))
    with open_transaction(flow.source.bootstrap, topic, varied(10, 60)) as kept:
        assert flow.copy().state is PipelineState.CAUGHT_UP
        assert len(flow.copies(topic)) == 70
        kept.abort_transaction(FLUSH_SECONDS)
    assert flow.copy().state is PipelineState.CAUGHT_UP
    flow.assert_copied(committed_only=False)
    flow.assert_runs_true(committed_only=False)


def test_latest_is_settled_when_the_pipeline_first_looks(flow: CopyFlow) -> None:
    """What is produced while it is down is not skipped, though nothing was copied before."""
    flow.settings = {"from_latest": True}
    topic = flow.topic(2)
    produce(flow.source.bootstrap, topic, varied(50))
    flow.copy()
    assert flow.copies(topic) == []
    later = varied(20, 50)
    produce(flow.source.bootstrap, topic, later)
    flow.copy()
    assert contents(flow.copies(topic)) == contents(later)
    assert [(run.upstream_start, run.covered_from) for run in flow.runs()[TopicPartition(topic, 0)].runs] == [
        (50, 50)
    ]


def test_partitions_that_are_empty_added_or_emptied(flow: CopyFlow) -> None:
    topic, empty, emptied = flow.topic(1), flow.topic(3), flow.topic(1)
    produce(flow.source.bootstrap, emptied, numbered(30))
    delete_records(flow.source.bootstrap, emptied, {0: 30})
    with flow.pipeline() as running:
        produce(flow.source.bootstrap, topic, numbered(10))
        running.wait_position({TopicPartition(topic, 0): 10, TopicPartition(emptied, 0): 30})
        for bootstrap, name in ((flow.target.bootstrap, flow.remote(topic)), (flow.source.bootstrap, topic)):
            add_partitions(bootstrap, name, 3)
        produce(flow.source.bootstrap, topic, numbered(10, start=10, partition=2))
        running.assign(flow.partitions())
        produce(flow.source.bootstrap, emptied, numbered(5))
        running.wait_position({TopicPartition(topic, 2): 10, TopicPartition(emptied, 0): 35})
        assert gaps_of(running.status) == []
    assert flow.copies(empty, 2) == []
    flow.assert_copied()
    flow.assert_runs_true()


# -- brokers before Fetch v13 --------------------------------------------------------------------------------------


@pytest.mark.long
def test_by_name_everything_is_copied_as_well(flow: CopyFlow, monkeypatch: pytest.MonkeyPatch) -> None:
    fetch_by_name(monkeypatch)
    topic = flow.topic(2)
    produce(flow.source.bootstrap, topic, varied(100))
    produce_transaction(flow.source.bootstrap, topic, numbered(20, partition=1), commit=False)
    produce_transaction(flow.source.bootstrap, topic, numbered(20, partition=1))
    caught_up(flow)
