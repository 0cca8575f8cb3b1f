"""Packs and unpacks the frames between the HTTP process and the rounds process.

A report is one zlib stream over its JSON with a preset dictionary, because most of a small report is field names: a
report of one partition takes about 150 bytes instead of 330. It stays compressed until a request needs it.
"""

from __future__ import annotations

import json
import struct
import sys
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from pydantic.main import IncEx

from bridge.model.copy_samples import CopySample
from bridge.model.copying import Progress
from bridge.model.partition_states import PartitionState, PartitionStates, pack, unpack
from bridge.model.values import Judgement, Reason, TopicPartition
from bridge.protocol.messages import CopyTotals, GapReport, GroupReport, PartitionReport
from bridge.service.ipc.desired_state import Desired
from connectors.base import Assignment, CopyReport, Missing, Summary

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


MOST_OF_A_TEXT = 100_000
"""Characters of an error: one may repeat what a cluster, or users' code, has sent."""


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
            tuple(CopySample.of(row) for row in samples),
            None if states is None else PartitionStates(PartitionState(states[0]), unpack(states[1])),
        ),
    )


Backlog = Mapping[TopicPartition, Missing | None]


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
        tuple(sorted({each.topic for each in report.partitions})),
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
    return begun + tuple((each.topic, each.partition, each.not_on_target) for each in report.not_begun)


def _lacks(part: PartitionReport) -> int | None:
    """Returns how many records of a partition a group would miss that the copy has come past. Those that are yet to be
    copied (`to_come`), or lie behind the position that is known, count as missing records already."""
    if part.reason == Reason.COPIES_UNKNOWN:
        return None
    count, *counted = map(part.detail.get, ("not_on_target", "to_come", "beyond_position"))
    absent = count if isinstance(count, int) else 0
    return absent - sum(each for each in counted if isinstance(each, int))


MOST_OF_A_REPORT = 16 << 20
"""Bytes of one group in a frame: with topic names as long as Kafka allows some hundred thousand partitions."""


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


Changed = Mapping[str, GroupReport | None]
