"""Asks a cluster what there is to read: topics, where their logs begin and end, how large their records are.

Divides offsets among Spark partitions, by their bytes. Pure.

A large range is cut into pieces of about equal size; small ones go together, because a Spark task costs more than a
small range does. A piece of a cut range has a Spark partition of its own, so that none has two pieces of one log.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from itertools import pairwise
from typing import TypeVar

from bridge.backoff import Backoff
from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.consumer.log_bounds import all_bounds, offsets_at_times
from bridge.kafka.network.client import NetworkClient
from bridge.kafka.protocol import log_requests
from bridge.kafka.protocol.errors import of_code
from bridge.kafka.protocol.log_requests import FetchParams, FetchPartition, TopicMetadata
from bridge.kafka.record.batch import bytes_an_offset
from bridge.mm2.java_regex import compile_java
from bridge.model.values import TopicPartition
from bridge.spark.offsets import AtTime, EachTime, Log, OffsetRange, Where, ranges, resolved, verify_order
from bridge.spark.options import RecordsOptions
from bridge.spark.pushdown import Limits
from bridge.spark.rejected import SourceRejected

T = TypeVar("T")
_KAFKAS_OWN = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
"""Topics that no pattern means, as with Kafka's consumer (exclude.internal.topics)."""
_SAMPLE, _SAMPLES = 1024, 16 * 1024 * 1024
"""Bytes that are fetched of each partition, and of all together at most: the header of a batch says how many records
share how many bytes."""
_PAUSES = (0.1, 2.0)
"""Seconds before the first retry, and at most."""
_HEAL = frozenset({KafkaFault.UNREACHABLE, KafkaFault.TIMEOUT, KafkaFault.LEADER_MOVED, KafkaFault.OTHER})
"""A right that is missing is not waited for: somebody waits for the answer."""
_GUESS = 1024.0
"""Bytes of an offset, where those of no partition are known."""
_STEP, _STEPS = 0.8, 40


def client_of(options: RecordsOptions) -> NetworkClient:
    """A client of the cluster that the options name."""
    # The library logs each failed attempt as an error; who reads gets one line.
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    return NetworkClient(options.settings())


async def patiently(
    work: Callable[[], Awaitable[T]], seconds: float, heal: Collection[KafkaFault] = _HEAL
) -> T:
    """Does it again while it fails with what time may heal, for so many seconds. Raises the last KafkaFailure."""
    backoff, until = Backoff(*_PAUSES), time.monotonic() + seconds
    while True:
        try:
            return await work()
        except KafkaFailure as error:
            pause = backoff.next()
            if error.fault not in heal or time.monotonic() + pause > until:
                raise
        await asyncio.sleep(pause)


async def planned(
    client: NetworkClient, options: RecordsOptions, start: Where, limits: Limits
) -> list[OffsetRange]:
    """The ranges that a batch reads. Raises SourceRejected and KafkaFailure."""
    logs = await described(client, options)
    if not logs and options.optional:
        return []
    if not logs:
        where = ",".join(client.settings.bootstrap_servers)
        raise SourceRejected(f"no topic on {where} matches {options.pattern}")
    starts = await offsets_at(
        client, start, logs, committed_only=options.committed_only, as_late=options.as_late
    )
    ends = await offsets_at(client, options.end, logs, committed_only=options.committed_only)
    verify_order(start, options.end, starts, ends, fail_on_data_loss=options.fail_on_data_loss)
    whole = ranges(starts, ends, logs, fail_on_data_loss=options.fail_on_data_loss)
    left = limits.clipped(whole)
    if limits.since is None or not left:
        return left
    since = await offsets_at(
        client,
        AtTime(limits.since),
        {offset_range.tp: logs[offset_range.tp] for offset_range in left},
        committed_only=options.committed_only,
    )
    clipped = (
        offset_range._replace(start=max(offset_range.start, since[offset_range.tp])) for offset_range in left
    )
    return [offset_range for offset_range in clipped if offset_range.start < offset_range.end]


async def described(client: NetworkClient, options: RecordsOptions) -> dict[TopicPartition, Log]:
    """The logs of all partitions that the options select. Raises SourceRejected for a topic or partition that does not
    exist, and KafkaFailure."""
    names = await _topics(client, options)
    topics = await client.metadata(names)
    for name, topic in topics.items():
        failed = of_code(topic.error, f"describe topic {name}", f"DESCRIBE on topic {name}")
        if failed is not None and failed.fault is KafkaFault.UNKNOWN_TOPIC:
            raise SourceRejected(await _missing(client, name))
        if failed is not None:
            raise failed
    tps = [tp for name in names for tp in _partitions(name, topics[name], options)]
    bounds = await all_bounds(client, tps, committed_only=options.committed_only)
    return {tp: Log(topics[tp.topic].topic_id, log.start, log.end) for tp, log in bounds.items()}


async def offsets_at(
    client: NetworkClient,
    where: Where,
    logs: Mapping[TopicPartition, Log],
    *,
    committed_only: bool,
    as_late: bool = False,
) -> dict[TopicPartition, int]:
    """The offset in each log; `as_late` as in `resolved`. Raises SourceRejected and KafkaFailure."""
    times: Mapping[TopicPartition, int | None] = {}
    if isinstance(where, AtTime | EachTime):
        named = where.times if isinstance(where, EachTime) else dict.fromkeys(logs, where.timestamp)
        asked = {tp: time for tp, time in named.items() if tp in logs}
        times = await offsets_at_times(client, asked, committed_only=committed_only)
    return resolved(where, logs, times, as_late=as_late)


