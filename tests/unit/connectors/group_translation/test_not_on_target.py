"""A yes needs proof: what is not on the target is counted for each group, and what is not known is no yes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from random import Random
from typing import NamedTuple

import pytest

from bridge.errors import KafkaFailure, KafkaFault
from bridge.model.copying import Copied
from bridge.model.values import GroupState, Judgement, Reason, TopicPartition
from bridge.protocol.messages import PartitionReport
from bridge.translation.plan import GroupPlan
from bridge.translation.runs.partition_runs import PartitionRuns
from bridge.translation.runs.runs import Segment
from connectors.group_offset.task import strategy_of
from connectors.group_translation.records import record_of, written_of
from connectors.group_translation.report import proven, report
from connectors.group_translation.round import GroupRounds, RoundOutcome
from connectors.group_translation.translating.backlog import Behind
from connectors.group_translation.translating.runs import FollowedRuns
from tests.support.forms import examples
from tests.unit.connectors.checkpoint.checkpoint_harness import put
from tests.unit.connectors.copied_orders import ORIGINAL, RUNS
from tests.unit.connectors.fake_clusters import FakeCluster, Log, Row
from tests.unit.connectors.group_translation.group_rounds import options

COPY = TopicPartition("A.orders", 0)
STEPS = 12
"""Events of a history."""


class Flow:
    """Topic `orders` of one partition on A, its copy on B, and a mirror between them that commits with a marker."""

    def __init__(self, *, ours: bool = True) -> None:
        """`ours`: our mirror, which leaves runs."""
        self.ours = ours
        self.a, self.b = FakeCluster(), FakeCluster()
        self.a.topic("orders", Log(epoch=1))
        self.made = 0
        self.position = 0
        self.reached = 0
        """The furthest position, up to where B lacks what is not there."""
        self.runs = PartitionRuns()
        self.originals: dict[int, int] = {}
        """By offset on B, the offset on A."""
        self.groups: dict[str, int] = {}
        self.make_copy()
        self.begin_service()
        self.behind: Mapping[TopicPartition, Behind] = {}
        """As the last round has seen it."""

    @property
    def origin(self) -> Log:
        return self.a.logs[ORIGINAL]

    @property
    def copies(self) -> Log:
        return self.b.logs[COPY]

    def begin_service(self, **given: str) -> None:
        """Begins with a service that remembers nothing. `given`: keys of its configuration."""
        chosen = options(**given)
        self.followed = FollowedRuns(chosen, self.b)
        self.kept = GroupRounds(chosen, self.a, self.b, strategy_of(chosen, self.followed))

    def make_copy(self) -> None:
        """Makes B's topic anew, empty."""
        self.made += 1
        self.b.topic("A.orders", Log(epoch=1), topic_id=f"copy-{self.made}")
        for offsets in self.b.offsets.values():
            offsets.pop(COPY, None)
        self.originals = {}

    def delete_copy(self, *, recopy: bool) -> None:
        """Deletes B's topic; the mirror makes it anew and begins again (`recopy`), or goes on from where it is."""
        self.make_copy()
        self.begin_at(self.origin.start if recopy else self.position)

    def produce(self, count: int) -> None:
        self.origin.append(count, first=self.origin.end)

    def others_send(self, count: int) -> None:
        """Writes records to B that are no copies."""
        for _ in range(count):
            self.copies.rows.append(
                Row(self.copies.end, self.origin.end + 1000, b"other", b"other-%d" % self.copies.end)
            )
            self.copies.end += 1

    def copy(self, count: int) -> None:
        rows = self.origin.rows_from(max(self.position, self.origin.start))[:count]
        if not rows:
            return
        begin = self.copies.end
        for row in rows:
            self.originals[self.copies.end] = row.offset
            self.copies.rows.append(Row(self.copies.end, row.timestamp, row.key, row.value))
            self.copies.end += 1
        self.copies.end += 1  # the marker
        segment = Segment(rows[0].offset, rows[0].offset, begin, len(rows), last_timestamp=rows[-1].timestamp)
        self.position = rows[-1].offset + 1
        self._write([segment])

    def begin_at(self, position: int) -> None:
        """Has copying begin at a position, as a mirror's start does (`latest`, or a copy that was deleted)."""
        self.position = position
        self._write([])

    def reset(self, position: int) -> None:
        """Has copying go on further on, as an operator requests."""
        self.position = position
        self.reached = max(self.reached, position)
        if self.ours:
            for key, value in self.runs.reset(position, self.copies.end):
                put(self.b, RUNS, key, value)

    def _write(self, segments: list[Segment]) -> None:
        self.reached = max(self.reached, self.position)
        if self.ours:
            copied = Copied(ORIGINAL, "id-of-orders", "A.orders", f"copy-{self.made}")
            for key, value in self.runs.commit(segments, self.position, copied):
                put(self.b, RUNS, key, value)

    def expire(self, log: Log, start: int) -> None:
        log.start = max(log.start, min(start, log.end))
        log.rows = [row for row in log.rows if row.offset >= log.start]

    def commit(self, group: str, offset: int) -> None:
        self.groups[group] = offset
        self.a.group(group, {("orders", 0): offset})

    def plan(self, group: str, *, source_away: bool = False) -> GroupPlan:
        self.a.away = KafkaFailure(KafkaFault.UNREACHABLE, "nobody there") if source_away else None
        self.kept.source_failure = self.a.away
        return proven(asyncio.run(self._round()).plans[group], source_away=source_away)

    def answer(self, group: str, *, source_away: bool = False) -> PartitionReport:
        made = report(
            self.plan(group, source_away=source_away),
            connector="c",
            source="A",
            target="B",
            task=0,
            state=GroupState.EMPTY.value,
            synced_at_ms=0,
        )
        (row,) = made.partitions
        return row

    async def _round(self) -> RoundOutcome:
        try:
            await self.followed.follow()
            outcome = await self.kept.run(sorted(self.a.offsets))
            self.behind = dict(self.kept.behind)
            return outcome
        finally:
            self.kept.end()

    def lost(self, group: str, *, waiting: bool = False) -> int:
        """How many records that the group has not read, and the mirror was past, B does not hold at its offset; with
        `waiting` those too that are yet to be copied."""
        offset = self.b.offsets[group][COPY].offset
        readable = {
            self.originals[row.offset]
            for row in self.copies.rows_from(offset)
            if row.offset in self.originals
        }
        return sum(
            row.offset not in readable
            for row in self.origin.rows_from(self.groups[group])
            if waiting or row.offset < self.reached
        )


