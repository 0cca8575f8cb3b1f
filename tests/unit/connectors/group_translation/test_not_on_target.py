"""A yes needs proof: what is not on the target is counted for each group, and what is not known is no yes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from random import Random
from typing import NamedTuple

import pytest

from bridge.errors import KafkaFailure, KafkaFault
from bridge.model.values import Committed, GroupState, Judgement, Reason, TopicPartition
from bridge.service.ipc.messages import lacking
from bridge.translation.plan import NotBegun
from connectors.group_translation.records import committed_of, record_of, written_of
from connectors.group_translation.report import with_last_verdicts
from tests.support.forms import examples
from tests.unit.connectors.copied_orders import ORIGINAL
from tests.unit.connectors.fake_clusters import Log
from tests.unit.connectors.group_translation.mirrored_topic import COPY, Flow

COUNTED = {"records_not_on_target", "not_mirrored_yet"}
NOT_THERE = COUNTED | {"copies_unknown"}
STEPS = 12
"""Events of a history."""


@pytest.fixture(params=[True, False], ids=["ours", "stock"])
def flow(request: pytest.FixtureRequest) -> Flow:
    return Flow(ours=request.param)


def test_nothing_is_copied_yet(flow: Flow) -> None:
    flow.produce(100)
    flow.commit("g", 50)
    row = flow.answer("g")
    assert (row.reason, row.detail["not_on_target"]) == ("not_mirrored_yet", 50)
    flow.commit("g", 100)
    row = flow.answer("g")
    assert (row.verdict, row.bound) == ("bounded", 100), "read twice, never skipped"


def test_copying_has_begun_and_copied_nothing() -> None:
    flow = Flow()
    flow.produce(100)
    flow.begin_at(0)
    flow.commit("g", 50)
    row = flow.answer("g")
    assert (row.reason, row.detail["not_on_target"]) == ("not_mirrored_yet", 50)


def test_nothing_is_there_to_copy(flow: Flow) -> None:
    flow.begin_at(0)
    flow.commit("g", 0)
    assert flow.answer("g").verdict == "exact"


@pytest.mark.parametrize(("committed", "lost"), [(30, 70), (99, 1), (100, 0), (110, 0)])
def test_copying_began_behind_the_group(flow: Flow, committed: int, lost: int) -> None:
    flow.produce(100)
    flow.begin_at(100)
    flow.produce(20)
    flow.copy(20)
    flow.commit("g", committed)
    row = flow.answer("g")
    expected = (None, None) if not lost else ("records_not_on_target", lost)
    assert (row.reason, row.detail.get("not_on_target")) == expected


@pytest.mark.parametrize("between", [0, 1, 4])
@pytest.mark.parametrize(("committed", "lost"), [(10, 50), (40, 50), (60, 30), (90, 0), (100, 0)])
def test_an_operator_has_skipped_some(flow: Flow, committed: int, lost: int, between: int) -> None:
    if not flow.ours and committed < 40:
        pytest.skip("a mirror without a ledger is taken to have copied all between what is found")
    flow.produce(100)
    flow.copy(40)
    flow.others_send(between)
    flow.reset(90)
    flow.copy(10)
    flow.commit("g", committed)
    row = flow.answer("g")
    expected = (None, None) if not lost else ("records_not_on_target", lost)
    assert (row.reason, row.detail.get("not_on_target")) == expected


def test_the_copy_was_deleted_and_is_empty(flow: Flow) -> None:
    flow.produce(100)
    flow.copy(100)
    flow.commit("g", 50)
    assert flow.answer("g").verdict == "exact"
    flow.make_copy()
    assert flow.answer("g").reason in NOT_THERE
    flow.begin_at(100)
    assert flow.answer("g").reason in NOT_THERE
    flow.produce(20)
    flow.copy(20)
    row = flow.answer("g")
    assert (row.reason, row.detail["not_on_target"]) == ("records_not_on_target", 50)
    flow.commit("g", 100)
    assert flow.answer("g").verdict == "exact"


def test_nothing_comes_before_a_position_that_the_copy_is_past() -> None:
    """The target is empty, and copying goes on at the position: no record that the group has read comes there."""
    flow = Flow()
    flow.produce(100)
    flow.copy(100)
    flow.delete_copy(recopy=False)
    flow.commit("g", 100)
    row = flow.answer("g")
    assert (row.verdict, row.bound, row.flags) == ("exact", 0, [])
    flow.commit("g", 90)
    row = flow.answer("g")
    assert (row.reason, row.bound, row.flags) == ("records_not_on_target", 0, [])


def test_a_copy_that_was_deleted_is_not_ready_until_it_is_whole_again() -> None:
    flow = Flow()
    flow.produce(1000)
    flow.copy(1000)
    flow.expire(flow.origin, 100)
    flow.commit("g", 500)
    assert flow.answer("g").verdict == "exact"
    flow.delete_copy(recopy=True)
    for copied, lost in ((0, 500), (300, 500), (300, 300), (299, 1)):
        flow.copy(copied)
        row = flow.answer("g")
        assert (row.reason, row.detail["not_on_target"]) == ("not_mirrored_yet", lost), copied
    row = flow.answer("g", source_away=True)
    assert (row.reason, row.detail["not_on_target"]) == ("records_not_on_target", 1)
    flow.begin_service()
    assert flow.answer("g").reason == "not_mirrored_yet", "after a restart too"
    flow.copy(1)
    row = flow.answer("g")
    assert (row.verdict, row.target_offset) == ("exact", 500 - 100 + 1), "behind one marker"


def test_a_group_at_the_end_misses_nothing_of_what_is_copied_again() -> None:
    flow = Flow()
    flow.produce(100)
    flow.copy(100)
    flow.commit("g", 100)
    flow.delete_copy(recopy=True)
    flow.copy(60)
    assert flow.answer("g").reason is None


def test_what_an_operator_has_copied_again_is_not_ready_until_it_is() -> None:
    flow = Flow()
    flow.produce(100)
    flow.copy(100)
    flow.commit("g", 50)
    assert flow.answer("g").verdict == "exact"
    flow.reset(0)
    for copied, lost in ((30, 50), (40, 30)):
        flow.copy(copied)
        row = flow.answer("g")
        assert (row.reason, row.detail["not_on_target"]) == ("not_mirrored_yet", lost)
    flow.copy(30)
    assert flow.answer("g").verdict == "exact"


@pytest.mark.parametrize(("committed", "lost"), [(0, 60), (59, 1), (60, 0), (100, 0)])
def test_the_target_has_deleted_what_the_group_has_not_read(flow: Flow, committed: int, lost: int) -> None:
    flow.produce(100)
    flow.copy(100)
    flow.commit("g", committed)
    assert flow.answer("g").verdict == "exact"
    flow.expire(flow.copies, 60)
    row = flow.answer("g")
    expected = (None, None) if not lost else ("records_not_on_target", lost)
    assert (row.reason, row.detail.get("not_on_target")) == expected
    flow.expire(flow.origin, 60)
    assert flow.answer("g").verdict == "exact", "the source has deleted it too"


def test_the_target_has_deleted_all(flow: Flow) -> None:
    flow.produce(100)
    flow.copy(100)
    flow.commit("g", 50)
    assert flow.answer("g").verdict == "exact"
    flow.expire(flow.copies, flow.copies.end)
    row = flow.answer("g")
    assert (row.reason, row.detail["not_on_target"]) == ("records_not_on_target", 50)
    flow.commit("g", 100)
    assert flow.answer("g").verdict == "exact", "there is nothing behind the group's offset"


def test_the_source_has_deleted_what_was_never_copied(flow: Flow) -> None:
    flow.produce(100)
    flow.expire(flow.origin, 70)
    flow.copy(30)
    flow.commit("g", 10)
    assert flow.answer("g").verdict == "exact"


def test_the_source_has_deleted_all_but_its_last_record(flow: Flow) -> None:
    """Of what the group has yet to read only that one is left, behind many copies whose records nobody has."""
    flow.produce(40)
    flow.copy(40)
    flow.commit("g", 7)
    assert flow.answer("g").verdict == "exact"
    flow.expire(flow.origin, 39)
    assert flow.answer("g").reason is None


def test_stock_has_copied_before_us() -> None:
    flow = Flow()
    flow.ours = False
    flow.produce(100)
    flow.copy(60)
    flow.ours = True
    flow.begin_at(60)
    flow.copy(40)
    for committed in (0, 30, 60, 80, 100):
        flow.commit("g", committed)
        assert flow.answer("g").verdict == "exact", committed


def test_stock_had_begun_late_before_us() -> None:
    flow = Flow()
    flow.ours = False
    flow.produce(100)
    flow.begin_at(20)
    flow.copy(40)
    flow.ours = True
    flow.begin_at(70)
    flow.copy(30)
    for committed, lost in ((0, 30), (10, 20), (30, 10), (65, 5)):
        flow.commit("g", committed)
        assert flow.answer("g").detail["not_on_target"] == lost, committed
    flow.commit("g", 70)
    assert flow.answer("g").verdict == "exact"


def test_a_partition_without_a_leader_is_not_known(flow: Flow) -> None:
    flow.produce(100)
    flow.copy(100)
    flow.commit("g", 50)
    assert flow.answer("g").verdict == "exact"
    flow.a.bounds_trouble[ORIGINAL] = KafkaFailure(KafkaFault.UNREACHABLE, "no leader")
    row = flow.answer("g")
    assert (row.verdict, row.target_offset is None or row.reason == "copies_unknown") == ("pending", True)


def test_a_partition_that_no_group_has_begun_to_read_is_counted() -> None:
    flow = Flow()
    flow.produce(100)
    flow.copy(100)
    flow.commit("g", 50)
    new = TopicPartition("orders", 1)
    flow.a.logs[new] = Log(epoch=1)
    flow.a.logs[new].append(10, first=0)
    assert flow.answer("g").verdict == "exact"
    assert flow.behind == {ORIGINAL: (100, 100), new: (0, None)}, "not on B yet"
    flow.b.logs[TopicPartition("A.orders", 1)] = Log(epoch=1)
    assert flow.answer("g").verdict == "exact"
    assert flow.behind == {ORIGINAL: (100, 100), new: (10, 0)}


def test_what_compaction_has_taken_on_the_target_is_not_lost(flow: Flow) -> None:
    """All records have one key, so that the last one replaces the others."""
    if flow.ours:
        pytest.skip("runs say what was copied")
    flow.produce(30)
    flow.copy(30)
    flow.b.compacted_topics.add("A.orders")
    flow.copies.rows = flow.copies.rows[-1:]
    flow.commit("g", 10)
    assert flow.answer("g").reason is None


@pytest.mark.parametrize(("between", "reason"), [(0, None), (1, "target_ahead")])
def test_a_group_behind_markers_is_where_it_was(flow: Flow, between: int, reason: str | None) -> None:
    """A consumer that has read nothing on the target commits the offset behind the last copy's marker."""
    flow.produce(100)
    flow.copy(100)
    flow.commit("g", 100)
    assert flow.answer("g").written == 100
    flow.others_send(between)
    flow.b.offsets["g"][COPY] = Committed(flow.copies.end)
    for _ in range(2):
        row = flow.answer("g")
        assert (row.reason, row.written) == (reason, flow.copies.end)
        assert row.target_offset == (100 if reason else flow.copies.end)
    flow.produce(5)
    flow.copy(5)
    flow.commit("g", 105)
    assert (flow.answer("g").verdict, flow.answer("g").written) == ("exact", flow.copies.end - 1)


