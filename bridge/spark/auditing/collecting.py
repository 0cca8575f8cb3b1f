"""Asks both clusters what there is to compare: topics, logs, runs; and divides it.

Finds offsets of both logs that belong together where no run tells: so a partition of a stock mirror can be divided.

The record at an offset of the source is looked for on the target by its timestamp; the pair counts only if both logs
hold the same records there.
"""

from __future__ import annotations

import asyncio
import logging
import time
import zlib
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from bridge.audit.planning import Logs, planned
from bridge.audit.report import PartitionResult
from bridge.audit.stretches import (
    DIGEST,
    OFFSET,
    TIMESTAMP,
    LogPair,
    Numbers,
    Offsets,
    Rules,
    Stretch,
    joined,
)
from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.admin.topic_configs import describe_configs
from bridge.kafka.config.settings import client_settings
from bridge.kafka.consumer.log_bounds import bounds, offsets_at_times
from bridge.kafka.network.client import NetworkClient
from bridge.kafka.protocol import log_requests
from bridge.kafka.protocol.errors import of_code
from bridge.kafka.protocol.log_requests import FetchParams, FetchPartition, TopicMetadata
from bridge.kafka.record.batch import CorruptBatch
from bridge.kafka.record.coalescing import DataBatches
from bridge.kafka.record.hashes import digested
from bridge.kafka.record.rebuilding import decoded_each
from bridge.kafka.state_topics import read_committed
from bridge.model.state_records.fields import SchemaError
from bridge.model.values import Bounds, CopyId, Side, TopicPartition
from bridge.spark.auditing.options import AuditOptions
from bridge.spark.offsets import OffsetRange
from bridge.spark.planning import patiently, sampled
from bridge.translation.runs.partition_runs import PartitionRuns
from bridge.translation.runs.run_evidence import read_runs
from bridge.translation.runs.runs import OffsetRun

_BYTES, _BYTES_TOGETHER = 1024 * 1024, 64 * 1024 * 1024
_ALIKE = 32
"""Records in a row that are compared, as far as both fetches have them."""
PATIENCE = 60.0
"""Seconds for which a cluster that does not answer is asked again."""
LEADERLESS_SECONDS, PAUSE_SECONDS = 10.0, 0.5
"""For how long, and how often, a partition is asked again that does not answer while others do."""
_KAFKAS_OWN = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
_GUESS = 1024.0
"""Bytes of a record, where nothing is known."""
_CONTENT_PARTS = 4
"""Stretches are so many times larger where nothing is known of how logs belong together: to find out takes requests."""
_SAMPLED_PART = 8
"""Stretches are so many times smaller where only a share of them is compared: so a small share is of many places."""


class Cut(NamedTuple):
    """Where a partition is to be divided, about, and whether timestamps count."""

    logs: Logs
    offsets: Sequence[int]
    timed: bool


async def pairs(
    source: NetworkClient, target: NetworkClient, cuts: Sequence[Cut], *, committed_only: bool
) -> dict[TopicPartition, list[tuple[int, int]]]:
    """Offsets that belong together, in order, near those that are wanted; perhaps none. Raises KafkaFailure."""
    chosen: dict[TopicPartition, list[tuple[int, int]]] = {cut.logs.sides.source: [] for cut in cuts}
    for step in range(max((len(cut.offsets) for cut in cuts), default=0)):
        wanted = [cut for cut in cuts if step < len(cut.offsets)]
        for tp, pair in (await _step(source, target, wanted, step, committed_only)).items():
            before = chosen[tp][-1] if chosen[tp] else (-1, -1)
            if pair[0] > before[0] and pair[1] > before[1]:
                chosen[tp].append(pair)
    return chosen


async def _step(
    source: NetworkClient, target: NetworkClient, cuts: Sequence[Cut], step: int, committed_only: bool
) -> dict[TopicPartition, tuple[int, int]]:
    """One place of each partition."""
    timed = {cut.logs.sides.source.topic: cut.timed for cut in cuts}
    at = {
        cut.logs.sides.source: FetchPartition(cut.logs.sides.source_id, cut.offsets[step], _BYTES)
        for cut in cuts
    }
    first = await _records(source, at, timed, committed_only)
    times = {tp: int(some[TIMESTAMP, 0]) for tp, some in first.items() if some[TIMESTAMP, 0] >= 0}
    sides = {cut.logs.sides.source: cut.logs.sides for cut in cuts if cut.logs.sides.source in times}
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


