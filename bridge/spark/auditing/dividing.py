"""Finds offsets of both logs that belong together where no run tells: so a partition of a stock mirror can be divided.

The record at an offset of the source is looked for on the target by its timestamp; the pair counts only if both logs
hold the same records there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from bridge.audit.planning import Logs
from bridge.audit.sequences import DIGEST, OFFSET, TIMESTAMP, Numbers, joined
from bridge.errors import KafkaFailure
from bridge.kafka.consumer.log_bounds import offsets_at_times
from bridge.kafka.network.client import NetworkClient
from bridge.kafka.protocol import log_requests
from bridge.kafka.protocol.log_requests import FetchParams, FetchPartition
from bridge.kafka.record.batch import CorruptBatch
from bridge.kafka.record.coalescing import DataBatches
from bridge.kafka.record.digests import digested
from bridge.kafka.record.rebuilding import decoded_each
from bridge.model.values import TopicPartition

_BYTES, _BYTES_TOGETHER = 1024 * 1024, 64 * 1024 * 1024
_ALIKE = 32
"""Records in a row that are compared, as far as both fetches have them."""


class Cut(NamedTuple):
    """Where a partition is to be divided, about, and whether timestamps count."""

    logs: Logs
    offsets: Sequence[int]
    timed: bool


async def pairs(
    source: NetworkClient, target: NetworkClient, cuts: Sequence[Cut], *, committed_only: bool
) -> dict[TopicPartition, list[tuple[int, int]]]:
    """Offsets that belong together, in order, near those that are wanted; perhaps none. Raises KafkaFailure."""
    chosen: dict[TopicPartition, list[tuple[int, int]]] = {each.logs.sides.source: [] for each in cuts}
    for step in range(max((len(each.offsets) for each in cuts), default=0)):
        wanted = [each for each in cuts if step < len(each.offsets)]
        for tp, pair in (await _step(source, target, wanted, step, committed_only)).items():
            before = chosen[tp][-1] if chosen[tp] else (-1, -1)
            if pair[0] > before[0] and pair[1] > before[1]:
                chosen[tp].append(pair)
    return chosen


async def _step(
    source: NetworkClient, target: NetworkClient, cuts: Sequence[Cut], step: int, committed_only: bool
) -> dict[TopicPartition, tuple[int, int]]:
    """One place of each partition."""
    timed = {each.logs.sides.source.topic: each.timed for each in cuts}
    at = {
        each.logs.sides.source: FetchPartition(each.logs.sides.source_id, each.offsets[step], _BYTES)
        for each in cuts
    }
    first = await _records(source, at, timed, committed_only)
    times = {tp: int(some[TIMESTAMP, 0]) for tp, some in first.items() if some[TIMESTAMP, 0] >= 0}
    sides = {each.logs.sides.source: each.logs.sides for each in cuts if each.logs.sides.source in times}
    if not sides:
        return {}
    here, there = await asyncio.gather(
        offsets_at_times(source, times, committed_only=committed_only),
        offsets_at_times(target, {sides[tp].target: time for tp, time in times.items()}, committed_only=True),
    )
    begin = {
        tp: FetchPartition(sides[tp].source_id, offset, _BYTES)
        for tp, offset in here.items()
        if offset is not None and there[sides[tp].target] is not None
    }
    copies = {
        sides[tp].target: FetchPartition(sides[tp].target_id, there[sides[tp].target] or 0, _BYTES)
        for tp in begin
    }
    timed |= {sides[tp].target.topic: timed[tp.topic] for tp in begin}
    ones = await _records(source, begin, timed, committed_only)
    others = await _records(target, copies, timed, True)
    result = {}
    for tp, one in ones.items():
        other = others.get(sides[tp].target)
        if other is not None and _alike(one, other):
            result[tp] = int(one[OFFSET, 0]), int(other[OFFSET, 0])
    return result


def _alike(one: Numbers, other: Numbers) -> bool:
    size = min(one.shape[1], other.shape[1], _ALIKE)
    return size > 0 and bool(np.array_equal(one[DIGEST, :size], other[DIGEST, :size]))


async def _records(
    client: NetworkClient,
    at: Mapping[TopicPartition, FetchPartition],
    timed: Mapping[str, bool],
    committed_only: bool,
) -> dict[TopicPartition, Numbers]:
    """The records from these offsets on that one fetch brings; partitions of which none come are left out: they are
    divided elsewhere."""
    nodes, _ = client.by_leader(at)
    result: dict[TopicPartition, Numbers] = {}

    async def ask(node: int, tps: Sequence[TopicPartition]) -> None:
        call = log_requests.fetch(
            {tp: at[tp] for tp in tps},
            committed_only=committed_only,
            params=FetchParams(max_bytes=_BYTES_TOGETHER),
        )
        with suppress(KafkaFailure):
            response = await client.send(node, call, "look for where logs can be divided")
            names = {at[tp].topic_id: tp.topic for tp in tps}
            for tp, data in log_requests.read_fetched(response, call.API_VERSION, names).items():
                with suppress(CorruptBatch, ValueError):
                    some = _digested(data, at[tp].offset, timed[tp.topic], committed_only)
                    if some.shape[1]:
                        result[tp] = some

    await asyncio.gather(*(ask(node, tps) for node, tps in nodes.items()))
    return result


def _digested(data: log_requests.PartitionData, offset: int, timed: bool, committed_only: bool) -> Numbers:
    batches = DataBatches.committed(data.records, offset, data.aborted if committed_only else None).batches
    parts = list[Numbers]()
    for _, records in decoded_each(batches[:_ALIKE], offset):
        if isinstance(records, Exception):
            break
        numbers = digested(records, timed=timed)
        parts.append(numbers[:, numbers[OFFSET] >= offset])
        if sum(part.shape[1] for part in parts) >= _ALIKE:
            break
    return joined(parts)
