"""Finds where each partition of a slice goes on, by its committed runs and both clusters as they are now.

Finds where partitions begin that join a slice, while the others are copied.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.admin.topic_configs import describe_configs
from bridge.kafka.consumer.fetcher import CompletedFetch
from bridge.kafka.consumer.log_bounds import bounds, open_transactions
from bridge.kafka.consumer.position_validation import (
    FetchError,
    FetchErrorKind,
    FetchPosition,
    log_errors,
)
from bridge.kafka.consumer.record_lookups import scan
from bridge.kafka.network.client import NetworkClient
from bridge.kafka.protocol.errors import failure, of_code
from bridge.kafka.record.batch import CorruptBatch, Damage, damage
from bridge.kafka.record.coalescing import DataBatches
from bridge.kafka.record.compression import stored_codec
from bridge.kafka.record.rebuilding import BatchPolicy, TopicLimits
from bridge.kafka.state_topics import read_committed
from bridge.model.copying import Copied, PipelineSpec
from bridge.model.lookups import Scan, Scanned
from bridge.model.values import Bounds, CopyId, Side, TopicPartition
from bridge.pipeline.layouts.records import Addition
from bridge.pipeline.slices.gaps import (
    Resume,
    agreement,
    contradicted,
    copied_again,
    copies_lost,
    not_empty,
    resume,
    why_not_again,
)
from bridge.pipeline.slices.verifying import ClusterLogs, copied_on, ignore_untrue
from bridge.translation.runs.partition_runs import PartitionRuns
from bridge.translation.runs.run_evidence import read_runs
from bridge.translation.runs.runs import OffsetRun, runs_of

_LARGEST = 1_048_588
"""max.message.bytes where we may not describe the topic: Kafka's default."""
_FIRST_LOOK, _LARGEST_LOOK = 64 * 1024, 8 * 1024 * 1024
"""Bytes of a log that are looked at for data at a time, where nothing is known of it."""


class Moved(Exception):
    """Source or remote topics are not those that the layout was made for: it has to be made anew."""

    def __init__(self, partitions: Iterable[TopicPartition]) -> None:
        self.partitions = sorted(partitions)
        super().__init__(", ".join(f"{topic}-{number}" for topic, number in self.partitions))


class LogDiverged(Exception):
    """The source's log is not the one that was copied, from `agrees_to` on; None: by its bounds, which are to be asked
    again."""

    def __init__(self, source: TopicPartition, agrees_to: int | None) -> None:
        super().__init__(
            f"the log of {source.topic}-{source.partition} was truncated: records that were copied are no longer in it"
        )
        self.source, self.agrees_to = source, agrees_to


class CopiesLost(Exception):
    """The target has put a batch at `base`, where copies stood: its log was truncated, or is that of another topic."""

    def __init__(self, copy: CopyId, base: int) -> None:
        (topic, partition), target = copy
        super().__init__(
            f"the copies of {topic}-{partition} in {target} from offset {base} on are lost: its log was "
            "truncated, or the topic was created again"
        )
        self.copy, self.base = copy, base


def fetch_failure(tp: TopicPartition, error: FetchError, runs: Sequence[OffsetRun]) -> Exception:
    """The exception that ends a copier's life for a partition's fetch error; `runs` are what was copied of it."""
    match error.kind:
        case FetchErrorKind.NOT_AUTHORIZED:
            reason = f"Not authorized to read topic {tp.topic}: grant READ on it"
            return KafkaFailure(KafkaFault.NOT_AUTHORIZED, reason)
        case FetchErrorKind.DIVERGED:
            return LogDiverged(tp, agreement(runs, error.epoch, error.end_offset))
        case FetchErrorKind.OUT_OF_RANGE:
            return LogDiverged(tp, None)
        case _:
            return Moved([tp])


def unreadable_from(tp: TopicPartition, error: FetchError, position: int) -> Damage | None:
    """Returns the damage of a log of which its broker sends nothing from the position on; None for another error."""
    if error.kind is not FetchErrorKind.SILENT:
        return None
    why = (
        f"the source sends nothing of {tp.topic}-{tp.partition} from offset {position} on, though its log goes on, as "
        "where the length of a batch is damaged on the broker's disk"
    )
    return Damage(position, None, why)


