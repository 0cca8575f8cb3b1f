"""Each kind of committed offset (docs: translation) on two real brokers: the exact answer, its verdict, what stands."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace

import pytest

from bridge.kafka.cluster import KafkaCluster
from bridge.local import Cluster
from bridge.model.values import (
    Evidence,
    Flag,
    GroupState,
    Judgement,
    Reason,
    TopicPartition,
    Verdict,
)
from tests.integration.failover import JUNK, copy, foreign, topics, translate
from tests.support import (
    Record,
    commit,
    committed,
    compact,
    delete_records,
    numbered,
    produce,
    produce_transaction,
    read,
    set_topic_config,
    unique,
)
from tests.support.forms import mostly_long
from tests.support.records import producer

NOW = 1_700_000_000_000
EXACT, BOUNDED, PENDING = Judgement.EXACT, Judgement.BOUNDED, Judgement.PENDING


class Case:
    """A topic on both sides, and a group committed on the source."""

    def __init__(self, source: Cluster, target: Cluster, *, junk: int = JUNK) -> None:
        self.source, self.target = source, target
        self.topic = topics(source, target, junk=junk)
        self.remote = f"{source.name}.{self.topic}"

    def both(self, records: Sequence[Record]) -> None:
        produce(self.source.bootstrap, self.topic, records)
        copy(self.source, self.target, self.topic, records)

    def only_source(self, records: Sequence[Record]) -> None:
        produce(self.source.bootstrap, self.topic, records)

    def only_target(self, records: Sequence[Record]) -> None:
        produce(self.target.bootstrap, self.remote, records)

    def ask(self, offset: int, **settings: str) -> Verdict:
        """The verdict on a new group that is committed at `offset`; what it says is what stands on the target."""
        group = unique("g")
        commit(self.source.bootstrap, group, {(self.topic, 0): offset}, metadata="mine")
        row = translate(self.source, self.target, group, **settings)[TopicPartition(self.topic, 0)]
        answer = row.verdict.offset
        there = committed(self.target.bootstrap, group)
        assert there == ({} if answer is None else {(self.remote, 0): answer})
        assert row.standing == answer
        return row.verdict


def gist(verdict: Verdict) -> tuple[Judgement, int | None, int | None]:
    return verdict.judgement, verdict.offset, verdict.bound


def reason(verdict: Verdict) -> tuple[Judgement, Reason | None, int | None]:
    return verdict.judgement, verdict.reason, verdict.offset


@pytest.fixture
def case(source: Cluster, target: Cluster) -> Case:
    return Case(source, target)


@pytest.fixture(scope="module")
def plain(source: Cluster, target: Cluster) -> Case:
    """100 records, each a millisecond after the one before."""
    made = Case(source, target)
    made.both(numbered(100, timestamp=NOW))
    return made


@pytest.mark.parametrize("offset", mostly_long([1, 37, 63, 99]))
def test_in_the_middle(plain: Case, offset: int) -> None:
    verdict = plain.ask(offset)
    assert gist(verdict) == (EXACT, offset + JUNK, 0)
    assert verdict.evidence is Evidence.VERIFIED
    assert verdict.leader_epoch >= 0


def test_at_the_head(plain: Case) -> None:
    """Nothing is before it, so the target's log start, and a bound by the foreign records that it begins with."""
    assert gist(plain.ask(0)) == (BOUNDED, 0, JUNK)


def test_at_the_head_of_a_clean_copy(source: Cluster, target: Cluster) -> None:
    case = Case(source, target, junk=0)
    case.both(numbered(10, timestamp=NOW))
    assert gist(case.ask(0)) == (EXACT, 0, 0)


def test_caught_up(plain: Case) -> None:
    assert gist(plain.ask(100)) == (EXACT, 100 + JUNK, 0)


def test_past_the_end(plain: Case) -> None:
    """Truncated or made again: caught up would be a guess."""
    assert reason(plain.ask(101)) == (PENDING, Reason.OFFSET_BEYOND_END, None)


def test_below_the_log_start(case: Case) -> None:
    """The target still holds 20 to 49, which nothing on the source tells from what was processed: all of it again."""
    case.both(numbered(100, timestamp=NOW))
    delete_records(case.source.bootstrap, case.topic, {0: 50})
    verdict = case.ask(20)
    assert gist(verdict) == (BOUNDED, 0, 50 + JUNK)
    assert verdict.flags == (Flag.TRUNCATED,)


