"""Layouts one after the other: made, run as jobs, ended when something has changed, begun anew when they break."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from itertools import islice

from bridge.backoff import Backoff
from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.config.settings import client_settings
from bridge.kafka.network.client import NetworkClient
from bridge.kafka.producer.producer import TransactionalProducer
from bridge.kafka.protocol.errors import failure
from bridge.kafka.state_topics import read_committed
from bridge.model.copy_owners import OtherCopy, TopicPair, unread_claims
from bridge.model.copying import Copied, CopySample, PipelineSpec, PipelineState, PipelineStatus
from bridge.model.partition_states import PartitionState, PartitionStatus, Skip, reasons, with_since
from bridge.model.values import Side
from bridge.pipeline.driver.progress_watcher import Watcher
from bridge.pipeline.driver.spark_problem import SparkProblem, error_line
from bridge.pipeline.layouts.fencing import (
    driver,
    end_in_state_topics,
    end_of_slots,
    fence_slots,
    forget_unversioned,
    take_over,
)
from bridge.pipeline.layouts.left_ids import describe_passed_over, free_numbers
from bridge.pipeline.layouts.ownership import CopyTaken, Dropper, claim, lost_runs, wait_readable, withdrawn
from bridge.pipeline.layouts.records import (
    MOST_BYTES,
    MOST_SLOTS,
    Addition,
    Additions,
    LayoutRecord,
    LayoutTopic,
    additions_key,
    encode,
    joining,
    layout_key,
    spread,
)
from bridge.pipeline.layouts.slots import CAUGHT_UP, LEFT_ID, Jobs, Slice, balance, transactional_id
from bridge.pipeline.layouts.state import by_copy, layout_topic, verify_state_topics
from bridge.pipeline.slices.permanent_errors import permanent
from bridge.pipeline.slices.rate_limit import REDISTRIBUTE_SECONDS, Sharing, equal_shares
from bridge.translation.runs.runs import runs_of

log = logging.getLogger(__name__)

LEASE = 3600.0
"""Seconds that a layout holds at most: what bounds a slice that nobody can reach any more."""
DRAIN = 5.0
"""Seconds that slices have to commit and end before their workers are killed."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 5.0
_LOOK, _FOLLOW = 0.02, 0.1
"""Seconds between looks whether something has come to hold: while a layout changes, and while one is copied."""


