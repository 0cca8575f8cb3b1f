"""Rounds over clusters in memory: what is written, what is left alone, what trouble touches, and what it all costs."""

from __future__ import annotations

import pytest

from bridge.errors import KafkaFailure, KafkaFault
from bridge.model.values import (
    Committed,
    Evidence,
    Flag,
    GroupState,
    Judgement,
    Reason,
    Side,
    TopicPartition,
)
from bridge.translation.plan import PartitionPlan
from connectors.cluster_away import ClusterAway
from connectors.group_translation.round import GroupRounds, RoundOutcome
from tests.unit.connectors.fake_clusters import JUNK, FakeCluster, Log, mirrored
from tests.unit.connectors.group_translation.group_rounds import rounds, run

ORDERS, COPY = TopicPartition("orders", 0), TopicPartition("A.orders", 0)


def rows(outcome: RoundOutcome, group: str = "g") -> dict[TopicPartition, PartitionPlan]:
    return {row.source: row for row in outcome.plans[group].rows}


def reasons(outcome: RoundOutcome, group: str = "g") -> dict[TopicPartition, Reason | None]:
    return {place: row.verdict.reason for place, row in rows(outcome, group).items()}


def trouble(fault: KafkaFault, message: str = "trouble") -> KafkaFailure:
    return KafkaFailure(fault, message)


def test_an_offset_crosses_with_metadata_and_stands_there() -> None:
    source, target = mirrored()
    source.group("g", {("orders", 0): Committed(12, "möchte", 3)})
    outcome = run(rounds(source, target), source)
    assert target.altered == [("g", {COPY: Committed(12 + JUNK, "möchte", 5)})]
    row = rows(outcome)[ORDERS]
    assert (row.verdict.judgement, row.verdict.evidence) == (Judgement.EXACT, Evidence.VERIFIED)
    assert (row.standing, outcome.writes, outcome.errors) == (12 + JUNK, 1, [])


def test_reads_are_committed_only_on_the_target_and_as_the_mirror_reads_on_the_source() -> None:
    for given, level in (({}, False), ({"source_consumer_isolation_level": "read_committed"}, True)):
        source, target = mirrored()
        source.group("g", {("orders", 0): 12})
        run(rounds(source, target, **given), source)
        assert source.isolation == {("bounds", level), ("answer", level)}
        assert target.isolation == {("bounds", True), ("answer", True)}


def test_a_round_where_nothing_moved_looks_nothing_up_and_writes_nothing() -> None:
    source, target = mirrored(partitions=3)
    for number in range(5):
        source.group(f"g{number}", {("orders", at): 3 + number for at in range(3)})
    kept = rounds(source, target)
    first = run(kept, source)
    assert (first.lookups, first.writes) == (15, 15)
    for cluster in (source, target):
        cluster.calls.clear()
    again = run(kept, source)
    assert (again.lookups, again.writes) == (0, 0)
    assert set(source.calls) == {"committed", "topics", "bounds", "forget_windows"}
    assert set(target.calls) == {"committed", "list_groups", "topics", "bounds", "forget_windows"}
    assert max(source.calls.values()) == max(target.calls.values()) == 1
    assert rows(again, "g0") == {place: row._replace(write=None) for place, row in rows(first, "g0").items()}


def test_groups_at_one_offset_share_one_translation() -> None:
    source, target = mirrored()
    for number in range(50):
        source.group(f"g{number}", {("orders", 0): 12})
    outcome = run(rounds(source, target), source)
    assert (outcome.lookups, outcome.writes) == (1, 50)


def test_only_what_moved_is_looked_at() -> None:
    source, target = mirrored(partitions=3)
    source.group("g", {("orders", at): 5 for at in range(3)})
    kept = rounds(source, target)
    run(kept, source)
    source.group("g", {("orders", 0): 5, ("orders", 1): 6, ("orders", 2): 5})
    outcome = run(kept, source)
    assert (outcome.lookups, outcome.writes) == (1, 1)
    assert target.altered[-1] == ("g", {TopicPartition("A.orders", 1): Committed(6 + JUNK, "", 5)})


