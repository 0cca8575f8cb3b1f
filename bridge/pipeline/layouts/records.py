"""The records of the layout topic: layouts, reports of slices, and claims. Pure.

    key                                                value
    {"connector"}                                      LayoutRecord: the connector's newest layout
    {"connector", "slot"}                              SliceReport: what a slice has to say
    {"connector", "additions"}                         partitions that join a slice (see additions)
    {"connector", "left"}                              a transactional id that its slice has left (see left_ids)
    {"source", "target", "connector"}                  Claim: the connector copies the topic `source` to `target`

All are JSON objects. All connectors of one source alias share the topic, so each record counts for the connector that
its key names and no other. Version 0 wrote layouts under the bare name of the connector.

Anybody who may write to the topic may write nonsense into it: a record that is not to the letter what is described
here is passed over, and never ends a pipeline.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeGuard

from bridge.kafka.protocol.produce_requests import ProducerIdAndEpoch
from bridge.model.copying import PipelineSpec
from bridge.model.partition_states import PartitionStatus, pack, unpack
from bridge.model.state_records.claims import Claim, json_key, json_object
from bridge.model.values import LAST_PARTITION, LogRecord, TopicPartition
from bridge.pipeline.layouts.left_ids import read_left

VERSION = 1
MOST_SLOTS = 4096
"""Spark runs so many slices at a time at most; a record that tells of more is nonsense."""
_MOST_LAYOUTS = 1 << 53
_MOST_RATE = 1 << 63


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
        moved = [TopicPartition(*each) for each in moved]
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
    for each in records:
        if each.key == key:
            fields = LayoutRecord.decode(each.value)
            if each.value is not None:
                newest = fields or LayoutRecord(each.offset + 1, MOST_SLOTS)
        elif each.key == old_key:
            unversioned = LayoutRecord.decode(each.value)
    return LayoutTopic(newest, unversioned, read_claims(records), read_left(records, spec))


def read_partitions(
    records: Iterable[LogRecord], spec: PipelineSpec, layout: int
) -> Iterator[PartitionStatus]:
    """Yields what the connector's slices of this layout, and of the one before, have reported last of partitions that
    they do not copy. `records`: as for `read_layouts`."""
    newest = {each.key: SliceReport.decode(each.value) for each in records}
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
    for each in records:
        if each.key is not None and (claim := Claim.decode(each.key, each.value)) is not None:
            claims.pop(each.key, None)
            if each.value is not None:
                claims[each.key] = (not claim.settled, each.offset, claim)
    for each in undecided:
        if each.key is not None and each.value is not None and (claim := Claim.decode(each.key, each.value)):
            claims.setdefault(each.key, (True, each.offset, claim._replace(settled=False)))
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
    return isinstance(fields, str) and not any("\ud800" <= each <= "\udfff" for each in fields)


def _partition(fields: object) -> bool:
    """Whether it is a topic and the number of a partition."""
    return (
        isinstance(fields, list)
        and len(fields) == 2
        and _text(fields[0])
        and _number(fields[1], LAST_PARTITION)
    )