@pytest.mark.parametrize(("between", "judgement"), [(0, Judgement.EXACT), (2, Judgement.BOUNDED)])
def test_a_service_that_begins_anew_knows_its_own_commit(between: int, judgement: Judgement) -> None:
    """Also where records behind it are missing: else a lower answer would take it for somebody else's."""
    flow = Flow()
    flow.produce(100)
    flow.begin_at(70)
    flow.others_send(between)
    flow.copy(30)
    flow.commit("g", 50)
    plan = flow.plan("g")
    assert plan.rows[0].verdict.reason is Reason.RECORDS_NOT_ON_TARGET
    (own,) = written_of(record_of(plan, 0, 0, 1, GroupState.EMPTY.value)).values()
    assert (own.upstream, own.verdict.offset, own.verdict.judgement) == (50, plan.rows[0].standing, judgement)


def test_a_running_copy_whose_target_begins_to_overwrite_timestamps_stays_exact() -> None:
    """Its records show it as they are read: no round takes other timestamps for another log."""
    flow = Flow()
    flow.produce(100)
    flow.copy(50)
    flow.commit("g", 20)
    assert flow.answer("g").verdict == "exact"
    flow.b.stamped.add("A.orders")
    flow.copy(50)
    flow.copies.rows = [
        replace(row, timestamp=10**12) if row.offset > 50 else row for row in flow.copies.rows
    ]
    assert flow.answer("g").verdict == "exact"
    flow.b.append_time.add("A.orders")
    assert flow.answer("g").verdict == "exact"