class Supervisor:
    def __init__(self, spec: PipelineSpec) -> None:
        self._spec = spec
        self.assigned: list[Copied] | None = None
        self._stop = False
        self._job: Future[list[str]] | None = None
        self._layout = LayoutRecord(0, 0)
        self._copied: list[Copied] = []
        """What the slices of the layout copy."""
        self._added: list[Additions] = []
        """By slot, what has come to the layout."""
        self._skips: list[Skip] = []
        """What slices are yet to be told to leave out."""
        self._unfenced: int | None = None
        """How many slots may have something open; None while only the layout topic can tell."""
        self._taken: list[str] = []
        """What is not copied, because other connectors own it."""
        self._unread: Mapping[TopicPair, OtherCopy] = {}
        """What is not copied, because nobody can tell whether other connectors own it."""
        self._readable: asyncio.Task[None] | None = None
        """Waits for layout topics of others, without which nobody can tell whether they own what is left out."""
        self._left_out: Sequence[PartitionStatus] = ()
        """The partitions that are assigned, and that the layout leaves out."""
        self._claimed: set[TopicPair] = set()
        """What the connector owns, and the layout does not copy. Slices of older layouts are fenced: nobody does."""
        self._released: frozenset[str] = frozenset()
        """Source topics whose claims are to end."""
        self._restarts = 0
        self._state = PipelineState.STARTING
        self._errors: list[str] = []
        self._failure: str | None = None
        self._code = ""
        self._ui = ""
        self._watcher: Watcher | None = None
        self._dropper: Dropper | None = None
        self._leader: TransactionalProducer | None = None
        self._closing = contextlib.AsyncExitStack()

    def assign(self, partitions: Sequence[Copied]) -> None:
        # Another list means another layout: it is compared here once, and not at every look.
        if (assigned := list(partitions)) != self.assigned:
            self.assigned = assigned

    def release(self, topics: Sequence[str]) -> None:
        self._released = frozenset(topics)

    def skip(self, skip: Skip) -> None:
        """Has a slice leave offsets out; a layout that is made meanwhile drops the request."""
        self._skips.append(skip)

    def stop(self) -> None:
        self._stop = True

    def could_not_start(self, error: str, *, permanent: bool) -> None:
        """Tells what keeps Spark from running slices."""
        self._broke(error, permanent=permanent, code="spark" if permanent else "")

    @property
    def status(self) -> PipelineStatus:
        watched = self._watcher
        errors = [*self._errors, *self._taken, *(watched.errors if watched else ())]
        waiting = (status for status in self._left_out if status.state is PartitionState.WAITING)
        apart = [*waiting, *(watched.partitions if watched else ())]
        copying = self._state is PipelineState.COPYING and errors
        return PipelineStatus(
            state=PipelineState.RETRYING if copying else self._state,
            layout=self._layout.layout,
            progress=dict(watched.progress) if watched else {},
            gaps=tuple(watched.gaps) if watched else (),
            gap_counts=dict(watched.gap_counts) if watched else {},
            unreadable=watched.unreadable if watched else {},
            errors=(
                *errors,
                *(watched.rights.errors if watched else ()),
                *(reason.sentence for reason in reasons(apart) if reason.why not in errors),
            ),
            partitions=[
                *(status for status in self._left_out if status.state is PartitionState.FAILED),
                *apart,
            ],
            failure=self._failure,
            failure_code=self._code,
            restarts=self._restarts,
            spark_ui=self._ui,
            away=tuple(watched.away) if watched else (),
            claimed=sorted({source for source, _ in self._claimed}),
            slices_running=self._state is PipelineState.COPYING and watched is not None and not watched.blind,
        )

    def drain_samples(self) -> list[CopySample]:
        """Returns and clears the samples of what was copied since the last call."""
        return self._watcher.drain_samples() if self._watcher is not None else []

    async def run(self, jobs: Jobs) -> None:
        """Runs layouts until stopped, failed, or, with `until_caught_up`, done. Raises SparkProblem: Spark is gone."""
        self._ui = jobs.ui
        async with contextlib.AsyncExitStack() as stack:
            self._closing = stack
            source = NetworkClient(client_settings(Side.SOURCE, self._spec.props).raw)
            stack.push_async_callback(source.close)
            target = NetworkClient(client_settings(Side.TARGET, self._spec.props).raw)
            stack.push_async_callback(target.close)
            self._watcher = Watcher(self._spec, source, target)
            stack.push_async_callback(self._watcher.close)
            self._dropper = Dropper(self._spec, source, target)
            watching = asyncio.create_task(self._watcher.run())
            try:
                await self._layouts(jobs, source, target)
            finally:
                tasks = {watching} if self._readable is None else {watching, self._readable}
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)
                await self._watcher.look(ends=self._state is PipelineState.CAUGHT_UP)

    async def _layouts(self, jobs: Jobs, source: NetworkClient, target: NetworkClient) -> None:
        backoff = Backoff(_FIRST_PAUSE, _LONGEST_PAUSE)
        while not self._over():
            began = time.monotonic()
            try:
                left_id = await self._one_layout(jobs, source, target)
                lasted = time.monotonic() - began > _LONGEST_PAUSE
                if lasted:
                    backoff.reset()
                # A slice may leave one id after the other, as soon as it begins.
                if lasted or not left_id:
                    continue
            except CopyTaken as taken:
                self._broke(str(taken), permanent=True, code="copy_taken")
            except KafkaFailure as error:
                if error.fault is KafkaFault.FENCED and not await self._lead_anew():
                    self._broke(
                        self._taken_over(error), permanent=self._spec.gives_way, code=error.fault.value
                    )
                    return  # another driver makes the layouts now: ours would only be in its way
                self._broke(str(error), permanent=permanent(error, self._spec), code=error.fault.value)
            except Exception as error:
                if lost := await asyncio.to_thread(jobs.lost):
                    raise SparkProblem(lost) from None
                log.exception("layout %d failed", self._layout.layout)
                self._broke(f"the Spark job of layout {self._layout.layout} failed: {error_line(error)}")
            if time.monotonic() - began > _LONGEST_PAUSE:
                backoff.reset()
            await self._until(self._over, backoff.next())
        await self._end_in_time(jobs, target)

    def _taken_over(self, error: KafkaFailure) -> str:
        name = self._spec.name
        return (
            f"another process copies under the name {name} and has taken over, so this one ends: {error}"
            if self._spec.gives_way
            else str(error)
        )

    def _over(self) -> bool:
        return self._stop or self._state in (PipelineState.FAILED, PipelineState.CAUGHT_UP)

    def _broke(self, error: str, *, permanent: bool = False, code: str = "") -> None:
        self._restarts += 1
        self._errors = [error]
        if permanent:
            self._state, self._failure, self._code = PipelineState.FAILED, error, code
        elif self._state is not PipelineState.FAILED:
            self._state = PipelineState.RETRYING

    # -- one layout ------------------------------------------------------------------------------------------------

    async def _one_layout(self, jobs: Jobs, source: NetworkClient, target: NetworkClient) -> bool:
        """Makes a layout of the assigned partitions, and follows its job to the end. Returns whether it has ended
        because a slice has left its transactional id. Raises KafkaFailure, and whatever the job broke with."""
        await self._until(lambda: self._stop or bool(self.assigned) or self._job is not None, None)
        if self._stop:
            return False
        assigned = self.assigned
        assert assigned is not None
        slices = await self._make(jobs, source, target, assigned)
        watcher = self._watcher
        assert watcher is not None

        def changed() -> bool:
            readable = self._readable is not None and self._readable.done()
            return self._stop or self.assigned is not assigned or watcher.rights.changed or readable

        if not slices:
            self._state, self._errors = PipelineState.COPYING, []
            while not changed():
                await self._withdraw()
                await self._until(lambda: changed() or bool(self._to_withdraw), None)
            return False
        self._job = job = jobs.start(slices)
        self._state, self._errors = PipelineState.COPYING, []
        log.info("layout %d: %d partitions in %d slices", self._layout.layout, len(assigned), len(slices))
        renew = time.monotonic() + LEASE / 2

        def over() -> bool:
            ended = bool(watcher.moved or watcher.failure or watcher.ended or watcher.left_id)
            return ended or changed() or job.done() or time.monotonic() > renew

        if not self._layout.copied:
            await self._until(lambda: over() or bool(watcher.progress), None)
            if job.done():
                await watcher.look()  # a short copy may end before anybody has looked
            if watcher.progress:
                self._layout = self._layout._replace(copied=True)
                await self._write(self._layout)
        while True:
            await self._followed(lambda: over() or bool(self._to_withdraw or self._skips), slices)
            if self._to_withdraw:
                await self._withdraw()
                continue
            if self._skips:
                await self._tell_skips(slices)
                continue
            if job.done() or self._stop or self.assigned is assigned:
                break
            joined = await self._join(jobs, source, target, slices)
            if joined is None:
                break
            assigned = joined
        if job.done():
            await watcher.look()  # its slices reported why before they ended
        if watcher.failure:
            self._state, self._failure = PipelineState.FAILED, watcher.failure
        if watcher.left_id:
            log.info(
                "layout %d is made anew, because a slice %s: %s",
                self._layout.layout,
                LEFT_ID,
                watcher.left_id,
            )
        if watcher.ended and not self._over():
            self._broke(f"a slice of layout {self._layout.layout} ended unexpectedly: {watcher.ended}")
        if watcher.moved:
            await self.assign_current_ids(watcher)
        ends: list[str] = []
        if job.done():
            self._job = None
            ends = job.result()
            unasked = [end for end in ends if end not in (CAUGHT_UP, LEFT_ID)]
            if set(ends) == {CAUGHT_UP}:
                self._state = PipelineState.CAUGHT_UP
            elif unasked and not self._over():
                self._broke(f"slices of layout {self._layout.layout} ended unasked: {', '.join(unasked)}")
                await self._until(self._over, _FIRST_PAUSE)
        return bool(watcher.left_id) or LEFT_ID in ends

    async def _join(
        self, jobs: Jobs, source: NetworkClient, target: NetworkClient, slices: Sequence[Slice]
    ) -> list[Copied] | None:
        """Has the slices copy what was assigned since their layout was made, beside what they copy: new topics and
        partitions pause nothing. Returns what is copied then, None where that needs a new layout: something that is
        copied is no longer wanted, slots are free, or what is new shares something with the rest. Raises KafkaFailure
        and CopyTaken."""
        spec, watcher, assigned = self._spec, self._watcher, self.assigned or []
        assert watcher is not None
        alone = not (spec.until_caught_up or spec.transforms or self._layout.rates) and self._layout.copied
        if not alone or watcher.rights.denied or watcher.rights.changed or len(slices) < jobs.slots:
            return None
        if joining(self._copied, assigned) is None or watcher.moved or watcher.failure or watcher.ended:
            return None
        if watcher.left_id:
            return None
        await self._lead()
        topic = await layout_topic(target, spec)
        allowed = await watcher.rights.allowed(assigned)
        copied = await self._claim(source, target, topic, allowed)
        self._note_left_out(assigned, copied)
        new = joining(self._copied, copied)
        if new is None or watcher.rights.denied or topic.newest.layout != self._layout.layout:
            return None
        ours = runs_of([partition.source for partition in copied])
        runs = by_copy(
            await read_committed(target, spec.runs_topic, counts=ours), [partition.id for partition in copied]
        )
        lost = lost_runs(topic, runs.by_copy, spec.name)
        held = [
            [*work.partitions, *(partition.copied for partition in self._added[work.slot].partitions)]
            for work in slices
        ]
        records: list[tuple[bytes, bytes | None]] = []
        shares = spread(held, new, watcher.weights())
        for work, share in zip(slices, shares, strict=True):
            joined = [
                Addition(replace(copied, copied_before=copied.id.topics in lost), runs.by_copy[copied.id])
                for copied in share
            ]
            come = self._added[work.slot]
            self._added[work.slot] = come._replace(partitions=[*come.partitions, *joined])
            if share:
                value = encode(work, self._added[work.slot])
                records.append((additions_key(spec, work.slot), value))
        if any(len(value or b"") > MOST_BYTES for _, value in records):
            return None
        await self._leading.write(spec.layout_topic, records)
        watcher.join(shares)
        self._copied = copied
        self._claimed -= {copy.id.topics for partition in copied for copy in partition.copies}
        log.info("layout %d: %d partitions added", self._layout.layout, len(new))
        return assigned

    async def _tell_skips(self, slices: Sequence[Slice]) -> None:
        """Tells slices what to leave out. Raises KafkaFailure."""
        skips, self._skips = self._skips, []
        records: list[tuple[bytes, bytes | None]] = []
        for work in slices:
            come = self._added[work.slot]
            sources = {partition.source for partition in work.partitions} | {
                partition.copied.source for partition in come.partitions
            }
            if own := [skip for skip in skips if skip.source in sources]:
                self._added[work.slot] = come._replace(skips=[*come.skips, *own])
                value = encode(work, self._added[work.slot])
                records.append((additions_key(self._spec, work.slot), value))
        await self._lead()
        await self._leading.write(self._spec.layout_topic, records)

    @property
    def _to_withdraw(self) -> list[TopicPair]:
        return [pair for pair in self._claimed if pair[0] in self._released]

    async def _withdraw(self) -> None:
        """Ends claims to what the configuration leaves out. Raises KafkaFailure."""
        if not (pairs := self._to_withdraw):
            return
        await self._lead()
        await self._leading.write(self._spec.layout_topic, withdrawn(pairs, self._spec.name))
        self._claimed.difference_update(pairs)
        log.info("released %d topic(s) that topics leaves out: another connector may copy them", len(pairs))

    async def _claim(
        self, source: NetworkClient, target: NetworkClient, topic: LayoutTopic, partitions: Sequence[Copied]
    ) -> list[Copied]:
        """Returns the partitions that are the connector's to copy. Raises KafkaFailure and CopyTaken."""
        if self._readable is not None:
            self._readable.cancel()
        claimed = await claim(self._spec, source, target, self._leading, topic, partitions)
        topics = sorted({copy.where for copy in claimed.unread.values()})
        waits = [(target, name) for name in topics]
        # One of the opposite direction is on the source; the target may have one of that name as well.
        waits += [(source, name) for name in topics if name == self._spec.opposite_layouts]
        self._readable = asyncio.create_task(wait_readable(waits)) if waits else None
        self._taken, self._unread = claimed.refusals, claimed.unread
        return claimed.partitions

    def _note_left_out(self, assigned: Sequence[Copied], copied: Sequence[Copied]) -> None:
        """Notes which partitions are not copied, because their topics are denied, or other connectors own them, or
        nobody can tell."""
        assert self._watcher is not None
        kept = {partition.source for partition in copied}
        now_ms, taken = int(time.time() * 1000), "; ".join(self._taken)
        left_out = []
        for partition in (copied for copied in assigned if copied.source not in kept):
            why, state = self._watcher.rights.why_denied(partition) or taken, PartitionState.FAILED
            unread = [other for copy in partition.copies if (other := self._unread.get(copy.id.topics))]
            if unread:
                why, state = unread_claims(unread[0]), PartitionState.WAITING
            left_out.append(PartitionStatus(*partition.source, state, now_ms, why))
        self._left_out = with_since(left_out, {status.source: status for status in self._left_out})

    async def assign_current_ids(self, watcher: Watcher) -> None:
        """Raises KafkaFailure."""
        assigned = self.assigned
        current = await watcher.with_current_ids(assigned or [])
        if self.assigned is assigned:  # what was assigned meanwhile has ids of its own
            self.assigned = current

    async def _make(
        self, jobs: Jobs, source: NetworkClient, target: NetworkClient, partitions: Sequence[Copied]
    ) -> list[Slice]:
        """The next layout. First the record that ends the slices of older ones; then they are waited for; then every
        id that they or the new ones have is fenced, which closes what they left open; and only then is what they have
        committed read.

        Until all slots of older layouts are fenced, the record tells of as many as they had: if this fails in between,
        the next driver has to fence them too.
        """
        spec, watcher, dropper = self._spec, self._watcher, self._dropper
        assert watcher is not None
        assert dropper is not None
        await verify_state_topics(target, spec)
        await self._lead()
        topic = await layout_topic(target, spec)
        before = topic.before
        self._layout = self._layout if self._layout.layout else before  # what ends where we are refused
        allowed = await watcher.rights.allowed(partitions)
        copied = await self._claim(source, target, topic, allowed)
        self._note_left_out(partitions, copied)
        ending = await describe_passed_over(target, spec, topic.left)
        shares = balance(copied, min(jobs.slots, MOST_SLOTS - len(ending)), watcher.weights())
        older = before.slots if self._unfenced is None else self._unfenced
        self._unfenced = None
        rates = equal_shares(spec.max_rate, len(shares)) if spec.max_rate and shares else ()
        numbers = list(islice(free_numbers(ending), len(shares)))
        slots = 1 + max(0, older - 1, *numbers, *ending)
        self._layout = LayoutRecord(before.layout + 1, slots, copied=before.copied, rates=rates)
        await self._write(self._layout)
        self._copied, self._added, self._skips = copied, [Additions() for _ in shares], []
        await self._drain(jobs)
        passed_over = await fence_slots(spec, target, self._layout.slots, topic.unversioned)
        if passed_over - ending.keys():
            text = "A slice has left its transactional id while the next layout was made"
            raise failure(KafkaFault.ABORTED, f"make layout {self._layout.layout}", text)
        if dropped := forget_unversioned(spec, topic):
            await self._leading.write(spec.layout_topic, dropped)
        copies = [copy for partition in copied for copy in partition.copies]
        ours = runs_of([partition.source for partition in partitions])
        records = await read_committed(target, spec.runs_topic, counts=ours)
        free = [
            transactional_id(spec, number)
            for number in range(self._layout.slots)
            if number not in passed_over
        ]
        lacking = {tp for number in passed_over for tp in ending[number]}
        await end_of_slots(spec, target, free, copies, records, lacking)
        self._unfenced = 1 + max(0, *numbers, *passed_over)
        runs = by_copy(records, [copy.id for copy in copies])
        lost = lost_runs(topic, runs.by_copy, spec.name)
        pairs = {copy.id.topics for partition in partitions for copy in partition.copies}
        gone = await dropper.drop(self._leading, topic, runs.others, pairs)
        self._claimed = {
            pair for pair in topic.claims if topic.owner(pair) == spec.name and pair not in pairs
        } - {copy.topics for copy in gone}
        watcher.new_layout(self._layout.layout, shares, runs.others.keys() - gone)
        secret = secrets.token_bytes(32)
        return [
            Slice(
                spec,
                self._layout.layout,
                slot,
                LEASE,
                [replace(copied, copied_before=copied.id.topics in lost) for copied in share],
                [record for copied in share for copy in copied.copies for record in runs.by_copy[copy.id]],
                rates[slot] if rates else 0,
                secret,
                number,
                list(passed_over),
            )
            for slot, (number, share) in enumerate(zip(numbers, shares, strict=True))
        ]

    async def _followed(self, over: Callable[[], bool], slices: Sequence[Slice]) -> None:
        """Waits for the end of a layout, and moves shares of its limit to the slices that have use for them."""
        several = len(self._layout.rates) > 1
        sharing = Sharing(self._spec.max_rate, slices) if several else None
        while not await self._until(over, None if sharing is None else REDISTRIBUTE_SECONDS, look=_FOLLOW):
            assert sharing is not None
            assert self._watcher is not None
            rates = sharing.shares(self._watcher.progress, self._layout.rates, time.monotonic())
            if rates is None:
                continue
            try:
                await self._lead()
                await self._write(layout := self._layout._replace(rates=rates))
            except KafkaFailure as error:
                if error.fault is KafkaFault.FENCED:
                    raise
                log.info("the rate limit was not redistributed between slices: %s", error)
            else:
                self._layout = layout

    async def _end_in_time(self, jobs: Jobs, target: NetworkClient) -> None:
        """Ends what runs, again and again for a while: a leader may have moved since the last record. Where that fails,
        who wants to alter positions is told that the layout has not been stopped."""
        end = time.monotonic() + DRAIN
        while True:
            try:
                return await self._end(jobs, target)
            except KafkaFailure as error:
                if error.fault is KafkaFault.FENCED or time.monotonic() > end:
                    log.warning("layout %d could not be stopped: %s", self._layout.layout, error)
                    return None
            await asyncio.sleep(_FIRST_PAUSE)

    async def _end(self, jobs: Jobs, target: NetworkClient) -> None:
        """Slices commit and end; what they leave open is closed. Raises KafkaFailure."""
        if self._leader is not None:
            await self._lead()
            await self._write(self._layout._replace(stop=True))
        await self._drain(jobs)
        await fence_slots(self._spec, target, self._layout.slots, None)
        if self._state is not PipelineState.FAILED and self._state is not PipelineState.CAUGHT_UP:
            self._state = PipelineState.STOPPED

    async def _drain(self, jobs: Jobs) -> None:
        """Waits for the job's slices; kills those that are not done in time."""
        job = self._job
        if job is None:
            return
        if not await self._until(job.done, DRAIN):
            log.warning("killing slices that did not end within %.0f s after their layout", DRAIN)
            jobs.cancel()
            await self._until(job.done, DRAIN)
        self._job = None

    async def _lead(self) -> None:
        """Takes the driver's id, where that was not done or the last try has left something open: nobody could read
        behind that what the newest layout is. Raises KafkaFailure; FENCED when another driver has taken over."""
        if self._leader is None:
            leader = driver(self._spec)
            self._closing.push_async_callback(leader.close)
            await take_over(self._spec, leader)
            self._leader = leader
        elif self._leader.open:
            await take_over(self._spec, self._leader)
        else:
            await end_in_state_topics(self._spec, self._leader, commit=True)

    async def _lead_anew(self) -> bool:
        """Whether this driver may take over the id again that somebody else seems to have: the target was away for
        longer than its transaction may take. Also while the target does not tell."""
        if self._leader is None:
            return False
        try:
            if not await self._leader.has_timed_out():
                return False
        except KafkaFailure:
            return True
        self._leader = None
        return True

    async def _write(self, record: LayoutRecord) -> None:
        """Raises KafkaFailure; FENCED when another driver has taken over."""
        await self._leading.write(self._spec.layout_topic, [(layout_key(self._spec), record.value())])

    @property
    def _leading(self) -> TransactionalProducer:
        assert self._leader is not None, "_lead comes first"
        return self._leader

    async def _until(self, holds: Callable[[], bool], patience: float | None, *, look: float = _LOOK) -> bool:
        """Whether it came to hold in time."""
        end = None if patience is None else time.monotonic() + patience
        while not holds():
            if end is not None and time.monotonic() >= end:
                return False
            await asyncio.sleep(look)
        return True
