"""Offsets on the target by each way of translating: the timestamp rule, stock's checkpoints, and ours as committed.

The offsets at which groups have to resume, by brute force from both logs read whole. Pure, and simple on purpose.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import httpx
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec

from bridge.client import translate_offsets
from bridge.demo.data import WAIT, Groups, admin, committed
from bridge.demo.logs import Entry, PartitionLog, Tp, first_from, reader
from bridge.errors import KafkaFailure, KafkaFault
from bridge.local.processes import NO_AUTHORITIES
from bridge.protocol.messages import ConnectorStatus, GroupReports, PartitionReport

Answers = dict[tuple[str, Tp], int]
"""Target offsets by group and source partition; without an entry where a way of translating has none."""


def by_timestamp(source: str, target: str, alias: str, groups: Groups) -> Answers:
    """The earliest target offset whose timestamp is that of the record at the committed offset, or later.

    No offset where there is no such record (a hole, a control record, the end of the log), or no copy of it.
    """
    seen: dict[Tp, dict[int, int]] = {}
    answers: Answers = {}
    client = admin(target)
    with reader(source, committed_only=True) as consumer:
        for group, offsets in groups.items():
            for tp, offset in offsets.items():
                by_offset = seen.setdefault(tp, {})
                if offset not in by_offset:
                    by_offset[offset] = -1
                    record = first_from(consumer, tp, offset)
                    if record is not None and record[0] == offset:
                        by_offset[offset] = _earliest(client, alias, tp, record[1].timestamp)
                if by_offset[offset] >= 0:
                    answers[group, tp] = by_offset[offset]
    return answers


def checkpoints(target: str, alias: str) -> Answers:
    """The last checkpoint of every group and partition in stock's topic."""
    try:
        groups = translate_offsets({"bootstrap.servers": target}, alias, re.compile(".*"), WAIT)
    except KafkaFailure as error:
        if error.fault is KafkaFault.UNKNOWN_TOPIC:
            return {}
        raise
    return {
        (group, (topic.removeprefix(f"{alias}."), partition)): position.offset
        for group, offsets in groups.items()
        for (topic, partition), position in offsets.items()
    }


def on_target(target: str, alias: str, groups: Groups) -> Answers:
    """The offsets that groups have on the target, at which their consumers would resume."""
    client = admin(target)
    return {
        (group, (topic.removeprefix(f"{alias}."), partition)): offset
        for group in groups
        for (topic, partition), offset in committed(client, group).items()
    }


def verdicts(service: str, connector: str, group: str) -> Mapping[Tp, PartitionReport]:
    """The service's report of a group, by source partition; empty while it does not know the group."""
    response = httpx.get(f"{service}/v1/groups/{group}", timeout=WAIT, verify=NO_AUTHORITIES)
    if response.status_code == httpx.codes.NOT_FOUND:
        return {}
    reports = GroupReports.model_validate_json(response.raise_for_status().content).reports
    mine = [report for report in reports if report.connector == connector]
    return {(row.topic, row.partition): row for report in mine for row in report.partitions}


def connector_errors(service: str, connector: str) -> list[str]:
    """The errors that the service reports of the connector."""
    response = httpx.get(f"{service}/v1/connectors/{connector}/status", timeout=WAIT, verify=NO_AUTHORITIES)
    if response.is_error:
        return [f"the service answers {response.status_code} when asked for {connector}"]
    status = ConnectorStatus.model_validate_json(response.content)
    return [*status.errors, *([status.failure] if status.failure else [])]


def _earliest(client: AdminClient, alias: str, tp: Tp, timestamp: int) -> int:
    copy = TopicPartition(f"{alias}.{tp[0]}", tp[1])
    (future,) = client.list_offsets({copy: OffsetSpec.for_timestamp(timestamp)}).values()
    return int(future.result(WAIT).offset)


@dataclass(frozen=True, slots=True)
class Alignment:
    """Records of the source and their copies on the target, both in order."""

    upstream: tuple[int, ...]
    """Source offsets of the matched records, ascending."""
    downstream: tuple[int, ...]
    """Target offsets of their copies, ascending."""
    missing: int
    """Records of the source without a copy."""
    foreign: int
    """Records of the target that are not copies."""


def align(source: Sequence[Entry], target: Sequence[Entry]) -> Alignment:
    """Matches records in order: each of the target with the first of the source that is equal to it and comes after the
    last match."""
    pairs: list[tuple[int, int]] = []
    positions: Mapping[bytes, Sequence[int]] | None = None
    position = 0
    for entry in target:
        if position < len(source) and source[position].digest == entry.digest:
            match = position
        else:
            positions = positions if positions is not None else _positions(source)
            candidates = positions.get(entry.digest, ())
            candidate = bisect_left(candidates, position)
            if candidate == len(candidates):
                continue
            match = candidates[candidate]
        pairs.append((source[match].offset, entry.offset))
        position = match + 1
    return Alignment(
        tuple(up for up, _ in pairs),
        tuple(down for _, down in pairs),
        len(source) - len(pairs),
        len(target) - len(pairs),
    )


def exact_offset(committed: int, alignment: Alignment, target_end: int) -> int:
    """The target offset of the first record at or after `committed` that has a copy; the target's log end if none
    has."""
    first = bisect_left(alignment.upstream, committed)
    return alignment.downstream[first] if first < len(alignment.downstream) else target_end


def reread(offset: int | None, exact: int, target: PartitionLog) -> int | None:
    """How many records a consumer that starts at `offset` re-reads; negative: how many it skips. None without an
    offset."""
    if offset is None:
        return None
    offsets = target.offsets
    return bisect_left(offsets, exact) - bisect_left(offsets, offset)


def _positions(source: Sequence[Entry]) -> dict[bytes, list[int]]:
    positions: dict[bytes, list[int]] = {}
    for position, entry in enumerate(source):
        positions.setdefault(entry.digest, []).append(position)
    return positions
