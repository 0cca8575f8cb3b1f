"""B13: there and back. A group fails over by one flow and comes back by the other, on random histories: it never ends
above where it began, and never past a record that it has not read on either cluster."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Generator

import pytest

from bridge.model.lookups import Need, Window
from bridge.model.values import Verdict
from bridge.translation.evidence import both
from bridge.translation.records.bracketing import bracket
from bridge.translation.records.log_window import Caps
from bridge.translation.records.partition_cache import PartitionMemory
from tests.unit.translation.history import History, Kind
from tests.unit.translation.kinds import ALL, HISTORIES, count
from tests.unit.translation.kinds import KINDS as ALL_KINDS
from tests.unit.translation.logs import Partition
from tests.unit.translation.promises import caps_of
from tests.unit.translation.synced import Synced

TOLD = os.environ.get("MIRROR_BRIDGE_HISTORIES")
KINDS = {
    name: kind
    for name, kind in ALL_KINDS.items()
    if not kind.aborts or kind.mirror_committed or not (kind.twins or kind.resent)
}
"""All but where the first cluster holds aborted records (which the mirror copied) and the same again, committed and not
mirrored yet, with one timestamp: the way back reads committed data only, and takes the second for the first."""
STRIDES = (0, 1, 3, 1000)
"""Records that the group reads on the second cluster before it goes back."""


class Reversed(Partition):
    """The same two logs, seen by the flow back."""

    def __init__(self, history: History) -> None:
        super().__init__()
        self.source, self.target = history.target, history.source


def back(history: History, offset: int, caps: Caps) -> Verdict:
    logs = Reversed(history)
    steps: Generator[Need, Window | int | None, Verdict] = bracket(
        offset, logs.source.bounds(), logs.target.bounds(), PartitionMemory(), caps
    )
    return logs.translate(steps)


def first_unread(history: History, began: int, left: int) -> int:
    """Of the first cluster's records from `began` on, the first that the second holds from `left` on only, or that has
    still to be mirrored; the log's end when there is none. (What the second does not hold any more, or never did, the
    group has left behind when it failed over.)"""
    held = {row.origin for row in history.visible()}
    read = {row.origin for row in history.visible() if row.offset < left}
    unread = (
        row.offset
        for row in history.source.data(True)
        if row.offset >= began
        and row.offset not in read
        and (row.offset in held or row.offset >= history.reached)
    )
    return next(unread, history.source.end)


def lossy(kind: Kind) -> bool:
    """The second cluster may lack what the group has still to read. Then the place where it resumes there is that of a
    later record, and it is the loop guard that keeps it from being moved on the first (test_checkpoint_instance)."""
    return kind.latest or kind.target_retention or kind.target_compaction


@pytest.mark.parametrize("which", HISTORIES)
@pytest.mark.parametrize("name", KINDS)
def test_b13_there_and_back_never_ends_above_where_it_began(name: str, which: str) -> None:
    seen: Counter[str] = Counter()
    for number in range(count(name, which, TOLD, 6, 100, 16, part=20)):
        history = Synced(KINDS[name], f"back-{name}-{number}")
        memory = PartitionMemory()
        for offset in [history.random.randint(0, history.source.end) for _ in range(4)]:
            logs = history.source.bounds(), history.target.bounds()
            there = history.translate(both(offset, *logs, memory, history.bounds(offset), caps_of(history)))
            if there.offset is None:
                continue
            for stride in STRIDES:
                left = min(there.offset + stride, history.target.end)
                verdict = back(history, left, caps_of(history))
                seen[verdict.judgement] += 1
                if verdict.offset is None:
                    continue
                note = f"history {name!r} {number}: {offset} -> {there.offset}, read to {left} -> {verdict}"
                assert verdict.offset <= first_unread(history, offset, left), note
                if not stride and not lossy(KINDS[name]):
                    assert verdict.offset <= max(offset, history.source.start), note
    assert seen.total()
    if which == ALL:
        assert seen["exact"] > 0


def test_b13_in_a_plain_log_there_and_back_is_where_it_began() -> None:
    for number in range(20):
        history = Synced(KINDS["plain"], f"plain-{number}")
        for offset in range(history.source.start, history.source.end + 1):
            logs = history.source.bounds(), history.target.bounds()
            there = history.translate(both(offset, *logs, PartitionMemory(), history.bounds(offset)))
            assert there.offset is not None
            assert back(history, there.offset, Caps()).offset == offset
