"""Topic `orders` of one partition, its copy and the mirror between them, over fakes: what the truth of readiness is
counted by."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from bridge.errors import KafkaFailure, KafkaFault
from bridge.model.copying import Copied
from bridge.model.values import GroupState, TopicPartition
from bridge.protocol.messages import GroupReport, PartitionReport
from bridge.translation.plan import GroupPlan
from bridge.translation.runs.partition_runs import PartitionRuns
from bridge.translation.runs.runs import Segment
from connectors.group_offset.task import strategy_of
from connectors.group_translation.report import proven, report
from connectors.group_translation.round import GroupRounds, RoundOutcome
from connectors.group_translation.translating.followed_topics import FollowedRuns
from connectors.group_translation.translating.proof import Behind
from tests.unit.connectors.checkpoint.checkpoint_harness import put
from tests.unit.connectors.copied_orders import ORIGINAL, RUNS
from tests.unit.connectors.fake_clusters import FakeCluster, Log, Row
from tests.unit.connectors.group_translation.group_rounds import options

COPY = TopicPartition("A.orders", 0)
BESIDE = {("orders", 1): 0}


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
        self.by_another: set[int] = set()
        """Offsets on B where another mirror has made the copy."""
        self.another_position = 0
        self.truncated_to: int | None = None
        """Where B's log has ended although our copies stood behind that, until ours goes on."""
        self.aborts_after_loss = False
        """Whether our copy ran on meanwhile, so that it finds out by a transaction that it aborts then."""
        self.groups: dict[str, int] = {}
        self.make_copy()
        self.begin_service()
        self.behind: Mapping[TopicPartition, Behind] = {}
        self.errors: Sequence[str] = ()
        """Both as the last round has seen them."""
        self.meanwhile: Callable[[], None] = lambda: None
        """Happens in each round between its look at runs and its look at logs."""

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
        self.originals, self.by_another, self.truncated_to = {}, set(), None

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
        if self.truncated_to is not None and self.aborts_after_loss:
            self.copies.end += len(rows) + 1  # with the marker
        begin = self.copies.end
        for row in rows:
            self.originals[self.copies.end] = row.offset
            self.copies.rows.append(Row(self.copies.end, row.timestamp, row.key, row.value))
            self.copies.end += 1
        self.copies.end += 1  # the marker
        segment = Segment(rows[0].offset, rows[0].offset, begin, len(rows), last_timestamp=rows[-1].timestamp)
        self.position = rows[-1].offset + 1
        self._write([segment])

    def another_copies(self, begin: int, end: int) -> None:
        """Has another mirror copy source offsets [begin, end), without a marker, as stock does."""
        for row in self.origin.rows:
            if begin <= row.offset < end:
                self.originals[self.copies.end] = row.offset
                self.by_another.add(self.copies.end)
                self.another_position = row.offset + 1
                self.copies.rows.append(Row(self.copies.end, row.timestamp, row.key, row.value))
                self.copies.end += 1

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
            for key, value in self.runs.commit(segments, self.position, copied, lost_from=self.truncated_to):
                put(self.b, RUNS, key, value)
            self.truncated_to = None

    def expire(self, log: Log, start: int) -> None:
        log.start = max(log.start, min(start, log.end))
        log.rows = [row for row in log.rows if row.offset >= log.start]

    def truncate(self, log: Log, end: int) -> None:
        """Has a replica lead that lacks what stands from there on (unclean.leader.election.enable=true)."""
        if log is self.copies and self.ours and end < log.end:
            self.truncated_to = min(end, self.truncated_to or end)
        log.end = max(log.start, min(end, log.end))
        log.rows = [row for row in log.rows if row.offset < log.end]
        log.epoch += 1
        if log is self.copies:
            self.originals = {place: one for place, one in self.originals.items() if place < log.end}
            self.by_another = {place for place in self.by_another if place < log.end}

    def commit(self, group: str, offset: int) -> None:
        self.groups[group] = offset
        self.a.group(group, {("orders", 0): offset})

    def begin_beside(self, group: str, offsets: Mapping[tuple[str, int], int] = BESIDE) -> None:
        """Adds an empty partition on both sides, and a group that has committed in it, and nothing in the other one."""
        for cluster, topic in ((self.a, "orders"), (self.b, "A.orders")):
            cluster.logs.setdefault(TopicPartition(topic, 1), Log(epoch=1))
        self.a.group(group, offsets)

    def plan(self, group: str, *, source_away: bool = False) -> GroupPlan:
        self.a.away = KafkaFailure(KafkaFault.UNREACHABLE, "nobody there") if source_away else None
        self.kept.source_failure = self.a.away
        return proven(asyncio.run(self._round()).plans[group], source_away=source_away)

    def answer(self, group: str, *, source_away: bool = False) -> PartitionReport:
        (row,) = self.report(group, source_away=source_away).partitions
        return row

    def report(self, group: str, *, source_away: bool = False) -> GroupReport:
        return self.report_of(self.plan(group, source_away=source_away))

    def report_of(self, plan: GroupPlan) -> GroupReport:
        return report(
            plan,
            connector="c",
            source="A",
            target="B",
            task=0,
            state=GroupState.EMPTY.value,
            synced_at_ms=0,
        )

    async def _round(self) -> RoundOutcome:
        try:
            await self.followed.follow()
            self.meanwhile()
            outcome = await self.kept.run(sorted(self.a.offsets))
            self.behind, self.errors = dict(self.kept.behind), outcome.errors
            return outcome
        finally:
            self.kept.end(whole=self.a.away is None)

    def read_twice(self, group: str) -> int:
        """How many records that A still holds a reader from the group's offset on B on reads that the group had
        processed, or that it has read before: a copy whose record A has deleted nobody can recognise."""
        offset = self.b.offsets[group][COPY].offset
        read = [
            self.originals[row.offset]
            for row in self.copies.rows_from(offset)
            if self.originals.get(row.offset, -1) >= self.origin.start
        ]
        return len(read) - len({original for original in read if original >= self.groups[group]})

    def lost(self, group: str, *, waiting: bool = False, ours_alone: bool = False) -> int:
        """How many records that the group has not read, and the mirror was past, B does not hold at its offset; with
        `waiting` those too that are yet to be copied, with `ours_alone` those too that another mirror has copied."""
        there = self.b.offsets[group][COPY].offset
        return self.lost_from(self.groups[group], there, waiting=waiting, ours_alone=ours_alone)

    def lost_from(self, offset: int, there: int, *, waiting: bool = False, ours_alone: bool = False) -> int:
        """The same for who has read up to `offset` on A, and goes on at `there` on B."""
        readable = {
            self.originals[row.offset]
            for row in self.copies.rows_from(there)
            if row.offset in self.originals and not (ours_alone and row.offset in self.by_another)
        }
        return sum(
            row.offset not in readable
            for row in self.origin.rows_from(offset)
            if waiting or row.offset < self.reached
        )
