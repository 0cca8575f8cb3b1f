"""Compares stretches in a Spark task: fetches both sides at once, digests their records, and packs what is found."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from bridge.audit.comparison import compared
from bridge.audit.report import packed
from bridge.audit.stretches import DIGEST, OFFSET, Numbers, Rules, Stretch, claimed, joined
from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.config.settings import client_settings
from bridge.kafka.gc_tuning import collect_seldom
from bridge.kafka.network.client import NetworkClient
from bridge.kafka.record.hashes import digested
from bridge.kafka.record.rebuilding import decoded_each
from bridge.model.values import Side
from bridge.spark.offsets import OffsetRange
from bridge.spark.reading import Fetched, RangesReader
from bridge.spark.rejected import SourceRejected


class ClusterAccess(NamedTuple):
    """How tasks reach the clusters. `props`: of the connector, with its secrets."""

    props: Mapping[str, str]
    committed_only: bool
    patience: float


class Done(NamedTuple):
    """The result of a stretch, by its number in the plan: what was found, as JSON, or why it could not be compared."""

    number: int
    text: str
    failure: str


Task = tuple[int, Stretch, Rules]


def compare_all(work: Iterable[Task], access: ClusterAccess) -> Iterator[Done]:
    """Compares stretches one after the other."""

    def compare(clients: _Clients, stretch: Stretch, rules: Rules) -> str:
        source, target = _sequences(clients, stretch, rules, ("source", "target"))
        return packed(compared(stretch, source, target, rules))

    return _each(work, access, compare)


def find_all(work: Iterable[Task], access: ClusterAccess, digests: Collection[int]) -> Iterator[Done]:
    """Finds the records of the source that have these digests: JSON of (digest, offset, claimed target offset or -1),
    of each digest the first in a stretch."""
    wanted = np.array(sorted(digests), np.int64)

    def find(clients: _Clients, stretch: Stretch, rules: Rules) -> str:
        (source,) = _sequences(clients, stretch, rules, ("source",))
        matching = source[:, np.isin(source[DIGEST], wanted)]
        _, first = np.unique(matching[DIGEST], return_index=True)
        matching = matching[:, first]
        rows = zip(
            matching[DIGEST].tolist(),
            matching[OFFSET].tolist(),
            claimed(stretch.spans, matching[OFFSET]).tolist(),
            strict=True,
        )
        return json.dumps(list(rows))

    return _each(work, access, find)


class _Clients(NamedTuple):
    """Clients of both sides, and what runs coroutines in their event loop."""

    source: NetworkClient
    target: NetworkClient
    access: ClusterAccess
    run: Callable[[Coroutine[Any, Any, Any]], Any]


def _each(
    work: Iterable[Task], access: ClusterAccess, do: Callable[[_Clients, Stretch, Rules], str]
) -> Iterator[Done]:
    collect_seldom()
    with _event_loop() as run:
        source, target = run(_opened(access, Side.SOURCE)), run(_opened(access, Side.TARGET))
        clients = _Clients(source, target, access, run)
        try:
            for number, stretch, rules in work:
                try:
                    yield Done(number, do(clients, stretch, rules), "")
                except (SourceRejected, KafkaFailure) as error:
                    yield Done(number, "", str(error))
        finally:
            for client in (source, target):
                run(client.close())


def _sequences(clients: _Clients, stretch: Stretch, rules: Rules, sides: Sequence[str]) -> list[Numbers]:
    """The records of a stretch on these sides, which are fetched at the same time."""
    of, run = stretch.sides, clients.run
    ranges = {
        "source": OffsetRange(of.source, of.source_id, *stretch.source),
        "target": OffsetRange(of.target, of.target_id, *stretch.target),
    }
    parts: dict[str, list[Numbers]] = {side: [] for side in sides}
    readers = {
        side: RangesReader(
            getattr(clients, side),
            [ranges[side]] if ranges[side].start < ranges[side].end else [],
            committed_only=clients.access.committed_only or side == "target",
            fail_on_data_loss=True,
            patience=clients.access.patience,
        )
        for side in sides
    }
    try:
        for side, reader in readers.items():
            run(getattr(clients, side).metadata([ranges[side].tp.topic]))
            run(reader.start())
        for side, fetched in _in_turn(run, readers):
            parts[side] += _digested(fetched, timed=rules.timed)
    finally:
        for reader in readers.values():
            run(reader.close())
    return [joined(parts[side]) for side in sides]


def _in_turn(
    run: Callable[[Coroutine[Any, Any, Any]], Any], readers: Mapping[str, RangesReader]
) -> Iterator[tuple[str, Fetched]]:
    """Yields what has come of one side, then of the other, until both are read: each is fetched while the other is
    digested."""
    left = dict(readers)
    while left:
        for side, reader in list(left.items()):
            some = run(reader.next())
            if some is None:
                del left[side]
                continue
            for stretch in some:
                yield side, stretch


def _digested(fetched: Fetched, *, timed: bool) -> Iterator[Numbers]:
    part = fetched.part
    for batch, records in decoded_each(fetched.batches, part.start):
        if isinstance(records, Exception):
            raise _unreadable(part, batch.base_offset, records)
        try:
            numbers = digested(records, timed=timed)
        except ValueError as error:
            raise _unreadable(part, batch.base_offset, error) from None
        offsets = numbers[OFFSET]
        if offsets[0] < part.start or offsets[-1] >= part.end:
            numbers = numbers[:, (offsets >= part.start) & (offsets < part.end)]
        yield numbers


def _unreadable(part: OffsetRange, offset: int, error: Exception) -> KafkaFailure:
    text = f"{part.name}: the batch at offset {offset} can't be decoded: {error}"
    return KafkaFailure(KafkaFault.UNREADABLE_BATCH, text, retriable=False)


async def _opened(access: ClusterAccess, side: Side) -> NetworkClient:
    return NetworkClient(client_settings(side, access.props).raw)  # inside of its event loop


@contextmanager
def _event_loop() -> Iterator[Callable[[Coroutine[Any, Any, Any]], Any]]:
    """Runs coroutines in a thread with an event loop, which goes on fetching while what was fetched is compared."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="fetch", daemon=True)
    thread.start()

    def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result()

    try:
        yield run
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
