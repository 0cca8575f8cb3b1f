"""The records of the layout topic: layouts, reports of slices, and claims. Pure.

    key                                                value
    {"connector"}                                      LayoutRecord: the connector's newest layout
    {"connector", "slot"}                              SliceReport: what a slice has to say
    {"connector", "additions"}                         partitions that join a slice (Addition)
    {"connector", "left"}                              a transactional id that its slice has left (see left_ids)
    {"source", "target", "connector"}                  Claim: the connector copies the topic `source` to `target`

All are JSON objects. All connectors of one source alias share the topic, so each record counts for the connector that
its key names and no other. Version 0 wrote layouts under the bare name of the connector.

Anybody who may write to the topic may write nonsense into it: a record that is not to the letter what is described
here is passed over, and never ends a pipeline.

The record that adds partitions to a slice of a layout that is copied already, and skips offsets in them. Pure.

    key                                                value
    {"connector", "additions"}                         all that was added to the slot of that number in this
                                                       layout, and all offsets that it is to leave out

A slice that copies goes on with what it has and takes these beside it: nothing else pauses. Nobody copies them before:
whatever an older layout had was fenced when this one was made, and what a layout loses makes a new one.

Whoever may write to the layout topic could have any topic copied to any other by such a record, so each is signed with
a key of its layout, which only the driver and the slices have.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeGuard

from bridge.kafka.protocol.produce_requests import ProducerIdAndEpoch
from bridge.model.copying import Copied, PipelineSpec
from bridge.model.partition_states import PartitionStatus, Skip, pack, unpack
from bridge.model.state_records.claims import Claim, json_key, json_object
from bridge.model.values import LAST_PARTITION, LogRecord, TopicPartition
from bridge.pipeline.layouts.left_ids import read_left
from bridge.pipeline.layouts.slots import Slice, balance

VERSION = 1
MOST_SLOTS = 4096
"""Spark runs so many slices at a time at most; a record that tells of more is nonsense."""
_MOST_LAYOUTS = 1 << 53
_MOST_RATE = 1 << 63
MOST_BYTES = 256 * 1024
"""Of a record's value: far below what a broker takes. What is more makes a new layout."""


class LayoutRecord(NamedTuple):
    """The newest layout of a connector.

    `slots`: the largest number of slots that any layout whose slots may not all be fenced has had, this one included;
    the next layout fences so many. `stop`: slices of this layout and older ones commit and end. `copied`: the connector
    has had offset runs; where it has none later, the runs topic has lost them. `rates`: bytes per second of each slot,
    none where the connector has no limit; they change within a layout.
    """

    layout: int
    slots: int
    stop: bool = False
    copied: bool = False
    rates: Sequence[int] = ()

    def value(self) -> bytes:
        return json.dumps({"version": VERSION, **self._asdict()}).encode()

    @classmethod
    def decode(cls, value: bytes | None) -> LayoutRecord | None:
        """Decodes a layout record; None for another kind of record; fields of later versions are passed over."""
        fields = json_object(value)
        layout, slots = fields.get("layout"), fields.get("slots")
        stop, copied = fields.get("stop", False), fields.get("copied", False)
        if not _number(layout, _MOST_LAYOUTS) or not _number(slots, MOST_SLOTS):
            return None
        if not isinstance(stop, bool) or not isinstance(copied, bool):
            return None
        rates = fields.get("rates", [])
        if not isinstance(rates, list) or len(rates) > MOST_SLOTS:
            return None
        if not all(_number(rate, _MOST_RATE) and rate for rate in rates):
            return None
        return cls(layout, slots, stop, copied, tuple(rates))


class SliceReport(NamedTuple):
    """A slice's report, written when it has changed.

    `error`: why it does not copy now, "" when it does. `failure`: permanent. `moved`: partitions whose topics are
    not those that they were. `ended`: why it has ended although its layout is the newest. After either the layout has
    to be made anew. `partitions`: those that are not copied now while the others are; the slices of later layouts read
    since when. `left`: it has ended because it has left its transactional id (see left_ids).
    """

    layout: int
    slot: int
    error: str = ""
    failure: str = ""
    moved: Sequence[TopicPartition] = ()
    ended: str = ""
    partitions: Sequence[PartitionStatus] = ()
    left: bool = False

    def value(self) -> bytes:
        fields = {"version": VERSION, **self._asdict(), "partitions": pack(self.partitions)}
        return json.dumps(fields).encode()

    @classmethod
    def decode(cls, value: bytes | None) -> SliceReport | None:
        """Decodes a report; None for another kind of record."""
        fields = json_object(value)
        layout, slot, moved = fields.get("layout"), fields.get("slot"), fields.get("moved", [])
        texts = [fields.get(name, "") for name in ("error", "failure", "ended")]
        if not _number(layout, _MOST_LAYOUTS) or not _number(slot, MOST_SLOTS):
            return None
        if not isinstance(moved, list) or not all(map(_partition, moved)):
            return None
        left = fields.get("left", False)
        if not all(map(_text, texts)) or not isinstance(left, bool):
            return None
        try:
            partitions = unpack(fields.get("partitions", []))
        except (TypeError, ValueError):
            return None
        error, failure, ended = texts
        moved = [TopicPartition(*pair) for pair in moved]
        return cls(layout, slot, error, failure, moved, ended, partitions, left)