def test_caught_up_is_looked_at_again_when_something_arrives() -> None:
    source, target = mirrored(20)
    source.group("g", {("orders", 0): 20})
    kept = rounds(source, target)
    assert rows(run(kept, source))[ORDERS].standing == 20 + JUNK
    assert run(kept, source).lookups == 0
    target.logs[COPY].append(1, junk=True, first=20)
    source.logs[ORDERS].append(1, first=20)
    target.logs[COPY].append(1, first=20)
    outcome = run(kept, source)
    assert outcome.lookups == 1
    # A foreign record lies before the copy: skipping it would be right, reading it again is allowed, going past is not.
    assert 20 + JUNK <= (rows(outcome)[ORDERS].standing or 0) <= 21 + JUNK


@pytest.mark.parametrize("side", ["source", "target"])
@pytest.mark.parametrize("what", ["id", "epoch"])
def test_a_new_topic_id_or_epoch_is_looked_at_again(side: str, what: str) -> None:
    source, target = mirrored()
    source.group("g", {("orders", 0): 12})
    kept = rounds(source, target)
    run(kept, source)
    cluster, place = (source, ORDERS) if side == "source" else (target, COPY)
    if what == "id":
        cluster.ids[place.topic] = "another"
    else:
        cluster.logs[place].epoch += 1
    assert run(kept, source).lookups == 1
    assert run(kept, source).lookups == 0


# -- filters -----------------------------------------------------------------------------------------------------------


def test_topics_that_are_not_mirrored_are_left_out_and_groups_with_nothing_else_too() -> None:
    source, target = mirrored(topics=("orders", "secret"))
    for name in ("B.back", "__internal", "mm2-x.internal"):
        source.topic(name, Log())
    hidden = {(name, 0): 1 for name in ("secret", "B.back", "__internal", "mm2-x.internal")}
    source.group("g", {("orders", 0): 5, **hidden})
    source.group("nothing", hidden)
    source.group("none", {})
    outcome = run(rounds(source, target, topics_exclude="secret"), source)
    assert set(outcome.plans) == {"g"}
    assert set(rows(outcome)) == {ORDERS}
    assert outcome.failures == {}


# -- trouble stays where it is ---------------------------------------------------------------------------------------


def test_one_bad_group_spoils_no_other() -> None:
    source, target = mirrored()
    for name in ("here", "hidden", "hidden-there"):
        source.group(name, {("orders", 0): 5})
    source.group_trouble["hidden"] = trouble(KafkaFault.NOT_AUTHORIZED, "no READ on group hidden")
    target.group_trouble["hidden-there"] = trouble(KafkaFault.NOT_AUTHORIZED, "no READ on group hidden-there")
    outcome = run(rounds(source, target), source)
    assert outcome.failures == {
        "hidden": Reason.SOURCE_NOT_AUTHORIZED,
        "hidden-there": Reason.TARGET_NOT_AUTHORIZED,
    }
    assert set(outcome.plans) == {"here"}
    assert sorted(outcome.errors) == ["no READ on group hidden", "no READ on group hidden-there"]
    assert [group for group, _ in target.altered] == ["here"]


