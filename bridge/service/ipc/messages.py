"""Packs and unpacks the frames between the HTTP process and the rounds process.

A report is one zlib stream over its JSON with a preset dictionary, because most of a small report is field names: a
report of one partition takes about 150 bytes instead of 330. It stays compressed until a request needs it.

The desired state of the rounds process, connector by connector.

The frames between the HTTP process and the rounds process, length-prefixed, over a pipe.

    frame  := length u32 | kind u8 | payload
    DESIRED (down)          JSON: all connectors, their configurations and assignments; replaces the one before
    STOP (down)             empty: close everything and exit
    HEARTBEAT (up)          empty, once a second: the event loop runs
    SUMMARY (up)            JSON
    INSTANCE (up)           JSON: an instance started, or failed and waits
    GROUPS (up)             header length u32 | JSON header | the reports, compressed, one after the other
    RECORDS (up)            records for Connect to write (checkpoint_records.py)
    PROGRESS (up)           JSON: sums of a pipeline, partitions that changed, gaps, what was copied meanwhile
    BACKLOG (up)            JSON: records missing on the target, of partitions where their number changed
    OFFSET_REQUEST (up)     JSON: source partitions whose offsets Connect is asked for (state/source_offsets.py)
    STORED_OFFSETS (down)   JSON: Connect's answer
    OPERATION (down)        JSON: an operation for an instance (state/operations.py)
    OPERATION_RESULT (up)   JSON: its answer or error

A frame over the limit is never written: whoever reads one takes the stream for broken, and the rounds process would be
restarted, and write it again. What does not fit is divided, or is an error of its request or connector.
"""

from __future__ import annotations

import asyncio
import json
import struct
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import IntEnum
from typing import Any, NamedTuple, TypeVar

from pydantic.main import IncEx

from bridge.errors import TooLarge
from bridge.model.copying import CopySample, Progress
from bridge.model.partition_states import PartitionState, PartitionStates, pack, unpack
from bridge.model.values import Judgement, Reason, TopicPartition
from bridge.protocol.messages import CopyTotals, GapReport, GroupReport, PartitionReport
from connectors.base import Assignment, CopyReport, Missing, Summary

Config = Mapping[str, str | None]
_PUNCTUATION = 2
"""Characters that a setting counts beside its key and value: JSON has ten bytes of punctuation for it."""
LONG = struct.Struct(">I")
BATCH = 100
"""Groups in one frame: the HTTP process handles a frame in well under a millisecond."""
_DICTIONARY = (
    b'"target_state":"NOT_FOUND","STABLE","UNKNOWN","EMPTY","synced_at_ms":17"reason":"group_active_on_target"'
    b'"record_gone""not_mirrored_yet""copy_not_found""target_ahead""truncated"{"group":"","connector":"","source":"",'
    b'"target":"","task":0,"ready":true,"verdict":"pending","verdict":"bounded","bound":null,"target_offset":null,'
    b'"evidence":"timestamp","ready":false,"verdict":"exact","bound":0,"target_state":"EMPTY","synced_at_ms":17'
    b'"reason":null,"partitions":[{"topic":"","partition":0,"target_topic":"","committed":1,"target_offset":1,'
    b'"written":null,"verdict":"exact","evidence":"verified","bound":0,"reason":null,"flags":[],"detail":{}},'
    b'{"topic":"","partition":1,"target_topic":"","committed":1,"target_offset":1,"written":1,"verdict":"exact",'
    b'"evidence":"verified","bound":0,"reason":null,"flags":[],"detail":{}}],"checkpoint_latency_ms":null}'
)
Lacking = tuple[tuple[str, int, int | None], ...]
"""Topics and partitions of the source, with how many records; None for not known."""
MOST_OF_A_TEXT = 100_000
"""Characters of an error: one may repeat what a cluster, or users' code, has sent."""
Backlog = Mapping[TopicPartition, Missing | None]
# -- group reports ---------------------------------------------------------------------------------


