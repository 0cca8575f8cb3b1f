"""Runs one slice in a Spark task, from its lease to the end of it.

Nothing that belongs to the event loop outlives `copy_slice`: Spark uses its Python workers again.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace

from bridge.backoff import Backoff
from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.config.settings import client_settings
from bridge.kafka.network.client import NetworkClient
from bridge.kafka.network.in_flight import InFlightWindow
from bridge.kafka.producer.producer import StillEnding, SyncProducer, TransactionalProducer, producer_settings
from bridge.kafka.producer.transaction_coordinator import Coordinator
from bridge.kafka.protocol.produce_requests import ProducerIdAndEpoch
from bridge.kafka.state_topics import read_committed, read_uncommitted
from bridge.model.copying import Copied
from bridge.model.partition_states import with_fewer_causes
from bridge.model.values import Side, TopicPartition
from bridge.pipeline.layouts.fencing import take_over
from bridge.pipeline.layouts.left_ids import encode_left, left_key
from bridge.pipeline.layouts.records import (
    SliceReport,
    read_layouts,
    read_partitions,
    report_key,
)
from bridge.pipeline.layouts.slots import CAUGHT_UP, LEFT_ID, Slice
from bridge.pipeline.layouts.state import state_partitions
from bridge.pipeline.slices.copier import Connections, Copier
from bridge.pipeline.slices.lease import Lease, SliceMemory
from bridge.pipeline.slices.permanent_errors import permanent
from bridge.pipeline.slices.progress_row import Tally
from bridge.pipeline.slices.refusals import Refusals, Refused
from bridge.pipeline.slices.resume import (
    CopiesLost,
    Disconnected,
    LogDiverged,
    Moved,
    PolicySaysFail,
)
from bridge.pipeline.slices.transformed import Transforms
from bridge.translation.runs.run_evidence import read_runs
from bridge.translation.runs.runs import runs_of

_REPORT_SECONDS, _REPORT_ROUND_TRIPS = 5.0, 10
"""What a report may take; connections are opened for it."""
_ENDS_WITHIN = 0.7
"""Seconds that the end of a transaction may take, which is milliseconds; then it is looked why it does not."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 5.0
_MOST_CAUSES = 1_000
"""Why partitions are not copied: texts in one report, far below what a broker takes."""


async def copy_slice(work: Slice, *, retried: bool = False, tally: Tally | None = None) -> str:
    """Copies until the lease ends; returns why it did. `retried`: an earlier attempt may have committed since the
    layout was made. `tally` counts what is committed. Raises nothing that time can heal."""
    async with AsyncExitStack() as stack:
        source = NetworkClient(client_settings(Side.SOURCE, work.spec.props).raw)
        stack.push_async_callback(source.close)
        target = NetworkClient(client_settings(Side.TARGET, work.spec.props).raw)
        stack.push_async_callback(target.close)
        lease = Lease(work, target)
        watching = asyncio.create_task(lease.watch())
        try:
            refusals = Refusals(source.most_decompressed)
            memory = SliceMemory(await _transforms(work, stack), refusals, tally or Tally())
            attempts = _Attempts(work, source, target, lease, memory)
            return await attempts.run(retried=retried)
        finally:
            watching.cancel()
            await asyncio.wait({watching})


async def _transforms(work: Slice, stack: AsyncExitStack) -> Transforms | None:
    """Starts the transforms of the slice's partitions, if any have some: without, nothing of what they need is
    imported."""
    if not any(partition.transforms for partition in work.partitions):
        return None
    from bridge.pipeline.slices.transforming.steps import TransformSteps

    transforms = TransformSteps(work.spec)
    stack.push_async_callback(transforms.close)
    return transforms