@pytest.mark.parametrize(
    ("side", "fault", "reason"),
    [
        ("source", KafkaFault.NOT_AUTHORIZED, Reason.SOURCE_NOT_AUTHORIZED),
        ("source", KafkaFault.UNKNOWN_TOPIC, Reason.SOURCE_TOPIC_MISSING),
        ("source", KafkaFault.TIMEOUT, Reason.SOURCE_UNREACHABLE),
        ("source", KafkaFault.UNREADABLE_BATCH, Reason.SOURCE_BATCH_UNREADABLE),
        ("target", KafkaFault.UNREADABLE_BATCH, Reason.TARGET_BATCH_UNREADABLE),
        ("target", KafkaFault.NOT_AUTHORIZED, Reason.TARGET_NOT_AUTHORIZED),
        ("target", KafkaFault.UNKNOWN_TOPIC, Reason.TARGET_TOPIC_MISSING),
        ("target", KafkaFault.LEADER_MOVED, Reason.TARGET_UNREACHABLE),
    ],
)
@pytest.mark.parametrize("call", ["topic_trouble", "bounds_trouble", "answer_trouble"])
def test_one_bad_topic_spoils_no_other(side: str, fault: KafkaFault, reason: Reason, call: str) -> None:
    source, target = mirrored(topics=("orders", "payments"))
    source.group("g", {("orders", 0): 5, ("payments", 0): 6})
    cluster, name = (source, "orders") if side == "source" else (target, "A.orders")
    where: object = name if call == "topic_trouble" else TopicPartition(name, 0)
    getattr(cluster, call)[where] = trouble(fault, "as the cluster said")
    outcome = run(rounds(source, target), source)
    assert reasons(outcome) == {ORDERS: reason, TopicPartition("payments", 0): None}
    assert rows(outcome)[ORDERS].verdict.detail["said"] == "as the cluster said"
    assert target.altered == [("g", {TopicPartition("A.payments", 0): Committed(6 + JUNK, "", 5)})]


def test_one_bad_partition_spoils_no_other() -> None:
    source, target = mirrored(partitions=2)
    source.group("g", {("orders", at): 5 for at in (0, 1, 7)})
    source.bounds_trouble[TopicPartition("orders", 1)] = trouble(KafkaFault.LEADER_MOVED)
    outcome = run(rounds(source, target), source)
    assert reasons(outcome) == {
        ORDERS: None,
        TopicPartition("orders", 1): Reason.SOURCE_UNREACHABLE,
        TopicPartition("orders", 7): Reason.SOURCE_TOPIC_MISSING,
    }
    assert outcome.writes == 1


def test_a_partition_that_the_target_does_not_have_yet() -> None:
    source, target = mirrored(partitions=2)
    del target.logs[TopicPartition("A.orders", 1)]
    source.group("g", {("orders", 0): 5, ("orders", 1): 5})
    outcome = run(rounds(source, target), source)
    assert reasons(outcome) == {
        ORDERS: None,
        TopicPartition("orders", 1): Reason.TARGET_PARTITION_MISSING,
    }


def test_trouble_that_is_over_leaves_nothing_behind() -> None:
    source, target = mirrored()
    source.group("g", {("orders", 0): 5})
    kept = rounds(source, target)
    source.answer_trouble[ORDERS] = trouble(KafkaFault.TIMEOUT)
    assert reasons(run(kept, source)) == {ORDERS: Reason.SOURCE_UNREACHABLE}
    source.answer_trouble.clear()
    assert rows(run(kept, source))[ORDERS].standing == 5 + JUNK


@pytest.mark.parametrize("side", list(Side))
@pytest.mark.parametrize("call", ["committed", "list_groups", "topics", "bounds", "group_states"])
def test_a_whole_cluster_away_is_raised_with_its_side(side: Side, call: str) -> None:
    source, target = mirrored()
    source.group("g", {("orders", 0): 5})
    cluster = source if side is Side.SOURCE else target

    def before(made: str) -> None:
        if made == call:
            raise trouble(KafkaFault.UNREACHABLE, "nobody there")

    cluster.before = before
    kept = rounds(source, target)
    if side is Side.SOURCE and call in ("list_groups", "group_states"):
        assert run(kept, source).writes == 1  # never asked of the source in a round
        return
    with pytest.raises(ClusterAway, match="nobody there") as caught:
        run(kept, source)
    assert (caught.value.side, caught.value.failure.fault) == (side, KafkaFault.UNREACHABLE)
    assert target.altered == []
    # What look-ups have read is of a topic that may be another one by the next round.
    assert source.calls["forget_windows"] == target.calls["forget_windows"] == 1
    cluster.before = lambda _call: None
    assert run(kept, source).writes == 1