@pytest.fixture(params=[True, False], ids=["ours", "stock"])
def flow(request: pytest.FixtureRequest) -> Flow:
    return Flow(ours=request.param)


def test_nothing_is_copied_yet(flow: Flow) -> None:
    flow.produce(100)
    flow.commit("g", 50)
    row = flow.answer("g")
    assert (row.reason, row.detail["not_on_target"]) == ("records_not_on_target", 50)
    flow.commit("g", 100)
    row = flow.answer("g")
    assert (row.verdict, row.bound) == ("bounded", 100), "read twice, never skipped"


def test_copying_has_begun_and_copied_nothing() -> None:
    flow = Flow()
    flow.produce(100)
    flow.begin_at(0)
    flow.commit("g", 50)
    row = flow.answer("g")
    assert (row.reason, row.detail["not_on_target"]) == ("records_not_on_target", 50)


def test_nothing_is_there_to_copy(flow: Flow) -> None:
    flow.begin_at(0)
    flow.commit("g", 0)
    assert flow.answer("g").verdict == "exact"


@pytest.mark.parametrize(("committed", "lost"), [(30, 70), (99, 1), (100, 0), (110, 0)])
def test_copying_began_behind_the_group(flow: Flow, committed: int, lost: int) -> None:
    flow.produce(100)
    flow.begin_at(100)
    flow.produce(20)
    flow.copy(20)
    flow.commit("g", committed)
    row = flow.answer("g")
    expected = (None, None) if not lost else ("records_not_on_target", lost)
    assert (row.reason, row.detail.get("not_on_target")) == expected


@pytest.mark.parametrize("between", [0, 1, 4])
@pytest.mark.parametrize(("committed", "lost"), [(10, 50), (40, 50), (60, 30), (90, 0), (100, 0)])
def test_an_operator_has_skipped_some(flow: Flow, committed: int, lost: int, between: int) -> None:
    if not flow.ours and committed < 40:
        pytest.skip("a mirror without a ledger is taken to have copied all between what is found")
    flow.produce(100)
    flow.copy(40)
    flow.others_send(between)
    flow.reset(90)
    flow.copy(10)
    flow.commit("g", committed)
    row = flow.answer("g")
    expected = (None, None) if not lost else ("records_not_on_target", lost)
    assert (row.reason, row.detail.get("not_on_target")) == expected


