"""Groups however far behind, by the runs of a long copy and the target alone: the source is never asked."""

from __future__ import annotations

import pytest

from bridge.model.copying import Copied
from bridge.model.lookups import Scanned
from bridge.model.values import Judgement, TopicPartition, Verdict
from bridge.translation.records.log_window import LogBounds
from bridge.translation.runs.markers import ANCHOR_BYTES, MARKER_BYTES, RunScan, looseness
from bridge.translation.runs.partition_runs import PartitionRuns
from bridge.translation.runs.run_evidence import ConsistentRuns
from bridge.translation.runs.runs import OffsetRun, Segment

PLACE = TopicPartition("orders", 0)
COPIED = Copied(PLACE, "s", "A.orders", "t")
KB = 1024


class Copy:
    """A partition whose source has a marker after each `transaction` records (0: none), or more offsets that are not
    copied, `hole` of them; so many records are copied a commit."""

    def __init__(
        self, records: int, *, commit: int, transaction: int = 0, size: int = KB, hole: int = 1
    ) -> None:
        self.commit, self.transaction, self.records, self.hole = commit, transaction, records, hole
        owner = PartitionRuns()
        upstream = downstream = 0
        for first in range(0, records, commit):
            segments, covered, at = [], upstream, first
            while at < first + commit:
                count = min(first + commit - at, transaction - at % transaction if transaction else commit)
                segments.append(Segment(covered, upstream, downstream, count, 0, 0, count * size))
                covered = upstream = upstream + count
                downstream += count
                at += count
                upstream += hole if transaction and at % transaction == 0 else 0
            owner.commit(segments, upstream, COPIED)
            downstream += 1
        self.runs: list[OffsetRun] = list(owner.runs)
        self.bytes = sum(len(run.key()) + len(run.value()) for run in self.runs)
        self.known, self.bounds = ConsistentRuns(self.runs), LogBounds(0, downstream)

    def at(self, record: int) -> tuple[int, int]:
        """Where a record stands, and its copy; behind the last one what is still to come."""
        upstream = record + (self.hole * (record // self.transaction) if self.transaction else 0)
        behind = record == self.records  # before the last commit's marker, which no run tells of
        return upstream, record + record // self.commit - behind

    def lags(self) -> list[int]:
        """40 of them, the largest a million records or all there are."""
        most = min(1_000_000, self.records)
        return [0, *(round(most ** (step / 38)) for step in range(39))]

    def judged(self, lag: int) -> tuple[Verdict, int]:
        """The verdict on a group with so much lag, and the bytes of the target that it takes to read: of headers, which
        tell the markers of commits."""
        offset, _ = self.at(self.records - lag)
        verdict = self.known.translate(offset, "t", self.bounds)
        run = self.known.held(offset)
        if run is None or not looseness(run):
            assert verdict is not None
            return verdict, 0
        markers = range(run.downstream_start, run.downstream_end)
        empty = [(at, at + 1) for at in markers if at % (self.commit + 1) == self.commit]
        places = RunScan(run)
        places.learn(Scanned(run.downstream_start, run.downstream_end, empty, 1))
        verdict = self.known.translate(offset, "t", self.bounds, scans={run: places})
        assert verdict is not None
        return verdict, run.size + MARKER_BYTES * run.extra


@pytest.mark.long
def test_a_million_records_behind_nothing_is_read_twice() -> None:
    """12,000,000 records of 1 KB at 2,000 a second, committed every 100 ms. While runs were merged without a list of
    their holes, a group that was a million behind read 2,776 records twice."""
    copy = Copy(12_000_000, commit=200)
    for lag in copy.lags():
        for record in {copy.records - lag, max(0, copy.records - lag - 50)}:
            offset, place = copy.at(record)
            verdict = copy.known.translate(offset, "t", copy.bounds)
            assert verdict is not None
            assert (verdict.judgement, verdict.offset, verdict.bound) == (Judgement.EXACT, place, 0), lag
    assert max(run.size for run in copy.runs) <= ANCHOR_BYTES
    assert copy.bytes / 12.288 < 20_000  # a GB


@pytest.mark.parametrize(
    ("commit", "transaction", "read", "a_gb"),
    [
        pytest.param(200, 0, False, 30_000, id="plain"),
        pytest.param(20, 0, True, 70_000, id="small commits", marks=pytest.mark.long),
        pytest.param(200, 100, False, 50_000, id="transactions"),
        pytest.param(20, 20, True, 220_000, id="small transactions"),
    ],
)
def test_any_lag_is_exact_for_64_mib_of_the_target_at_most(
    commit: int, transaction: int, read: bool, a_gb: int
) -> None:
    copy = Copy(1_000_000, commit=commit, transaction=transaction)
    most = 0
    for lag in copy.lags():
        verdict, size = copy.judged(lag)
        assert (verdict.judgement, verdict.offset) == (Judgement.EXACT, copy.at(copy.records - lag)[1]), lag
        most = max(most, size)
    assert most <= ANCHOR_BYTES
    assert bool(most) == read
    assert copy.bytes / 1.024 < a_gb


@pytest.mark.parametrize("transaction", [2, pytest.param(5, marks=pytest.mark.long)])
def test_a_large_commit_of_small_transactions_is_exact_too(transaction: int) -> None:
    """A backlog is copied so. While a commit had 16 runs at most a group 10,000 behind read 3,750 records twice."""
    copy = Copy(400_000, commit=200_000, transaction=transaction)
    for lag in [*range(0, 170_000, 1777), 10, 100, 1000, 10_000]:
        verdict, _ = copy.judged(lag)
        assert (verdict.judgement, verdict.offset) == (Judgement.EXACT, copy.at(copy.records - lag)[1]), lag
    assert copy.bytes < 1_500_000


@pytest.mark.parametrize(
    ("transaction", "hole"),
    [
        pytest.param(2, 1, id="transactions of two"),
        pytest.param(1, 20_000, id="compacted nearly to nothing", marks=pytest.mark.long),
    ],
)
def test_where_a_source_has_more_holes_than_lists_have_room_for_it_is_a_256th_of_the_lag(
    transaction: int, hole: int
) -> None:
    """All is exact up to 170,000 records, as README.md has it."""
    copy = Copy(600_000, commit=200, transaction=transaction, hole=hole)
    loose = []
    for lag in [*range(10_000, 600_000, 10_000), *copy.lags()]:
        verdict, _ = copy.judged(lag)
        _, place = copy.at(copy.records - lag)
        assert verdict.offset is not None
        assert verdict.bound is not None
        assert verdict.offset <= place <= verdict.offset + verdict.bound, lag
        assert verdict.bound <= lag / 256
        loose += [lag] * (verdict.judgement is not Judgement.EXACT)
    assert loose
    assert min(loose) > 170_000