# -- writing ---------------------------------------------------------------------------------------------------------


def test_the_state_is_asked_again_right_before_the_commits() -> None:
    source, target = mirrored()
    for name in ("idle", "wakes-up", "unsure"):
        source.group(name, {("orders", 0): 5})
        target.group(name, {("A.orders", 0): 3})
    order: list[str] = []
    target.before = order.append
    target.states = {"wakes-up": GroupState.STABLE, "unsure": GroupState.UNKNOWN}
    outcome = run(rounds(source, target), source)
    assert order[-3:] == ["group_states", "committed", "alter"]
    assert [group for group, _ in target.altered] == ["idle"]
    assert outcome.plans["wakes-up"].reason is Reason.GROUP_ACTIVE_ON_TARGET
    assert outcome.plans["unsure"].reason is Reason.GROUP_STATE_UNKNOWN
    for name in ("wakes-up", "unsure"):
        row = rows(outcome, name)[ORDERS]
        assert (row.write, row.standing, row.verdict.judgement) == (None, 3, Judgement.PENDING)
    assert outcome.writes == 1


@pytest.mark.parametrize("state", [GroupState.EMPTY, GroupState.NOT_FOUND, GroupState.DEAD])
def test_groups_without_members_are_written(state: GroupState) -> None:
    source, target = mirrored()
    source.group("g", {("orders", 0): 5})
    target.states["g"] = state
    assert run(rounds(source, target), source).writes == 1


def test_a_group_with_offsets_that_is_not_listed_is_asked_for_its_state() -> None:
    """Its coordinator on the target has just started, and lists it in a moment."""
    source, target = mirrored()
    source.group("g", {("orders", 0): 12})
    kept = rounds(source, target)
    run(kept, source)
    asked = target.calls["group_states"]
    run(kept, source)
    assert target.calls["group_states"] == asked, "it is listed"
    del target.listed["g"]
    target.states["g"] = GroupState.STABLE
    outcome = run(kept, source)
    assert outcome.plans["g"].reason is Reason.GROUP_ACTIVE_ON_TARGET
    target.states["g"] = GroupState.EMPTY
    outcome = run(kept, source)
    assert (outcome.plans["g"].reason, rows(outcome)[ORDERS].standing) == (None, 12 + JUNK)


def test_an_active_group_is_neither_asked_nor_written() -> None:
    source, target = mirrored()
    source.group("g", {("orders", 0): 5})
    target.group("g", {("A.orders", 0): 3}, GroupState.STABLE)
    outcome = run(rounds(source, target), source)
    assert outcome.plans["g"].reason is Reason.GROUP_ACTIVE_ON_TARGET
    assert (target.calls["group_states"], target.calls["alter"]) == (0, 0)


def at_commit(target: FakeCluster, group: str, offset: int) -> None:
    """Sets the group's offset on the target once its plan is made, and before it is carried out."""

    def moved(call: str) -> None:
        if call == "group_states":
            target.group(group, {COPY: offset})

    target.before = moved


@pytest.mark.parametrize("rewind", ["never", "empty-groups"])
@pytest.mark.parametrize("before", [None, 3])
def test_offsets_that_were_reset_after_the_plan_are_not_moved_back(before: int | None, rewind: str) -> None:
    source, target = mirrored()
    source.group("g", {("orders", 0): 5})
    if before is not None:
        target.group("g", {COPY: before})
    at_commit(target, "g", 9 + JUNK)
    outcome = run(rounds(source, target, sync_group_offsets_rewind=rewind), source)
    row = rows(outcome)[ORDERS]
    assert (target.altered, outcome.writes, row.standing) == ([], 0, 9 + JUNK)
    assert (row.verdict.reason, row.verdict.detail["target_ahead_by"]) == (Reason.TARGET_AHEAD, 4)
    target.before = lambda _call: None
    target.group("g", {COPY: 0})
    assert reasons(run(rounds(source, target), source)) == {ORDERS: None}


