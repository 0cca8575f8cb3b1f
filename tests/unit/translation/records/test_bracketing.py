"""R1 and R2 on random histories against the brute-force model; every failure names the seed that replays it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator

import pytest

from bridge.model.values import Judgement, Verdict
from bridge.translation.records.bracketing import bracket
from bridge.translation.records.log_window import Caps
from bridge.translation.records.partition_cache import PartitionMemory
from tests.unit.translation.history import History, Kind
from tests.unit.translation.kinds import ALL, HISTORIES, KINDS, count
from tests.unit.translation.logs import Row
from tests.unit.translation.promises import caps_of, check

TOLD = os.environ.get("MIRROR_BRIDGE_HISTORIES")


def translate(history: History, offset: int, memory: PartitionMemory, caps: Caps) -> Verdict:
    steps = bracket(offset, history.source.bounds(), history.target.bounds(), memory, caps)
    return history.translate(steps)


def answers(history: History) -> Iterator[tuple[int, Caps, Verdict]]:
    """Of one connector, while the history goes on: what it remembers of the partition has seen the logs change."""
    memory = PartitionMemory()
    for _round in range(history.kind.rounds):
        caps = caps_of(history)
        offsets = [history.random.randint(0, history.source.end + 1) for _ in range(3)]
        for offset in [*offsets, history.source.end, history.source.start]:
            yield offset, caps, translate(history, offset, memory, caps)
        for _ in range(3):
            history.step()


def run(kind: Kind, seed: str, seen: Counter[str]) -> None:
    history = History(kind, seed)
    for offset, caps, verdict in answers(history):
        check(history, offset, verdict, f"seed {seed!r}, offset {offset}, {caps}, {verdict}")
        seen[verdict.judgement] += 1
        if caps.search_bytes >= 1000 * caps.read_bytes and aligned(history, offset):
            exact = verdict.judgement is Judgement.EXACT
            assert exact or loses_originals(kind), (
                f"aligned but not exact: seed {seed!r}, {offset}, {verdict}"
            )
            seen["aligned"] += 1
            seen["aligned and exact"] += exact


def loses_originals(kind: Kind) -> bool:
    """A copy may be of a record that the source has lost, which was the same as one that it still holds."""
    return kind.source_compaction or kind.source_retention


def aligned(history: History, offset: int) -> bool:
    """Both neighbours' copies exist, next to each other, their contents occur once on either side, and the mirror
    has not copied anything at or after the offset before them."""
    source, target = history.source.data(history.committed_only), history.visible()
    before = [row for row in source if row.offset < offset]
    after = [row for row in source if row.offset >= offset]
    if not before or not after or offset > history.source.end:
        return False
    here, there = [content(row) for row in source], [content(row) for row in target]
    places = []
    for row in (before[-1], after[0]):
        if here.count(content(row)) != 1 or there.count(content(row)) != 1:
            return False
        places.append(there.index(content(row)))
    return places[1] == places[0] + 1 and history.first_unprocessed(offset) == target[places[1]].offset


def content(row: Row) -> tuple[object, ...]:
    return row[1:5]  # timestamp, key, value, headers


@pytest.mark.parametrize("which", HISTORIES)
@pytest.mark.parametrize("name", KINDS)
def test_never_skips_and_never_reads_more_than_the_bound(name: str, which: str) -> None:
    seen: Counter[str] = Counter()
    histories = count(name, which, TOLD, 24, 400, 100)
    for number in range(histories):
        run(KINDS[name], f"{name}-{number}", seen)
    judged = seen["exact"] + seen["bounded"] + seen["pending"]
    print(name, dict(seen), f"{seen['exact'] / judged:.4f}")
    assert seen["exact"] > 0
    if which == ALL:
        assert seen["aligned and exact"] > (0 if loses_originals(KINDS[name]) else histories / 100)


@pytest.mark.parametrize("which", HISTORIES)
@pytest.mark.parametrize("name", ["plain", "out_of_order"])
def test_plain_and_out_of_order_logs_are_exact(name: str, which: str) -> None:
    exact = total = 0
    for number in range(count(name, which, TOLD, 40, 400, 400)):
        history = History(KINDS[name], f"exact-{name}-{number}")
        memory = PartitionMemory()
        for offset in range(history.source.end + 1):
            total += 1
            exact += translate(history, offset, memory, Caps()).judgement is Judgement.EXACT
    assert exact >= 0.99 * total