class _Attempts:
    """Runs copiers, one after the other, and reports how they ended."""

    def __init__(
        self,
        work: Slice,
        source: NetworkClient,
        target: NetworkClient,
        lease: Lease,
        memory: SliceMemory,
    ) -> None:
        self._work, self._source, self._target, self._lease = work, source, target, lease
        self._memory = memory
        self._window = InFlightWindow()
        self._holder: TransactionalProducer | None = None
        """The last producer that has held the transactional id."""
        self._reported = self._slice_report()

    async def run(self, *, retried: bool) -> str:
        backoff = Backoff(_FIRST_PAUSE, _LONGEST_PAUSE)
        while not self._lease.over():
            began = time.monotonic()
            try:
                await self._life(retried=retried)
                return self._lease.ended or CAUGHT_UP
            except Moved as moved:
                report = self._slice_report(moved=moved.partitions)
            except LogDiverged as diverged:
                if diverged.agrees_to is not None:
                    self._memory.seen.agreed[diverged.source] = diverged.agrees_to
                report = self._slice_report(error=str(diverged))
            except CopiesLost as lost:
                self._memory.seen.target_ends[lost.copy] = lost.base
                report = self._slice_report(error=str(lost))
            except Disconnected as lost:
                # One is no news: brokers restart. Where they are lost again and again, nothing else may tell of it.
                lasted = time.monotonic() - began > _LONGEST_PAUSE
                report = self._reported if lasted else self._slice_report(error=str(lost))
            except Refused as refused:
                self._leave_out(self._found(refused))
                retried = True
                continue
            except PolicySaysFail as failed:
                report = self._slice_report(failure=str(failed))
            except KafkaFailure as error:
                if StillEnding in (type(error), type(error.__cause__)) and (ended := await self._leave_id()):
                    await self._report_at_last(self._slice_report(ended=ended)._replace(left=True))
                    return LEFT_ID
                if error.fault is KafkaFault.FENCED:
                    # By a newer layout or attempt; or a transaction took too long, and only a new layout helps.
                    await self._report_at_last(self._slice_report(ended=str(error)))
                    return "fenced"
                if permanent(error, self._work.spec):
                    report = self._slice_report(failure=str(error))
                else:
                    report = self._slice_report(error=str(error))
            if report.failure:
                await self._report_at_last(report)
                return "failed"
            await self._report(report)
            if time.monotonic() - began > _LONGEST_PAUSE:
                backoff.reset()
            await self._sleep(backoff.next())
            retried = True
        return self._lease.ended

    def _slice_report(
        self, *, error: str = "", failure: str = "", moved: Sequence[TopicPartition] = (), ended: str = ""
    ) -> SliceReport:
        partitions = with_fewer_causes(self._memory.failed.take_statuses(), _MOST_CAUSES)
        return SliceReport(self._work.layout, self._work.slot, error, failure, moved, ended, partitions)

    def _found(self, refused: Refused) -> list[Refused]:
        """Returns those of which it is known which records are at fault; another try finds the others."""
        return [refusal for refusal in (refused, *refused.others) if self._memory.refusals.learn(refusal)]

    def _leave_out(self, found: Sequence[Refused]) -> None:
        now_ms = int(time.time() * 1000)
        for refused in found:
            for records in refused.left_out(self._copied(refused), now_ms):
                self._memory.refusals.leave_out(records)
            self._memory.failed.release(refused.source)

    def _copied(self, refused: Refused) -> Copied:
        return next(
            copy
            for partition in (
                *self._work.partitions,
                *(added.copied for added in self._lease.added.partitions),
            )
            if partition.source == refused.source
            for copy in partition.copies
            if refused.target in ("", copy.target_topic)
        )

    async def _life(self, *, retried: bool) -> None:
        work, spec = self._work, self._work.spec
        async with AsyncExitStack() as stack:
            producer = TransactionalProducer(
                producer_settings(Side.TARGET, spec.props),
                work.transactional_id,
                window=self._window,
                ends_within=_ENDS_WITHIN,
                fail_disconnected=True,
            )
            # By us, and not by who takes over the id next: of an epoch that is raised meanwhile nobody could tell
            # whether somebody has it.
            stack.push_async_callback(producer.close, abort=True)
            runs_log = TopicPartition(spec.runs_topic, 0)
            tps = [runs_log, *(partition.remote for partition in work.partitions)]
            if retried:
                await take_over(spec, producer, tps, always=runs_log)
            else:  # the layout's driver has ended what was left open before
                await producer.start(tps, always=runs_log)
            self._holder = producer
            # What is not committed yet, or has no marker, counts: nobody copies while a driver writes a newer layout.
            layouts = await read_uncommitted(self._target, spec.layout_topic)
            if read_layouts(layouts, spec).newest.layout != work.layout:
                self._lease.ended = "newer layout"
                return
            for record in layouts:
                self._lease.note(record)
            self._memory.failed.recall(read_partitions(layouts, spec, work.layout))
            added = self._lease.added.partitions
            work = replace(
                work,
                partitions=[*work.partitions, *(addition.copied for addition in added)],
                runs=[*work.runs, *(run for addition in added for run in addition.runs)],
            )
            syncs = None
            if spec.syncs_topic and not spec.syncs_on_target:
                syncs = SyncProducer(producer_settings(Side.SOURCE, spec.props))
                stack.push_async_callback(syncs.close)
            records = work.runs
            if retried:
                ours = runs_of([partition.source for partition in work.partitions])
                records = await read_committed(self._target, spec.runs_topic, counts=ours)
            connections = Connections(self._source, self._target, producer, syncs)
            runs = read_runs(records)
            self._memory.failed.lose_tries(time.monotonic())
            copier = Copier(work, connections, runs, self._memory, self._lease, retried=retried)
            await copier.run(self._settled)

    async def _leave_id(self) -> str:
        """Leaves the transactional id, if its last transaction is ours and lacks only markers of copies (see left_ids);
        returns why then. Nothing is written by it after this."""
        work, spec = self._work, self._work.spec
        holder = self._holder.id_and_epoch if self._holder is not None else ProducerIdAndEpoch()
        try:
            last = await Coordinator(self._target, work.transactional_id).describe(_REPORT_SECONDS)
            if last is None or not last.ending or last.id_and_epoch != holder:
                return ""
            if not last.partitions or not last.partitions.isdisjoint(state_partitions(spec)):
                return ""
            number = work.slot if work.number is None else work.number
            await self._write(left_key(spec, number), encode_left(holder))
        except (KafkaFailure, TimeoutError):
            return ""
        names = ", ".join(f"{topic}-{partition}" for topic, partition in sorted(last.partitions))
        return f"its last transaction can't be ended in {names}, which has no leader, or too few replicas in sync"

    async def _settled(self) -> None:
        """Copying goes well, but for single partitions: an error that was reported counts no longer."""
        await self._report(self._slice_report())

    async def _report_at_last(self, report: SliceReport) -> None:
        """Writes the last report, again and again until it is written, or the lease is over."""
        while not self._lease.over() and not await self._report(report):
            await self._sleep(_FIRST_PAUSE)

    async def _report(self, report: SliceReport) -> bool:
        """Into the layout topic, if it is news. Best effort: a target that is away is seen by the driver itself."""
        if report == self._reported:
            return True
        try:
            await self._write(report_key(self._work.spec, self._work.slot), report.value())
        except (KafkaFailure, TimeoutError):
            return False
        self._reported = report
        return True

    async def _write(self, key: bytes, value: bytes) -> None:
        """Writes a record to the layout topic. Raises KafkaFailure and TimeoutError; then it may be there."""
        async with asyncio.timeout(_REPORT_SECONDS + _REPORT_ROUND_TRIPS * self._target.round_trip):
            producer = SyncProducer(producer_settings(Side.TARGET, self._work.spec.props))
            try:
                await producer.write(self._work.spec.layout_topic, [(key, value)])
            finally:
                await producer.close()

    async def _sleep(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._lease.gone.wait(), seconds)