def test_an_offset_that_was_reset_after_the_plan_is_not_rewound() -> None:
    """It is no longer the one that we wrote."""
    kept, source, target = reset("empty-groups")
    at_commit(target, "g", 14 + JUNK)
    outcome = run(kept, source)
    assert reasons(outcome) == {ORDERS: Reason.TARGET_AHEAD}
    assert not rows(outcome)[ORDERS].verdict.flags
    assert target.offsets["g"][COPY].offset == 14 + JUNK


def test_a_plan_made_anew_is_the_plan_of_what_stands_there_now() -> None:
    """Nothing of the first plan is left in it: what was too high then is written, and moved back once."""
    source, target = mirrored(partitions=2)
    source.group("g", {("orders", 0): 5, ("orders", 1): 5})
    target.group("g", {COPY: 9 + JUNK})
    at_commit(target, "g", 3)
    outcome = run(rounds(source, target), source)
    assert set(reasons(outcome).values()) == {None}
    assert {place.partition: each.offset for place, each in target.offsets["g"].items()} == {
        0: 5 + JUNK,
        1: 5 + JUNK,
    }
    kept, source, target = reset("empty-groups")
    row = rows(run(kept, source))[ORDERS]
    assert (row.verdict.flags, row.standing) == ((Flag.REWOUND,), 5 + JUNK)


def test_offsets_that_can_not_be_asked_again_are_not_overwritten() -> None:
    source, target = mirrored()
    for name in ("g", "h"):
        source.group(name, {("orders", 0): 5})

    def troubled(call: str) -> None:
        if call == "group_states":
            target.group_trouble["g"] = trouble(KafkaFault.NOT_AUTHORIZED, "no READ on g")

    target.before = troubled
    outcome = run(rounds(source, target), source)
    assert [group for group, _ in target.altered] == ["h"]
    row = rows(outcome)[ORDERS]
    assert (row.verdict.judgement, row.verdict.reason, row.write) == (
        Judgement.PENDING,
        Reason.TARGET_NOT_AUTHORIZED,
        None,
    )
    assert row.verdict.detail["said"] == "no READ on g"


def test_states_are_asked_in_parts_so_that_each_is_fresh() -> None:
    source, target = mirrored()
    for number in range(450):
        source.group(f"g{number}", {("orders", 0): 5})
    calls: list[str] = []
    target.before = calls.append
    assert run(rounds(source, target), source).writes == 450
    states = [at for at, call in enumerate(calls) if call == "group_states"]
    assert [call for call in calls if call == "group_states"] == ["group_states"] * 3
    assert states[1] - states[0] == 1 + 1 + 200
    assert calls.count("committed") == 1 + 3  # for the plans, and as often as the states


def test_commits_fail_partition_by_partition_and_are_tried_again() -> None:
    source, target = mirrored(partitions=4)
    source.group("g", {("orders", at): 5 for at in range(4)})
    places = [TopicPartition("A.orders", at) for at in range(4)]
    target.alter_trouble = {
        places[1]: trouble(KafkaFault.OTHER, "too much metadata"),
        places[2]: trouble(KafkaFault.GROUP_ACTIVE),
        places[3]: trouble(KafkaFault.NOT_AUTHORIZED),
    }
    kept = rounds(source, target)
    outcome = run(kept, source)
    assert list(reasons(outcome).values()) == [
        None,
        Reason.COMMIT_FAILED,
        Reason.GROUP_ACTIVE_ON_TARGET,
        Reason.TARGET_NOT_AUTHORIZED,
    ]
    failed = rows(outcome)[TopicPartition("orders", 1)]
    assert (failed.standing, failed.verdict.judgement) == (None, Judgement.PENDING)
    assert failed.verdict.detail["said"] == "too much metadata"
    assert outcome.writes == 1
    target.alter_trouble.clear()
    again = run(kept, source)
    assert (again.writes, again.lookups) == (3, 0)
    assert set(reasons(again).values()) == {None}


