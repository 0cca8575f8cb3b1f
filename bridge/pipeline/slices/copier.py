"""Copies a slice: fetches raw batches, sends them on, and commits them with the runs that say where they went.

What a transaction holds is decided by pure code (`gaps`, `transaction`, the batch modules); this module carries it out
in the one order that is safe: fence, read what is committed, copy, commit.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from bridge.errors import KafkaFailure
from bridge.kafka.consumer.fetcher import CompletedFetch, Fetcher, FetchPosition
from bridge.kafka.network.client import NetworkClient
from bridge.kafka.producer.producer import SyncProducer, TransactionalProducer
from bridge.kafka.record.batch import Chunk, Damage
from bridge.kafka.record.rebuilding import BatchPolicy, TopicLimits
from bridge.mm2.offset_sync_writer import OffsetSyncWriter
from bridge.mm2.records import OffsetSync
from bridge.model.copying import Copied
from bridge.model.partition_states import reasons
from bridge.model.values import CopyId, TopicPartition
from bridge.pipeline.layouts.fencing import end_in_copies, end_of_left_ids
from bridge.pipeline.layouts.left_ids import PartitionsEnding
from bridge.pipeline.layouts.records import Addition
from bridge.pipeline.layouts.slots import Slice
from bridge.pipeline.slices import throttle
from bridge.pipeline.slices.cycles import CycleDetector
from bridge.pipeline.slices.gaps import ledger_entry, refusal, skipped
from bridge.pipeline.slices.lease import Lease, SliceMemory
from bridge.pipeline.slices.rate_limit import TokenBucket
from bridge.pipeline.slices.refusals import LeftOut, going_round, refused_gap
from bridge.pipeline.slices.resume import (
    CopiesLost,
    DamagedBatch,
    Disconnected,
    Joined,
    Opened,
    PolicySaysFail,
    batches_of,
    fetch_failure,
    fetch_from,
    open_joining,
    open_partitions,
    topic_limits,
    unreadable_from,
)
from bridge.pipeline.slices.transaction import (
    Part,
    TransactionClock,
    WrittenPart,
    overwritten,
    queue_syncs,
    written_parts,
)
from bridge.pipeline.slices.transformed import Step
from bridge.translation.runs.partition_runs import PartitionRuns

_LOOK = 0.25
"""Seconds after which a slice that a broker asks to wait looks whether it is to end."""
_SOON = 0.01
"""Seconds that a slice sleeps at least where its limit keeps it waiting."""
_TOLD_SECONDS = 2.0
"""For how long a partition can't be fetched until it is told: leaders change in less."""


class _Ending(Exception):
    """The slice is to end: what is not sent yet is not copied."""


class _CannotCopy(Exception):
    """Records that can't be copied, and source.record.policy says that their partition fails then."""

    def __init__(self, records: LeftOut) -> None:
        super().__init__(records.why)
        self.left_out = records


class Connections(NamedTuple):
    """What a slice reads and writes by. `syncs`: for offset syncs, None where none go to the source."""

    source: NetworkClient
    target: NetworkClient
    producer: TransactionalProducer
    syncs: SyncProducer | None