ELECTION = "unclean election on B"
_TAKES_TWO_ROUNDS = ("copy deleted", "another copies", "service restarted", ELECTION)


def another_copies(flow: Flow, random: Random) -> None:
    """Another mirror goes on beside ours; it began where it found the source."""
    if flow.ours:
        begin = max(flow.another_position, flow.origin.start)
        flow.another_copies(begin, begin + random.randint(1, 20))


class _Event(NamedTuple):
    name: str
    happen: Callable[[Flow, Random], None]


EVENTS = (
    _Event("produce", lambda flow, random: flow.produce(random.randint(1, 30))),
    _Event("copy", lambda flow, random: flow.copy(random.randint(1, 40))),
    _Event("copy all", lambda flow, _: flow.copy(1000)),
    _Event("others", lambda flow, random: flow.others_send(random.randint(1, 3))),
    _Event("another copies", another_copies),
    _Event(
        "commit", lambda flow, random: flow.commit("g", random.randint(flow.origin.start, flow.origin.end))
    ),
    _Event("catch up", lambda flow, _: flow.commit("g", flow.origin.end)),
    _Event("reset", lambda flow, random: flow.reset(random.randint(flow.position, flow.origin.end))),
    _Event("copy deleted", lambda flow, random: flow.delete_copy(recopy=random.random() < 0.5)),
    _Event(
        "retention on B",
        lambda flow, random: flow.expire(flow.copies, random.randint(flow.copies.start, flow.copies.end)),
    ),
    _Event(
        "retention on A",
        lambda flow, random: flow.expire(flow.origin, random.randint(flow.origin.start, flow.position)),
    ),
    _Event("service restarted", lambda flow, _: flow.begin_service()),
    _Event(
        ELECTION,
        lambda flow, random: flow.truncate(flow.copies, flow.copies.end - random.randint(1, 6)),
    ),
)


