"""State topics that hold nonsense, have lost what they held, or would lose it: nothing is skipped, nothing copied twice
without an entry in the ledger, nothing stops that need not."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from bridge.local import Cluster, eventually
from bridge.model.copying import PipelineState, PipelineStatus, Transform
from bridge.model.values import TopicPartition
from bridge.pipeline.layouts import ownership, records
from bridge.pipeline.layouts.records import LayoutRecord, SliceReport, layout_key, read_layouts, report_key
from bridge.translation.runs.run_evidence import read_runs
from bridge.translation.runs.runs import OffsetRun
from tests.integration.copy_flow import COMPACTED, CopyFlow, gaps_of, ledger
from tests.support import (
    Record,
    create_topic,
    delete_records,
    delete_topic,
    numbered,
    produce,
    produce_transaction,
    set_topic_config,
)
from tests.support.forms import examples, mostly_long
from tests.support.messages import message, message_pattern
from tests.support.records import values
from tests.support.waits import WAIT

FAR = 2**62
LONG_AGO = 1_700_000_000_000
"""Copies have the timestamps of their records."""


@pytest.fixture
def flow(source: Cluster, target: Cluster) -> CopyFlow:
    return CopyFlow(source, target)


def newest_layout(flow: CopyFlow) -> LayoutRecord:
    return read_layouts(flow.state(flow.spec.layout_topic), flow.spec).newest


def put(flow: CopyFlow, topic: str, *records: tuple[bytes | None, bytes | None]) -> None:
    produce(flow.target.bootstrap, topic, [Record(value, key=key) for key, value in records])


def last_run(flow: CopyFlow, topic: str) -> OffsetRun:
    last = flow.runs()[TopicPartition(topic, 0)].last
    assert last is not None
    return last


# -- poison ----------------------------------------------------------------------------------------------------------


def test_poison_in_every_state_topic_costs_itself_and_no_other(
    flow: CopyFlow, caplog: pytest.LogCaptureFixture
) -> None:
    topic, spec = flow.topic(), flow.spec
    produce(flow.source.bootstrap, topic, numbered(100))
    deep = b'{"version":1,"moved":' + b"[" * 50_000
    key = (
        b'{"version":1,"topic":"t","partition":0,"topicId":"","targetTopic":"x","kind":"truncated","from":0}'
    )
    never = b'{"version":1,"to":1,"seenAtMs":"never","detail":"","connector":""}'
    poison = {
        spec.gaps_topic: [(key, never), (key, deep), (b"junk", b"{}")],
        spec.runs_topic: [(b"\0\7", b"\0\0"), (b"\0\1\0\1t\0\0\0\0\0\1u" + bytes(8), b"\0\0")],
        spec.layout_topic: [
            (report_key(spec, 0), b'{"layout":1,"slot":0,"moved":5}'),
            (report_key(spec, 1), deep),
        ],
    }
    with flow.pipeline() as running:
        running.wait_position({TopicPartition(topic, 0): 100})
        for state, records in poison.items():
            put(flow, state, *records)
        produce(flow.source.bootstrap, topic, numbered(50, start=100))
        running.wait_position({TopicPartition(topic, 0): 150})

        def counted() -> PipelineStatus:
            status = running.status
            assert status.unreadable == {state: len(records) for state, records in poison.items()}
            return status

        status = eventually(counted, WAIT, what="each is counted")
        assert (status.state, list(status.errors)) == (PipelineState.COPYING, [])
    # A driver that begins among them, and one record less than all: nothing was copied yet behind them.
    produce(flow.source.bootstrap, topic, numbered(50, start=150))
    status = flow.copy()
    assert status.unreadable == {state: len(records) for state, records in poison.items()}
    assert (status.gaps, status.state) == ((), PipelineState.CAUGHT_UP)
    flow.assert_copied()
    flow.assert_runs_true()
    for state, records in poison.items():
        named = {line for line in caplog.messages if line.startswith(f"{state}-0 at offset ")}
        assert len(named) == len(records), named


@pytest.mark.long
def test_a_layout_of_a_billion_slots_is_none(flow: CopyFlow, monkeypatch: pytest.MonkeyPatch) -> None:
    # All that there may be are fenced, twice: 8,192 transactional ids keep a broker busy for half a minute.
    monkeypatch.setattr(records, "MOST_SLOTS", examples(64, records.MOST_SLOTS))
    topic = flow.topic()
    produce(flow.source.bootstrap, topic, numbered(10))
    flow.copy()
    put(flow, flow.spec.layout_topic, (layout_key(flow.spec), LayoutRecord(5, 10**9).value()))
    put(flow, flow.spec.layout_topic, (report_key(flow.spec, 0), SliceReport(6, 10**9).value()))
    produce(flow.source.bootstrap, topic, numbered(10, start=10))
    assert flow.copy().state is PipelineState.CAUGHT_UP
    flow.assert_copied()


POISONED: dict[str, Callable[[OffsetRun], OffsetRun]] = {
    "its position": lambda run: run._replace(position=FAR),
    "all of it": lambda run: run._replace(upstream_start=FAR, covered_from=FAR, position=FAR + 100),
    "its count, with holes": lambda run: run._replace(upstream_count=FAR, skipped=FAR - 100, position=FAR),
    "both sides": lambda run: run._replace(
        upstream_start=FAR, covered_from=FAR, position=FAR + 100, downstream_start=FAR
    ),
    "a bare position": lambda run: run._replace(
        upstream_start=FAR, covered_from=FAR, position=FAR, upstream_count=0, skipped=0, extra=0
    ),
    "another topic": lambda run: run._replace(
        upstream_start=FAR, covered_from=FAR, position=FAR + 100, source_topic_id="f" * 36
    ),
    "the target's side": lambda run: run._replace(
        upstream_start=run.position,
        position=run.position + 100,
        covered_from=run.position,
        downstream_start=FAR,
    ),
}


@pytest.mark.parametrize("poisoned", mostly_long(POISONED.values()), ids=POISONED)
def test_a_run_of_more_than_the_logs_hold_skips_nothing_and_nothing_is_there_twice(
    flow: CopyFlow, poisoned: Callable[[OffsetRun], OffsetRun]
) -> None:
    topic = flow.topic()
    produce(flow.source.bootstrap, topic, numbered(100))
    flow.copy()
    wrong = poisoned(last_run(flow, topic))
    put(flow, flow.spec.runs_topic, (wrong.key(), wrong.value()))
    produce(flow.source.bootstrap, topic, numbered(150, start=100))
    status = flow.copy()
    assert status.state is PipelineState.CAUGHT_UP
    flow.assert_copied()
    if wrong.skipped:
        flow.assert_answers_safe()  # it has overwritten the true run
    else:
        flow.assert_runs_true()
    assert status.progress[TopicPartition(topic, 0)].position == 250
    assert [kind for kind, _, _ in gaps_of(status)] in (["run_contradicted"], ["cut_back"])
    assert list(flow.copy().gaps) == list(status.gaps), "told once"


@pytest.mark.long
def test_a_run_of_more_than_the_logs_hold_stops_whoever_would_rather_stop(flow: CopyFlow) -> None:
    topic = flow.topic()
    produce(flow.source.bootstrap, topic, numbered(100))
    flow.copy()
    wrong = POISONED["both sides"](last_run(flow, topic))
    put(flow, flow.spec.runs_topic, (wrong.key(), wrong.value()))
    produce(flow.source.bootstrap, topic, numbered(50, start=100))
    flow.settings = {"fail_on_gap": True}
    status = flow.copy()
    assert status.state is PipelineState.FAILED
    for words in (
        "source.gap.policy is fail",
        f"{topic}-0",
        "run_contradicted",
        "both logs end before it",
        "report",
    ):
        assert words in str(status.failure)
    assert len(flow.copies(topic)) == 100


@pytest.mark.long
def test_a_run_that_the_other_cluster_bears_out_is_true(flow: CopyFlow) -> None:
    """The source was cut back behind what was copied. Of brokers without topic ids: one that was made again with the
    records that are left looks the same."""
    topic = flow.topic()
    produce(flow.source.bootstrap, topic, numbered(100))
    flow.copy()
    delete_topic(flow.source.bootstrap, topic)
    create_topic(flow.source.bootstrap, topic)
    produce(flow.source.bootstrap, topic, numbered(60))
    run = last_run(flow, topic)
    put(flow, flow.spec.runs_topic, (run.key(), run._replace(source_topic_id="").value()))
    status = flow.copy()
    assert gaps_of(status) == [("cut_back", 60, 100)]
    assert len(flow.copies(topic)) == 100, "nothing of it comes again"


@pytest.mark.long
def test_a_transformed_run_is_borne_out_whatever_time_the_copy_has(
    flow: CopyFlow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The target was cut back. The run tells the copy's timestamp, which the record on the source does not have."""
    monkeypatch.syspath_prepend(Path(__file__).parents[2])
    later = "tests.own_transforms.an_hour_later"
    flow.transforms = [Transform("later", later, {})]
    topic = flow.topic()
    produce(flow.source.bootstrap, topic, numbered(100))
    flow.copy()
    remote = flow.remote(topic)
    delete_topic(flow.target.bootstrap, remote)
    create_topic(flow.target.bootstrap, remote)
    produce(flow.target.bootstrap, remote, numbered(60))
    run = last_run(flow, topic)
    put(flow, flow.spec.runs_topic, (run.key(), run._replace(target_topic_id="").value()))
    produce(flow.source.bootstrap, topic, numbered(10, start=100))
    assert gaps_of(flow.copy()) == [("target_recreated", -1, 100)]
    assert values(flow.copies(topic)) == values([*numbered(60), *numbered(10, start=100)])