_OF_PARTITIONS: IncEx = {"__all__": {"missing_records"}}
_ADDED: Mapping[str, IncEx | bool] = {
    "readiness": True,
    "as_of_ms": True,
    "reasons": True,
    "missing_records": True,
    "missing_since_ms": True,
    "partitions": _OF_PARTITIONS,
    "not_begun": _OF_PARTITIONS,
}
"""Fields of a report that the HTTP process fills in for each request."""
MOST_OF_A_REPORT = 16 << 20
"""Bytes of one group in a frame: with topic names as long as Kafka allows some hundred thousand partitions."""
Changed = Mapping[str, GroupReport | None]
T = TypeVar("T")
HEAD = struct.Struct(">IB")
MOST_BYTES = 64 << 20
PORTION_BYTES = 8 << 20
"""A frame of several items has no more, unless it has one item."""


def characters(config: Config) -> int:
    """The size of a configuration; JSON takes at most six bytes for each of these characters."""
    return sum(len(key) + len(value or "") + _PUNCTUATION for key, value in config.items())


@dataclass(frozen=True, slots=True)
class Desired:
    """The desired state of one connector: its configuration, and which tasks are active."""

    name: str
    kind: str
    config: Config
    generation: int
    assignment: Assignment


class PackedGroup(NamedTuple):
    """A group's report as the HTTP process keeps it: what listings need, and the whole report, compressed, in `blob`.
    `blob` is None for a group that is no longer reported."""

    group: str
    task: int
    ready: bool
    verdict: str
    bound: int | None
    reason: str | None
    partitions: int
    moved_ms: int | None
    """When it was failed over."""
    topics: tuple[str, ...]
    """Topics of the source that it has committed offsets for."""
    lacking: Lacking
    """Partitions of its topics of which the target lacks records that their copies have come past."""
    not_copied: tuple[str, ...]
    """Topics that it reads and the flow does not copy."""
    blob: bytes | None


def shortened(text: str) -> str:
    """Cuts off a text that is too long to be an error for people."""
    left_out = len(text) - MOST_OF_A_TEXT
    return text if left_out <= 0 else f"{text[:MOST_OF_A_TEXT]}… ({left_out} more characters)"


@dataclass(frozen=True, slots=True)
class InstanceStatus:
    """The state of an instance. `error` is set while it has failed and waits `retry_in` seconds to restart."""

    name: str
    generation: int
    error: str | None = None
    retry_in: float = 0.0
    restarts: int = 0


# -- desired state ---------------------------------------------------------------------------------


class DesiredPacker:
    """Packs the desired state. Packs each configuration once: all of them are 8 Mi characters at most, and the state is
    sent whenever one task starts or ends."""

    def __init__(self) -> None:
        self._configs: dict[str, tuple[int, bytes]] = {}
        """By connector: the generation, and what no task changes."""

    def pack(self, desired: Sequence[Desired]) -> bytes:
        known, self._configs = self._configs, {}
        items = []
        for item in desired:
            cached = known.get(item.name)
            if cached is None or cached[0] != item.generation:
                fields = {
                    "name": item.name,
                    "kind": item.kind,
                    "config": dict(item.config),
                    "generation": item.generation,
                }
                cached = item.generation, json.dumps(fields, ensure_ascii=False).encode()[:-1]
            self._configs[item.name] = cached
            assignment = {
                "task_count": item.assignment.task_count,
                "active": sorted(item.assignment.active),
            }
            items.append(cached[1] + b", " + json.dumps(assignment).encode()[1:])
        return b"[" + b", ".join(items) + b"]"


def pack_desired(desired: Sequence[Desired]) -> bytes:
    return DesiredPacker().pack(desired)


def unpack_desired(payload: bytes) -> tuple[Desired, ...]:
    return tuple(
        Desired(
            item["name"],
            item["kind"],
            item["config"],
            item["generation"],
            Assignment(item["task_count"], frozenset(item["active"])),
        )
        for item in json.loads(payload)
    )


# -- summaries and instances ---------------------------------------------------------------------------


def pack_summary(name: str, generation: int, summary: Summary) -> bytes:
    fields = asdict(summary) | {
        "clusters_seen": sorted(summary.clusters_seen),
        "failure": None if summary.failure is None else shortened(summary.failure),
        "errors": [shortened(error) for error in summary.errors],
        "partitions": {shortened(error): state for error, state in summary.partitions.items()},
    }
    return json.dumps([name, generation, fields]).encode()


