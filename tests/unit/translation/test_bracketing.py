"""R1 and R2 on random histories against the brute-force model; every failure names the seed that replays it."""

from __future__ import annotations

import os
from collections import Counter

import pytest

from bridge.translation.bracketing import bracket
from bridge.translation.memory import PartitionMemory
from bridge.translation.model import Judgement, Verdict
from bridge.translation.stretch import Caps
from tests.unit.translation.history import History, Kind
from tests.unit.translation.logs import Row

HISTORIES = int(os.environ.get("MIRROR_BRIDGE_HISTORIES", "800"))

KINDS: dict[str, Kind] = {
    "plain": Kind(),
    "mirror_lag": Kind(lag=True),
    "latest": Kind(latest=True, lag=True),
    "source_retention": Kind(source_retention=True, lag=True),
    "target_retention": Kind(target_retention=True, lag=True),
    "source_compaction": Kind(source_compaction=True, lag=True),
    "target_compaction": Kind(target_compaction=True, lag=True),
    "both_compaction": Kind(source_compaction=True, target_compaction=True, lag=True),
    "duplicates": Kind(duplicates=True, lag=True),
    "foreign": Kind(foreign=True, lag=True),
    "duplicates_foreign": Kind(duplicates=True, foreign=True, lag=True),
    "transactions": Kind(transactions=True, target_transactions=True, lag=True),
    "aborted": Kind(aborts=True, lag=True),
    "aborted_committed_mirror": Kind(aborts=True, transactions=True, mirror_committed=True, lag=True),
    "aborted_told": Kind(aborts=True, transactions=True, mirror_committed=True, told=True, lag=True),
    "twins": Kind(twins=True, identical_burst=True, lag=True),
    "twins_latest": Kind(twins=True, identical_burst=True, lag=True, latest=True, target_retention=True),
    "out_of_order": Kind(out_of_order=True),
    "out_of_order_lag": Kind(out_of_order=True, lag=True),
    "negative": Kind(negative=True, lag=True),
    "far_future": Kind(far_future=True, lag=True),
    "mixed": Kind(
        transactions=False, aborts=True, lag=True, latest=True, source_retention=True, target_retention=True,
        source_compaction=True, target_compaction=True, duplicates=True, foreign=True, twins=True,
        out_of_order=True, negative=True, far_future=True, identical_burst=True,
    ),
    "mixed_transactions": Kind(
        transactions=True, aborts=True, mirror_committed=True, told=True, lag=True, latest=True,
        source_retention=True, target_retention=True, source_compaction=True, target_compaction=True,
        duplicates=True, foreign=True, target_transactions=True, twins=True, out_of_order=True,
        negative=True, far_future=True, identical_burst=True,
    ),
}  # fmt: skip


def translate(history: History, offset: int, memory: PartitionMemory, caps: Caps) -> Verdict:
    steps = bracket(offset, history.source.bounds(), history.target.bounds(), memory, caps)
    return history.translate(steps)


def caps_of(history: History) -> Caps:
    """Windows from one batch to the whole log; budgets from next to nothing to plenty."""
    read = history.random.choice([1, 300, 1000, 3000, 100_000])
    return Caps(read, read * history.random.choice([3, 10, 40, 1000]))


def run(kind: Kind, seed: str, seen: Counter[str]) -> None:
    history = History(kind, seed)
    memory = PartitionMemory()
    for _round in range(2):
        caps = caps_of(history)
        offsets = [history.random.randint(0, history.source.end + 1) for _ in range(3)]
        for offset in [*offsets, history.source.end, history.source.start]:
            verdict = translate(history, offset, memory, caps)
            check(history, offset, verdict, f"seed {seed!r}, offset {offset}, {caps}, {verdict}")
            seen[verdict.judgement] += 1
            if caps.search_bytes >= 1000 * caps.read_bytes and aligned(history, offset):
                assert verdict.judgement is Judgement.EXACT, (
                    f"aligned but not exact: seed {seed!r}, {offset}, {verdict}"
                )
                seen["aligned"] += 1
        for _ in range(3):
            history.step()


def check(history: History, offset: int, verdict: Verdict, note: str) -> None:
    if verdict.judgement is Judgement.PENDING:
        assert verdict.offset is None, note
        assert verdict.reason is not None, note
        return
    assert verdict.offset is not None, note
    assert verdict.bound is not None, note
    assert history.target.start <= verdict.offset <= history.target.end, note
    assert not history.skipped(offset, verdict.offset), (
        f"R1: skips {history.skipped(offset, verdict.offset)}: {note}"
    )
    if not history.kind.duplicates:
        first = history.first_unprocessed(offset)
        assert first is None or verdict.offset <= first, f"R1: past {first}: {note}"
    reread = history.reread(offset, verdict.offset)
    assert reread <= verdict.bound, f"R2: reads {reread} twice: {note}"
    if verdict.judgement is Judgement.EXACT:
        assert verdict.bound == 0, note


def aligned(history: History, offset: int) -> bool:
    """Both neighbours' copies exist, next to each other, their contents occur once on either side, and the mirror
    has not copied anything at or after the offset before them."""
    source, target = history.source.data(history.committed_only), history.visible()
    before = [row for row in source if row.offset < offset]
    after = [row for row in source if row.offset >= offset]
    if not before or not after or offset > history.source.end:
        return False
    places = []
    for row in (before[-1], after[0]):
        if sum(content(row) == content(other) for other in source) != 1:
            return False
        copies = [index for index, other in enumerate(target) if content(row) == content(other)]
        if len(copies) != 1:
            return False
        places += copies
    return places[1] == places[0] + 1 and history.first_unprocessed(offset) == target[places[1]].offset


def content(row: Row) -> tuple[object, ...]:
    return row.timestamp, row.key, row.value, row.headers


@pytest.mark.parametrize("name", KINDS)
def test_never_skips_and_never_reads_more_than_the_bound(name: str) -> None:
    seen: Counter[str] = Counter()
    for number in range(HISTORIES):
        run(KINDS[name], f"{name}-{number}", seen)
    judged = seen["exact"] + seen["bounded"] + seen["pending"]
    print(name, dict(seen), f"{seen['exact'] / judged:.4f}")
    assert seen["exact"] > 0
    assert seen["aligned"] > HISTORIES / 20


@pytest.mark.parametrize("name", ["plain", "out_of_order"])
def test_plain_and_out_of_order_logs_are_exact(name: str) -> None:
    exact = total = 0
    for number in range(HISTORIES):
        history = History(KINDS[name], f"exact-{name}-{number}")
        memory = PartitionMemory()
        for offset in range(history.source.end + 1):
            total += 1
            exact += translate(history, offset, memory, Caps()).judgement is Judgement.EXACT
    assert exact >= 0.99 * total