def events_of(flow: Flow, told: Collection[str]) -> list[_Event]:
    """Those of which something leaves a trace: stock's leaves none of a hole in its copies, and where others write over
    what an election has taken, and ours goes on behind them, its older runs look as before."""
    hidden = () if flow.ours else ("reset", ELECTION)
    if ELECTION in told:
        hidden = (*hidden, "others", "another copies", "reset")
    return [event for event in EVENTS if event.name not in hidden]


RARE = (4961, 43242, 52803, 883, 1655, 2083)
"""Histories where copies of others are found once the offset that is committed was exact, where what is missing lies
behind the position that is known, before a copy, and where an aborted transaction stands in place of lost copies."""


BATCHES = 20
"""Of histories, so that lanes share them."""


def seeds(batch: int) -> Iterable[int]:
    return range(batch, examples(160, 20_000), BATCHES)


@pytest.mark.parametrize("batch", range(BATCHES))
def test_no_history_makes_a_false_yes_and_none_a_lasting_no(batch: int) -> None:
    for seed in seeds(batch):
        tell_no_false_yes_nor_lasting_no(seed)


@pytest.mark.parametrize("seed", RARE)
def test_no_rare_history_makes_one(seed: int) -> None:
    tell_no_false_yes_nor_lasting_no(seed)


