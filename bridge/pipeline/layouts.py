"""Who copies what: a layout gives each partition to one slot. Pure.

A slice is one slot's lease of a layout. It holds until its deadline, or until the layout topic names a newer layout;
the transactional id belongs to the slot, so that whoever holds a newer lease of the slot fences the older one.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from bridge.translation.copying import Copied, PipelineSpec
from bridge.translation.model import LogRecord, TopicPartition

_VERSION = 0
CAUGHT_UP = "caught up"
"""Why a slice has ended that copied all there was (PipelineSpec.until_caught_up)."""


@dataclass(frozen=True, slots=True)
class Slice:
    """What one Spark task is given. `deadline` in seconds since the epoch; `runs` are the committed runs of its
    partitions when the layout was made, as records of the runs topic, for the task's first attempt."""

    spec: PipelineSpec
    layout: int
    slot: int
    deadline: float
    partitions: Sequence[Copied]
    runs: Sequence[LogRecord] = field(repr=False)

    @property
    def transactional_id(self) -> str:
        return transactional_id(self.spec, self.slot)


def transactional_id(spec: PipelineSpec, who: int | str) -> str:
    """One for each slot of a connector, and one for its `driver`; the source's alias keeps two flows of one connector
    name apart."""
    return f"mirror-bridge-{spec.source_alias}-{spec.name}-{who}"


def balance(
    partitions: Sequence[Copied], slots: int, weights: Mapping[TopicPartition, float]
) -> list[list[Copied]]:
    """Partitions by slot, at most `slots` of them and none empty: heaviest first, each to the lightest slot so far.

    `weights` are bytes per second; a partition that is not in it weighs as much as the lightest that is. Equal input
    gives equal output, whatever the order of `partitions`.
    """
    unknown = min((weight for weight in weights.values() if weight > 0), default=1.0)
    weigh = {each.source: max(weights.get(each.source, unknown), unknown) for each in partitions}
    filled: list[tuple[float, int, list[Copied]]] = [(0.0, slot, []) for slot in range(max(1, slots))]
    for each in sorted(partitions, key=lambda each: (-weigh[each.source], each.source)):
        load, slot, held = heapq.heappop(filled)
        held.append(each)
        heapq.heappush(filled, (load + weigh[each.source], slot, held))
    return [held for _, _, held in sorted(filled, key=lambda each: each[1]) if held]


class LayoutRecord(NamedTuple):
    """The newest layout of a connector, as the layout topic holds it under the connector's name.

    `slots`: how many transactional ids it uses, so that the next one can fence them all. `stop`: slices of this layout
    and older ones commit and end.
    """

    layout: int
    slots: int
    stop: bool = False

    def value(self) -> bytes:
        return json.dumps({"version": _VERSION, **self._asdict()}).encode()

    @classmethod
    def decode(cls, value: bytes | None) -> LayoutRecord | None:
        """None for what is no layout record; fields of later versions are passed over."""
        found = _object(value)
        layout, slots, stop = found.get("layout"), found.get("slots"), found.get("stop", False)
        if not isinstance(layout, int) or not isinstance(slots, int) or not isinstance(stop, bool):
            return None
        return cls(layout, slots, stop)


class SliceReport(NamedTuple):
    """What a slice has to say, in the layout topic under `<connector>/<slot>`, when it has something new to say.

    `error`: why it does not copy now, "" when it does. `failure`: permanent. `moved`: partitions whose topics are not
    those that they were. `ended`: why it has ended although its layout is the newest. After either the layout has to be
    made anew.
    """

    layout: int
    slot: int
    error: str = ""
    failure: str = ""
    moved: Sequence[TopicPartition] = ()
    ended: str = ""

    def value(self) -> bytes:
        return json.dumps({"version": _VERSION, **self._asdict()}).encode()

    @classmethod
    def decode(cls, value: bytes | None) -> SliceReport | None:
        found = _object(value)
        layout, slot = found.get("layout"), found.get("slot")
        if not isinstance(layout, int) or not isinstance(slot, int):
            return None
        moved = [TopicPartition(str(topic), int(number)) for topic, number in found.get("moved", ())]
        error, failure, ended = (str(found.get(name, "")) for name in ("error", "failure", "ended"))
        return cls(layout, slot, error, failure, moved, ended)


def report_key(spec: PipelineSpec, slot: int) -> bytes:
    return f"{spec.name}/{slot}".encode()


def layout_key(spec: PipelineSpec) -> bytes:
    return spec.name.encode()


def _object(value: bytes | None) -> Mapping[str, Any]:
    """What a JSON object holds; nothing for anything else."""
    try:
        found = json.loads(value or b"null")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
