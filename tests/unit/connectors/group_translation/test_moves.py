"""Groups that are moved, over clusters in memory: frozen, kept through everything, set back, and none by halves."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from bridge.errors import KafkaFailure, KafkaFault, OperationRefused
from bridge.model.state_records.move_record import MoveRecord, MoveRow, NotBegunMoved, Standing
from bridge.model.state_records.readiness_records import RecordKey, decode, encode
from bridge.model.values import Committed, GroupState, TopicPartition
from bridge.protocol.messages import GroupReport
from connectors import cluster_away, internal_topics
from connectors.base import Arguments, Assignment
from connectors.group_offset.task import GroupOffsetInstance
from connectors.group_translation import moves
from connectors.group_translation.instance import facts_of
from connectors.group_translation.moves import MoveFacts, planned
from tests.unit.connectors.fake_clusters import JUNK, FakeCluster, Log, mirrored
from tests.unit.connectors.group_offset.group_offset_harness import WITHOUT_TOPIC, GroupOffsetHarness
from tests.unit.service.service_fakes import partition, report

COPY = TopicPartition("A.orders", 0)
TOPIC = "mm2-group-readiness.A.internal"
PLACE = TopicPartition(TOPIC, 0)
FACTS: Mapping[str, Any] = {
    "as_of_ms": 1_000,
    "source_away": False,
    "missing_since_ms": None,
    "missing": [["orders", 0, 3]],
}


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_away, "FIRST_RETRY_SECONDS", 0.005)
    monkeypatch.setattr(cluster_away, "LONGEST_RETRY_SECONDS", 0.02)
    monkeypatch.setattr(internal_topics, "PAUSES", (0.0, 0.0, 0))


def grouped(*names: str) -> tuple[FakeCluster, FakeCluster]:
    source, target = mirrored()
    for name in names or ("g",):
        source.group(name, {("orders", 0): 5})
    return source, target


def move_arguments(*names: str, dry_run: bool = False) -> Arguments:
    return {"groups": dict.fromkeys(names or ("g",), FACTS), "dry_run": dry_run}


def stored(target: FakeCluster) -> dict[str, MoveRecord]:
    """The moves that stand in the topic."""
    collected: dict[str, MoveRecord] = {}
    for row in target.logs[PLACE].rows if PLACE in target.logs else ():
        key, value = decode(row.key, row.value)
        if key.kind == "move":
            collected.pop(key.name, None)
            if isinstance(value, MoveRecord):
                collected[key.name] = value
    return collected


def _of_moves(records: Sequence[tuple[bytes | None, bytes | None]]) -> bool:
    return any(decode(*each)[0].kind == "move" for each in records)


def at(target: FakeCluster, group: str = "g") -> int:
    return target.offsets[group][COPY].offset


def test_a_moved_group_is_committed_no_more_whatever_restarts() -> None:
    source, target = grouped("g", "h")
    harness = GroupOffsetHarness(source, target)

    async def moved(instance: GroupOffsetInstance) -> None:
        await harness.rounds(1)
        answer = await instance.operate("move", move_arguments())
        assert set(answer["moved"]) == {"g"}
        assert answer["refused"] == {}
        assert answer["moved"]["g"]["snapshot"][0]["offset"] == 5 + JUNK
        assert answer["moved"]["g"]["partitions"][0]["missing"] == 3
        seen = harness.published.reports["g"]
        assert (seen.reason, seen.moved_at_ms) == ("moved", answer["moved"]["g"]["atMs"])
        for name in ("g", "h"):
            source.group(name, {("orders", 0): 9})
        await harness.rounds(2)
        assert (at(target, "g"), at(target, "h")) == (5 + JUNK, 9 + JUNK)
        assert (await instance.operate("move", move_arguments()))["moved"] == answer["moved"], (
            "the same answer again"
        )

    harness.play(moved)
    again = GroupOffsetHarness(source, target)

    async def restarted(_: GroupOffsetInstance) -> None:
        await again.rounds(2)
        assert at(target) == 5 + JUNK
        assert again.published.reports["g"].moved_at_ms == stored(target)["g"].at_ms

    again.play(restarted)
    source.away = KafkaFailure(KafkaFault.UNREACHABLE, "nobody there")


def test_a_moved_group_is_reported_by_a_service_that_starts_without_the_source() -> None:
    source, target = grouped()
    first = GroupOffsetHarness(source, target)

    async def move(instance: GroupOffsetInstance) -> None:
        await first.rounds(1)
        await instance.operate("move", move_arguments())

    first.play(move)
    source.delete_group("g")
    second = GroupOffsetHarness(source, target)

    async def gone(_: GroupOffsetInstance) -> None:
        await second.rounds(2)
        assert second.published.reports["g"].reason == "moved"

    second.play(gone)


def test_a_dry_run_moves_nothing() -> None:
    source, target = grouped()
    harness = GroupOffsetHarness(source, target)

    async def script(instance: GroupOffsetInstance) -> None:
        await harness.rounds(1)
        assert set((await instance.operate("move", move_arguments(dry_run=True)))["moved"]) == {"g"}
        assert stored(target) == {}
        source.group("g", {("orders", 0): 9})
        await harness.rounds(2)
        assert at(target) == 9 + JUNK

    harness.play(script)


def test_a_move_names_the_groups_that_consumers_are_in_on_the_source() -> None:
    source, target = grouped("g", "h")
    source.group("g", {("orders", 0): 5}, GroupState.STABLE)
    harness = GroupOffsetHarness(source, target)

    async def script(instance: GroupOffsetInstance) -> None:
        await harness.rounds(1)
        answer = await instance.operate("move", move_arguments("g", "h", dry_run=True))
        assert answer["membersOnSource"] == ["g"]

    harness.play(script)


def test_of_several_groups_none_is_moved_where_one_can_not_be() -> None:
    source, target = grouped("g", "h")
    harness = GroupOffsetHarness(source, target)
    harness.options = replace(harness.options, sync_interval=3600.0)

    async def script(instance: GroupOffsetInstance) -> None:
        await harness.rounds(1)
        target.offsets["h"][COPY] = Committed(3)
        answer = await instance.operate("move", move_arguments("g", "h"))
        assert answer["refused"]["h"][0] == "not_looked_at_yet"
        assert stored(target) == {}
        target.offsets["h"][COPY] = Committed(5 + JUNK)
        target.states["h"] = GroupState.STABLE
        answer = await instance.operate("move", move_arguments("g", "h"))
        assert answer["refused"]["h"][0] == "group_active_on_target"
        assert stored(target) == {}
        del target.states["h"]
        assert set((await instance.operate("move", move_arguments("g", "h")))["moved"]) == {"g", "h"}

    harness.play(script)


def test_what_is_interrupted_is_completed_by_a_repetition(monkeypatch: pytest.MonkeyPatch) -> None:
    """The topic refuses behind the first portion: what is in it is moved, the rest is not, and it is an error."""
    monkeypatch.setattr(moves, "AT_ONCE", 2)
    names = [f"g{number}" for number in range(5)]
    source, target = grouped(*names)
    harness = GroupOffsetHarness(source, target)

    async def script(instance: GroupOffsetInstance) -> None:
        await harness.rounds(1)
        append, count = target.append, 0

        async def fail_later(topic: str, records: Sequence[tuple[bytes | None, bytes | None]]) -> None:
            nonlocal count
            count += _of_moves(records)
            if count == 2 and _of_moves(records):
                raise KafkaFailure(KafkaFault.UNREACHABLE, "killed")
            await append(topic, records)

        target.append = fail_later  # type: ignore[method-assign]
        with pytest.raises(KafkaFailure, match="target cluster: killed"):
            await instance.operate("move", move_arguments(*names))
        target.append = append  # type: ignore[method-assign]
        assert count == 2
        first = stored(target)
        assert set(first) == {"g0", "g1"}
        source.group("g0", {("orders", 0): 9})
        source.group("g4", {("orders", 0): 9})
        await harness.rounds(2)
        assert (at(target, "g0"), at(target, "g4")) == (5 + JUNK, 9 + JUNK)
        answer = await instance.operate("move", move_arguments(*names))
        assert set(answer["moved"]) == set(stored(target)) == set(names)
        assert answer["moved"]["g0"]["atMs"] == first["g0"].at_ms, "the first time counts"

    harness.play(script)


def test_a_move_that_can_not_be_kept_is_none() -> None:
    source, target = grouped()
    harness = GroupOffsetHarness(source, target)

    async def script(instance: GroupOffsetInstance) -> None:
        await harness.rounds(1)
        target.append_trouble[TOPIC] = KafkaFailure(KafkaFault.NOT_AUTHORIZED, "not allowed", retriable=False)
        with pytest.raises(KafkaFailure, match="not allowed"):
            await instance.operate("move", move_arguments())
        source.group("g", {("orders", 0): 9})
        await harness.rounds(2)
        assert at(target) == 9 + JUNK
        assert harness.published.reports["g"].reason is None

    harness.play(script)
    off = GroupOffsetHarness(source, target, **{"emit.group-readiness.enabled": "false"})

    async def disabled(instance: GroupOffsetInstance) -> None:
        await off.rounds(1)
        for operation in ("move", "roll_back"):
            with pytest.raises(OperationRefused, match=r"emit\.group-readiness\.enabled=false"):
                await instance.operate(operation, move_arguments())

    off.play(disabled)


def test_a_topic_that_is_deleted_takes_no_move_with_it() -> None:
    source, target = grouped()
    harness = GroupOffsetHarness(source, target)

    async def script(instance: GroupOffsetInstance) -> None:
        await harness.rounds(1)
        await instance.operate("move", move_arguments())
        await harness.rounds(2)
        target.topic(TOPIC, Log(), topic_id="made anew")
        target.topic_admin.overrides[TOPIC] = {"cleanup.policy": "compact"}
        target.append_trouble[TOPIC] = KafkaFailure(KafkaFault.NOT_AUTHORIZED, "not allowed", retriable=False)
        source.group("g", {("orders", 0): 9})
        await harness.rounds(2)
        assert (stored(target), at(target)) == ({}, 5 + JUNK)
        target.append_trouble.clear()
        await harness.rounds(2)
        assert set(stored(target)) == {"g"}
        assert at(target) == 5 + JUNK

    harness.play(script)


def test_a_rollback_sets_back_what_a_drill_has_committed_and_the_flow_goes_on() -> None:
    source, target = grouped()
    harness = GroupOffsetHarness(source, target)

    async def script(instance: GroupOffsetInstance) -> None:
        await harness.rounds(1)
        await instance.operate("move", move_arguments())
        other = TopicPartition("A.other", 1)
        target.offsets["g"] = {COPY: Committed(15 + JUNK), other: Committed(4)}
        source.group("g", {("orders", 0): 8})
        target.states["g"] = GroupState.STABLE
        with pytest.raises(OperationRefused, match="group g is STABLE on B"):
            await instance.operate("roll_back", {"groups": ["g"]})
        assert at(target) == 15 + JUNK
        assert set(stored(target)) == {"g"}
        del target.states["g"]
        done = await instance.operate("roll_back", {"groups": ["g"]})
        assert [(each["topic"], each["partition"], each["offset"]) for each in done["left"]["g"]] == [
            ("A.other", 1, 4)
        ]
        assert target.altered[-1] == ("g", {COPY: Committed(5 + JUNK, "", 5)})
        assert stored(target) == {}
        await harness.rounds(2)
        assert at(target) == 8 + JUNK
        seen = harness.published.reports["g"]
        assert (seen.ready, seen.moved_at_ms) == (True, None)

    harness.play(script)


def test_a_rollback_that_breaks_off_leaves_the_group_moved() -> None:
    source, target = grouped()
    harness = GroupOffsetHarness(source, target)

    async def script(instance: GroupOffsetInstance) -> None:
        await harness.rounds(1)
        await instance.operate("move", move_arguments())
        target.offsets["g"] = {COPY: Committed(15 + JUNK)}
        target.alter_trouble[COPY] = KafkaFailure(KafkaFault.OTHER, "refused")
        with pytest.raises(KafkaFailure, match="refused"):
            await instance.operate("roll_back", {"groups": ["g"]})
        assert set(stored(target)) == {"g"}
        target.alter_trouble.clear()
        target.append_trouble[TOPIC] = KafkaFailure(KafkaFault.UNREACHABLE, "killed")
        with pytest.raises(KafkaFailure, match="killed"):
            await instance.operate("roll_back", {"groups": ["g"]})
        assert set(stored(target)) == {"g"}
        assert harness.published.reports["g"].reason == "moved"
        target.append_trouble.clear()
        await instance.operate("roll_back", {"groups": ["g"]})
        assert stored(target) == {}

    harness.play(script)


HOME: Arguments = {
    "topic": "orders",
    "partition": 0,
    "offset": 15,
    "targetTopic": "A.orders",
    "targetOffset": 16 + JUNK,
    "verdict": "exact",
    "bound": 0,
}
"""The consumers on the target stand behind a transaction marker: the same place is one offset lower by the records."""


def test_a_group_that_comes_home_is_no_alarm_and_the_flow_goes_on_whatever_restarts() -> None:
    source, target = grouped()
    log, marker = target.logs[COPY], 15 + JUNK
    log.rows = [replace(row, offset=row.offset + (row.offset >= marker)) for row in log.rows]
    log.end += 1
    harness = GroupOffsetHarness(source, target)

    async def script(instance: GroupOffsetInstance) -> None:
        await harness.rounds(1)
        await instance.operate("move", move_arguments())
        target.offsets["g"] = {COPY: Committed(16 + JUNK)}
        source.group("g", {("orders", 0): 15})
        target.states["g"] = GroupState.STABLE
        with pytest.raises(OperationRefused, match="group g is STABLE on B"):
            await instance.operate("give_back", {"groups": {"g": [HOME]}})
        del target.states["g"]
        with pytest.raises(OperationRefused, match=r"another offset of A\.orders-0 on B meanwhile"):
            await instance.operate("give_back", {"groups": {"g": [{**HOME, "targetOffset": 14 + JUNK}]}})
        assert stored(target)["g"].state == "moved"
        await instance.operate("give_back", {"groups": {"g": [HOME]}})
        assert stored(target)["g"].state == "returned"
        await harness.rounds(2)
        seen = harness.published.reports["g"]
        assert (seen.ready, seen.reason, seen.moved_at_ms) == (True, None, None)
        assert at(target) == 16 + JUNK, "it is not moved back"

    harness.play(script)
    again = GroupOffsetHarness(source, target)

    async def restarted(instance: GroupOffsetInstance) -> None:
        await again.rounds(2)
        seen = again.published.reports["g"]
        assert (seen.ready, at(target)) == (True, 16 + JUNK)
        source.group("g", {("orders", 0): 18})
        await again.rounds(2)
        assert at(target) == 18 + JUNK + 1, "behind the marker"
        answer = await instance.operate("move", move_arguments())
        assert answer["moved"]["g"]["partitions"][0]["offset"] == 18, "it can be moved again"

    again.play(restarted)


def test_a_group_comes_home_whole_or_stays_moved() -> None:
    source, target = grouped()
    harness = GroupOffsetHarness(source, target)

    async def script(instance: GroupOffsetInstance) -> None:
        await harness.rounds(1)
        await instance.operate("move", move_arguments())
        target.offsets["g"] = {COPY: Committed(16 + JUNK)}
        source.group("g", {("orders", 0): 15})
        target.append_trouble[TOPIC] = KafkaFailure(KafkaFault.UNREACHABLE, "killed")
        with pytest.raises(KafkaFailure, match="killed"):
            await instance.operate("give_back", {"groups": {"g": [HOME]}})
        assert (stored(target)["g"].state, at(target)) == ("moved", 16 + JUNK)
        assert harness.published.reports["g"].reason == "moved"
        target.append_trouble.clear()
        await instance.operate("give_back", {"groups": {"g": [HOME]}})
        assert stored(target)["g"].state == "returned"

    harness.play(script)


def test_no_group_is_moved_in_the_middle_of_a_round() -> None:
    source, target = grouped()
    harness = GroupOffsetHarness(source, target)
    harness.options = replace(harness.options, sync_interval=3600.0)

    async def script(instance: GroupOffsetInstance) -> None:
        await harness.rounds(1)
        calls: list[str] = []
        asking: list[asyncio.Task[Arguments]] = []

        def watch(call: str) -> None:
            calls.append(call)
            if call == "list_groups" and not asking:
                asking.append(asyncio.ensure_future(instance.operate("move", move_arguments())))

        source.group("g", {("orders", 0): 9})
        append = target.append

        async def watched(topic: str, records: Sequence[tuple[bytes | None, bytes | None]]) -> None:
            calls.extend(["move"] * _of_moves(records))
            await append(topic, records)

        target.before = watch
        target.append = watched  # type: ignore[method-assign]
        await instance.operate("refresh", {})
        (moving,) = asking
        answer = await moving
        assert calls.index("move") > calls.index("alter"), "the round's commit comes first"
        assert answer["refused"] == {}
        assert answer["moved"]["g"]["partitions"][0]["targetOffset"] == 9 + JUNK

    harness.play(script)


def test_moved_groups_are_reported_whatever_task_looks_after_them() -> None:
    """Other services of the connector answer the same, though they do not move it."""
    source, target = grouped("g", "h", "i", "j")
    harness = GroupOffsetHarness(source, target)

    async def script(instance: GroupOffsetInstance) -> None:
        await harness.rounds(1)
        await instance.operate("move", move_arguments("g", "h", "i", "j"))

    harness.play(script)
    other = GroupOffsetHarness(source, target)

    async def beside(_: GroupOffsetInstance) -> None:
        await other.rounds(2)
        assert {each.reason for each in other.published.reports.values()} == {"moved"}
        assert {each.task for each in other.published.reports.values()} == {0, 1}
        assert len(other.published.reports) == 4

    other.play(beside, Assignment(2, frozenset({0})))


def test_a_service_that_starts_without_the_source_knows_what_is_moved() -> None:
    source, target = grouped("g", "h")
    first = GroupOffsetHarness(source, target)

    async def move(instance: GroupOffsetInstance) -> None:
        await first.rounds(2)
        await instance.operate("move", move_arguments())

    first.play(move)
    source.away = KafkaFailure(KafkaFault.UNREACHABLE, "nobody there")
    second = GroupOffsetHarness(source, target)

    async def alone(_: GroupOffsetInstance) -> None:
        await second.summaries(3)
        assert second.published.reports["g"].reason == "moved"
        assert second.published.reports["h"].reason == "source_unreachable"
        assert all(
            each is None or each.reason == "moved"
            for change in second.published.changes
            for name, each in change.items()
            if name == "g"
        ), "it was never anything else"

    second.play(alone)


# -- the plan of a move ----------------------------------------------------------------------------------------------

THERE = {TopicPartition("A.orders", number): Committed(400 + number, "m", 2) for number in range(2)}
WHOLE = MoveFacts(1, source_away=False, missing_since_ms=7, missing={("orders", 1): 12})


def test_a_plan_keeps_what_stands_on_the_target_as_it_is() -> None:
    more = THERE | {TopicPartition("else", 3): Committed(9)}
    made = planned(report("g"), GroupState.EMPTY, more, WHOLE, 5)
    assert isinstance(made, MoveRecord)
    assert (made.state, made.at_ms, made.as_of_ms, made.missing_since_ms) == ("moved", 5, 1, 7)
    assert made.rows == (
        MoveRow("orders", 0, 1001, "A.orders", 400, "exact", 0, None),
        MoveRow("orders", 1, 1002, "A.orders", 401, "exact", 0, 12),
    )
    assert made.snapshot == (
        Standing("A.orders", 0, 400, "m", 2),
        Standing("A.orders", 1, 401, "m", 2),
        Standing("else", 3, 9, "", -1),
    )
    key = RecordKey("c", "move", "g")
    assert decode(key.encode(), encode(made)) == (key, made)


def test_a_plan_keeps_what_was_missing_where_the_group_had_committed_nothing() -> None:
    given: dict[str, Any] = {"as_of_ms": 1, "source_away": False, "missing_since_ms": None, "missing": []}
    rows = [["orders", 2, 100, 112], ["orders", 3, None, None]]
    made = planned(report("g"), GroupState.EMPTY, THERE, facts_of(given | {"not_begun": rows}), 5)
    assert isinstance(made, MoveRecord)
    assert made.not_begun == (NotBegunMoved("orders", 2, 100, 112), NotBegunMoved("orders", 3, None, None))
    key = RecordKey("c", "move", "g")
    assert decode(key.encode(), encode(made)) == (key, made)
    before = {name: each for name, each in json.loads(encode(made)).items() if name != "notBegun"}
    assert decode(key.encode(), json.dumps(before).encode()) == (key, replace(made, not_begun=()))


PENDING = partition(1, verdict="pending", reason="copy_not_found", target_offset=None)
ANY = KafkaFailure(KafkaFault.NOT_AUTHORIZED, "not allowed")


@pytest.mark.parametrize(
    ("report_", "state", "there", "reason"),
    [
        (None, GroupState.EMPTY, THERE, "not_looked_at_yet"),
        (report("g", partitions=0), GroupState.EMPTY, THERE, "not_looked_at_yet"),
        (report("g"), GroupState.STABLE, THERE, "group_active_on_target"),
        (report("g"), GroupState.UNKNOWN, THERE, "group_state_unknown"),
        (report("g"), GroupState.EMPTY, ANY, "target_not_authorized"),
        (report("g"), GroupState.EMPTY, {}, "not_looked_at_yet"),
        (report("g"), GroupState.EMPTY, THERE | {COPY: Committed(399)}, "not_looked_at_yet"),
        (report("g").model_copy(update={"partitions": [PENDING]}), GroupState.EMPTY, THERE, "copy_not_found"),
    ],
)
def test_a_group_that_does_not_stand_where_it_should_is_not_moved(
    report_: GroupReport | None, state: GroupState, there: Any, reason: str
) -> None:
    made = planned(report_, state, there, WHOLE, 5)
    assert not isinstance(made, MoveRecord)
    assert made[0] == reason


def test_a_group_that_only_checkpoints_tell_of_is_refused_with_the_key_that_commits_it() -> None:
    made = planned(report("g"), GroupState.EMPTY, {}, WHOLE, 5)
    assert not isinstance(made, MoveRecord)
    assert "sync.group.offsets.enabled=true" in made[1]


@pytest.mark.parametrize(("given", "named"), [(WITHOUT_TOPIC, False), ({}, True)])
def test_turned_off_no_right_on_the_topic_is_needed(given: Mapping[str, str], named: bool) -> None:
    source, target = grouped()
    target.topic_trouble[TOPIC] = KafkaFailure(KafkaFault.NOT_AUTHORIZED, "not allowed")
    harness = GroupOffsetHarness(source, target, **given)

    async def script(_: GroupOffsetInstance) -> None:
        await harness.rounds(3)

    harness.play(script)
    assert any(TOPIC in error for error in harness.published.summaries[-1].errors) is named
    assert harness.published.reports["g"].ready