def test_never_lower_than_what_stands_there() -> None:
    source, target = mirrored()
    source.group("g", {("orders", 0): 5})
    target.group("g", {("A.orders", 0): 6 + JUNK})
    outcome = run(rounds(source, target), source)
    row = rows(outcome)[ORDERS]
    assert (row.verdict.reason, row.verdict.detail["target_ahead_by"]) == (Reason.TARGET_AHEAD, 1)
    assert target.altered == []


def test_a_dry_run_reads_and_writes_nothing() -> None:
    source, target = mirrored()
    source.group("g", {("orders", 0): 5})
    outcome = run(rounds(source, target, dry_run="true"), source)
    assert outcome.plans["g"].reason is Reason.DRY_RUN
    assert rows(outcome)[ORDERS].verdict.offset == 5 + JUNK
    assert target.calls["group_states"] == target.calls["alter"] == 0


def reset(given: str) -> tuple[GroupRounds, FakeCluster, FakeCluster]:
    """A group that was synced at 12 and then set back to 5 on the source."""
    source, target = mirrored()
    source.group("g", {("orders", 0): 12})
    kept = rounds(source, target, sync_group_offsets_rewind=given)
    run(kept, source)
    source.group("g", {("orders", 0): 5})
    return kept, source, target


def test_a_group_that_was_set_back_is_moved_back_only_when_allowed() -> None:
    kept, source, target = reset("never")
    assert reasons(run(kept, source)) == {ORDERS: Reason.TARGET_AHEAD}
    kept, source, target = reset("empty-groups")
    assert rows(run(kept, source))[ORDERS].standing == 5 + JUNK
    assert target.offsets["g"][COPY].offset == 5 + JUNK


def test_what_others_wrote_since_is_not_moved_back() -> None:
    kept, source, target = reset("empty-groups")
    target.offsets["g"][COPY] = Committed(14 + JUNK)
    assert reasons(run(kept, source)) == {ORDERS: Reason.TARGET_AHEAD}


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_group_that_could_not_be_read_for_a_while_is_still_known_to_be_ours(side: str) -> None:
    kept, source, target = reset("empty-groups")
    cluster = source if side == "source" else target
    cluster.group_trouble["g"] = trouble(KafkaFault.TIMEOUT)
    assert set(run(kept, source).failures) == {"g"}
    cluster.group_trouble.clear()
    assert rows(run(kept, source))[ORDERS].standing == 5 + JUNK


def test_a_group_that_is_forgotten_is_ours_no_more() -> None:
    kept, source, _ = reset("empty-groups")
    kept.forget_group("g")
    assert reasons(run(kept, source)) == {ORDERS: Reason.TARGET_AHEAD}


# -- plain mode ------------------------------------------------------------------------------------------------------


def test_plain_mode_takes_the_timestamp() -> None:
    source, target = mirrored()
    source.group("g", {("orders", 0): 12})
    row = rows(run(rounds(source, target, translation_verify="false"), source))[ORDERS]
    assert (row.verdict.evidence, row.verdict.bound) == (Evidence.TIMESTAMP, None)
    assert row.standing == 12 + JUNK


def test_a_target_that_stamps_records_itself_is_named() -> None:
    source, target = mirrored()
    source.group("g", {("orders", 0): 12})
    target.append_time.add("A.orders")
    assert reasons(run(rounds(source, target, translation_verify="false"), source)) == {
        ORDERS: Reason.TARGET_TIMESTAMP_TYPE
    }
    target.logs[COPY].rows = [
        type(row)(row.offset, 10**12 + row.offset, row.key, row.value) for row in target.logs[COPY].rows
    ]
    assert reasons(run(rounds(source, target), source)) == {ORDERS: Reason.TARGET_TIMESTAMP_TYPE}
    target.append_time.clear()
    target.stamped.add("A.orders")
    assert reasons(run(rounds(source, target), source)) == {ORDERS: Reason.TARGET_TIMESTAMP_TYPE}, (
        "records show it before configs do"
    )
