"""What the source connector tells of its pipeline's progress: rates, sums, and only what has changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from bridge.model.copying import (
    Copied,
    Gap,
    GapKind,
    PipelineState,
    PipelineStatus,
    Progress,
)
from bridge.model.partition_states import PartitionState, PartitionStates, PartitionStatus
from bridge.model.values import TopicPartition
from bridge.protocol.messages import GapReport
from connectors.base import CopyReport
from connectors.source.progress import HALF_WINDOW, Reporter

GAP = Gap(TopicPartition("orders", 0), GapKind.SOURCE_RECREATED, "id", 5, -1, 1_700_000_000_000, "made anew")


def copied(*partitions: int) -> list[Copied]:
    return [Copied(TopicPartition("orders", each), "id", "A.orders", "id") for each in partitions]


def status(*progress: Progress, gaps: Sequence[Gap] = ()) -> PipelineStatus:
    counts = {kind.value: sum(gap.kind is kind for gap in gaps) for kind in {gap.kind for gap in gaps}}
    return PipelineStatus(
        PipelineState.COPYING, 3, {each.source: each for each in progress}, gaps, gap_counts=counts
    )


def at(partition: int, position: int, records: int = 0, end: int = -1, latency: int = -1) -> Progress:
    counters = records, records * 100, 0.0, 0.0
    return Progress("orders", partition, "A.orders", position, end, *counters, latency, latency)


class Looking:
    """A reporter looked at on a clock of its own."""

    def __init__(self) -> None:
        self.reporter = Reporter("A", "B")
        self.now = 1000.0

    def look(self, status_: PipelineStatus, partitions: Sequence[Copied], after: float = 1.0) -> CopyReport:
        report = self.maybe(status_, partitions, after)
        assert report is not None
        return report

    def maybe(
        self, status_: PipelineStatus, partitions: Sequence[Copied], after: float = 1.0
    ) -> CopyReport | None:
        self.now += after
        return self.reporter.report(status_, partitions, self.now)


def test_first_everything_then_what_has_changed_then_nothing() -> None:
    looking, partitions = Looking(), copied(0, 1)
    first = looking.look(status(at(0, 5), at(1, 6)), partitions)
    assert (first.whole, [row.partition for row in first.changed]) == (True, [0, 1])
    assert (first.totals.source, first.totals.target, first.totals.state) == ("A", "B", "copying")
    second = looking.look(status(at(0, 5), at(1, 7)), partitions)
    assert (second.whole, [row.position for row in second.changed], second.gaps) == (False, [7], None)
    assert looking.maybe(status(at(0, 5), at(1, 7)), partitions) is None


def test_rates_are_over_the_last_half_minute_and_fall_to_nothing() -> None:
    looking, partitions = Looking(), copied(0)
    looking.look(status(at(0, 0, 0)), partitions)
    row = looking.look(status(at(0, 1000, 1000)), partitions, 10.0).changed[0]
    assert (row.record_rate, row.byte_rate) == (100.0, 10_000.0)
    rates = []
    for _ in range(4):
        report = looking.maybe(status(at(0, 1000, 1000)), partitions, HALF_WINDOW)
        rates.append(report.totals.record_rate if report is not None else None)
    assert rates == [40.0, 0.0, None, None]


def test_what_is_copied_at_the_first_look_has_been_copied_within_a_second_at_least() -> None:
    looking = Looking()
    row = looking.look(status(at(0, 500, 500)), copied(0)).changed[0]
    assert row.record_rate == 500.0


def test_another_driver_counts_anew_and_nothing_goes_back() -> None:
    looking, partitions = Looking(), copied(0)
    looking.look(status(at(0, 100, 100, 120)), partitions)
    starting = looking.look(PipelineStatus(PipelineState.RETRYING), partitions)
    assert (starting.totals.records, starting.totals.lag, starting.totals.state) == (100, None, "retrying")
    assert [(row.position, row.record_rate) for row in starting.changed] == [(100, 0.0)]
    again = looking.look(status(at(0, 130, 30, 130)), partitions)
    assert (again.totals.records, again.totals.bytes, again.totals.lag) == (130, 13_000, 0)


@pytest.mark.parametrize("state", ["stopped", "failed", "retrying", "silent", "starting"])
def test_while_nobody_asks_where_the_source_ends_the_lag_is_not_known(state: str) -> None:
    looking, partitions = Looking(), copied(0)
    assert looking.look(status(at(0, 100, 100, 100)), partitions).totals.lag == 0
    over = replace(status(at(0, 100, 100, 100)), state=PipelineState(state))
    report = looking.look(over, partitions)
    assert (report.totals.lag, report.changed[0].lag, report.changed[0].position) == (None, -1, 100)


def test_the_first_rows_of_another_driver_are_reported_even_if_nothing_has_changed() -> None:
    """A sink connector's task goes by rows of a driver that runs: an operator may have reset positions since."""
    looking, partitions = Looking(), copied(0, 1)
    looking.look(status(at(0, 5), at(1, 6)), partitions)
    looking.reporter.begin()
    assert looking.look(status(at(0, 5)), partitions).changed == [at(0, 5)]
    assert looking.look(status(at(0, 5), at(1, 6)), partitions).changed == [at(1, 6)]
    assert looking.maybe(status(at(0, 5), at(1, 6)), partitions) is None


