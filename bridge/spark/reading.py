"""Reads ranges of offsets as raw batches, ahead of whoever decodes them, and each range to its end."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, NoReturn, TypeVar

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.consumer.fetcher import CompletedFetch, Fetcher, FetchError, FetchErrorKind, FetchPosition
from bridge.kafka.network.client import NetworkClient
from bridge.kafka.record.batch import CorruptBatch, RawBatch
from bridge.kafka.record.coalescing import DataBatches
from bridge.kafka.record.rebuilding import BatchPolicy, CodecSizes
from bridge.model.values import TopicPartition
from bridge.spark.offsets import OffsetRange
from bridge.spark.options import RecordsOptions
from bridge.spark.planning import client_of
from bridge.spark.rejected import SourceRejected

T = TypeVar("T")
POLL_SECONDS = 1.0
_TOGETHER = 1024 * 1024
"""Bytes of neighbouring batches that are decoded in one call."""
_POLICY = BatchPolicy(1 << 31, _TOGETHER, CodecSizes.all(1 << 31))
_SAME_BYTES = 2
"""Times that bytes with a wrong checksum are fetched before they count as those of the log."""
_WHY = {
    FetchErrorKind.OUT_OF_RANGE: "{name} has no offset {at} any more: its log is from {error.log_start} to "
    "{error.log_end}",
    FetchErrorKind.DIVERGED: "the log of {name} has changed below offset {at}: it was cut back",
    FetchErrorKind.SILENT: "the broker sends nothing of {name} from offset {at} on, though its log ends at "
    "{error.log_end}, as where the length of a batch is damaged on the broker's disk",
    FetchErrorKind.UNKNOWN_TOPIC_ID: "topic {topic} was deleted, and perhaps made again, while it was read",
}


class Fetched(NamedTuple):
    """Batches with records of a range; the first and the last may have others, too."""

    part: OffsetRange
    batches: Sequence[RawBatch]


class RangesReader:
    """Reads the ranges, each of another partition. For use in one event loop."""

    def __init__(
        self,
        client: NetworkClient,
        ranges: Sequence[OffsetRange],
        *,
        committed_only: bool,
        fail_on_data_loss: bool,
        patience: float = 60.0,
    ) -> None:
        self._client, self._committed_only, self._fail = client, committed_only, fail_on_data_loss
        self._ranges = {offset_range.tp: offset_range for offset_range in ranges}
        self._positions = {offset_range.tp: offset_range.start for offset_range in ranges}
        self._wrong: dict[TopicPartition, int] = {}
        """Times that the bytes at the position were damaged."""
        self._fetcher = Fetcher(client, committed_only=committed_only)
        self._patience = patience
        self._waited = 0.0
        """Seconds that were spent here since something was last read: not those in which nobody asked for more."""

    async def start(self) -> None:
        await self._fetcher.start()
        self._fetcher.assign(
            {
                tp: FetchPosition(offset_range.topic_id, offset_range.start)
                for tp, offset_range in self._ranges.items()
            }
        )

    async def close(self) -> None:
        await self._fetcher.close()

    async def next(self) -> list[Fetched] | None:
        """Returns what has come; None when all ranges are read. Raises SourceRejected for records that are gone, and
        KafkaFailure."""
        if not self._ranges:
            return None
        began = time.monotonic()
        completed = await self._fetcher.poll(POLL_SECONDS)
        fetched = [each for part in completed if part.tp in self._ranges for each in self._taken(part)]
        self._waited = 0.0 if fetched else self._waited + time.monotonic() - began
        if self._waited > self._patience and self._ranges:
            self._stalled()
        return fetched

    def _taken(self, part: CompletedFetch) -> Iterator[Fetched]:
        tp, each = part.tp, self._ranges[part.tp]
        if part.error is not None:
            self._lost(each, part.error)
        elif part.records:
            batches = self._batches(part)
            if batches is None:
                return
            if batches.batches:
                inside = [batch for batch in batches.batches if batch.base_offset < each.end]
                yield Fetched(each, inside)
            if not self._at(tp, batches.next_offset):
                self._fetcher.done(part, batches.next_offset, batches.leader_epoch)

    def _batches(self, part: CompletedFetch) -> DataBatches | None:
        """Decodes batches; None where the bytes are to be fetched again."""
        aborted = part.aborted if self._committed_only else None
        try:
            batches = DataBatches.committed(part.records, part.offset, aborted, _POLICY)
        except CorruptBatch as corrupt:
            times = self._wrong[part.tp] = self._wrong.get(part.tp, 0) + 1
            if times >= _SAME_BYTES:
                name = self._ranges[part.tp].name
                raise KafkaFailure(
                    KafkaFault.UNREADABLE_BATCH, f"{name}: {corrupt}", retriable=False
                ) from None
            self._fetcher.done(part, part.offset, -1)
            return None
        self._wrong.pop(part.tp, None)
        return batches

    def _at(self, tp: TopicPartition, offset: int) -> bool:
        """The partition is read up to there; returns whether that is all."""
        self._positions[tp] = offset
        if offset < self._ranges[tp].end:
            return False
        del self._ranges[tp]
        self._fetcher.drop(tp)
        return True

    def _lost(self, offset_range: OffsetRange, error: FetchError) -> None:
        """Goes on behind what is gone, if that is allowed. Raises SourceRejected, and KafkaFailure without the
        right."""
        position = self._positions[offset_range.tp]
        if error.kind is FetchErrorKind.NOT_AUTHORIZED:
            text = f"{offset_range.name}: READ on topic {offset_range.tp.topic} is denied"
            raise KafkaFailure(KafkaFault.NOT_AUTHORIZED, text, retriable=False)
        if self._fail:
            name, topic = offset_range.name, offset_range.tp.topic
            why = _WHY[error.kind].format(name=name, topic=topic, at=position, error=error)
            raise SourceRejected(f"{why}; failOnDataLoss=false reads what there is")
        if error.kind is FetchErrorKind.OUT_OF_RANGE and position < error.log_start < offset_range.end:
            self._positions[offset_range.tp] = error.log_start
            self._fetcher.resume(offset_range.tp, error.log_start)
        else:
            del self._ranges[offset_range.tp]
            self._fetcher.drop(offset_range.tp)

    def _stalled(self) -> NoReturn:
        """Raises KafkaFailure: nothing has come for too long."""
        for failed in self._fetcher.errors.values():
            raise failed
        name = ", ".join(offset_range.name for offset_range in self._ranges.values())
        text = f"no records of {name} have come for {self._patience:g} s"
        raise KafkaFailure(KafkaFault.TIMEOUT, text, retriable=True)


def fetched(options: RecordsOptions, ranges: Sequence[OffsetRange]) -> Iterator[Fetched]:
    """Batches of all ranges, as they come; those of one range in order. Raises SourceRejected and KafkaFailure."""
    with event_loop() as run:
        client = run(_opened(options))
        try:
            reader = RangesReader(
                client,
                ranges,
                committed_only=options.committed_only,
                fail_on_data_loss=options.fail_on_data_loss,
                patience=options.patience,
            )
            run(reader.start())
            try:
                while (parts := run(reader.next())) is not None:
                    yield from parts
            finally:
                run(reader.close())
        finally:
            run(client.close())


async def _opened(options: RecordsOptions) -> NetworkClient:
    return client_of(options)  # inside of its event loop


@contextmanager
def event_loop() -> Iterator[Callable[[Coroutine[Any, Any, T]], T]]:
    """Runs coroutines in a thread with an event loop, which goes on while records are decoded or encoded here."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="kafka", daemon=True)
    thread.start()
    try:
        yield lambda coroutine: asyncio.run_coroutine_threadsafe(coroutine, loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