def unpack_summary(payload: bytes) -> tuple[str, int, Summary]:
    name, generation, fields = json.loads(payload)
    fields["clusters_seen"] = frozenset(fields["clusters_seen"])
    fields["other_tasks"] = {int(task): tuple(checked) for task, checked in fields["other_tasks"].items()}
    fields["other_connectors"] = {
        other: tuple(checked) for other, checked in fields["other_connectors"].items()
    }
    if fields["group_connectors"] is not None:
        fields["group_connectors"] = {
            other: tuple(checked) for other, checked in fields["group_connectors"].items()
        }
    fields["partitions"] = {
        text: (PartitionState(state), since_ms) for text, (state, since_ms) in fields["partitions"].items()
    }
    for key in ("errors", "gaps", "tasks", "target_tasks"):
        fields[key] = tuple(fields[key])
    return name, generation, Summary(**fields)


def pack_instance_status(status: InstanceStatus) -> bytes:
    fields = asdict(status) | {"error": None if status.error is None else shortened(status.error)}
    return json.dumps(fields).encode()


def unpack_instance_status(payload: bytes) -> InstanceStatus:
    fields: dict[str, Any] = json.loads(payload)
    return InstanceStatus(**fields)


# -- progress of copying ---------------------------------------------------------------------------


def pack_progress(name: str, generation: int, report: CopyReport) -> bytes:
    gaps = None if report.gaps is None else [gap.model_dump() for gap in report.gaps]
    states = None if report.states is None else [report.states.usual, pack(report.states.apart)]
    fields = [
        report.totals.model_dump(),
        report.changed,
        report.gone,
        gaps,
        report.whole,
        report.samples,
        states,
    ]
    return json.dumps([name, generation, fields]).encode()


def unpack_progress(payload: bytes) -> tuple[str, int, CopyReport]:
    name, generation, (totals, changed, gone, gaps, whole, samples, states) = json.loads(payload)
    return (
        name,
        generation,
        CopyReport(
            CopyTotals.model_validate(totals),
            [Progress(*row) for row in changed],
            [TopicPartition(*tp) for tp in gone],
            None if gaps is None else [GapReport.model_validate(gap) for gap in gaps],
            whole,
            tuple(CopySample.from_row(row) for row in samples),
            None if states is None else PartitionStates(PartitionState(states[0]), unpack(states[1])),
        ),
    )


def pack_backlog(name: str, generation: int, changed: Backlog) -> bytes:
    rows = [[*tp, *(missing or ())] for tp, missing in changed.items()]
    return json.dumps([name, generation, rows]).encode()


def unpack_backlog(payload: bytes) -> tuple[str, int, Backlog]:
    name, generation, rows = json.loads(payload)
    changed = {
        TopicPartition(sys.intern(topic), partition): Missing(*missing) if missing else None
        for topic, partition, *missing in rows
    }
    return name, generation, changed


def pack_report(group: str, report: GroupReport | None) -> PackedGroup:
    if report is None:
        return PackedGroup(group, 0, False, "", None, None, 0, None, (), (), (), None)
    compressor = zlib.compressobj(1, zlib.DEFLATED, -15, 9, zlib.Z_DEFAULT_STRATEGY, _DICTIONARY)
    blob = compressor.compress(report.model_dump_json(exclude=_ADDED).encode()) + compressor.flush()
    return PackedGroup(
        group,
        report.task,
        report.ready,
        report.verdict,
        report.bound,
        report.reason,
        len(report.partitions),
        report.moved_at_ms,
        tuple(sorted({partition.topic for partition in report.partitions})),
        lacking(report),
        tuple(topic.topic for topic in report.not_copied),
        blob,
    )


def lacking(report: GroupReport) -> Lacking:
    """Returns the partitions of which a group would miss records that their copies have come past, also of those in
    which it has committed nothing."""
    begun = tuple(
        (part.topic, part.partition, count) for part in report.partitions if (count := _lacks(part)) != 0
    )
    return begun + tuple(
        (partition.topic, partition.partition, partition.not_on_target) for partition in report.not_begun
    )


def _lacks(part: PartitionReport) -> int | None:
    """Returns how many records of a partition a group would miss that the copy has come past. Those that are yet to be
    copied (`to_come`), or lie behind the position that is known, count as missing records already."""
    if part.reason == Reason.COPIES_UNKNOWN:
        return None
    count, *counted = map(part.detail.get, ("not_on_target", "to_come", "beyond_position"))
    absent = count if isinstance(count, int) else 0
    return absent - sum(number for number in counted if isinstance(number, int))