@pytest.mark.long
def test_a_source_of_many_holes_that_is_cut_back_is_not_copied_again(flow: CopyFlow) -> None:
    """What aborted transactions left has no copy; the run lists where that was."""
    topic = flow.topic()
    for number in range(10):
        produce_transaction(flow.source.bootstrap, topic, numbered(50), commit=False)
        produce_transaction(flow.source.bootstrap, topic, numbered(10, start=10 * number))
    flow.copy()
    run = last_run(flow, topic)
    # A client that asks again may have a marker written twice: the log says how far the last record is from the first.
    offsets = [each.offset for each in flow.original(topic)]
    assert (run.upstream_count, run.copies) == (offsets[-1] + 1 - offsets[0], 100)
    delete_topic(flow.source.bootstrap, topic)
    create_topic(flow.source.bootstrap, topic)
    produce(flow.source.bootstrap, topic, numbered(400))
    put(flow, flow.spec.runs_topic, (run.key(), run._replace(source_topic_id="").value()))
    produce(flow.source.bootstrap, topic, numbered(10, start=1000))
    status = flow.copy()
    assert gaps_of(status) == [("cut_back", 410, run.position)]
    assert values(flow.copies(topic)) == values(numbered(100)), "what lies above where it was cut comes next"


# -- a target that is not empty --------------------------------------------------------------------------------------