def batches_of(
    fetch: CompletedFetch, position: int, policy: BatchPolicy, *, committed_only: bool
) -> DataBatches:
    """Reads what is to be copied of a fetch, up to bytes that are not those that were written. Raises DamagedBatch
    where it begins with some: a second fetch may bring better ones."""
    aborted, log_end = (fetch.aborted, fetch.last_stable) if committed_only else (None, fetch.high_watermark)
    try:
        data = DataBatches.committed(fetch.records, position, aborted, policy, until_damage=True)
    except CorruptBatch:
        raise DamagedBatch(damage(fetch.records, position, log_end)) from None
    if data.incomplete:  # brokers send the first batch whole: what says otherwise is its length
        raise DamagedBatch(damage(fetch.records, position, log_end))
    return data


class DamagedBatch(Exception):
    """A batch of the source that can't be read."""

    def __init__(self, damage: Damage) -> None:
        super().__init__(damage.why)
        self.damage = damage


class Disconnected(Exception):
    """A connection to the target was lost. What is committed may lack a marker there, and is to be ended before
    anything follows it (see layouts.hanging)."""


class PolicySaysFail(Exception):
    """Something that the configuration says not to go on behind; the text names the partition, and the key."""


@dataclass(frozen=True, slots=True)
class Seen:
    """Facts about logs that a slice has found while it copied, and that no run holds yet. By source partition, up to
    where a log that diverged is still what was copied; by copy, where a remote log had come to an end."""

    agreed: dict[TopicPartition, int] = field(default_factory=dict)
    target_ends: dict[CopyId, int] = field(default_factory=dict)

    def clear(self) -> None:
        self.agreed.clear()
        self.target_ends.clear()


@dataclass(frozen=True, slots=True)
class Opened:
    """Where partitions begin. `starts`: by source partition; `ends`: where the source's log ended, as far as it may be
    copied; `failed`: why nobody can tell of the others, which have no leader, say. Of remote logs, `target_ends`: where
    they end; `lost_from`: the same of those where copies stood behind that.

    `held_back`: remote partitions in which a transaction is open, and where it begins. Where there are some, nothing
    else is known: they are to be ended first."""

    starts: Mapping[TopicPartition, Resume]
    ends: Mapping[TopicPartition, int]
    failed: Mapping[TopicPartition, KafkaFailure]
    target_ends: Mapping[CopyId, int]
    lost_from: Mapping[CopyId, int]
    held_back: Mapping[TopicPartition, int] = field(default_factory=dict)


async def open_partitions(
    source: NetworkClient,
    target: NetworkClient,
    spec: PipelineSpec,
    partitions: Sequence[Copied],
    runs: Mapping[CopyId, PartitionRuns],
    seen: Seen,
    *,
    ended: Set[TopicPartition] = frozenset(),
    ending: Set[TopicPartition] = frozenset(),
) -> Opened:
    """Finds where to go on, of each partition whose leaders answer on both sides. Newest runs that can't be true are
    passed over in `runs`. `ended`: remote partitions in which no transaction of ours is open, whatever is of others;
    `ending`: those that take no marker (see layouts.left_ids): a transaction with them could not be ended. Raises
    KafkaFailure, and Moved where a topic has another id than its Copied says."""
    committed_only = spec.committed_only
    await _same_topics(
        source,
        {partition.source.topic: partition.source_topic_id for partition in partitions},
        partitions,
        "READ",
    )
    copies = [copy for partition in partitions for copy in partition.copies]
    await _same_topics(
        target, {copy.target_topic: copy.target_topic_id for copy in copies}, partitions, "WRITE"
    )
    here, of_source = _by_answer(
        await bounds(source, [partition.source for partition in partitions], committed_only=committed_only)
    )
    remote = list({copy.remote: None for copy in copies})
    # The target's log with what is not committed: our own aborted copies are part of it too.
    logs_there, (begin, no_answer) = await asyncio.gather(
        bounds(target, remote, committed_only=False), open_transactions(target, remote)
    )
    no_answer |= {tp: _ending_failure(tp) for tp in remote if tp in ending}
    if held_back := {tp: offset for tp, offset in begin.items() if tp not in ended and tp not in ending}:
        return Opened({}, {}, {}, {}, {}, held_back)
    there, of_target = _by_answer({**logs_there, **no_answer})
    failed = of_source | {copy.source: of_target[copy.remote] for copy in copies if copy.remote in of_target}
    partitions = [partition for partition in partitions if partition.source not in failed]
    unknown = {
        copy.remote: there[copy.remote]
        for partition in partitions
        for copy in partition.copies
        if _unknown(partition, copy, runs)
    }
    there |= await _without_data(target, unknown)
    logs = ClusterLogs(source, here, committed_only), ClusterLogs(target, there, committed_only=True)
    partitions = await _with_copied_before(*logs, partitions, runs)
    ignored = await ignore_untrue(
        *logs,
        partitions,
        {partition.source: runs[partition.id] for partition in partitions},
    )
    agreed = await _agreed(source, partitions, runs) | seen.agreed
    now_ms = int(time.time() * 1000)
    starts = {}
    target_ends: dict[CopyId, int] = {}
    lost_from: dict[CopyId, int] = {}
    for partition in partitions:
        tp = partition.source
        ends = {
            copy.id: _ending(there[copy.remote], seen.target_ends.get(copy.id)) for copy in partition.copies
        }
        start = resume(
            partition,
            runs[partition.id].runs,
            _ending(here[tp], agreed.get(tp)),
            ends[partition.id],
            from_latest=spec.from_latest,
            now_ms=now_ms,
            not_again=why_not_again(partition, runs, ends) if spec.recopy else "",
        )
        target_ends |= {copy: log.end for copy, log in ends.items()}
        lost_from |= {
            copy.id: ends[copy.id].end
            for copy in partition.copies
            if (last := runs[copy.id].last) is not None
            and last.target_topic_id == copy.target_topic_id
            and ends[copy.id].end < last.downstream_end
        }
        gaps = list(start.gaps)
        for copy in partition.copies[1:]:
            if (last := runs[copy.id].last) is not None and start.again and last.upstream_count:
                gaps.append(copied_again(copy, start.offset, start.offset, now_ms))
            elif last is not None:
                gaps += copies_lost(copy, last, ends[copy.id], now_ms)
            elif partition.copied_before and runs[partition.id].last is None:
                gaps += not_empty(
                    copy, start.offset, ends[copy.id], spec.from_latest and partition.start is None, now_ms
                )
        if tp in ignored:
            gaps.insert(0, contradicted(partition, *ignored[tp], start.offset, now_ms))
        starts[tp] = start._replace(gaps=tuple(gaps))
    return Opened(starts, {tp: here[tp].end for tp in starts}, failed, target_ends, lost_from)