def layout_key(spec: PipelineSpec) -> bytes:
    return json_key(connector=spec.name)


def report_key(spec: PipelineSpec, slot: int) -> bytes:
    return json_key(connector=spec.name, slot=slot)


def unversioned_layout_key(spec: PipelineSpec) -> bytes:
    """Returns the key under which version 0 keeps the newest layout."""
    return spec.name.encode()


class LayoutTopic(NamedTuple):
    """The layout topic's content for one connector."""

    newest: LayoutRecord
    """Layout 0 when there was none."""
    unversioned: LayoutRecord | None
    """As version 0 has left it: its slots have unescaped transactional ids."""
    claims: Mapping[tuple[str, str], Sequence[Claim]]
    """By source and target topic; the first one holds."""
    left: Mapping[int, ProducerIdAndEpoch]
    """Who has left transactional ids of slots last, by the ids' numbers."""

    def claim(self, copy: tuple[str, str]) -> Claim | None:
        """The claim that holds, of those to copy the source topic to the target topic."""
        claims = self.claims.get(copy)
        return claims[0] if claims else None

    def owner(self, copy: tuple[str, str]) -> str | None:
        """The connector that copies the source topic to the target topic."""
        claim = self.claim(copy)
        return claim.connector if claim is not None else None

    @property
    def before(self) -> LayoutRecord:
        """The newest layout of whatever version."""
        if self.unversioned is None:
            return self.newest
        newer = max(self.newest, self.unversioned, key=lambda each: each.layout)
        return newer._replace(slots=max(self.newest.slots, self.unversioned.slots))


def read_layouts(records: Iterable[LogRecord], spec: PipelineSpec) -> LayoutTopic:
    """Reads the layout topic. `records` are the committed ones, in the order of the log.

    A layout record of this connector that nobody can read has replaced the true one, so that neither its number nor its
    slots are known. Every layout has at least one record in the log: its offset is above any number that was given. And
    slots are fenced as many as there can be.
    """
    newest, unversioned, records = LayoutRecord(0, 0), None, list(records)
    key, old_key = layout_key(spec), unversioned_layout_key(spec)
    for record in records:
        if record.key == key:
            fields = LayoutRecord.decode(record.value)
            if record.value is not None:
                newest = fields or LayoutRecord(record.offset + 1, MOST_SLOTS)
        elif record.key == old_key:
            unversioned = LayoutRecord.decode(record.value)
    return LayoutTopic(newest, unversioned, read_claims(records), read_left(records, spec))


def read_partitions(
    records: Iterable[LogRecord], spec: PipelineSpec, layout: int
) -> Iterator[PartitionStatus]:
    """Yields what the connector's slices of this layout, and of the one before, have reported last of partitions that
    they do not copy. `records`: as for `read_layouts`."""
    newest = {record.key: SliceReport.decode(record.value) for record in records}
    for key, report in newest.items():
        if report is not None and report.layout >= layout - 1 and key == report_key(spec, report.slot):
            yield from report.partitions


def read_claims(
    records: Iterable[LogRecord], undecided: Iterable[LogRecord] = ()
) -> dict[tuple[str, str], list[Claim]]:
    """The claims of all connectors, by source and target topic: settled ones first, and then in the order of the log,
    where a claim that is settled has moved behind those that came after it. `undecided`: records of transactions that
    are open: one that makes a claim counts as not settled, one that ends it counts not."""
    claims: dict[bytes, tuple[bool, int, Claim]] = {}
    for record in records:
        if record.key is not None and (claim := Claim.decode(record.key, record.value)) is not None:
            claims.pop(record.key, None)
            if record.value is not None:
                claims[record.key] = (not claim.settled, record.offset, claim)
    for record in undecided:
        if (
            record.key is not None
            and record.value is not None
            and (claim := Claim.decode(record.key, record.value))
        ):
            claims.setdefault(record.key, (True, record.offset, claim._replace(settled=False)))
    held: dict[tuple[str, str], list[Claim]] = {}
    for *_, claim in sorted(claims.values()):
        held.setdefault((claim.source_topic, claim.target_topic), []).append(claim)
    return held