def lose(flow: CopyFlow, *topics: str) -> None:
    for topic in topics:
        delete_topic(flow.target.bootstrap, topic)
        create_topic(flow.target.bootstrap, topic, 1, COMPACTED)


def lose_runs(flow: CopyFlow) -> None:
    lose(flow, flow.spec.runs_topic)


@pytest.mark.parametrize("latest", mostly_long([False, True]), ids=["earliest", "latest"])
def test_runs_that_were_lost_are_told_of_once(flow: CopyFlow, latest: bool) -> None:
    topic = flow.topic()
    produce(flow.source.bootstrap, topic, numbered(100))
    flow.copy()
    lose_runs(flow)
    produce(flow.source.bootstrap, topic, numbered(50, start=100))
    flow.settings = {"from_latest": latest}
    status = flow.copy()
    assert status.state is PipelineState.CAUGHT_UP
    expected = ("target_not_empty", -1, 150) if latest else ("target_not_empty", 0, -1)
    assert gaps_of(status) == [expected]
    (gap,) = status.gaps
    assert f"{flow.remote(topic)}-0" in gap.detail
    flow.copy()
    assert ledger(flow) == [expected]
    again = [] if latest else values(numbered(150))
    assert values(flow.copies(topic)) == values(numbered(100)) + again


