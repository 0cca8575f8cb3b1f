"""What is written for a group: the rules of bridge.translation.plan, each by an example that only it decides."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.model.values import (
    Committed,
    Evidence,
    Flag,
    GroupState,
    Judgement,
    Reason,
    TopicPartition,
    Verdict,
)
from bridge.translation.plan import GroupPlan, OwnCommit, PartitionPlan, TargetGroup, Translated, plan_group

SOURCE, TARGET = TopicPartition("orders", 0), TopicPartition("A.orders", 0)
ACTIVE_STATES = (
    GroupState.STABLE,
    GroupState.PREPARING_REBALANCE,
    GroupState.COMPLETING_REBALANCE,
    GroupState.ASSIGNING,
    GroupState.RECONCILING,
)


def exact(offset: int, epoch: int = 7) -> Verdict:
    return Verdict(Judgement.EXACT, offset, 0, Evidence.VERIFIED, leader_epoch=epoch)


def translated(
    verdict: Verdict, committed: int = 100, metadata: str = "", partition: int = 0, epoch: int = 3
) -> Translated:
    source, target = TopicPartition("orders", partition), TopicPartition("A.orders", partition)
    return Translated(source, target, Committed(committed, metadata, epoch), verdict)


def there(*standing: int, state: GroupState = GroupState.EMPTY, kind: str = "classic") -> TargetGroup:
    offsets = {TopicPartition("A.orders", at): Committed(offset) for at, offset in enumerate(standing)}
    return TargetGroup(state, kind, offsets)


def plan(
    each: Translated,
    target: TargetGroup,
    written: OwnCommit | None = None,
    *,
    rewind: bool = False,
    dry_run: bool = False,
) -> GroupPlan:
    earlier = {} if written is None else {each.target: written}
    return plan_group("g", [each], target, earlier, rewind=rewind, dry_run=dry_run)


def only(plan_: GroupPlan) -> PartitionPlan:
    (row,) = plan_.rows
    return row


def test_a_group_that_is_not_there_is_written_with_metadata_and_the_targets_own_epoch() -> None:
    target = TargetGroup(GroupState.NOT_FOUND, "classic", {})
    planned = plan(translated(exact(200, epoch=7), metadata='möchte, "so"', epoch=3), target)
    assert planned.writes == {TARGET: Committed(200, 'möchte, "so"', 7)}
    assert planned.reason is None
    assert only(planned).standing is None


def test_an_epoch_that_is_not_known_is_written_as_none() -> None:
    assert plan(translated(exact(200, epoch=-1), epoch=9), there(1)).writes[TARGET].leader_epoch == -1


def test_a_lower_offset_there_is_raised() -> None:
    planned = plan(translated(exact(200)), there(199))
    assert planned.writes == {TARGET: Committed(200, "", 7)}
    assert (only(planned).standing, only(planned).verdict) == (199, exact(200))


def test_an_equal_offset_is_left_and_stays_exact() -> None:
    planned = plan(translated(exact(200), metadata="other"), there(200))
    assert (planned.writes, planned.reason, only(planned).verdict) == ({}, None, exact(200))


def test_a_target_ahead_is_pending_with_the_count_and_never_exact() -> None:
    row = only(plan(translated(exact(200)), there(203)))
    assert row.write is None
    assert (row.verdict.judgement, row.verdict.reason) == (Judgement.PENDING, Reason.TARGET_AHEAD)
    assert (row.verdict.detail["target_ahead_by"], row.verdict.detail["answer"]) == (3, 200)
    assert row.standing == 203


@pytest.mark.parametrize("rewind", [False, True])
def test_what_others_wrote_is_never_moved_back(rewind: bool) -> None:
    stranger = OwnCommit(500, exact(350))  # ours was 350, and 400 stands there
    row = only(plan(translated(exact(200)), there(400), stranger, rewind=rewind))
    assert (row.write, row.verdict.reason) == (None, Reason.TARGET_AHEAD)
    assert only(plan(translated(exact(200)), there(400), rewind=rewind)).write is None


def test_what_we_wrote_is_moved_back_only_when_allowed() -> None:
    ours = OwnCommit(150, exact(250))
    kept = only(plan(translated(exact(200), committed=100), there(250), ours))
    assert (kept.write, kept.verdict.reason) == (None, Reason.TARGET_AHEAD)
    moved = only(plan(translated(exact(200), committed=100), there(250), ours, rewind=True))
    assert moved.write == Committed(200, "", 7)
    assert moved.verdict.flags == (Flag.REWOUND,)
    assert moved.verdict.judgement is Judgement.EXACT


def test_a_group_that_is_active_is_not_moved_back_either() -> None:
    planned = plan(
        translated(exact(200)), there(250, state=GroupState.STABLE), OwnCommit(150, exact(250)), rewind=True
    )
    assert (planned.writes, planned.reason) == ({}, Reason.GROUP_ACTIVE_ON_TARGET)


def test_our_own_earlier_higher_answer_for_the_same_offset_stands() -> None:
    earlier = OwnCommit(100, exact(250))
    worse = Verdict(Judgement.BOUNDED, 200, 50, Evidence.VERIFIED)
    planned = plan(translated(worse, committed=100), there(250), earlier, rewind=True)
    assert (planned.writes, only(planned).verdict) == ({}, exact(250))


def test_our_own_earlier_answer_for_a_lower_offset_stands_with_the_new_bound() -> None:
    worse = Verdict(Judgement.BOUNDED, 200, 60, Evidence.VERIFIED)
    row = only(plan(translated(worse, committed=110), there(250), OwnCommit(100, exact(250)), rewind=True))
    assert row.write is None
    assert (row.verdict.judgement, row.verdict.offset, row.verdict.bound) == (Judgement.BOUNDED, 250, 60)


@pytest.mark.parametrize("state", ACTIVE_STATES)
def test_active_groups_are_left_alone(state: GroupState) -> None:
    planned = plan(translated(exact(200)), there(1, state=state))
    assert (planned.writes, planned.reason) == ({}, Reason.GROUP_ACTIVE_ON_TARGET)
    row = only(planned)
    assert (row.verdict.judgement, row.verdict.reason) == (
        Judgement.PENDING,
        Reason.GROUP_ACTIVE_ON_TARGET,
    )
    assert (row.verdict.detail["answer"], row.standing) == (200, 1)


def test_a_state_that_is_not_known_counts_as_active() -> None:
    planned = plan(translated(exact(200)), there(1, state=GroupState.UNKNOWN))
    assert (planned.writes, planned.reason) == ({}, Reason.GROUP_STATE_UNKNOWN)


def test_dead_and_empty_groups_of_both_synced_types_are_written() -> None:
    for state in (GroupState.EMPTY, GroupState.DEAD):
        for kind in ("classic", "consumer"):
            assert plan(translated(exact(200)), there(1, state=state, kind=kind)).writes


@pytest.mark.parametrize("kind", ["share", "streams", "of-the-future"])
def test_group_types_without_support_are_named_whatever_their_state(kind: str) -> None:
    for state in (GroupState.EMPTY, GroupState.STABLE, GroupState.UNKNOWN):
        planned = plan(translated(exact(200)), there(1, state=state, kind=kind))
        assert (planned.writes, planned.reason) == ({}, Reason.GROUP_TYPE_UNSUPPORTED)


def test_a_pending_verdict_writes_nothing_and_keeps_its_reason() -> None:
    planned = plan(translated(Verdict.pending(Reason.COPY_NOT_FOUND)), there(1))
    assert (planned.writes, planned.reason, only(planned).verdict.reason) == ({}, None, Reason.COPY_NOT_FOUND)


def test_partitions_are_decided_one_by_one() -> None:
    each = [
        translated(exact(20), partition=0),
        translated(exact(20), partition=1),
        translated(Verdict.pending(Reason.TARGET_PARTITION_MISSING), partition=2),
        translated(exact(20), partition=3),
    ]
    planned = plan_group("g", each, there(10, 30, 5), {})
    assert set(planned.writes) == {TopicPartition("A.orders", 0), TopicPartition("A.orders", 3)}
    assert [row.standing for row in planned.rows] == [10, 30, 5, None]


def test_a_dry_run_writes_nothing_and_says_what_it_would() -> None:
    planned = plan(translated(exact(200)), there(1), dry_run=True)
    assert (planned.writes, planned.reason) == ({}, Reason.DRY_RUN)
    assert (only(planned).verdict, only(planned).standing) == (exact(200), 1)


def test_a_dry_run_with_nothing_to_write_has_no_reason_of_its_own() -> None:
    assert plan(translated(exact(200)), there(200), dry_run=True).reason is None
    active = plan(translated(exact(200)), there(1, state=GroupState.STABLE), dry_run=True)
    assert active.reason is Reason.GROUP_ACTIVE_ON_TARGET


verdicts = st.one_of(
    st.integers(0, 9).map(exact),
    st.builds(Verdict, st.just(Judgement.BOUNDED), st.integers(0, 9), st.integers(1, 5)),
    st.just(Verdict.pending(Reason.COPY_NOT_FOUND)),
)


@given(
    verdicts,
    st.integers(0, 9),
    st.none() | st.integers(0, 9),
    st.sampled_from(GroupState),
    st.sampled_from(["classic", "consumer", "share"]),
    st.none() | st.tuples(st.integers(0, 9), st.integers(0, 9)),
    st.booleans(),
    st.booleans(),
)
def test_laws(
    verdict: Verdict,
    committed: int,
    standing: int | None,
    state: GroupState,
    kind: str,
    earlier: tuple[int, int] | None,
    rewind: bool,
    dry_run: bool,
) -> None:
    target = there(*([] if standing is None else [standing]), state=state, kind=kind)
    written = None if earlier is None else OwnCommit(earlier[0], exact(earlier[1]))
    planned = plan(translated(verdict, committed=committed), target, written, rewind=rewind, dry_run=dry_run)
    row = only(planned)
    if row.write is not None:
        assert not dry_run
        assert state in (GroupState.EMPTY, GroupState.DEAD, GroupState.NOT_FOUND)
        assert row.write.offset == verdict.offset == row.verdict.offset
        if standing is not None and row.write.offset <= standing:
            assert rewind
            assert earlier is not None
            assert earlier[1] == standing
            assert Flag.REWOUND in row.verdict.flags
    elif planned.reason is None and row.verdict.judgement is not Judgement.PENDING:
        assert row.verdict.offset == standing
    if row.verdict.judgement is Judgement.PENDING:
        assert row.verdict.reason is not None
