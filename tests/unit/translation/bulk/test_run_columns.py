"""Arrays of runs against the service's own look-up of one offset."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.model.values import Flag
from bridge.translation.bulk.run_columns import PartitionLogs, RunAnswers, RunColumns
from bridge.translation.records.log_window import LogBounds
from bridge.translation.runs import holes
from bridge.translation.runs.run_evidence import ConsistentRuns
from bridge.translation.runs.runs import OffsetRun
from tests.support.forms import examples
from tests.unit.translation.copied import PLACE, CopiedPartition

SOURCE = LogBounds(0, 1 << 40)


def agree(runs: ConsistentRuns, offsets: list[int], logs: PartitionLogs) -> None:
    """Every offset gets from the arrays what the service says about it alone."""
    answers = RunColumns(runs).translate(np.array(offsets, np.int64), logs)
    for at, offset in enumerate(offsets):
        assert said(answers, at) == alone(runs, offset, logs), offset


def said(answers: RunAnswers, at: int) -> tuple[int, int, bool, bool] | None:
    if not answers.known[at]:
        return None
    flags = bool(answers.ahead[at]), bool(answers.truncated[at])
    return (int(answers.offset[at]), int(answers.bound[at]), *flags)


def alone(runs: ConsistentRuns, offset: int, logs: PartitionLogs) -> tuple[int, int, bool, bool] | None:
    """As connectors.group_translation.translating.group_verdicts asks: without older copies that were made again."""
    start = runs.target_from(offset)
    target = logs.target
    if start > target.start:
        target = LogBounds(min(start, target.end), target.end)
    verdict = runs.translate(offset, logs.target_topic_id, target, logs.source_topic_id, logs.source)
    if verdict is None:
        return None
    assert verdict.offset is not None
    assert verdict.bound is not None
    flags = Flag.AHEAD_OF_MIRROR in verdict.flags, Flag.TRUNCATED in verdict.flags
    return (verdict.offset, verdict.bound, *flags)


@given(st.integers(0, 1 << 32))
@settings(max_examples=examples(100, 300), deadline=None)
def test_whole_histories_are_translated_as_by_the_service(seed: int) -> None:
    history = CopiedPartition(str(seed))
    for live in (history.live, history.older):
        runs = ConsistentRuns(history.runs(live))
        offsets = list(range(len(history.source) + 5))
        for with_source in (True, False):
            logs = PartitionLogs(history.copied.target_topic_id, history.target_bounds)
            if with_source:
                logs = logs._replace(
                    source_topic_id=history.copied.source_topic_id, source=history.source_bounds
                )
            agree(runs, offsets, logs)


@given(st.data())
@settings(max_examples=examples(100, 300), deadline=None)
def test_runs_of_any_shape_are_translated_as_by_the_service(data: st.DataObject) -> None:
    """Merged runs with and without lists, resets, uncovered stretches and broken lists."""
    runs, end = drawn_runs(data)
    target = data.draw(st.tuples(st.integers(0, 300), st.integers(0, 300)))
    logs = PartitionLogs("t", LogBounds(min(target), max(target)))
    if data.draw(st.booleans()):
        source = data.draw(st.integers(0, 30)), data.draw(st.integers(end, end + 10))
        logs = logs._replace(source_topic_id="s", source=LogBounds(*source))
    agree(ConsistentRuns(runs), list(range(end + 15)), logs)


def drawn_runs(data: st.DataObject) -> tuple[list[OffsetRun], int]:
    small = st.integers(0, 6)
    runs: list[OffsetRun] = []
    upstream = downstream = covered = 0
    for _ in range(data.draw(st.integers(0, 6))):
        upstream += data.draw(small)
        downstream += data.draw(small)
        covered = data.draw(st.integers(covered, upstream))
        spans = [
            (1 + data.draw(small), data.draw(small), data.draw(small))
            for _ in range(data.draw(st.integers(1, 4)))
        ]
        run = listed(
            spans, upstream, downstream, covered, data.draw(st.sampled_from(["all", "some", "none", "bad"]))
        )
        position = run.upstream_end + data.draw(small)
        again = data.draw(st.integers(0, 5)) == 0
        runs.append(run._replace(position=position, again=again))
        upstream, downstream, covered = position, run.downstream_end, run.upstream_end
    if runs:
        runs[-1] = runs[-1]._replace(handed_back=data.draw(st.booleans()))
    return runs, upstream


def listed(
    spans: list[tuple[int, int, int]], upstream: int, downstream: int, covered: int, kind: str
) -> OffsetRun:
    spans[-1] = (spans[-1][0], 0, 0)
    copies, skipped, extra = (sum(each[number] for each in spans) for number in range(3))
    some = [holes.CopySpan(*each) for each in spans]
    hole_list = {
        "all": holes.listed(some),
        "some": holes.skipped_only(some, 0),
        "none": b"",
        "bad": holes.listed([*some[:-1], holes.CopySpan(some[-1].copies + 1)]),
    }[kind]
    return OffsetRun(
        PLACE,
        "s",
        "A.orders",
        "t",
        covered,
        upstream,
        downstream,
        copies + skipped,
        skipped,
        extra,
        0,
        0,
        -1,
        0,
        False,
        hole_list,
    )