def tell_no_false_yes_nor_lasting_no(seed: int) -> None:
    random = Random(seed)
    flow = Flow(ours=seed % 3 > 0)
    flow.aborts_after_loss = seed % 2 > 0
    flow.commit("g", 0)
    flow.begin_at(0)
    told = [f"seed {seed}"]
    for _ in range(STEPS):
        event = random.choice(events_of(flow, told))
        event.happen(flow, random)
        told.append(event.name)
        if event.name in _TAKES_TWO_ROUNDS or COPY not in flow.b.offsets.get("g", {}):
            flow.answer("g")
        report = flow.report("g")
        (row,) = report.partitions
        if row.verdict == "pending" and row.reason not in NOT_THERE:
            continue
        if row.verdict == "exact" and flow.ours:
            assert not flow.read_twice("g"), (told, row)
        if row.verdict != "pending":
            assert flow.b.offsets["g"][COPY].offset <= flow.copies.end, (told, row)
            end, copied_to = flow.behind[ORIGINAL]
            missing = None if copied_to is None else end - copied_to
            assert flow.lost("g", waiting=True) <= (missing or 0), (told, row)
        elif ELECTION in told:
            continue  # that a group which has read all that is lost may go on there nobody knows
        elif flow.lost("g", ours_alone=True) == 0 and row.target_offset is not None:
            nothing_there = flow.copies.start >= flow.copies.end
            assert nothing_there, (told, row)
            assert flow.origin.rows_from(flow.groups["g"]), (told, row)
        elif row.reason in COUNTED:
            end, copied_to = flow.behind[ORIGINAL]
            if copied_to is not None:
                # What the answer names: what is yet to be copied, and what the copies are past; nothing twice.
                named = end - copied_to + sum(count or 0 for _, _, count in lacking(report))
                most = end - min(flow.groups["g"], copied_to)
                assert flow.lost("g", waiting=True) <= named <= most, (told, row)


@pytest.mark.parametrize("batch", range(BATCHES))
def test_no_history_hides_what_a_group_lacks_where_it_has_committed_nothing(batch: int) -> None:
    """Beside a group that has, or alone."""
    for seed in seeds(batch):
        hide_nothing_of_what_is_not_begun(seed)


def hide_nothing_of_what_is_not_begun(seed: int) -> None:
    random = Random(seed)
    flow = Flow(ours=seed % 3 > 0)
    flow.begin_beside("beside")
    if seed % 2:
        flow.commit("g", 0)
    flow.begin_at(0)
    told = [f"seed {seed}"]
    for _ in range(STEPS):
        events = events_of(flow, told)
        if not seed % 2:
            events = [event for event in events if event.name not in ("commit", "catch up")]
        event = random.choice(events)
        event.happen(flow, random)
        told.append(event.name)
        if event.name in _TAKES_TWO_ROUNDS:
            flow.report("beside")
        report = flow.report("beside")
        end, copied_to = flow.behind[ORIGINAL]
        passed = [each.not_on_target for each in report.not_begun]
        assert report.ready
        if copied_to is None or None in passed:
            continue
        named = end - copied_to + sum(count or 0 for count in passed)
        lost = flow.lost_from(flow.origin.start, flow.copies.start, waiting=True)
        assert lost <= named, (told, report)
        if flow.ours:
            assert named <= flow.lost_from(
                flow.origin.start, flow.copies.start, waiting=True, ours_alone=True
            ), (told, report)


_OF_THE_TARGET = ("others", "copy deleted", "retention on B", ELECTION)


