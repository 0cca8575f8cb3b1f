"""What must hold of every verdict on a history (promises R1 and R2)."""

from __future__ import annotations

from bridge.model.values import Judgement, Verdict
from bridge.translation.records.log_window import Caps
from tests.unit.translation.history import History


def caps_of(history: History) -> Caps:
    """Windows from one batch to the whole log; budgets from next to nothing to plenty."""
    read = history.random.choice([1, 300, 1000, 3000, 100_000])
    return Caps(read, read * history.random.choice([3, 10, 40, 1000]))


def check(history: History, offset: int, verdict: Verdict, note: str) -> None:
    """Asserts that the verdict skips nothing, and reads no more twice than it says."""
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
    if not history.kind.copies_again:
        first = history.first_unprocessed(offset)
        assert first is None or verdict.offset <= first, f"R1: past {first}: {note}"
    reread = history.reread(offset, verdict.offset)
    # A whole run that was sent again is told from the first by neither content nor neighbours (decision 0002).
    assert reread <= verdict.bound or history.kind.replayed, f"R2: reads {reread} twice: {note}"
    if verdict.judgement is Judgement.EXACT:
        assert verdict.bound == 0, note