@pytest.mark.long
def test_runs_that_were_lost_after_a_take_over_are_told_of_once(flow: CopyFlow) -> None:
    """The target is not empty then in any case: a stock mirror has filled it up to where this one began."""
    topic = flow.topic()
    produce(flow.source.bootstrap, topic, numbered(100, timestamp=LONG_AGO))
    produce(flow.target.bootstrap, flow.remote(topic), numbered(40, timestamp=LONG_AGO))
    flow.start = 40
    with flow.pipeline() as running:
        running.wait_position({TopicPartition(topic, 0): 100})
        eventually(lambda: newest_layout(flow).copied, WAIT, what="that it has runs is noted at once")
    assert list(flow.copy().gaps) == [], "what stock has filled is no gap"
    lose_runs(flow)
    status = flow.copy()
    assert status.state is PipelineState.CAUGHT_UP
    assert gaps_of(status) == [("target_not_empty", 40, -1)]
    assert "copying begins at source offset 40" in status.gaps[0].detail
    assert values(flow.copies(topic)) == values([*numbered(100), *numbered(60, start=40)])
    flow.copy()
    assert ledger(flow) == [("target_not_empty", 40, -1)]
    lose_runs(flow)
    flow.settings = {"fail_on_gap": True}
    assert "source.gap.policy is fail" in str(flow.copy().failure)


@pytest.mark.parametrize(
    "taken_over", mostly_long([True, False]), ids=["after a take-over", "from the beginning"]
)
def test_runs_and_layouts_that_were_lost_together_are_told_of(flow: CopyFlow, taken_over: bool) -> None:
    topic = flow.topic()
    produce(flow.source.bootstrap, topic, numbered(100, timestamp=LONG_AGO))
    if taken_over:
        produce(flow.target.bootstrap, flow.remote(topic), numbered(40, timestamp=LONG_AGO))
        flow.start = 40
    assert list(flow.copy().gaps) == []
    lose(flow, flow.spec.runs_topic, flow.spec.layout_topic)
    begin = flow.start or 0
    flow.settings = {"fail_on_gap": True}
    status = flow.copy()
    assert status.state is PipelineState.FAILED
    assert "source.gap.policy is fail" in str(status.failure)
    assert values(flow.copies(topic)) == values(numbered(100))
    flow.settings = {}
    assert gaps_of(flow.copy()) == [("target_not_empty", begin, -1)]
    assert values(flow.copies(topic)) == values([*numbered(100), *numbered(100 - begin, start=begin)])
    flow.copy()
    assert ledger(flow) == [("target_not_empty", begin, -1)]


@pytest.mark.long
def test_a_stock_mirror_that_had_copied_further_than_it_knew_is_told_of(flow: CopyFlow) -> None:
    """It was killed before it could note how far: what it would have copied twice is there twice."""
    topic, late = flow.topic(), flow.topic()
    for each in (topic, late):
        produce(flow.source.bootstrap, each, numbered(100, timestamp=LONG_AGO))
    set_topic_config(flow.target.bootstrap, flow.remote(late), {"message.timestamp.type": "LogAppendTime"})
    produce(flow.target.bootstrap, flow.remote(topic), numbered(50, timestamp=LONG_AGO))
    produce(flow.target.bootstrap, flow.remote(late), numbered(40, timestamp=LONG_AGO))
    flow.start = 40
    (gap,) = flow.copy().gaps
    assert (gap.source.topic, gap.kind.value, gap.upstream_from) == (topic, "target_not_empty", 40)