class Work(NamedTuple):
    """A stretch, how it is compared, and about how many bytes it has on both sides."""

    stretch: Stretch
    rules: Rules
    size: int


@dataclass(slots=True)
class Collected:
    """What an audit has to compare. `failures`: of topics that can't be compared at all."""

    partitions: list[PartitionResult] = field(default_factory=list)
    work: list[Work] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


def collect(options: AuditOptions) -> Collected:
    """Raises KafkaFailure where a cluster does not answer."""

    async def once() -> Collected:
        clients = [
            NetworkClient(client_settings(side, options.props).raw) for side in (Side.SOURCE, Side.TARGET)
        ]
        try:
            return await AuditCollection(options, *clients).collected()
        finally:
            for client in clients:
                await client.close()

    # The library logs each failed attempt as an error; who asks gets one line.
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    return asyncio.run(patiently(once, PATIENCE))


class AuditCollection:
    def __init__(self, options: AuditOptions, source: NetworkClient, target: NetworkClient) -> None:
        self._options, self._source, self._target = options, source, target
        self.result = Collected()

    async def collected(self) -> Collected:
        names = await self._topics()
        copies, sources = await self._pairs(names)
        rules = await self._rules({name: names[name] for name in sources})
        copies = [copy for copy in copies if copy.source.topic in rules]
        # The target first, then the runs, then the source: runs tell of all copies that the target has by now, and the
        # source has the originals of all of them.
        bounds = await self.readable_bounds(
            self._target, [copy.target for copy in copies], committed_only=True
        )
        runs = await self._runs()
        committed = self._options.source.committed_only
        here = await self.readable_bounds(
            self._source, [copy.source for copy in copies], committed_only=committed
        )
        copies = [copy for copy in copies if copy.source in here and copy.target in bounds]
        wanted = await self._wanted(
            self._source, {copy.source: here[copy.source] for copy in copies}, committed
        )
        wanted_target = await self._wanted(
            self._target, {copy.target: bounds[copy.target] for copy in copies}, True
        )
        logs = [
            Logs(
                copy,
                here[copy.source],
                bounds[copy.target],
                _applying(runs.get(CopyId(copy.source, copy.target.topic)), copy),
                wanted.get(copy.source),
                wanted_target.get(copy.target),
            )
            for copy in copies
        ]
        sizes = await sampled(
            self._source,
            [
                OffsetRange(log.sides.source, log.sides.source_id, log.source.start, log.source.end)
                for log in logs
                if log.source.start < log.source.end
            ],
        )
        for stretch in await self._divided(logs, rules, sizes):
            self._add(stretch, rules[stretch.sides.source.topic], sizes)
        if self._options.sample is not None:
            self.result.work = share_of(self.result.work, self._options.sample)
        return self.result

    async def _divided(
        self, logs: Sequence[Logs], rules: Mapping[str, Rules], sizes: Mapping[TopicPartition, float]
    ) -> list[Logs]:
        """The logs, those without runs with offsets at which they can be divided."""
        cuts = list[Cut]()
        for log in logs:
            rule, size = rules[log.sides.source.topic], _size(log, sizes)
            if log.runs or rule.source_compacted or rule.target_compacted:
                continue
            whole = log.wanted or Offsets(log.source.start, log.source.end)
            parts = int(whole.size * size / (self._stretch_bytes * _CONTENT_PARTS))
            places = [whole.start + whole.size * part // (parts + 1) for part in range(1, parts + 1)]
            if places:
                cuts.append(Cut(log, places, rule.timed))
        committed = self._options.source.committed_only
        by_source = await pairs(self._source, self._target, cuts, committed_only=committed)
        return [replace(log, pairs=by_source.get(log.sides.source, ())) for log in logs]

    @property
    def _stretch_bytes(self) -> int:
        return self._options.stretch_bytes // (_SAMPLED_PART if self._options.sample is not None else 1)

    def _add(self, logs: Logs, rules: Rules, sizes: Mapping[TopicPartition, float]) -> None:
        size = _size(logs, sizes)
        compacted = rules.source_compacted or rules.target_compacted
        plan = planned(logs, max(1, int(self._stretch_bytes / size)), whole_partition=compacted)
        held = sum(each.end - each.start for each in (logs.source, logs.target))
        report = PartitionResult(logs.sides.source, logs.sides.target, bool(logs.runs), offsets=held)
        report.findings.not_compared = plan.not_compared
        self.result.partitions.append(report)
        self.result.work += (
            Work(stretch, rules, int((stretch.source.size + stretch.target.size) * size))
            for stretch in plan.stretches
        )

    async def _topics(self) -> dict[str, str]:
        """The topics of the source that are audited, with those that have their copies."""
        options = self._options
        listed = await self._source.topic_names()
        named = filter(_is_name, options.topics) if options.topics else options.source.named_topics
        # What is not listed is missing, or hidden from who may not describe it: asked for by name the cluster says.
        await self._described(self._source, "source", [name for name in named if name not in listed])
        chosen = [name for name in listed if name not in _KAFKAS_OWN and options.chosen(name)]
        for name in options.topics:
            if name in listed and name not in chosen:
                self.result.failures.append(f"topic {name} is not one that the configuration replicates")
        return {name: options.source.remote(name) for name in sorted(chosen)}

    async def _pairs(self, names: Mapping[str, str]) -> tuple[list[LogPair], Mapping[str, TopicMetadata]]:
        sources = await self._described(self._source, "source", names)
        targets = await self._described(self._target, "target", [names[name] for name in sources])
        kept = {name: meta for name, meta in sources.items() if names[name] in targets}
        pairs = list[LogPair]()
        for name, meta in kept.items():
            remote = targets[names[name]]
            await self._report_partitions_without_source(name, meta, names[name], remote)
            for number in sorted(meta.partitions):
                if number not in remote.partitions:
                    self.result.failures.append(f"topic {names[name]} has no partition {number}")
                    continue
                pairs.append(
                    LogPair(
                        TopicPartition(name, number),
                        meta.topic_id,
                        TopicPartition(names[name], number),
                        remote.topic_id,
                    )
                )
        return pairs, kept

    async def _report_partitions_without_source(
        self, name: str, meta: TopicMetadata, remote_name: str, remote: TopicMetadata
    ) -> None:
        """Reports records in partitions that only the target has: they are nobody's copies."""
        numbers = sorted(remote.partitions.keys() - meta.partitions.keys())
        more = [TopicPartition(remote_name, number) for number in numbers]
        logs = await self.readable_bounds(self._target, more, committed_only=True) if more else {}
        self.result.failures += [
            f"partition {tp.partition} of topic {tp.topic} has offsets from {log.start} to {log.end}, and topic {name} "
            "has no such partition: its records are no copies"
            for tp, log in logs.items()
            if log.start < log.end
        ]

    async def _described(
        self, client: NetworkClient, side: str, names: Collection[str]
    ) -> dict[str, TopicMetadata]:
        described = await client.metadata(list(names)) if names else {}
        there = dict[str, TopicMetadata]()
        for name, meta in described.items():
            failed = of_code(meta.error, f"describe topic {name}", f"READ on topic {name}")
            if failed is None:
                there[name] = meta
            elif failed.fault is KafkaFault.UNKNOWN_TOPIC:
                self.result.failures.append(f"there is no topic {name} on the {side} cluster")
            else:
                self.result.failures.append(f"{side} cluster: {failed}")
        return there

    async def _rules(self, names: Mapping[str, str]) -> dict[str, Rules]:
        """How the records of each topic are compared; what can't be known leaves the topic out."""
        here = await describe_configs(self._source, list(names))
        there = await describe_configs(self._target, list(names.values()))
        rules = dict[str, Rules]()
        for name, remote in names.items():
            both = []
            for side, configs in (("source", here[name]), ("target", there[remote])):
                if isinstance(configs, KafkaFailure):
                    text = (
                        f"{side} cluster: {configs}: whether compaction may have taken records is not known"
                    )
                    self.result.failures.append(text)
                else:
                    both.append(configs)
            if len(both) < 2:
                continue
            policies = [configs["cleanup.policy"].value or "" for configs in both]
            kind = both[1].get("message.timestamp.type")
            rules[name] = Rules(
                self._options.window_ms,
                self._options.listed,
                timed=kind is None or kind.value != "LogAppendTime",
                source_compacted="compact" in policies[0],
                target_compacted="compact" in policies[1],
            )
        return rules

    async def readable_bounds(
        self, client: NetworkClient, tps: Sequence[TopicPartition], *, committed_only: bool
    ) -> dict[TopicPartition, Bounds]:
        logs = dict[TopicPartition, Bounds]()
        left, until = list(tps), time.monotonic() + LEADERLESS_SECONDS
        while left:
            answers = await bounds(client, left, committed_only=committed_only)
            logs |= {tp: log for tp, log in answers.items() if isinstance(log, Bounds)}
            failed = {tp: log for tp, log in answers.items() if isinstance(log, KafkaFailure)}
            left = [tp for tp, failure in failed.items() if failure.retriable]
            if time.monotonic() > until:
                # One partition without a leader keeps nobody from the others.
                left = []
            self.result.failures += [str(failure) for tp, failure in failed.items() if tp not in left]
            if left:
                await asyncio.sleep(PAUSE_SECONDS)
                await client.metadata(sorted({tp.topic for tp in left}))
        return logs

    async def _runs(self) -> Mapping[CopyId, PartitionRuns]:
        """The runs of the mirror; none where it has left none, as stock's."""
        options = self._options.source
        topic = options.policy.offset_runs_topic(options.source_alias)
        meta = (await self._target.metadata([topic]))[topic]
        failed = of_code(meta.error, f"describe topic {topic}", f"READ on topic {topic}")
        if failed is not None and failed.fault is KafkaFault.UNKNOWN_TOPIC:
            return {}
        if failed is not None:
            raise failed
        errors: list[SchemaError] = []
        runs = read_runs(await read_committed(self._target, topic), errors)
        if errors:
            self.result.failures.append(f"{len(errors)} record(s) of {topic} can't be read: {errors[0]}")
        return runs

    async def _wanted(
        self, client: NetworkClient, logs: Mapping[TopicPartition, Bounds], committed_only: bool
    ) -> dict[TopicPartition, Offsets]:
        """The offsets of the times that are asked for; none where that is all."""
        options = self._options
        if (options.since is None and options.until is None) or not logs:
            return {}

        async def at(time: int | None) -> Mapping[TopicPartition, int | None]:
            if time is None:
                return {}
            asked = dict.fromkeys(logs, time)
            return await offsets_at_times(client, asked, committed_only=committed_only)

        since, until = await at(options.since), await at(options.until)
        result = dict[TopicPartition, Offsets]()
        for tp, log in logs.items():
            start = log.start if options.since is None else _inside(log, since.get(tp))
            end = log.end if options.until is None else _inside(log, until.get(tp))
            result[tp] = Offsets(start, max(start, end))
        return result


def _size(logs: Logs, sizes: Mapping[TopicPartition, float]) -> float:
    """Bytes of an offset of the source, about."""
    usual = sum(sizes.values()) / len(sizes) if sizes else _GUESS
    return sizes.get(logs.sides.source, usual)


def _inside(log: Bounds, offset: int | None) -> int:
    return log.end if offset is None else max(log.start, min(offset, log.end))


def _applying(runs: PartitionRuns | None, sides: LogPair) -> Sequence[OffsetRun]:
    """The runs, if they are of the topics that there are now."""
    if runs is None or runs.last is None:
        return ()
    last = runs.last
    ours = last.source_topic_id == sides.source_id and last.target_topic_id == sides.target_id
    return tuple(runs.runs) if ours and not last.handed_back else ()


def _is_name(text: str) -> bool:
    return all(character.isalnum() or character in "._-" for character in text)


def share_of(work: Sequence[Work], share: float) -> list[Work]:
    """The same share of the same stretches each time, and one at least."""
    numbers = [zlib.crc32(repr(each.stretch[:3]).encode()) / 2**32 for each in work]
    chosen = [each for number, each in zip(numbers, work, strict=True) if number < share]
    least = min(numbers, default=0.0)
    return chosen or [each for number, each in zip(numbers, work, strict=True) if number == least]
