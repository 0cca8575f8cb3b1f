"""Layouts and slices: which slot copies which partition. Pure.

A slice is one slot's lease of a layout. It holds for its time, or until the layout topic names a newer layout;
the transactional id belongs to the slot, so that whoever holds a newer lease of the slot fences the older one.
What the layout topic holds is in `records`.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Protocol

from bridge.model.copying import Copied, PipelineSpec
from bridge.model.values import LogRecord, TopicPartition

CAUGHT_UP = "caught up"
"""Why a slice has ended that copied all there was (PipelineSpec.until_caught_up)."""
LEFT_ID = "left its transactional id"
"""Why a slice has ended that could not end its last transaction (see left_ids)."""


@dataclass(frozen=True, slots=True)
class Slice:
    """The work of one Spark task. `seconds`: for how long it copies at most from its start on, by its machine's clock;
    `runs` are the committed runs of its partitions when the layout was made, as records of the runs topic, for the
    task's first attempt. `rate`: bytes per second that it begins with; 0 for no limit. `secret`: signs what is added to
    the layout (see records). `number`: of its transactional id, where it is not that of the slot; `left`: numbers of
    ids that were passed over (see left_ids)."""

    spec: PipelineSpec
    layout: int
    slot: int
    seconds: float
    partitions: Sequence[Copied]
    runs: Sequence[LogRecord] = field(repr=False)
    rate: int = 0
    secret: bytes = field(default=b"", repr=False)
    number: int | None = None
    left: Collection[int] = ()

    @property
    def transactional_id(self) -> str:
        return transactional_id(self.spec, self.slot if self.number is None else self.number)


class Jobs(Protocol):
    """Runs slices side by side."""

    @property
    def slots(self) -> int: ...

    @property
    def ui(self) -> str: ...

    def start(self, slices: Sequence[Slice]) -> Future[list[str]]: ...

    def cancel(self) -> None: ...

    def lost(self) -> str:
        """Returns why nothing can run here any more; "" while something can. Blocking."""
        ...


def transactional_id(spec: PipelineSpec, who: int | str) -> str:
    """One for each slot of a connector, and one for its `driver`."""
    return connector_id(spec.source_alias, spec.name, who)


def connector_id(source_alias: str, connector: str, who: int | str) -> str:
    """A transactional id by names. The source's alias keeps two flows of one connector name apart. Dashes of the alias
    are escaped: alias `eu` with connector `west-m` is not alias `eu-west` with `m`."""
    alias = source_alias.replace("%", "%25").replace("-", "%2D")
    return f"mirror-bridge-{alias}-{connector}-{who}"


def unescaped_id(spec: PipelineSpec, who: int | str) -> str:
    """The transactional id of a layout of version 0, to fence what its slices have left open."""
    return f"mirror-bridge-{spec.source_alias}-{spec.name}-{who}"


def balance(
    partitions: Sequence[Copied], slots: int, weights: Mapping[TopicPartition, float]
) -> list[list[Copied]]:
    """Partitions by slot, at most `slots` of them and none empty: heaviest first, each to the lightest slot so far.

    `weights` are bytes per second; a partition that is not in it weighs as much as the lightest that is. Equal input
    gives equal output, whatever the order of `partitions`.
    """
    unknown = min((weight for weight in weights.values() if weight > 0), default=1.0)
    weigh = {
        partition.source: max(weights.get(partition.source, unknown), unknown) for partition in partitions
    }
    filled: list[tuple[float, int, list[Copied]]] = [(0.0, slot, []) for slot in range(max(1, slots))]
    for partition in sorted(partitions, key=lambda each: (-weigh[each.source], each.source)):
        load, slot, held = heapq.heappop(filled)
        held.append(partition)
        heapq.heappush(filled, (load + weigh[partition.source], slot, held))
    return [held for _, _, held in sorted(filled, key=lambda each: each[1]) if held]