def test_the_copy_was_deleted_and_is_empty(flow: Flow) -> None:
    flow.produce(100)
    flow.copy(100)
    flow.commit("g", 50)
    assert flow.answer("g").verdict == "exact"
    flow.make_copy()
    assert flow.answer("g").reason in {"records_not_on_target", "copies_unknown"}
    flow.begin_at(100)
    assert flow.answer("g").reason in {"records_not_on_target", "copies_unknown"}
    flow.produce(20)
    flow.copy(20)
    row = flow.answer("g")
    assert (row.reason, row.detail["not_on_target"]) == ("records_not_on_target", 50)
    flow.commit("g", 100)
    assert flow.answer("g").verdict == "exact"


def test_a_copy_that_was_deleted_is_not_ready_until_it_is_whole_again() -> None:
    flow = Flow()
    flow.produce(1000)
    flow.copy(1000)
    flow.expire(flow.origin, 100)
    flow.commit("g", 500)
    assert flow.answer("g").verdict == "exact"
    flow.delete_copy(recopy=True)
    for copied, lost in ((0, 500), (300, 500), (300, 300), (299, 1)):
        flow.copy(copied)
        row = flow.answer("g")
        assert (row.reason, row.detail["not_on_target"]) == ("records_not_on_target", lost), copied
    row = flow.answer("g", source_away=True)
    assert (row.reason, row.detail["not_on_target"]) == ("records_not_on_target", 1)
    flow.begin_service()
    assert flow.answer("g").reason == "records_not_on_target", "after a restart too"
    flow.copy(1)
    row = flow.answer("g")
    assert (row.verdict, row.target_offset) == ("exact", 500 - 100 + 1), "behind one marker"


def test_a_group_at_the_end_misses_nothing_of_what_is_copied_again() -> None:
    flow = Flow()
    flow.produce(100)
    flow.copy(100)
    flow.commit("g", 100)
    flow.delete_copy(recopy=True)
    flow.copy(60)
    assert flow.answer("g").reason is None


def test_what_an_operator_has_copied_again_is_not_ready_until_it_is() -> None:
    flow = Flow()
    flow.produce(100)
    flow.copy(100)
    flow.commit("g", 50)
    assert flow.answer("g").verdict == "exact"
    flow.reset(0)
    for copied, lost in ((30, 50), (40, 30)):
        flow.copy(copied)
        row = flow.answer("g")
        assert (row.reason, row.detail["not_on_target"]) == ("records_not_on_target", lost)
    flow.copy(30)
    assert flow.answer("g").verdict == "exact"


@pytest.mark.parametrize(("committed", "lost"), [(0, 60), (59, 1), (60, 0), (100, 0)])
def test_the_target_has_deleted_what_the_group_has_not_read(flow: Flow, committed: int, lost: int) -> None:
    flow.produce(100)
    flow.copy(100)
    flow.commit("g", committed)
    assert flow.answer("g").verdict == "exact"
    flow.expire(flow.copies, 60)
    row = flow.answer("g")
    expected = (None, None) if not lost else ("records_not_on_target", lost)
    assert (row.reason, row.detail.get("not_on_target")) == expected
    flow.expire(flow.origin, 60)
    assert flow.answer("g").verdict == "exact", "the source has deleted it too"


def test_the_target_has_deleted_all(flow: Flow) -> None:
    flow.produce(100)
    flow.copy(100)
    flow.commit("g", 50)
    assert flow.answer("g").verdict == "exact"
    flow.expire(flow.copies, flow.copies.end)
    row = flow.answer("g")
    assert (row.reason, row.detail["not_on_target"]) == ("records_not_on_target", 50)
    flow.commit("g", 100)
    assert flow.answer("g").verdict == "exact", "there is nothing behind the group's offset"


def test_the_source_has_deleted_what_was_never_copied(flow: Flow) -> None:
    flow.produce(100)
    flow.expire(flow.origin, 70)
    flow.copy(30)
    flow.commit("g", 10)
    assert flow.answer("g").verdict == "exact"


def test_stock_has_copied_before_us() -> None:
    flow = Flow()
    flow.ours = False
    flow.produce(100)
    flow.copy(60)
    flow.ours = True
    flow.begin_at(60)
    flow.copy(40)
    for committed in (0, 30, 60, 80, 100):
        flow.commit("g", committed)
        assert flow.answer("g").verdict == "exact", committed


def test_stock_had_begun_late_before_us() -> None:
    flow = Flow()
    flow.ours = False
    flow.produce(100)
    flow.begin_at(20)
    flow.copy(40)
    flow.ours = True
    flow.begin_at(70)
    flow.copy(30)
    for committed, lost in ((0, 30), (10, 20), (30, 10), (65, 5)):
        flow.commit("g", committed)
        assert flow.answer("g").detail["not_on_target"] == lost, committed
    flow.commit("g", 70)
    assert flow.answer("g").verdict == "exact"