def unreadable(key: bytes | None, value: bytes | None) -> str | None:
    """Describes a record that is none of those above, for the log; None for one that is, or was dropped."""
    if value is None:
        return None
    names = set(json_object(key))
    layout, report = LayoutRecord.decode(value), SliceReport.decode(value)
    if names == {"connector"}:
        return None if layout else "its key is of a layout, and its value is none"
    if names == {"connector", "slot"}:
        return None if report else "its key is of a slice, and its value is no report"
    if names == {"connector", "left"}:
        return None  # of an older slice, or none: whoever needs it waits
    if names == {"connector", "additions"}:
        return None  # only its slice can tell whether it is signed
    if names:
        return None if Claim.decode(key) else "its key is of no record that this version knows"
    # Version 0 has bare names of connectors as keys.
    return None if layout or report else "it is no layout, no report and no claim"


def _number(fields: object, most: int) -> TypeGuard[int]:
    return isinstance(fields, int) and not isinstance(fields, bool) and 0 <= fields <= most


def _text(fields: object) -> bool:
    """Whether it is one that can be shown: JSON may hold halves of characters."""
    return isinstance(fields, str) and not any("\ud800" <= field <= "\udfff" for field in fields)


def _partition(fields: object) -> bool:
    """Whether it is a topic and the number of a partition."""
    return (
        isinstance(fields, list)
        and len(fields) == 2
        and _text(fields[0])
        and _number(fields[1], LAST_PARTITION)
    )


class Additions(NamedTuple):
    """What has come to a slice since its layout was made."""

    partitions: Sequence[Addition] = ()
    skips: Sequence[Skip] = ()


class Addition(NamedTuple):
    """A partition that a slice copies from now on; `runs`: the committed runs of its copies, as records."""

    copied: Copied
    runs: Sequence[LogRecord] = ()


def additions_key(spec: PipelineSpec, slot: int) -> bytes:
    return json.dumps({"connector": spec.name, "additions": slot}, separators=(",", ":")).encode()


def encode(work: Slice, additions: Additions) -> bytes:
    """The record's value: all that has come to this slice."""
    content = json.dumps(
        {
            "layout": work.layout,
            "slot": work.slot,
            "partitions": [_packed(partition) for partition in additions.partitions],
            "skips": additions.skips,
        },
        separators=(",", ":"),
    )
    return json.dumps({"version": VERSION, "content": content, "mac": _mac(work, content)}).encode()


def decode(value: bytes | None, work: Slice) -> Additions | None:
    """Decodes what has come to the slice; None for a record that is not of its layout, or that the driver has not
    signed."""
    try:
        fields = json.loads(value or b"null")
        content, mac = fields["content"], fields["mac"]
        if not hmac.compare_digest(_mac(work, content), mac):
            return None
    except (ValueError, RecursionError, TypeError, KeyError, AttributeError):
        return None
    known: Mapping[str, Any] = json.loads(content)  # signed: ours, to the letter
    if (known["layout"], known["slot"]) != (work.layout, work.slot):
        return None
    return Additions(
        [_unpacked(item) for item in known["partitions"]], [Skip(*item) for item in known.get("skips", ())]
    )


def joining(copied: Sequence[Copied], wanted: Sequence[Copied]) -> list[Copied] | None:
    """The partitions that are wanted and not copied yet; None where something that is copied is not wanted as it is."""
    held = {partition.source: partition for partition in copied}
    found = {copied.source: copied for copied in wanted}
    if any(found.get(source) != copied for source, copied in held.items()):
        return None
    return [copied for source, copied in found.items() if source not in held]


def spread(
    slots: Sequence[Sequence[Copied]], new: Sequence[Copied], weights: Mapping[TopicPartition, float]
) -> list[list[Copied]]:
    """The new partitions by slot: what the slots hold already counts as `balance` counts it."""
    unknown = min((weight for weight in weights.values() if weight > 0), default=1.0)
    loads = [sum(max(weights.get(copied.source, unknown), unknown) for copied in held) for held in slots]
    added: list[list[Copied]] = [[] for _ in slots]
    (ordered,) = balance(new, 1, weights) or [[]]
    for copied in ordered:
        lightest = loads.index(min(loads))
        added[lightest].append(copied)
        loads[lightest] += unknown
    return added


def _mac(work: Slice, content: str) -> str:
    return hmac.new(work.secret, content.encode(), hashlib.sha256).hexdigest()


def _packed(addition: Addition) -> list[object]:
    each = addition.copied
    runs = [(run.offset, run.timestamp, _decoded(run.key), _decoded(run.value)) for run in addition.runs]
    return [
        *each.source,
        each.source_topic_id,
        each.target_topic,
        each.target_topic_id,
        each.start,
        each.copied_before,
        runs,
    ]


def _unpacked(packed: Sequence[Any]) -> Addition:
    topic, partition, source_id, target, target_id, start, before, runs = packed
    copied = Copied(
        TopicPartition(topic, partition), source_id, target, target_id, start, copied_before=before
    )
    return Addition(
        copied, [LogRecord(at, time, _bytes(key), _bytes(value)) for at, time, key, value in runs]
    )


def _decoded(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