@pytest.mark.long
def test_below_the_log_start_of_both_sides(case: Case) -> None:
    case.both(numbered(100, timestamp=NOW))
    delete_records(case.source.bootstrap, case.topic, {0: 50})
    delete_records(case.target.bootstrap, case.remote, {0: 50 + JUNK})
    verdict = case.ask(20)
    assert gist(verdict) == (EXACT, 50 + JUNK, 0)
    assert Flag.TRUNCATED in verdict.flags


def test_empty_on_both_sides(source: Cluster, target: Cluster) -> None:
    assert gist(Case(source, target, junk=0).ask(0)) == (EXACT, 0, 0)


@pytest.mark.long
def test_emptied_on_both_sides(case: Case) -> None:
    case.both(numbered(10, timestamp=NOW))
    delete_records(case.source.bootstrap, case.topic, {0: 10})
    delete_records(case.target.bootstrap, case.remote, {0: 10 + JUNK})
    assert gist(case.ask(10)) == (EXACT, 10 + JUNK, 0)


def test_in_a_hole_of_compaction(case: Case) -> None:
    """Offsets 30 to 39 are gone from the source; the target, not compacted yet, still has them."""
    records = [
        replace(each, key=b"same" if 30 <= at <= 40 else each.key)
        for at, each in enumerate(numbered(60, timestamp=NOW))
    ]
    case.both(records)
    assert compact(case.source.bootstrap, case.topic)[28:32] == [28, 29, 40, 41]
    # What lies between the copies of 29 and 40 was processed in part; nobody can see how far.
    assert gist(case.ask(35)) == (BOUNDED, 30 + JUNK, 10)
    # Outside of the hole nothing is in doubt.
    assert gist(case.ask(29)) == (EXACT, 29 + JUNK, 0)
    assert gist(case.ask(50)) == (EXACT, 50 + JUNK, 0)


@pytest.mark.long
def test_in_a_hole_of_compaction_on_both_sides(case: Case) -> None:
    records = [
        replace(each, key=b"same" if 30 <= at <= 40 else each.key)
        for at, each in enumerate(numbered(60, timestamp=NOW))
    ]
    case.both(records)
    compact(case.source.bootstrap, case.topic)
    compact(case.target.bootstrap, case.remote)
    # The newest copies show that the mirror has come past the hole, however many fillers compaction took.
    case.both(numbered(3, start=60, timestamp=round(time.time() * 1000)))
    # The first record from 35 on is that of 40, on both sides: from anywhere in the hole a reader meets it first.
    assert gist(case.ask(35)) == (EXACT, 30 + JUNK, 0)


def aborted(case: Case) -> None:
    """Data 0 to 9, aborted 10 to 14 with its marker at 15, data 16 to 25."""
    before, lost, after = (
        numbered(10, timestamp=NOW),
        numbered(5, start=10, timestamp=NOW + 10),
        numbered(10, start=20, timestamp=NOW + 20),
    )
    produce(case.source.bootstrap, case.topic, before)
    produce_transaction(case.source.bootstrap, case.topic, lost, commit=False)
    produce(case.source.bootstrap, case.topic, after)


@pytest.mark.long
def test_aborted_data_that_the_mirror_copied(case: Case) -> None:
    aborted(case)
    copy(
        case.source,
        case.target,
        case.topic,
        [
            *numbered(10, timestamp=NOW),
            *numbered(5, start=10, timestamp=NOW + 10),
            *numbered(10, start=20, timestamp=NOW + 20),
        ],
    )
    # The marker at 15 has no copy: from 16 on the target is one offset behind.
    assert gist(case.ask(12)) == (EXACT, 12 + JUNK, 0)
    assert gist(case.ask(15)) == (EXACT, 15 + JUNK, 0)
    assert gist(case.ask(16)) == (EXACT, 15 + JUNK, 0)
    assert gist(case.ask(20)) == (EXACT, 19 + JUNK, 0)