class Copier:
    """Copies one slice, from fencing to the first error, or until its lease ends."""

    def __init__(
        self,
        work: Slice,
        connections: Connections,
        runs: Mapping[CopyId, PartitionRuns],
        memory: SliceMemory,
        lease: Lease,
        *,
        retried: bool,
    ) -> None:
        """`retried`: the slice may have copied some of what comes to it before, so that only the runs topic tells how
        far."""
        self._work, self._spec, self._compression = work, work.spec, throttle.compression(work.spec)
        self._source, self._target, producer, self._syncs = connections
        self._producer, self._lease, self._retried = producer, lease, retried
        self._refusals, self._seen, self._transforms = memory.refusals, memory.seen, memory.transforms
        self._failed, self._tally = memory.failed, memory.tally
        self._cycles = CycleDetector()
        self._lost: set[CopyId] = set()
        """The copies that are known to be lost, until the next ones are committed."""
        self._copied = {partition.source: partition for partition in work.partitions}
        self._copies = {copy.id: copy for partition in work.partitions for copy in partition.copies}
        self._runs = {copy: runs.get(copy) or PartitionRuns([]) for copy in self._copies}
        self._writer = OffsetSyncWriter(self._spec.offset_lag_max)
        self._fetcher = Fetcher(self._source, committed_only=self._spec.committed_only)
        self._positions: dict[TopicPartition, int] = {}
        self._ends: dict[TopicPartition, int] = {}
        self._open: dict[CopyId, Part] = {}
        self._clock = TransactionClock(self._spec.transaction_interval, producer)
        self._partitions_ending = PartitionsEnding(self._target, work.spec, work.left)
        self._added: Sequence[Addition] = ()
        self._skips = 0
        """The number of skips that were looked at."""
        self._ended: set[TopicPartition] = set()
        """Remote partitions in which a transaction was open, and none of ours is any more."""
        self._opening: asyncio.Task[Joined] | None = None
        """Finds where partitions begin that join, while the others are copied."""
        self._to_open: list[TopicPartition] = []
        """Partitions of which it was not known where they begin, and that are to be tried again."""
        self._failing: dict[TopicPartition, float] = {}
        """Partitions whose fetches fail, and since when."""
        self._moved: set[TopicPartition] = set()
        """Partitions that have gone on in the open transaction, and have not failed since: what failed in them has
        healed once it is committed."""
        self._fetched_ms = 0
        """When the records that are sent now were fetched."""
        self._mid_record = False
        """Whether records were sent between which others, for another topic, are still to be sent."""
        self._unanswered: deque[asyncio.Future[int]] = deque()
        self._limits: Mapping[str, TopicLimits] = {}
        """By target topic."""
        self._policies: Mapping[str, BatchPolicy] = {}
        """By target topic, for a target that is `_round_trip` seconds away."""
        self._round_trip: float | None = None

    async def run(self, settled: Callable[[], Awaitable[None]]) -> None:
        """Copies until the lease ends, or, with `until_caught_up`, until all is copied that was there at the start;
        commits, and returns. `settled` is awaited once the first fetch has come, and whenever other partitions fail.
        Raises KafkaFailure, Disconnected, Moved and PolicySaysFail; then nothing of the open
        transaction counts."""
        await self._go_on()
        await self._fetcher.start()
        try:
            await self._copy(settled)
        finally:
            if self._opening is not None:
                self._opening.cancel()
                await asyncio.gather(self._opening, return_exceptions=True)
            await self._fetcher.close()

    async def _copy(self, settled: Callable[[], Awaitable[None]]) -> None:
        reported = False
        with contextlib.suppress(_Ending):
            while not self._lease.over() and not self._caught_up():
                if self._producer.disconnected:
                    raise Disconnected("A connection to the target was lost: what may hang is ended first")
                self._pace()
                await self._join()
                self._release_skipped()
                self._to_open += self._failed.take_due(time.monotonic())
                fetches = await self._fetcher.poll(self._clock.patience())
                for fetch in fetches:
                    await self._copy_fetch(fetch)
                self._note_failing(time.monotonic())
                if self._lease.bucket is not None and not fetches:
                    self._lease.bucket.idle(time.monotonic())
                if not reported or self._failed.changed:
                    reported = True
                    await settled()
                if self._clock.due():
                    await self.commit()
        await self.commit()
        if self._spec.until_caught_up and not self._lease.over():
            failed = [
                status for status in self._failed.take_statuses() if not self._reached_end(status.source)
            ]
            if failed:
                raise PolicySaysFail("; ".join(reason.sentence for reason in reasons(failed)))

    def _pace(self) -> None:
        """Adapts fetches and batches to how fast the target takes them, and to how far away it is."""
        window, round_trip = self._producer.window, self._producer.round_trip
        self._fetcher.limit(throttle.fetch_bytes(window))
        if round_trip != self._round_trip:
            decompressed = self._source.most_decompressed
            self._policies = {
                topic: throttle.batch_policy(
                    self._spec.batch_size, limits, round_trip, self._compression, decompressed
                )
                for topic, limits in self._limits.items()
            }
            self._round_trip = round_trip

    # -- where to go on --------------------------------------------------------------------------------------------

    async def _go_on(self) -> None:
        """Takes positions from the committed runs; gaps and positions that no run has yet are committed at once."""
        spec = self._spec
        ending = await self._partitions_ending.ask()
        clusters, partitions = (self._source, self._target), self._work.partitions
        open_all = partial(
            open_partitions, *clusters, spec, partitions, self._runs, self._seen, ending=ending
        )
        opened = await open_all()
        if opened.held_back:
            await self._end_hanging(opened.held_back, self._copies.values(), self._runs)
            opened = await open_all(ended=self._ended)
        for failure in () if opened.starts else opened.failed.values():
            raise failure  # of all: it is no fault of single partitions
        self._ends = dict(opened.ends)
        self._set_positions(opened)
        if self._open:
            await self.commit()
        self._lost = set(self._seen.target_ends)
        self._seen.clear()
        topics = sorted({copy.target_topic for copy in self._copies})
        self._limits = await topic_limits(self._target, topics)
        due = self._failed.take_due(time.monotonic())
        for tp in [tp for tp in self._positions if self._failed.holds(tp) and tp not in due]:
            del self._positions[tp]
        self._fetcher.assign(self._fetch_positions(self._positions))

    async def _end_hanging(
        self,
        begin: Mapping[TopicPartition, int],
        copies: Iterable[Copied],
        runs: Mapping[CopyId, PartitionRuns],
    ) -> None:
        """Ends what a broker has left open of our transactions (see layouts.hanging). Raises KafkaFailure."""
        copied = list(copies)
        await end_in_copies(self._producer, begin, copied, runs)
        # Ids that the layout has passed over are nobody's: what they have left open, nobody else ends.
        await end_of_left_ids(self._spec, self._partitions_ending.ended_ids, begin, copied, runs)
        self._ended |= begin.keys()

    def _set_positions(self, opened: Opened) -> None:
        """Takes the positions, and puts gaps and partitions that no run knows into the open transaction. Partitions of
        which nobody can tell where they begin wait."""
        for tp, failure in opened.failed.items():
            self._failed.fail(tp, str(failure), time.monotonic(), _now_ms(), heals=True, unopened=True)
        for tp, start in opened.starts.items():
            self._positions[tp] = start.offset
            if start.gaps and self._spec.fail_on_gap:
                raise PolicySaysFail(refusal(start.gaps))
            last = self._runs[self._copied[tp].id].last
            if start.gaps or last is None or last.handed_back:
                self._part(self._copied[tp]).gaps.extend(start.gaps)
            for copy in self._copied[tp].copies:
                if copy.id in opened.lost_from:
                    self._part(copy).lost_from = opened.lost_from[copy.id]
        for skip in self._lease.added.skips:
            # It names the offset at which the partition stood: one that has moved since needs it no more.
            if skip.source in opened.starts and self._positions[skip.source] == skip.offset:
                for copy in self._copied[skip.source].copies:
                    part = self._part(copy)
                    part.leave_out(skipped(copy, skip.offset, skip.end, _now_ms()))
                    part.skipped = skip.end, opened.target_ends[copy.id]
                self._move_to(skip.source, skip.end)

    def _release_skipped(self) -> None:
        """Opens partitions again in which an operator has skipped something."""
        skips = self._lease.added.skips
        for skip in skips[self._skips :]:
            self._failed.release(skip.source)
            self._cycles.forget(skip.source)
        self._skips = len(skips)

    def _fetch_positions(self, tps: Iterable[TopicPartition]) -> dict[TopicPartition, FetchPosition]:
        copied = [self._copied[tp] for tp in tps]
        return {
            partition.source: fetch_from(
                partition, self._positions[partition.source], self._runs[partition.id].last
            )
            for partition in copied
        }

    # -- partitions that join --------------------------------------------------------------------------------------

    async def _join(self) -> None:
        """Copies what was added to the slice from now on, once it is known where to begin: the others do not wait."""
        if self._opening is None:
            added, again = self._lease.added.partitions, [Addition(self._copied[tp]) for tp in self._to_open]
            if added is self._added and not again:
                return
            self._added, self._to_open = added, []
            if new := [
                *again,
                *(addition for addition in added if addition.copied.source not in self._copied),
            ]:
                self._opening = self._open_joining(new, retried=self._retried or bool(again))
        elif self._opening.done():
            joined, self._opening = self._opening.result(), None
            if held_back := joined.opened.held_back:
                await self.commit()
                copies = [copy for partition in joined.partitions for copy in partition.copies]
                await self._end_hanging(held_back, copies, joined.runs)
                self._opening = self._open_joining(joined.additions, retried=True)
                return
            self._add_joined(joined)
            await self.commit()
            self._pace()
            self._fetcher.add(self._fetch_positions(joined.opened.starts))

    def _open_joining(self, additions: Sequence[Addition], *, retried: bool) -> asyncio.Task[Joined]:
        clusters, ended = (self._source, self._target), frozenset(self._ended)

        async def open_them() -> Joined:
            ending = await self._partitions_ending.ask()
            return await open_joining(
                *clusters, self._spec, additions, retried=retried, ended=ended, ending=ending
            )

        return asyncio.create_task(open_them())

    def _add_joined(self, joined: Joined) -> None:
        self._copied |= {partition.source: partition for partition in joined.partitions}
        self._copies |= {partition.id: partition for partition in joined.partitions}
        self._runs |= joined.runs
        self._limits = {**self._limits, **joined.limits}
        self._round_trip = None  # the policies of their topics are to be made
        for tp in joined.opened.starts:
            if tp in self._failed:
                self._failed.open(tp)
                self._refusals.try_again(tp)
                self._ends.setdefault(tp, joined.opened.ends[tp])
        self._set_positions(joined.opened)

    # -- copying ---------------------------------------------------------------------------------------------------

    async def _copy_fetch(self, fetch: CompletedFetch) -> None:
        tp, copied = fetch.tp, self._copied[fetch.tp]
        self._fetched_ms = _now_ms()
        if fetch.error is not None:
            if (silent := unreadable_from(tp, fetch.error, self._positions[tp])) is not None:
                await self._handle_damage(silent, copied, fetch)
                return
            raise fetch_failure(tp, fetch.error, self._runs[copied.id].runs)
        position, policy = self._positions[tp], self._policies[copied.target_topic]
        transforms = self._transforms if copied.transforms else None
        reading = policy if transforms is None else transforms.reading
        try:
            data = batches_of(fetch, position, reading, committed_only=self._spec.committed_only)
        except DamagedBatch as damaged:
            await self._handle_damage(damaged.damage, copied, fetch)
            return
        if self._spec.opposite_layouts and self._cycles.goes_round(
            tp, data.batches, position, reading.decompressed
        ):
            await self._fail(tp, going_round(copied, position, data.next_offset, _now_ms()))
            return
        self._clock.backlog = self._clock.backlog or fetch.last_stable > data.next_offset
        try:
            if transforms is None:
                await self._put(copied, self._refusals.chunks(tp, data.batches, policy, position))
            else:
                steps = transforms.steps(copied, data.batches, policy, self._limits, position)
                async with contextlib.aclosing(steps):
                    async for step in steps:
                        await self._follow(tp, step)
        except _CannotCopy as cannot:
            await self._fail(tp, cannot.left_out)
            return
        if data.next_offset != position:
            self._move_to(tp, data.next_offset)
        elif (fetch.last_stable if self._spec.committed_only else fetch.high_watermark) <= position:
            # A fetch that brings nothing, where something waits, shows nothing.
            self._failing.pop(tp, None)
            self._failed.heal(tp)
        self._fetcher.done(fetch, data.next_offset, data.leader_epoch)

    def _note_failing(self, now: float) -> None:
        """Names partitions that can't be fetched: the fetcher tries again, and says nothing."""
        for tp, error in self._fetcher.errors.items():
            if now - self._failing.setdefault(tp, now) > _TOLD_SECONDS:
                self._moved.discard(tp)
                self._failed.note(tp, str(error), _now_ms())

    async def _handle_damage(self, damage: Damage, copied: Copied, fetch: CompletedFetch) -> None:
        """Leaves out a batch that can't be read, once another fetch has brought no better one, where the policy says so
        and it is known what follows it. Else the partition waits, and the others go on."""
        tp, end, fails = copied.source, damage.end, self._spec.fail_on_refused_record
        way_out = f"mirror-bridge skip {self._spec.name} {tp.topic}-{tp.partition}"
        way_out += " goes on behind it" if end is not None else " --to OFFSET goes on further behind"
        if fails and end is not None:
            way_out += ", as source.record.policy=report does with all such batches"
        offsets = self._positions[tp], -1 if end is None else end
        self._moved.discard(tp)
        self._failed.fail(tp, damage.why, time.monotonic(), _now_ms(), way_out=way_out, offsets=offsets)
        if end is None or fails or not self._failed.lasts(tp):
            await self._hold(tp)
            return
        for copy in copied.copies:
            self._part(copy).leave_out(refused_gap(damage.offset, end, damage.why, copy, _now_ms()))
        self._move_to(tp, end)
        self._fetcher.done(fetch, end, -1)

    async def _fail(self, tp: TopicPartition, cannot: LeftOut) -> None:
        """Copies a partition up to records that can't be copied; the target may take them when it is opened again."""
        if self._positions[tp] < cannot.gap.upstream_from and not self._copied[tp].also:
            self._move_to(tp, cannot.gap.upstream_from)
        stands = self._positions[tp]
        offsets = (stands, cannot.gap.upstream_to) if stands == cannot.gap.upstream_from else (-1, -1)
        await self._hold(tp)
        way_out = cannot.way_out
        if offsets[0] >= 0:
            way_out += f", or leave it out: mirror-bridge skip {self._spec.name} {tp.topic}-{tp.partition}"
        now = time.monotonic()
        self._failed.fail(tp, cannot.why, now, _now_ms(), way_out=way_out, offsets=offsets, lasts=True)

    async def _hold(self, tp: TopicPartition) -> None:
        """Copies nothing more of a partition until it is due; then it is opened anew, by what is committed here."""
        await self.commit()
        self._fetcher.drop(tp)
        del self._positions[tp]

    async def _put(self, copied: Copied, pieces: Iterable[Chunk | LeftOut]) -> None:
        for piece in pieces:
            if isinstance(piece, Chunk):
                await self._send(copied, piece)
            else:
                self._leave_out(copied, piece)

    def _leave_out(self, copied: Copied, records: LeftOut) -> None:
        if self._spec.fail_on_refused_record:
            raise _CannotCopy(records)
        self._part(copied).leave_out(records.gap)

    async def _follow(self, tp: TopicPartition, step: Step) -> None:
        """Sends what transforms have made of a part of a fetch. They may take their time: it is committed when that is
        due. A commit would part a record that is left out from its neighbours, which are one entry of the ledger with
        it."""
        if step.left_out is not None:
            self._leave_out(self._copied[tp], step.left_out)
        for copied, pieces in self._pieces(tp, step):
            await self._put(copied, pieces)
        self._move_to(tp, step.end)
        late = self._clock.due() if step.left_out is None else self._clock.overdue()
        if late:
            await self.commit()

    def _pieces(self, tp: TopicPartition, step: Step) -> Iterable[tuple[Copied, Iterable[Chunk | LeftOut]]]:
        """Makes what is to be sent to each topic. Where a record goes to several, and one of them can't have it, none
        has it: the position that they share stands before it."""
        position, several = self._positions[tp], len(step.made) > 1
        pieces = [
            (self._copies[CopyId(tp, topic)], self._refusals.without(tp, made, position, topic))
            for topic, made in step.made.items()
        ]
        if not (several and self._spec.fail_on_refused_record):
            return pieces
        whole = [(copied, list(segments)) for copied, segments in pieces]
        for copied, segments in whole:
            for piece in segments:
                if not isinstance(piece, Chunk):
                    self._leave_out(copied, piece)
        return whole

    async def _send(self, copied: Copied, chunk: Chunk) -> None:
        """Sends a batch when the target has room; commits first if this transaction has lasted too long by then. What
        goes to several topics at once stays together: no position lies between its batches."""
        if (bucket := self._lease.bucket) is not None:
            await self._until_full(bucket)
            bucket.take(len(chunk.data))
        while self._producer.bytes_in_flight > self._producer.window:
            self._go_on_unless_ending()
            await self._answered(self._unanswered.popleft())
        if self._clock.overdue() and not self._mid_record:
            await self.commit()
            self._clock.backlog = True
        if not self._clock.began:
            while throttled := self._producer.throttled:
                self._go_on_unless_ending()
                await asyncio.sleep(min(throttled, _LOOK))
            await self._producer.begin()
            self._clock.begin()
        base = self._producer.send(copied.remote, chunk.data, chunk.count)
        part = self._part(copied)
        part.add(chunk, base)
        part.times.add(chunk, self._fetched_ms)
        if self._copied[copied.source].also:
            self._mid_record = True
        else:
            self._positions[copied.source] = part.covered
        self._unanswered.append(base)

    async def _until_full(self, bucket: TokenBucket) -> None:
        """Waits until the limit lets another batch through. What is copied is committed meanwhile."""
        while wait := bucket.wait(time.monotonic()):
            self._go_on_unless_ending()
            if self._clock.due() and not self._mid_record:
                await self.commit()
                self._clock.backlog = True
            await asyncio.sleep(min(wait, _LOOK, max(_SOON, self._clock.patience())))

    def _go_on_unless_ending(self) -> None:
        if self._lease.over() and not self._mid_record:
            raise _Ending

    async def _answered(self, base: asyncio.Future[int]) -> None:
        try:
            await base
        except KafkaFailure:
            await written_parts(self._open.values())  # knows which batch was at fault
            raise

    def _part(self, copied: Copied) -> Part:
        """The copy in the open transaction. What was copied before transforms could send it there did not go there."""
        part = self._open.get(copy := copied.id)
        if part is None:
            covered = self._positions[copied.source]
            if copied != self._copied[copied.source] and (last := self._runs[copy].last) is not None:
                covered = min(covered, last.position)
            part = self._open[copy] = Part(copied, covered)
            self._clock.move()
        return part

    def _move_to(self, tp: TopicPartition, offset: int) -> None:
        # All copies, so that their runs tell how far they are whole; and before the position moves.
        for copied in self._copied[tp].copies:
            self._part(copied)
        self._positions[tp] = offset
        self._failing.pop(tp, None)
        self._moved.add(tp)
        self._mid_record = False

    # -- committing ------------------------------------------------------------------------------------------------

    async def commit(self) -> None:
        """Commits what is open, with its runs, ledger entries and, on the target, offset syncs, or nothing of it."""
        if not self._open:
            return
        began = time.monotonic()
        for tp, error in (await self._fetcher.check()).items():
            raise fetch_failure(tp, error, self._runs[self._copied[tp].id].runs)
        if not self._clock.began:
            await self._producer.begin()
        spec = self._spec
        done = await written_parts(self._open.values())
        log_starts = [self._producer.log_start(part.part.copied.remote) for part in done]
        runs: list[tuple[bytes, bytes | None]] = []
        now_ms = _now_ms()
        for written_part, log_start in zip(done, log_starts, strict=True):
            self._check_copies(written_part)
            copied = written_part.part.copied
            position = self._positions[copied.source]
            times = written_part.part.times.encoded(now_ms)
            known, lost_from = self._runs[copied.id], written_part.part.lost_from
            if written_part.part.skipped is not None:
                runs += known.reset(*written_part.part.skipped)
            runs += known.commit(
                written_part.segments, position, copied, log_start, times, lost_from=lost_from
            )
        syncs: list[OffsetSync] = []
        for written_part in done if spec.syncs_topic else ():
            if (copied := written_part.part.copied).id == self._copied[copied.source].id:
                syncs += queue_syncs(written_part, self._writer)
        syncs += self._writer.drain_delayed()
        encoded = [(sync.key(), sync.value()) for sync in syncs]
        ledger = [ledger_entry(gap, spec.name) for part in self._open.values() for gap in part.gaps]
        await self._producer.send_records(spec.runs_topic, runs)
        if ledger:
            await self._producer.send_records(spec.gaps_topic, ledger)
        if encoded and spec.syncs_on_target:
            await self._producer.send_records(spec.syncs_topic, encoded)
        await self._producer.commit()
        self._cycles.commit()
        for tp in self._moved:
            self._failed.heal(tp)
        self._moved.clear()
        for segment in (segment for part in done for segment in part.segments):
            self._tally.add(segment.count, segment.size)
        self._open = {}
        self._clock.end(time.monotonic() - began)
        self._unanswered.clear()
        if encoded and self._syncs is not None:
            # They follow the commit and never precede it: a sync must not tell of a copy that is not there.
            self._syncs.send(spec.syncs_topic, encoded)

    def _check_copies(self, done: WrittenPart) -> None:
        copy = done.part.copied.id
        base = overwritten(done, self._runs[copy].last)
        if base is not None and copy not in self._lost:
            raise CopiesLost(copy, base)
        if done.segments:
            self._lost.discard(copy)

    def _caught_up(self) -> bool:
        """Whether nothing is left to copy, but for partitions that have failed for long enough."""
        return self._spec.until_caught_up and all(
            self._reached_end(tp) or self._failed.lasts(tp) for tp in self._copied
        )

    def _reached_end(self, tp: TopicPartition) -> bool:
        """Whether all is copied of a partition that was there at the start."""
        return tp in self._ends and self._positions.get(tp, -1) >= self._ends[tp]


def _now_ms() -> int:
    """Returns the time of day in ms, as the records' timestamps are."""
    return int(time.time() * 1000)
