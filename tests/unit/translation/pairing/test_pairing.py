"""Pairs on random histories: no answer of the runs made of them skips, and none reads more twice than its bound says,
also when the source is gone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from dataclasses import replace

import pytest

from bridge.model.copying import Copied
from bridge.model.lookups import Need, Window
from bridge.model.values import Judgement, LogRecord, Reason, TopicPartition, Verdict
from bridge.translation.pairing.pairing import Edge, Paired, Pairing
from bridge.translation.records.log_window import Caps, Steps
from bridge.translation.runs.partition_runs import Change, PartitionRuns
from bridge.translation.runs.run_evidence import ConsistentRuns, read_runs
from tests.unit.translation.history import History, Kind
from tests.unit.translation.kinds import HISTORIES, KINDS, count

PLACE = TopicPartition("orders", 0)
COPIED = Copied(PLACE, "s", "A.orders", "t")


def drive(history: History, steps: Steps[Paired]) -> Paired:
    result: list[Paired] = []

    def whole() -> Generator[Need, Window | int | None, Verdict]:
        result.append((yield from steps))
        return Verdict.pending(Reason.DRY_RUN)

    history.translate(whole())
    return result[0]


class Index:
    """The runs topic, read anew for each pass as after a restart."""

    def __init__(self) -> None:
        self.live: dict[bytes, bytes] = {}

    def runs(self) -> PartitionRuns:
        records = [LogRecord(0, 0, *pair) for pair in self.live.items()]
        return read_runs(records).get(COPIED.id, PartitionRuns())

    def take(self, changes: list[Change]) -> None:
        for key, value in changes:
            if value is None:
                self.live.pop(key, None)
            else:
                self.live[key] = value

    def go_on(self, history: History) -> None:
        runs = self.runs()
        last = runs.last
        begin = None
        if last is not None and last.upstream_end >= history.source.start:
            begin = Edge(last.upstream_end, last.downstream_end)
        if begin is not None and begin.downstream < history.target.start:
            begin = None
        read = history.random.choice([300, 1000, 5000])
        pairing = Pairing(
            history.source.bounds(),
            history.target.bounds(),
            begin,
            step_bytes=history.random.choice([300, 1000, 100_000]),
            read_bytes=read,
            caps=Caps(read, read * 1000),
        )
        while True:
            paired = drive(history, pairing.step())
            if paired.segments:
                end = paired.segments[-1].upstream_end
                self.take(runs.commit(paired.segments, end, COPIED, history.target.start, found=True))
            if not paired.whole:
                break


def holds(history: History, index: Index, seed: str, seen: Counter[str]) -> None:
    runs = ConsistentRuns(index.runs().runs)
    target = history.target.bounds()
    for offset in range(history.source.start, history.source.end + 1):
        verdict = runs.translate(offset, "t", target)
        if verdict is None:
            seen["unknown"] += 1
            continue
        assert verdict.offset is not None
        assert verdict.bound is not None
        note = f"seed {seed!r}, offset {offset}, {verdict}"
        assert not history.skipped(offset, verdict.offset), f"skips: {note}"
        # What was copied twice and then compacted is why topics that are compacted on the target are not indexed.
        if not (history.kind.copies_again and history.kind.target_compaction):
            assert history.reread(offset, verdict.offset) <= verdict.bound, f"reads too much twice: {note}"
        seen[verdict.judgement] += 1


@pytest.mark.parametrize("which", HISTORIES)
# Those of replayed runs break what decision 0002 assumes.
@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if not kind.replayed])
def test_no_anchor_is_false_on_any_history(name: str, which: str) -> None:
    kind = replace(KINDS[name])
    seen: Counter[str] = Counter()
    for number in range(count(name, which, None, 3, 10, 10)):
        seed = f"{name}-{number}"
        history, index = History(kind, seed), Index()
        for _ in range(3):
            index.go_on(history)
            holds(history, index, seed, seen)
            for _ in range(3):
                history.step()
    assert seen.total()


@pytest.mark.parametrize("kind", [Kind(), Kind(transactions=True, target_transactions=True)])
def test_plain_logs_are_paired_whole(kind: Kind) -> None:
    seen: Counter[str] = Counter()
    for number in range(20):
        history, index = History(kind, f"plain-{number}"), Index()
        index.go_on(history)
        holds(history, index, f"plain-{number}", seen)
    assert seen[Judgement.EXACT] > 0.9 * seen.total(), seen


def test_the_same_again_changes_nothing() -> None:
    history, index = History(Kind(), "again"), Index()
    index.go_on(history)
    before = dict(index.live)
    index.go_on(history)
    assert index.live == before