def packed_size(group: PackedGroup) -> int:
    """Most bytes that a group takes in a frame."""
    names = len(group.group) + sum(len(topic) + 1 for topic in group.topics)
    lacks = sum(len(topic) + 40 for topic, _, _ in group.lacking)
    return 100 + 6 * (names + lacks) + len(group.blob or b"")


def pack_fitting_report(group: str, report: GroupReport | None) -> PackedGroup:
    """Packs a report, without its partitions where it is too large: the reason says so then."""
    packed = pack_report(group, report)
    if report is None or packed_size(packed) <= MOST_OF_A_REPORT:
        return packed
    reduced = {
        "ready": False,
        "verdict": Judgement.PENDING.value,
        "bound": None,
        "reason": Reason.REPORT_TOO_LARGE.value,
        "partitions": [],
    }
    return pack_report(group, report.model_copy(update=reduced))


def unpack_report(blob: bytes) -> GroupReport:
    return GroupReport.model_validate_json(_decompressed(blob))


def partitions_of(blob: bytes) -> list[tuple[str, int]]:
    """Reads the topics and partitions of a report, in a tenth of the time that reading all of it takes."""
    return [(part["topic"], part["partition"]) for part in json.loads(_decompressed(blob))["partitions"]]


def _decompressed(blob: bytes) -> bytes:
    decompressor = zlib.decompressobj(-15, _DICTIONARY)
    return decompressor.decompress(blob) + decompressor.flush()


def pack_groups(name: str, generation: int, groups: Sequence[PackedGroup]) -> bytes:
    lines = [[*group[:-1], -1 if group.blob is None else len(group.blob)] for group in groups]
    header = json.dumps([name, generation, lines]).encode()
    return b"".join(
        [LONG.pack(len(header)), header, *(group.blob for group in groups if group.blob is not None)]
    )


def unpack_groups(payload: bytes) -> tuple[str, int, list[PackedGroup]]:
    (length,) = LONG.unpack_from(payload)
    at = LONG.size + length
    name, generation, lines = json.loads(payload[LONG.size : at])
    groups: list[PackedGroup] = []
    for *fields, topics, lacks, not_copied, size in lines:
        blob = None if size < 0 else payload[at : at + size]
        at += max(size, 0)
        names = (tuple(map(sys.intern, topics)), tuple(map(tuple, lacks)), tuple(map(sys.intern, not_copied)))
        groups.append(PackedGroup._make([*fields, *names, blob]))
    return name, generation, groups


class Frame(IntEnum):
    DESIRED = 1
    STOP = 2
    HEARTBEAT = 3
    SUMMARY = 4
    INSTANCE = 5
    GROUPS = 6
    RECORDS = 7
    PROGRESS = 8
    OFFSET_REQUEST = 9
    STORED_OFFSETS = 10
    BACKLOG = 11
    OPERATION = 12
    OPERATION_RESULT = 13


class FrameTooLarge(TooLarge):
    """A message that does not fit into a frame."""


def frame(kind: Frame, payload: bytes = b"") -> bytes:
    """Raises FrameTooLarge."""
    if len(payload) > MOST_BYTES:
        what = kind.name.lower().replace("_", " ")
        raise FrameTooLarge(
            f"{what}: it has {len(payload)} bytes, and the limit of a message is {MOST_BYTES}"
        )
    return HEAD.pack(len(payload), kind) + payload


async def read_frame(reader: asyncio.StreamReader) -> tuple[Frame, bytes] | None:
    """Reads the next frame; None at the end of the stream (a frame that is cut short counts as the end)."""
    try:
        length, kind = HEAD.unpack(await reader.readexactly(HEAD.size))
        if length > MOST_BYTES:
            raise ValueError(f"a frame of {length} bytes")
        return Frame(kind), await reader.readexactly(length)
    except asyncio.IncompleteReadError:
        return None


def in_portions(items: Iterable[T], most: int, size: Callable[[T], int]) -> Iterator[list[T]]:
    """Divides items into portions of `most` at most, and of PORTION_BYTES where that is more than one."""
    portion: list[T] = []
    filled = 0
    for item in items:
        added = size(item)
        if portion and (len(portion) == most or filled + added > PORTION_BYTES):
            yield portion
            portion, filled = [], 0
        portion.append(item)
        filled += added
    if portion:
        yield portion