def test_sums_know_what_is_known() -> None:
    looking, partitions = Looking(), copied(0, 1, 2)
    looking.look(status(at(0, 0), at(1, 0)), partitions)
    totals = looking.look(
        status(at(0, 10, 10, 15, latency=40), at(1, 20, 20, -1, latency=90), at(2, 0, latency=3)), partitions
    ).totals
    assert (totals.partitions, totals.lag, totals.records) == (3, 5, 30)
    assert (totals.record_age_ms, totals.replication_latency_ms) == (90, 90)
    idle = looking.look(
        status(at(0, 10, 10, 15, latency=40), at(1, 20, 20, 20, latency=90), at(2, 0, latency=3)),
        partitions,
        100.0,
    ).totals
    assert (idle.record_rate, idle.lag) == (0.3, 5)


def test_of_partitions_that_rest_no_latency_is_shown_in_the_sums() -> None:
    looking, partitions = Looking(), copied(0)
    looking.look(status(at(0, 10, 10, latency=86_400_000)), partitions)
    for _ in range(3):
        looking.maybe(status(at(0, 10, 10, latency=86_400_000)), partitions, HALF_WINDOW)
    assert (
        looking.look(status(at(0, 10, 10, 10, latency=86_400_000)), partitions).totals.record_age_ms is None
    )


def test_partitions_that_are_not_wanted_any_more_are_gone_and_stay_in_the_sums() -> None:
    looking = Looking()
    looking.look(status(at(0, 10), at(1, 5, 5)), copied(0, 1))
    report = looking.look(status(at(0, 10)), copied(0))
    assert report.gone == [TopicPartition("orders", 1)]
    assert (report.totals.records, report.totals.partitions) == (5, 1)
    # The state topics may tell of partitions that another connector of this source copies.
    assert looking.maybe(status(at(0, 10), at(9, 1, 1)), copied(0)) is None


def test_states_are_told_when_they_change_and_counted() -> None:
    looking, partitions = Looking(), copied(0, 1, 2)
    well = status(at(0, 1), at(1, 1), at(2, 1))
    first = looking.look(well, partitions)
    assert first.states == PartitionStates(PartitionState.COPYING)
    assert {state: count for state, count in first.totals.states.items() if count} == {"copying": 3}
    assert set(first.totals.states) == set(PartitionState)
    damaged = PartitionStatus("orders", 1, PartitionState.FAILED, 5, "damaged")
    second = looking.look(replace(well, partitions=(damaged,)), partitions)
    assert second.states == PartitionStates(PartitionState.COPYING, (damaged,))
    assert (second.totals.states["copying"], second.totals.states["failed"]) == (2, 1)
    assert looking.maybe(replace(well, partitions=(damaged,)), partitions) is None
    ended = looking.look(replace(well, state=PipelineState.CAUGHT_UP), partitions)
    assert ended.states == PartitionStates(PartitionState.DONE)


def test_gaps_are_told_when_the_ledger_has_more() -> None:
    looking, partitions = Looking(), copied(0)
    assert looking.look(status(at(0, 1)), partitions).gaps is None
    report = looking.look(status(at(0, 1), gaps=[GAP]), partitions)
    assert report.gaps == [
        GapReport(
            topic="orders",
            partition=0,
            kind="source_recreated",
            topic_id="id",
            upstream_from=5,
            upstream_to=None,
            seen_at_ms=1_700_000_000_000,
            detail="made anew",
        )
    ]
    assert report.totals.gaps == {"source_recreated": 1}
    assert looking.maybe(status(at(0, 1), gaps=[GAP]), partitions) is None
    starting = looking.look(PipelineStatus(), partitions)
    assert (starting.gaps, starting.totals.gaps) == (None, {"source_recreated": 1})