@pytest.mark.parametrize("batch", range(BATCHES))
def test_a_yes_stays_one_as_of_when_the_source_went_away_unless_the_target_loses_something(
    batch: int,
) -> None:
    """With the service restarted or not."""
    for seed in seeds(batch):
        keep_a_yes_while_the_source_is_away(seed)


def keep_a_yes_while_the_source_is_away(seed: int) -> None:
    random = Random(seed)
    flow = Flow(ours=seed % 3 > 0)
    flow.commit("g", 0)
    flow.begin_at(0)
    told = [f"seed {seed}"]
    for _ in range(random.randint(1, STEPS)):
        event = random.choice(events_of(flow, told))
        event.happen(flow, random)
        told.append(event.name)
    for _ in range(3):
        flow.answer("g")
    last = flow.plan("g")
    before = flow.report_of(last)
    if not before.ready:
        return
    lost, own = flow.lost("g"), written_of(record_of(last, 0, 0, 1, GroupState.EMPTY.value))
    for later in (None, *random.choices([each for each in EVENTS if each.name in _OF_THE_TARGET], k=2)):
        if later is not None:
            later.happen(flow, random)
            told.append(later.name)
        # Only a service that has seen the log before knows how long it was, but where our newest run tells.
        if random.random() < 0.5 and ELECTION not in told:
            flow.begin_service()
            flow.kept.recall("g", {ORIGINAL: Committed(flow.groups["g"])}, own)
        plan = flow.plan("g", source_away=True)
        (row,) = with_last_verdicts(plan, before, Reason.SOURCE_UNREACHABLE).rows
        ready = row.verdict.judgement is not Judgement.PENDING and row.standing == row.verdict.offset
        assert ready or later is not None or ELECTION in told, (told, before, row)
        assert not ready or flow.lost("g") <= lost, (told, before, row)


@pytest.mark.parametrize("batch", range(BATCHES))
def test_what_is_not_begun_is_told_while_the_source_is_away(batch: int) -> None:
    """With the service restarted or not."""
    for seed in seeds(batch):
        tell_what_is_not_begun_while_the_source_is_away(seed)


def tell_what_is_not_begun_while_the_source_is_away(seed: int) -> None:
    random = Random(seed)
    flow = Flow(ours=seed % 3 > 0)
    flow.begin_beside("beside")
    flow.begin_at(0)
    told = [f"seed {seed}"]
    for _ in range(random.randint(1, STEPS)):
        event = random.choice(
            [each for each in events_of(flow, told) if each.name not in ("commit", "catch up")]
        )
        event.happen(flow, random)
        told.append(event.name)
    for _ in range(3):
        last = flow.plan("beside")
    record = record_of(last, 0, 0, 1, GroupState.EMPTY.value)
    before = [each.not_on_target for each in last.not_begun]
    end, copied_to = flow.behind[ORIGINAL]
    for later in (None, *random.choices(["others", "retention on B", "copy made again"], k=2)):
        if later == "copy made again":
            flow.make_copy()
        elif later is not None:
            next(each for each in EVENTS if each.name == later).happen(flow, random)
        told.append(str(later))
        if random.random() < 0.5 and ELECTION not in told:
            flow.begin_service()
            flow.kept.recall(
                "beside",
                committed_of(record),
                written_of(record),
                list(map(NotBegun._make, record.not_begun)),
            )
            told.append("service restarted")
        named = [each.not_on_target for each in flow.plan("beside", source_away=True).not_begun]
        if later is None and ELECTION not in told:
            assert named == before, told
        if flow.ours and None not in named and copied_to is not None:
            lost = flow.lost_from(flow.origin.start, flow.copies.start, waiting=True)
            assert lost <= end - copied_to + sum(count or 0 for count in named), (told, named)