@pytest.mark.long
def test_a_topic_that_comes_later_has_lost_no_runs(flow: CopyFlow) -> None:
    first, flow.start = flow.topic(), 40
    produce(flow.source.bootstrap, first, numbered(100, timestamp=LONG_AGO))
    flow.copy()
    later = flow.topic()
    produce(flow.source.bootstrap, later, numbered(100, timestamp=LONG_AGO))
    produce(flow.target.bootstrap, flow.remote(later), numbered(40, timestamp=LONG_AGO))
    assert list(flow.copy().gaps) == []
    assert values(flow.copies(later)) == values(numbered(100))


def test_runs_that_were_lost_stop_whoever_would_rather_stop(flow: CopyFlow) -> None:
    topic = flow.topic()
    produce(flow.source.bootstrap, topic, numbered(100))
    flow.copy()
    lose_runs(flow)
    flow.settings = {"fail_on_gap": True}
    status = flow.copy()
    assert status.state is PipelineState.FAILED
    remote = flow.remote(topic)
    for words in (
        "source.gap.policy is fail",
        f"{topic}-0",
        f"{remote}-0",
        "source.gap.policy=report",
        f"delete topic {remote}",
    ):
        assert words in str(status.failure)
    assert len(flow.copies(topic)) == 100
    # What it asks for helps: the topic made anew, or the policy.
    delete_topic(flow.target.bootstrap, remote)
    create_topic(flow.target.bootstrap, remote)
    assert flow.copy().state is PipelineState.CAUGHT_UP
    flow.assert_copied()
    assert ledger(flow) == []


@pytest.mark.long
def test_what_others_have_written_is_told_of_and_what_retention_took_is_nothing(flow: CopyFlow) -> None:
    written, emptied = flow.topic(), flow.topic()
    for topic in (written, emptied):
        produce(flow.target.bootstrap, flow.remote(topic), numbered(5))
        produce(flow.source.bootstrap, topic, numbered(10))
    delete_records(flow.target.bootstrap, flow.remote(emptied), {0: 5})
    status = flow.copy()
    assert [(gap.source.topic, gap.kind.value) for gap in status.gaps] == [(written, "target_not_empty")]
    assert values(flow.copies(emptied)) == values(numbered(10))


@pytest.mark.long
def test_a_first_try_that_was_aborted_left_nothing(flow: CopyFlow) -> None:
    topic, mixed = flow.topic(), flow.topic()
    big = [Record(b"x" * 500_000) for _ in range(6)]
    for each in (topic, mixed):
        for batch in (big, numbered(5)):
            produce_transaction(flow.target.bootstrap, flow.remote(each), batch, commit=False)
    produce(flow.target.bootstrap, flow.remote(mixed), numbered(1))
    for each in (topic, mixed):
        produce(flow.source.bootstrap, each, numbered(10))
    status = flow.copy()
    assert [(gap.source.topic, gap.kind.value) for gap in status.gaps] == [(mixed, "target_not_empty")]
    assert values(flow.copies(topic)) == values(numbered(10))


# -- deleted topics --------------------------------------------------------------------------------------------------


def layouts(flow: CopyFlow, count: int = 2) -> None:
    """So many more of them, by one driver."""
    with flow.pipeline() as running:

        def newer(layout: int) -> bool:
            return running.status.layout > layout

        for number in range(count):
            before = running.status.layout
            running.assign([replace(each, start=number) for each in flow.partitions()])
            eventually(partial(newer, before), WAIT, what="a layout")
            eventually(lambda: running.status.state is PipelineState.COPYING, WAIT, what="it copies")


def pairs(flow: CopyFlow) -> tuple[set[str], set[str]]:
    """Source topics that there are runs of, and claims."""
    runs = {copy.source.topic for copy in read_runs(flow.state(flow.spec.runs_topic))}
    claims = read_layouts(flow.state(flow.spec.layout_topic), flow.spec).claims
    return runs, {source for source, _ in claims}