def test_aborted_data_that_the_mirror_left_out(case: Case) -> None:
    aborted(case)
    copy(
        case.source,
        case.target,
        case.topic,
        [*numbered(10, timestamp=NOW), *numbered(10, start=20, timestamp=NOW + 20)],
    )
    committed_only = {"source_consumer_isolation_level": "read_committed"}
    assert gist(case.ask(20, **committed_only)) == (EXACT, 14 + JUNK, 0)
    for offset in (10, 12, 15, 16):
        assert gist(case.ask(offset, **committed_only)) == (EXACT, 10 + JUNK, 0)
    # Not told, translation takes them for data without a copy: the neighbours that have one say the same.
    for offset in (10, 12, 15, 16):
        assert gist(case.ask(offset)) == (EXACT, 10 + JUNK, 0)
    assert gist(case.ask(20)) == (EXACT, 14 + JUNK, 0)


def test_at_a_control_marker(case: Case) -> None:
    for number in range(3):
        produce_transaction(
            case.source.bootstrap, case.topic, numbered(4, start=4 * number, timestamp=NOW + 4 * number)
        )
    copy(case.source, case.target, case.topic, numbered(12, timestamp=NOW))
    # 0 1 2 3 m 5 6 7 8 m 10 11 12 13 m
    assert gist(case.ask(4)) == (EXACT, 4 + JUNK, 0)
    assert gist(case.ask(9)) == (EXACT, 8 + JUNK, 0)
    assert gist(case.ask(14)) == (EXACT, 12 + JUNK, 0)
    assert gist(case.ask(15)) == (EXACT, 12 + JUNK, 0)


@pytest.mark.long
def test_a_burst_of_ten_thousand_in_one_millisecond(case: Case) -> None:
    case.both([replace(each, timestamp=NOW) for each in numbered(10_000)])
    for offset in (1, 5_000, 9_999, 10_000):
        assert gist(case.ask(offset)) == (EXACT, offset + JUNK, 0)


@pytest.mark.long
def test_a_record_stamped_far_in_the_future(case: Case) -> None:
    for cluster, name in ((case.source, case.topic), (case.target, case.remote)):
        set_topic_config(cluster.bootstrap, name, {"message.timestamp.after.max.ms": str(2**63 - 1)})
    records = numbered(200, timestamp=NOW)
    records[20] = replace(records[20], timestamp=NOW + 10**12)
    case.both(records)
    for offset in (20, 21, 150):
        assert gist(case.ask(offset)) == (EXACT, offset + JUNK, 0)


@pytest.mark.long
@pytest.mark.parametrize("stamp", [-1, -2, -1000])
def test_negative_timestamps(case: Case, stamp: int) -> None:
    """Never sent to ListOffsets, where -1 is the latest offset and -2 the earliest."""
    records = [replace(each, timestamp=stamp) for each in numbered(40)]
    case.both(records)
    assert read(case.source.bootstrap, case.topic)[7].timestamp == stamp
    for offset in (1, 20, 40):
        assert gist(case.ask(offset)) == (EXACT, offset + JUNK, 0)


@pytest.mark.long
def test_timestamps_out_of_order(case: Case) -> None:
    records = [replace(each, timestamp=NOW + (at * 7919) % 1000) for at, each in enumerate(numbered(500))]
    case.both(records)
    for offset in (1, 123, 499, 500):
        assert gist(case.ask(offset)) == (EXACT, offset + JUNK, 0)


@pytest.mark.long
def test_duplicates_on_the_target(case: Case) -> None:
    """A mirror that began again at 30: the first copy is the one that nothing is skipped from."""
    records = numbered(60, timestamp=NOW)
    case.only_source(records)
    case.only_target(records[:50])
    case.only_target(records[30:])
    for offset in (20, 40):
        assert gist(case.ask(offset)) == (EXACT, offset + JUNK, 0)
    # 30 to 49 stand between the copies of 49 and 50 once more.
    assert gist(case.ask(50)) == (BOUNDED, 50 + JUNK, 20)


@pytest.mark.long
def test_identical_twins(case: Case) -> None:
    """Twenty records without a difference in the middle: told apart by rank."""
    twins = [Record(b"tick", timestamp=NOW + 40)] * 20
    records = [*numbered(40, timestamp=NOW), *twins, *numbered(40, start=60, timestamp=NOW + 60)]
    case.both(records)
    for offset in (40, 50, 60, 70):
        assert gist(case.ask(offset)) == (EXACT, offset + JUNK, 0)