def _ending_failure(tp: TopicPartition) -> KafkaFailure:
    text = "An earlier transaction can't be ended there: it has no leader, or too few replicas in sync"
    return failure(KafkaFault.LEADER_MOVED, f"write to {tp.topic}-{tp.partition}", text)


def _by_answer(
    logs: Mapping[TopicPartition, Bounds | KafkaFailure],
) -> tuple[dict[TopicPartition, Bounds], dict[TopicPartition, KafkaFailure]]:
    known = {tp: log for tp, log in logs.items() if isinstance(log, Bounds)}
    return known, {tp: log for tp, log in logs.items() if isinstance(log, KafkaFailure)}


def _unknown(main: Copied, copy: Copied, runs: Mapping[CopyId, PartitionRuns]) -> bool:
    """Whether no run tells what the remote partition of a copy holds, and it counts whether that is anything."""
    last, own = runs[main.id].last, runs[copy.id].last
    if last is None:
        return copy is main or main.copied_before
    anew = last.target_topic_id != main.target_topic_id
    return anew and (own is None or own.target_topic_id != copy.target_topic_id or not own.upstream_count)


async def _with_copied_before(
    source: ClusterLogs,
    target: ClusterLogs,
    partitions: Sequence[Copied],
    runs: Mapping[CopyId, PartitionRuns],
) -> list[Copied]:
    """Marks partitions whose target somebody has copied to after a stock mirror: there what the target holds is a
    gap."""
    doubtful = [
        partition
        for partition in partitions
        if partition.start is not None
        and not partition.copied_before
        and runs[partition.id].last is None
        and target.bounds[partition.remote].start < target.bounds[partition.remote].end
    ]
    already = await copied_on(source, target, doubtful) if doubtful else set()
    return [
        replace(partition, copied_before=partition.copied_before or partition.source in already)
        for partition in partitions
    ]


def fetch_from(copied: Copied, offset: int, last: OffsetRun | None) -> FetchPosition:
    """The fetch position with the leader epoch of the last batch before the offset, -1 for unknown: by it a log that
    diverged is noticed. `last`: the newest run."""
    epoch = last.leader_epoch if last is not None and last.position == offset else -1
    return FetchPosition(copied.source_topic_id, offset, epoch)


async def topic_limits(target: NetworkClient, topics: Sequence[str]) -> dict[str, TopicLimits]:
    """Describes max.message.bytes and compression.type by topic."""
    limits = dict.fromkeys(topics, TopicLimits(_LARGEST))
    for topic, configs in (await describe_configs(target, topics)).items():
        if not isinstance(configs, KafkaFailure):
            largest = int(configs["max.message.bytes"].value or _LARGEST)
            limits[topic] = TopicLimits(largest, stored_codec(configs["compression.type"].value))
    return limits