def deleted(flow: CopyFlow, topic: str) -> None:
    delete_topic(flow.source.bootstrap, topic)
    delete_topic(flow.target.bootstrap, flow.remote(topic))
    flow.topics.remove(topic)


def test_what_is_known_of_deleted_topics_is_dropped(
    flow: CopyFlow, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stays, gone = flow.topic(), flow.topic(3)
    here, there, cluster_away = flow.topic(), flow.topic(), flow.topic()
    for topic in (stays, gone, here, there, cluster_away):
        produce(flow.source.bootstrap, topic, numbered(10))
    flow.copy()
    everything = {stays, gone, here, there, cluster_away}
    assert pairs(flow) == (everything, everything)
    deleted(flow, gone)
    # Groups may still need the copies of one, and the other one is only not copied any more.
    delete_topic(flow.source.bootstrap, there)
    delete_topic(flow.target.bootstrap, flow.remote(here))
    flow.topics = [stays]
    layouts(flow)
    assert pairs(flow) == (everything, everything), "not at once: a broker may not know it better"
    monkeypatch.setattr(ownership, "GONE_FOR", 0.0)
    layouts(flow)
    left = everything - {gone}
    assert pairs(flow) == (left, left)
    assert message("copying.runs_deleted", runs=3, topics=1) in caplog.messages
    # What is left goes on, and a topic of that name begins anew.
    flow.topics = [stays]
    create_topic(flow.source.bootstrap, gone)
    create_topic(flow.target.bootstrap, flow.remote(gone))
    flow.topics.append(gone)
    for topic in flow.topics:
        produce(flow.source.bootstrap, topic, numbered(10, start=10))
    assert flow.copy().gaps == ()
    flow.assert_copied()


def test_what_another_connector_has_claimed_is_its_own(
    flow: CopyFlow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ownership, "GONE_FOR", 0.0)
    topic, its = flow.topic(), flow.topic()
    produce(flow.source.bootstrap, its, numbered(10))
    flow.topics = [its]
    flow.settings = {"name": "another"}
    flow.copy()
    deleted(flow, its)
    flow.topics, flow.settings = [topic], {}
    layouts(flow)
    assert pairs(flow) == ({its, topic}, {its, topic})


@pytest.mark.long
def test_a_source_that_is_away_drops_nothing(flow: CopyFlow, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ownership, "GONE_FOR", 0.0)
    topic, gone = flow.topic(), flow.topic()
    for each in (topic, gone):
        produce(flow.source.bootstrap, each, numbered(10))
    flow.copy()
    deleted(flow, gone)
    flow.props = {"source.cluster.bootstrap.servers": "127.0.0.1:1"}
    with flow.pipeline() as running:
        eventually(lambda: running.status.layout > 1, WAIT, what="a layout")
    assert pairs(flow)[0] == {topic, gone}


# -- topics that are not compacted -----------------------------------------------------------------------------------


@pytest.mark.parametrize("which", mostly_long(["runs_topic", "layout_topic", "gaps_topic"]))
def test_a_driver_refuses_a_state_topic_that_is_not_compacted(flow: CopyFlow, which: str) -> None:
    topic, state = flow.topic(), getattr(flow.spec, which)
    produce(flow.source.bootstrap, topic, numbered(10))
    set_topic_config(flow.target.bootstrap, state, {"cleanup.policy": "compact,delete"})
    status = flow.copy()
    assert status.state is PipelineState.FAILED
    assert re.search(message_pattern("topics.not_compact", topic=state), str(status.failure))
    assert flow.copies(topic) == []
    set_topic_config(flow.target.bootstrap, state, {"cleanup.policy": "compact"})
    assert flow.copy().state is PipelineState.CAUGHT_UP
    flow.assert_copied()


@pytest.fixture(autouse=True)
def logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="bridge")