@pytest.mark.parametrize("restarted", [False, True])
def test_a_yes_ends_where_the_target_loses_what_another_mirror_copied_while_the_source_is_away(
    restarted: bool,
) -> None:
    flow = Flow(ours=True)
    flow.produce(12)
    flow.copy(2)
    flow.another_copies(2, 12)
    flow.reset(12)
    flow.expire(flow.origin, 6)
    flow.commit("g", 0)
    for _ in range(3):
        flow.answer("g")
    last = flow.plan("g")
    before = flow.report_of(last)
    assert before.ready
    for lost, still_ready in ((0, True), (9, False)):
        flow.expire(flow.copies, lost)
        if restarted:
            flow.begin_service()
            own = written_of(record_of(last, 0, 0, 1, GroupState.EMPTY.value))
            flow.kept.recall("g", {ORIGINAL: Committed(flow.groups["g"])}, own)
        plan = flow.plan("g", source_away=True)
        (row,) = with_last_verdicts(plan, before, Reason.SOURCE_UNREACHABLE).rows
        assert (row.verdict.judgement is not Judgement.PENDING) is still_ready


@pytest.mark.parametrize("rewind", ["never", "empty-groups"])
def test_a_group_that_has_read_all_does_not_go_on_beyond_what_is_left(flow: Flow, rewind: str) -> None:
    """A consumer there begins anew, by auto.offset.reset, or passes over what is written next."""
    flow.begin_service(**{"sync.group.offsets.rewind": rewind})
    flow.produce(100)
    flow.copy(100)
    flow.commit("g", 100)
    for _ in range(2):
        assert flow.answer("g").verdict == "exact"
    flow.truncate(flow.copies, 95)
    row = flow.answer("g")
    if rewind == "never":
        assert (row.verdict, row.reason, row.written) == ("pending", "target_ahead", 100)
        assert row.detail["target_ahead_by"] == 5
    else:
        assert (row.reason, row.written, row.flags[-1]) == (None, 95, "rewound")


def test_a_service_that_begins_without_the_source_sees_a_group_beyond_what_is_left(flow: Flow) -> None:
    flow.produce(100)
    flow.copy(100)
    flow.commit("g", 100)
    for _ in range(2):
        assert flow.answer("g").written == 100
    last = flow.plan("g")
    before, record = flow.report_of(last), record_of(last, 0, 0, 1, GroupState.EMPTY.value)
    assert before.ready
    for left, judgement in ((100, Judgement.EXACT), (99, Judgement.PENDING)):
        flow.truncate(flow.copies, left)
        flow.begin_service()
        flow.kept.recall("g", committed_of(record), written_of(record))
        (row,) = with_last_verdicts(flow.plan("g", source_away=True), before, Reason.SOURCE_UNREACHABLE).rows
        assert row.verdict.judgement is judgement


@pytest.mark.parametrize("source_away", [False, True])
def test_a_replica_without_the_last_copies_leads_the_target(flow: Flow, source_away: bool) -> None:
    """unclean.leader.election.enable=true: what was acknowledged and copied is gone again, and may be overwritten."""
    flow.produce(100)
    flow.copy(100)
    flow.commit("g", 90)
    for _ in range(3):
        flow.answer("g")
    last = flow.plan("g")
    before, own = flow.report_of(last), written_of(record_of(last, 0, 0, 1, GroupState.EMPTY.value))
    assert before.ready
    flow.plan("g", source_away=source_away)

    def answer() -> tuple[Judgement, Reason | None]:
        plan = flow.plan("g", source_away=source_away)
        if source_away:
            plan = with_last_verdicts(plan, before, Reason.SOURCE_UNREACHABLE)
        (row,) = plan.rows
        return row.verdict.judgement, row.verdict.reason

    flow.truncate(flow.copies, 95)
    if flow.ours:
        flow.begin_service()
        flow.kept.recall("g", {ORIGINAL: Committed(flow.groups["g"])}, own)
    judgement, reason = answer()
    if not flow.ours and not source_away:
        # Its last record there is how far a mirror without a ledger has come.
        assert (judgement, flow.behind[ORIGINAL]) == (Judgement.EXACT, (100, 95))
        return
    assert (judgement, reason) == (Judgement.PENDING, Reason.COPIES_UNKNOWN)
    flow.others_send(10)
    assert answer()[0] is Judgement.PENDING, "and others have written there since"