async def sampled(
    client: NetworkClient, parts: Iterable[OffsetRange], *, strict: bool = False
) -> dict[TopicPartition, float]:
    """Bytes of an offset, by the batch in the middle of each range. Partitions that do not answer are left out: the
    sizes only say how work is divided. With `strict` what may heal is a KafkaFailure: an epoch that is replayed has to
    be divided as it was."""
    middles = {
        part.tp: FetchPartition(part.topic_id, (part.start + part.end) // 2, _SAMPLE) for part in parts
    }
    nodes, leaderless = client.by_leader(middles)
    for failed in leaderless.values():
        if strict and failed.fault in _HEAL:
            raise failed
    sizes: dict[TopicPartition, float] = {}

    async def ask(node: int, tps: Sequence[TopicPartition]) -> None:
        call = log_requests.fetch(
            {tp: middles[tp] for tp in tps}, committed_only=False, params=FetchParams(max_bytes=_SAMPLES)
        )
        with contextlib.nullcontext() if strict else contextlib.suppress(KafkaFailure):
            response = await client.send(node, call, "sample batches")
            names = {middles[tp].topic_id: tp.topic for tp in tps}
            for tp, data in log_requests.read_fetched(response, call.API_VERSION, names).items():
                unanswered = of_code(data.error, "sample batches")
                if strict and unanswered is not None and unanswered.fault in _HEAL:
                    raise unanswered
                size = bytes_an_offset(data.records)
                if size is not None:
                    sizes[tp] = size

    await asyncio.gather(*(ask(node, tps) for node, tps in nodes.items()))
    return sizes


async def _topics(client: NetworkClient, options: RecordsOptions) -> list[str]:
    if not options.pattern:
        return list(options.assigned or options.topics)
    pattern = compile_java(options.pattern, "subscribePattern")
    return [
        name for name in await client.topic_names() if name not in _KAFKAS_OWN and pattern.fullmatch(name)
    ]


def _partitions(name: str, topic: TopicMetadata, options: RecordsOptions) -> list[TopicPartition]:
    numbers = options.assigned.get(name) or sorted(topic.partitions)
    for number in numbers:
        if number not in topic.partitions:
            count = len(topic.partitions)
            raise SourceRejected(
                f"there is no partition {name}-{number}: topic {name} has {count} partition(s)"
            )
    return [TopicPartition(name, number) for number in numbers]


async def _missing(client: NetworkClient, name: str) -> str:
    near = get_close_matches(name, await client.topic_names(), 1, 0.75)
    where = ",".join(client.settings.bootstrap_servers)
    text = f"there is no topic {name} on {where}"
    return text + (f"; did you mean {near[0]}?" if near else "")


def split(
    ranges: Sequence[OffsetRange],
    bytes_each: Mapping[TopicPartition, float],
    *,
    max_bytes: int,
    min_partitions: int = 1,
    max_offsets: int | None = None,
) -> list[tuple[OffsetRange, ...]]:
    """Splits ranges into what each Spark partition reads. `bytes_each`: bytes of an offset, for the partitions where
    that is known; for the others the mean of these is taken. `max_offsets`: of a Spark partition."""
    usual = sum(bytes_each.values()) / len(bytes_each) if bytes_each else _GUESS
    sizes = [(offset_range, bytes_each.get(offset_range.tp, usual)) for offset_range in ranges]
    total = sum((offset_range.end - offset_range.start) * size for offset_range, size in sizes)
    target = min(float(max_bytes), max(1.0, total / min_partitions))
    offsets = sum(offset_range.end - offset_range.start for offset_range in ranges)
    parts = _packed(sizes, target, max_offsets)
    for _ in range(_STEPS):
        if len(parts) >= min(min_partitions, offsets):
            break
        target *= _STEP
        parts = _packed(sizes, target, max_offsets)
    return parts


def _packed(
    sizes: Sequence[tuple[OffsetRange, float]], target: float, max_offsets: int | None
) -> list[tuple[OffsetRange, ...]]:
    parts: list[tuple[OffsetRange, ...]] = []
    together: list[OffsetRange] = []
    held, offsets = 0.0, 0
    for offset_range, size in sizes:
        count = offset_range.end - offset_range.start
        size *= count
        most = max_offsets or count
        pieces = min(count, max(1, math.ceil(size / target), math.ceil(count / most)))
        if pieces > 1:
            parts += ((piece,) for piece in _cut(offset_range, pieces))
            continue
        if together and (held + size > target or offsets + count > (max_offsets or math.inf)):
            parts.append(tuple(together))
            together, held, offsets = [], 0.0, 0
        together.append(offset_range)
        held, offsets = held + size, offsets + count
    return [*parts, tuple(together)] if together else parts


def _cut(offset_range: OffsetRange, pieces: int) -> list[OffsetRange]:
    count = offset_range.end - offset_range.start
    edges = [offset_range.start + count * number // pieces for number in range(pieces + 1)]
    return [offset_range._replace(start=start, end=end) for start, end in pairwise(edges) if start < end]