def test_a_partition_without_a_leader_is_not_known(flow: Flow) -> None:
    flow.produce(100)
    flow.copy(100)
    flow.commit("g", 50)
    assert flow.answer("g").verdict == "exact"
    flow.a.bounds_trouble[ORIGINAL] = KafkaFailure(KafkaFault.UNREACHABLE, "no leader")
    row = flow.answer("g")
    assert (row.verdict, row.target_offset is None or row.reason == "copies_unknown") == ("pending", True)


def test_what_compaction_has_taken_on_the_target_is_not_lost(flow: Flow) -> None:
    """All records have one key, so that the last one replaces the others."""
    if flow.ours:
        pytest.skip("runs say what was copied")
    flow.produce(30)
    flow.copy(30)
    flow.b.compacted_topics.add("A.orders")
    flow.copies.rows = flow.copies.rows[-1:]
    flow.commit("g", 10)
    assert flow.answer("g").reason is None


@pytest.mark.parametrize(("between", "judgement"), [(0, Judgement.EXACT), (2, Judgement.BOUNDED)])
def test_a_service_that_begins_anew_knows_its_own_commit(between: int, judgement: Judgement) -> None:
    """Also where records behind it are missing: else a lower answer would take it for somebody else's."""
    flow = Flow()
    flow.produce(100)
    flow.begin_at(70)
    flow.others_send(between)
    flow.copy(30)
    flow.commit("g", 50)
    plan = flow.plan("g")
    assert plan.rows[0].verdict.reason is Reason.RECORDS_NOT_ON_TARGET
    (own,) = written_of(record_of(plan, 0, 0, 1, GroupState.EMPTY.value)).values()
    assert (own.upstream, own.verdict.offset, own.verdict.judgement) == (50, plan.rows[0].standing, judgement)


class _Event(NamedTuple):
    name: str
    happen: Callable[[Flow, Random], None]


EVENTS = (
    _Event("produce", lambda flow, random: flow.produce(random.randint(1, 30))),
    _Event("copy", lambda flow, random: flow.copy(random.randint(1, 40))),
    _Event("copy all", lambda flow, _: flow.copy(1000)),
    _Event("others", lambda flow, random: flow.others_send(random.randint(1, 3))),
    _Event(
        "commit", lambda flow, random: flow.commit("g", random.randint(flow.origin.start, flow.origin.end))
    ),
    _Event("catch up", lambda flow, _: flow.commit("g", flow.origin.end)),
    _Event("reset", lambda flow, random: flow.reset(random.randint(flow.position, flow.origin.end))),
    _Event("copy deleted", lambda flow, random: flow.delete_copy(recopy=random.random() < 0.5)),
    _Event(
        "retention on B",
        lambda flow, random: flow.expire(flow.copies, random.randint(flow.copies.start, flow.copies.end)),
    ),
    _Event(
        "retention on A",
        lambda flow, random: flow.expire(flow.origin, random.randint(flow.origin.start, flow.position)),
    ),
    _Event("service restarted", lambda flow, _: flow.begin_service()),
)


@pytest.mark.parametrize("seed", range(examples(150, 20_000)))
def test_no_history_makes_a_false_yes_and_none_a_lasting_no(seed: int) -> None:
    random = Random(seed)
    flow = Flow(ours=seed % 3 > 0)
    flow.commit("g", 0)
    flow.begin_at(0)
    told: list[str] = []
    events = [
        event for event in EVENTS if flow.ours or event.name != "reset"
    ]  # stock's leaves no trace of a hole
    for _ in range(STEPS):
        event = random.choice(events)
        event.happen(flow, random)
        told.append(event.name)
        if event.name == "copy deleted" or COPY not in flow.b.offsets.get("g", {}):
            flow.answer("g")
        row = flow.answer("g")
        if row.verdict == "pending" and row.reason not in {"records_not_on_target", "copies_unknown"}:
            continue
        lost = flow.lost("g")
        if row.verdict != "pending":
            end, copied_to = flow.behind[ORIGINAL]
            missing = None if copied_to is None else end - copied_to
            assert flow.lost("g", waiting=True) <= (missing or 0), (told, row)
        elif lost == 0 and row.target_offset is not None:
            nothing_there = flow.copies.start >= flow.copies.end
            assert nothing_there, (told, row)
            assert flow.origin.rows_from(flow.groups["g"]), (told, row)
        elif row.reason == "records_not_on_target":
            count = row.detail["not_on_target"]
            assert isinstance(count, int), (told, row)
            end, copied_to = flow.behind[ORIGINAL]
            waiting = end - (flow.position if copied_to is None else min(copied_to, flow.position))
            assert count + waiting >= lost, (told, row)