def test_an_open_transaction_on_the_target(case: Case) -> None:
    """Nothing at or above the last stable offset is an answer."""
    records = numbered(20, timestamp=NOW)
    case.only_source(records)
    case.only_target(records[:10])
    with producer(case.target.bootstrap, transactional_id=unique("tx")) as sink:
        sink.init_transactions(30)
        sink.begin_transaction()
        for each in records[10:]:
            sink.produce(case.remote, each.value, each.key, partition=0, timestamp=each.timestamp or 0)
        sink.flush(30)
        assert gist(case.ask(5)) == (EXACT, 5 + JUNK, 0)
        verdict = case.ask(15)
        assert (verdict.offset, verdict.judgement) == (10 + JUNK, BOUNDED)
        assert verdict.bound == 5
        assert Flag.AHEAD_OF_MIRROR in verdict.flags
        sink.commit_transaction(30)
    assert gist(case.ask(15)) == (EXACT, 15 + JUNK, 0)


def test_ahead_of_the_mirror(case: Case) -> None:
    records = numbered(100, timestamp=NOW)
    case.only_source(records)
    case.only_target(records[:60])
    verdict = case.ask(80)
    assert gist(verdict) == (BOUNDED, 60 + JUNK, 20)
    assert verdict.flags == (Flag.AHEAD_OF_MIRROR,)
    assert gist(case.ask(60)) == (EXACT, 60 + JUNK, 0)
    case.only_target(records[60:])
    assert gist(case.ask(80)) == (EXACT, 80 + JUNK, 0)


def test_a_foreign_writer_on_the_target(case: Case) -> None:
    records = numbered(40, timestamp=NOW)
    case.both(records[:20])
    case.only_target(foreign(3))
    case.both(records[20:])
    assert gist(case.ask(10)) == (EXACT, 10 + JUNK, 0)
    assert gist(case.ask(30)) == (EXACT, 33 + JUNK, 0)
    assert gist(case.ask(20)) == (BOUNDED, 20 + JUNK, 3)


def test_copies_that_are_no_copies(case: Case) -> None:
    """Another content at the same places and times is never an answer."""
    case.only_source(numbered(20, timestamp=NOW))
    case.only_target([replace(each, value=b"changed") for each in numbered(20, timestamp=NOW)])
    verdict = case.ask(10)
    assert verdict.judgement is not EXACT
    assert reason(verdict) == (PENDING, Reason.COPY_NOT_FOUND, None)


def test_the_remote_topic_is_missing(source: Cluster, target: Cluster) -> None:
    from tests.support import create_topic

    topic, group = create_topic(source.bootstrap, unique("alone")), unique("g")
    produce(source.bootstrap, topic, numbered(3))
    commit(source.bootstrap, group, {(topic, 0): 2})
    row = translate(source, target, group)[TopicPartition(topic, 0)]
    assert reason(row.verdict) == (PENDING, Reason.TARGET_TOPIC_MISSING, None)


def test_an_offset_that_is_reset_between_plan_and_commit_stands(
    source: Cluster, target: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """States are asked once the plans are made: that is when the group is reset on the target."""
    case, group = Case(source, target), unique("g")
    case.both(numbered(50, timestamp=NOW))
    commit(source.bootstrap, group, {(case.topic, 0): 10})
    commit(target.bootstrap, group, {(case.remote, 0): 3})
    real = KafkaCluster.group_states

    async def states(cluster: KafkaCluster, groups: Sequence[str]) -> dict[str, GroupState]:
        result = await real(cluster, groups)
        await asyncio.to_thread(commit, target.bootstrap, group, {(case.remote, 0): 40 + JUNK})
        return result

    monkeypatch.setattr(KafkaCluster, "group_states", states)
    row = translate(source, target, group)[TopicPartition(case.topic, 0)]
    assert committed(target.bootstrap, group) == {(case.remote, 0): 40 + JUNK}
    assert (row.verdict.reason, row.standing) == (Reason.TARGET_AHEAD, 40 + JUNK)