async def _agreed(
    source: NetworkClient, partitions: Sequence[Copied], runs: Mapping[CopyId, PartitionRuns]
) -> dict[TopicPartition, int]:
    """The offsets up to which logs are still those that were copied, of those that are not. Their ends do not tell: a
    log that was cut back may be longer by now than it was. Needs `client.metadata` of the topics first."""
    positions = {
        partition.source: FetchPosition(partition.source_topic_id, last.position, last.leader_epoch)
        for partition in partitions
        if (last := runs[partition.id].last) is not None and last.source_topic_id == partition.source_topic_id
    }
    errors = await log_errors(source, positions)
    return {
        partition.source: agreement(runs[partition.id].runs, error.epoch, error.end_offset)
        for partition in partitions
        if (error := errors.get(partition.source)) is not None
    }


async def _without_data(
    target: NetworkClient, logs: Mapping[TopicPartition, Bounds]
) -> dict[TopicPartition, Bounds]:
    """Logs that hold nothing but what transactions left that were aborted, as empty ones: our first try may."""
    read_to = {tp: log.start for tp, log in logs.items() if log.start < log.end}
    empty = {}
    size = _FIRST_LOOK
    while read_to:
        needs = {tp: Scan(Side.TARGET, position, size) for tp, position in read_to.items()}
        scanned = await scan(target, {tp: [need] for tp, need in needs.items()}, committed_only=True)
        left = {}
        for tp, need in needs.items():
            position = _end_without_data(scanned[tp].get(need), need.offset)
            if position >= logs[tp].end:
                empty[tp] = replace(logs[tp], start=logs[tp].end)
            elif position > need.offset:
                left[tp] = position
        read_to, size = left, min(8 * size, _LARGEST_LOOK)
    return empty


def _end_without_data(scanned: Scanned | None, at: int) -> int:
    """The end of what was read from `at` on; `at` where something of it may be data."""
    end = at
    for first, after in scanned.without_data if scanned is not None else ():
        end = after if first <= end else end
    return end if scanned is not None and end >= scanned.end else at


def _ending(log: Bounds, end: int | None) -> Bounds:
    return log if end is None else replace(log, end=min(log.end, end))


async def _same_topics(
    client: NetworkClient, ids: Mapping[str, str], partitions: Sequence[Copied], right: str
) -> None:
    described = await client.metadata(list(ids))
    moved = set()
    for topic, expected in ids.items():
        meta = described[topic]
        failed = of_code(meta.error, f"describe topic {topic}", f"{right} on topic {topic}")
        if failed is not None and failed.fault is not KafkaFault.UNKNOWN_TOPIC:
            raise failed
        if failed is not None or (expected and meta.topic_id != expected):
            moved |= {
                partition.source
                for partition in partitions
                if topic in (partition.source.topic, *(copy.target_topic for copy in partition.copies))
            }
    if moved:
        raise Moved(moved)


class Joined(NamedTuple):
    """Partitions that join, and where they begin. `limits`: by target topic."""

    additions: Sequence[Addition]
    runs: Mapping[CopyId, PartitionRuns]
    opened: Opened
    limits: Mapping[str, TopicLimits]

    @property
    def partitions(self) -> list[Copied]:
        return [addition.copied for addition in self.additions]


async def open_joining(
    source: NetworkClient,
    target: NetworkClient,
    spec: PipelineSpec,
    additions: Sequence[Addition],
    *,
    retried: bool,
    ended: Set[TopicPartition],
    ending: Set[TopicPartition],
) -> Joined:
    """Finds where partitions begin that join. `retried`: the slice may have copied some of them before, so that only
    the runs topic tells how far. `ended` and `ending`: as of open_partitions.

    Raises KafkaFailure, and Moved where a topic has another id than its Copied says."""
    partitions = [addition.copied for addition in additions]
    if retried:
        ours = runs_of([partition.source for partition in partitions])
        records = await read_committed(target, spec.runs_topic, counts=ours)
    else:
        records = [run for addition in additions for run in addition.runs]
    known = read_runs(records)
    runs = {partition.id: known.get(partition.id) or PartitionRuns([]) for partition in partitions}
    opened = await open_partitions(source, target, spec, partitions, runs, Seen(), ended=ended, ending=ending)
    topics = sorted({partition.target_topic for partition in partitions})
    return Joined(additions, runs, opened, await topic_limits(target, topics))
