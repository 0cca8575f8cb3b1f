"""The commands of a failover over HTTP: what is asked of which connector, what is refused, and what is answered."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest

from bridge.errors import KafkaFailure, KafkaFault, OperationRefused
from bridge.model.values import TopicPartition
from bridge.protocol.messages import Failover, MoveGroups, NotBegunPartition, RolledBack
from bridge.service.answers.groups import explain
from bridge.service.ipc.messages import pack_report
from bridge.service.state.snapshots import RoundsState
from connectors.base import Arguments, Missing, Summary
from tests.support.messages import message
from tests.unit.service.answers.ready_flow import FLOW, RECORD, Flow
from tests.unit.service.service_fakes import FakeEngine, partition, report, session
from tests.unit.service.service_harness import ServiceHarness, error, run


class Made(Flow):
    """A flow whose connectors move what they are asked to."""

    @property
    def rounds(self) -> FakeEngine:
        rounds = self.at.service.rounds
        assert isinstance(rounds, FakeEngine)
        return rounds

    async def begin(self) -> None:
        await super().begin()
        self.refused: dict[str, list[str]] = {}
        self.members: list[str] = []
        self.rounds.answer = self.answer

    def answer(self, name: str, operation: str, arguments: Arguments) -> Arguments:
        if operation == "refresh":
            return {"found": 2}
        if operation == "give_back":
            return {}
        if operation == "roll_back":
            left = [{"topic": "A.x", "partition": 1, "offset": 7, "metadata": "", "leaderEpoch": -1}]
            return {"left": dict.fromkeys(arguments["groups"], left)}
        groups = arguments["groups"]
        return {
            "moved": {group: RECORD for group in groups if group not in self.refused},
            "refused": {group: why for group, why in self.refused.items() if group in groups},
            "membersOnSource": [group for group in groups if group in self.members],
        }

    @property
    def operations(self) -> list[tuple[str, str, bool]]:
        return [(name, which, bool(given.get("dry_run"))) for name, which, given in self.rounds.operated]

    async def post(self, path: str = "", **body: Any) -> httpx.Response:
        return await self.at.client.post(f"/v1/failover{path}", json={"flow": "A-to-B", **body})

    def moved(self, *groups: str) -> None:
        """What the rounds process reports after a move."""
        result = [
            report(each, "g").model_copy(update={"ready": False, "reason": "moved", "moved_at_ms": 5})
            for each in groups
        ]
        self.snapshots.groups("g", 1, [pack_report(each.group, each) for each in result])


def play(test: Callable[[Made], Awaitable[None]]) -> None:
    async def begun(at: ServiceHarness) -> None:
        made = Made(at)
        await made.begin()
        await test(made)

    run(begun)


def test_groups_are_moved_after_a_round_and_a_check_of_all() -> None:
    async def test(made: Made) -> None:
        answer = Failover.model_validate((await made.post(groups=["one", "zero"])).json())
        assert made.operations == [("g", "refresh", False), ("g", "move", True), ("g", "move", False)]
        assert made.rounds.operated[0][2] == {"without_source": True}
        assert [each.group for each in answer.groups] == ["one", "zero"]
        assert (answer.source, answer.target, answer.dry_run) == ("A", "B", False)
        assert answer.groups[0].moved_at_ms == RECORD["atMs"]
        assert answer.groups[0].partitions[0].offset == 400
        # The partition is missing once, however many groups read it.
        assert (answer.missing_records, answer.missing_since_ms) == (12, RECORD["missingSinceMs"])
        assert any("Start the consumers on B, on A.orders" in line for line in answer.next)
        missing = message("failover.missing", records=12, source="A", target="B", time="2026-11-18T11:06:39")
        assert any(missing in line for line in answer.next)

    play(test)


def test_how_many_records_are_read_twice_is_said() -> None:
    async def test(made: Made) -> None:
        (row,) = RECORD["partitions"]
        records = {
            group: RECORD | {"partitions": [row | {"verdict": "bounded", "bound": bound}]}
            for group, bound in (("zero", 400), ("one", 2))
        }
        made.rounds.answer = lambda _name, operation, _given: (
            {"moved": records, "refused": {}} if operation == "move" else {"found": 2}
        )
        for dry_run in (True, False):
            answer = Failover.model_validate((await made.post(all=True, dry_run=dry_run)).json())
            (line,) = [line for line in answer.next if "read twice" in line]
            assert "402 records" in line
            assert "zero (400)" in line
        records["one"]["partitions"][0]["bound"] = None
        answer = Failover.model_validate((await made.post(all=True, dry_run=True)).json())
        assert any("one read twice" in line and "not known" in line for line in answer.next)
        records.update(dict.fromkeys(records, RECORD))
        answer = Failover.model_validate((await made.post(all=True, dry_run=True)).json())
        assert not any("twice" in line for line in answer.next)

    play(test)


@pytest.mark.parametrize("dry_run", [False, True])
def test_the_flow_that_brings_a_group_into_the_same_topics_is_named(dry_run: bool) -> None:
    async def test(made: Made) -> None:
        other = FLOW | {"source.cluster.alias": "C"}
        made.table.start_task("s2", 0, session(3), "source", 1, other | {"bridge.merge.with": "s"})
        made.table.start_task("h", 0, session(3), "group_offset", 1, other)
        made.copied("s2")
        now_ms = int(time.time() * 1000)
        made.snapshots.summary("h", 1, Summary(rounds=1, as_of_ms=now_ms, tasks=(0,), interval_ms=60_000))
        made.at.reports(report("zero", "h"), connector="h")
        answer = Failover.model_validate((await made.post(all=True, dry_run=dry_run)).json())
        (line,) = [line for line in answer.next if line.startswith("Flow C-to-B brings zero into")]
        assert "failover --flow C-to-B" in line
        refused = report("zero", "h", ready=False, reason="other_source_unknown")
        made.at.reports(refused, connector="h")
        assert (await made.post(all=True, dry_run=dry_run)).status_code == 409

    play(test)


@pytest.mark.parametrize("dry_run", [False, True])
def test_consumers_that_are_still_at_work_on_the_source_are_warned_of(dry_run: bool) -> None:
    async def test(made: Made) -> None:
        made.members = ["zero"]
        answer = Failover.model_validate((await made.post(all=True, dry_run=dry_run)).json())
        assert answer.members_on_source == ["zero"]
        (warning,) = [
            line for line in answer.next if line.startswith("Consumers are still in zero on A: stop")
        ]
        assert answer.next.index(warning) == 1
        assert not any(line.startswith("Keep the consumers") for line in answer.next)
        # Of a source that is away nobody knows.
        made.round(away_since_ms={"source": 5}, **made.target_answers())
        answer = Failover.model_validate((await made.post(all=True, accept_as_of=True)).json())
        assert answer.members_on_source == []

    play(test)


def test_a_dry_run_ends_before_the_move() -> None:
    async def test(made: Made) -> None:
        answer = Failover.model_validate((await made.post(all=True, dry_run=True)).json())
        assert made.operations == [("g", "refresh", False), ("g", "move", True)]
        assert {each.moved_at_ms for each in answer.groups} == {None}
        assert answer.next[0] == message("failover.dry_run", groups="one, zero", source="A", target="B")

    play(test)


def test_the_check_is_of_what_the_round_has_found() -> None:
    async def test(made: Made) -> None:
        def respond(name: str, operation: str, arguments: Arguments) -> Arguments:
            if operation == "refresh":
                late = report("zero", "g").model_copy(update={"ready": False, "reason": "target_ahead"})
                made.snapshots.groups("g", 1, [pack_report("zero", late)])
            return made.answer(name, operation, arguments)

        made.rounds.answer = respond
        body = error(await made.post(all=True), 409, "not_ready")
        assert body.message == message("failover.not_ready", count=1, groups=2)
        (line,) = body.validation_errors
        assert line.key == "group zero"
        assert line.message.startswith(message("failover.target_ahead"))
        assert made.operations == [("g", "refresh", False)], "nothing was changed"

    play(test)


def test_while_the_source_is_away_groups_are_moved_only_if_that_is_accepted() -> None:
    async def test(made: Made) -> None:
        made.round(away_since_ms={"source": 5}, **made.target_answers())
        body = error(await made.post(groups=["one"]), 409, "cannot_tell")
        assert body.validation_errors[0].message.startswith("ready_as_of: source_unreachable")
        for told in (
            body,
            error(await made.at.client.get("/v1/failover/plan?flow=A-to-B"), 409, "cannot_tell"),
        ):
            assert message("failover.accept_as_of", groups=len(told.validation_errors)) in told.message
            assert told.refusal is not None
            assert told.refusal.option == "--accept-as-of"
            assert told.refusal.ready_as_of == len(told.validation_errors)
            assert told.refusal.as_of_ms is not None
        assert (await made.post(groups=["one"], accept_as_of=True)).status_code == 200
        (given,) = [
            each for _, which, each in made.rounds.operated if which == "move" and not each["dry_run"]
        ]
        assert given["groups"]["one"]["source_away"] is True
        made.round(away_since_ms={"target": 5})
        error(await made.post(groups=["one"], accept_as_of=True), 409, "cannot_tell")

    play(test)


def test_what_an_instance_refuses_moves_nothing() -> None:
    async def test(made: Made) -> None:
        refused = ["group_active_on_target", "the group is STABLE on the target"]
        made.refused = {"one": refused}
        body = error(await made.post(all=True), 409, "not_ready")
        assert body.validation_errors[0].message == ": ".join(refused)
        assert ("g", "move", False) not in made.operations
        # What can't be looked at is not known not to be ready.
        made.refused = {"one": ["group_state_unknown", "it can't be described"]}
        error(await made.post(all=True), 409, "cannot_tell")

    play(test)


def test_groups_at_home_are_left_as_they_are() -> None:
    async def test(made: Made) -> None:
        made.at.reports(report("zero", "g", ready=False, reason="at_home"), connector="g")
        answer = Failover.model_validate((await made.post(all=True)).json())
        assert ([each.group for each in answer.groups], answer.at_home) == (["one"], ["zero"])
        assert any(line.startswith("At home on B: zero.") for line in answer.next)
        alone = Failover.model_validate((await made.post(groups=["zero"])).json())
        assert (alone.groups, len(alone.next)) == ([], 1)

    play(test)


def test_a_flow_without_groups_is_refused_by_what_is_known_of_its_connectors() -> None:
    async def test(made: Made) -> None:
        gone = [pack_report(name, None) for name in ("zero", "one")]
        made.snapshots.groups("g", 1, gone)
        for told in (
            error(await made.post(all=True), 409, "cannot_tell"),
            error(await made.at.client.get("/v1/failover/plan?flow=A-to-B"), 409, "cannot_tell"),
        ):
            assert " 0 " not in told.message
            assert told.refusal is not None
            assert [each.reason for each in told.refusal.reasons] == ["no_groups"]
            assert (told.refusal.groups, told.refusal.refused) == (0, 0)
        made.snapshots.summary("g", 1, Summary())
        body = error(await made.post(all=True), 409, "cannot_tell")
        assert body.validation_errors[0].message.startswith("not_looked_at_yet: no round")

    play(test)


def test_ten_thousand_groups_that_are_refused_have_each_reason_once() -> None:
    async def test(made: Made) -> None:
        waiting = report("g", "g", ready=False, reason="not_mirrored_yet")
        many = [waiting.model_copy(update={"group": f"g{number:05}"}) for number in range(10_000)]
        made.snapshots.groups("g", 1, [pack_report(each.group, each) for each in many])
        made.copied(failure="there is no Spark")
        body = error(await made.post(all=True), 409, "not_ready")
        assert body.refusal is not None
        assert (body.refusal.groups, body.refusal.refused) == (10_002, 10_002)
        told = {
            each.reason: (each.groups, len(each.names), each.follows_from) for each in body.refusal.reasons
        }
        assert told == {
            "copying_failed": (10_002, 10_002, None),
            "not_mirrored_yet": (10_000, 10_000, "copying_failed"),
        }
        (flow,) = (await made.at.client.get("/v1/readiness")).json()["flows"]
        assert [(each["reason"], each["groups"], len(each["names"])) for each in flow["reasons"]] == [
            ("copying_failed", 10_002, 3),
            ("not_mirrored_yet", 10_000, 3),
        ]

    play(test)


def test_of_a_group_that_two_connectors_look_after_none_is_left_behind() -> None:
    async def test(made: Made) -> None:
        made.table.start_task("h", 0, session(1), "checkpoint", 1, FLOW)
        made.at.reports(report("one", "h"), connector="h")
        made.round()
        assert (await made.post(groups=["one"])).status_code == 200
        assert made.operations == [
            ("g", "refresh", False),
            ("h", "refresh", False),
            ("g", "move", True),
            ("h", "move", True),
            ("g", "move", False),
            ("h", "move", False),
        ]

    play(test)


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({}, 422, "body_rejected"),
        ({"groups": ["one"], "all": True}, 422, "body_rejected"),
        ({"groups": ["one", "one"]}, 422, "body_rejected"),
        ({"groups": ["nobody"]}, 409, "cannot_tell"),
        ({"flow": "B-to-A", "all": True}, 404, "unknown_connector"),
    ],
)
def test_what_can_not_be_meant_is_refused(body: dict[str, Any], status: int, code: str) -> None:
    async def test(made: Made) -> None:
        answer = error(await made.post(**body), status, code)
        if code == "unknown_connector":
            assert "known flows: A-to-B" in answer.message
        assert ("g", "move", False) not in made.operations
        if status != 409:
            rolled = {"flow": "A-to-B", **body}
            error(await made.at.client.post("/v1/failover/rollback", json=rolled), status, code)

    play(test)


def test_a_connector_that_does_not_run_moves_nothing() -> None:
    async def test(made: Made) -> None:
        made.rounds.state = RoundsState.RESTARTING
        error(await made.post(all=True), 503, "not_answered")
        made.rounds.state = RoundsState.RUNNING
        for task in (0, 1):
            made.table.stop_task("g", task, session(1))
        # As readiness says it, which can't tell of its groups.
        body = error(await made.post(all=True), 409, "cannot_tell")
        assert body.refusal is not None
        assert (body.refusal.refused, body.refusal.cannot_tell) == (2, 2)
        (why,) = body.refusal.reasons
        assert (why.reason, why.names) == ("connector_stopped", ["one", "zero"])
        assert "Connect does not poll connector" in why.detail
        assert made.operations == []
        made.moved("zero")
        error(await made.post("/rollback", groups=["zero"]), 409, "cannot_tell")

    play(test)


def test_trouble_with_a_cluster_is_told_and_nothing_is_answered() -> None:
    async def test(made: Made) -> None:
        def away(*_: object) -> Arguments:
            raise KafkaFailure(KafkaFault.UNREACHABLE, "target cluster: nobody there")

        made.rounds.answer = away
        assert error(await made.post(all=True), 503, "kafka").message == "target cluster: nobody there"

    play(test)


def test_every_command_wants_the_token() -> None:
    async def test(at: ServiceHarness) -> None:
        for path in ("/v1/failover", "/v1/failover/rollback"):
            error(await at.client.post(path, json={"flow": "A-to-B", "all": True}), 401, "unauthorized")

    run(test, token="secret")


# -- moved groups ----------------------------------------------------------------------------------------------------


def test_a_moved_group_is_no_alarm_and_counted_by_itself() -> None:
    async def test(made: Made) -> None:
        made.moved("zero")
        readiness, ((code, _),) = await made.answers()
        assert (readiness, code) == ({"one": "ready", "zero": "moved"}, "moved")
        whole = (await made.at.client.get("/v1/readiness")).json()
        assert (whole["readiness"], whole["flows"][0]["moved"], whole["flows"][0]["ready"]) == ("ready", 1, 1)
        page = (await made.at.client.get("/v1/groups?readiness=moved")).json()
        assert (page["total"], page["moved"], page["ready"]) == (1, 1, 0)
        assert page["groups"][0]["reasons"][0]["since_ms"] == page["groups"][0]["moved_at_ms"] == 5
        assert 'readiness="moved"} 1.0' in (await made.at.client.get("/metrics")).text
        made.moved("one")
        assert (await made.at.client.get("/v1/readiness")).json()["readiness"] == "moved"
        made.snapshots.groups("g", 1, [pack_report("one", report("one", "g"))])
        made.table.stop_connector("g", session(1))
        for task in (0, 1):
            made.table.stop_task("g", task, session(1))
        readiness, _ = await made.answers()
        assert readiness == {"one": "cannot_tell", "zero": "moved"}

    play(test)


def test_a_rollback_is_of_moved_groups_and_a_round_follows() -> None:
    async def test(made: Made) -> None:
        made.moved("zero")
        answer = RolledBack.model_validate((await made.post("/rollback", all=True)).json())
        assert made.operations == [("g", "roll_back", False), ("g", "refresh", False)]
        assert made.rounds.operated[0][2] == {"groups": ["zero"]}
        assert (answer.groups, answer.unchanged) == (["zero"], ["one"])
        assert [(each.group, each.topic, each.offset) for each in answer.left] == [("zero", "A.x", 7)]
        assert any("A.x-1" in line for line in answer.next)
        again = RolledBack.model_validate((await made.post("/rollback", groups=["one"])).json())
        assert again.groups == []
        assert again.next == ["one: not moved; nothing was changed."]
        error(await made.post("/rollback", groups=["nobody"]), 404, "unknown_group")

    play(test)


def test_a_rollback_without_the_source_says_when_the_groups_go_on() -> None:
    async def test(made: Made) -> None:
        made.moved("zero")
        made.round(away_since_ms={"source": 5}, **made.target_answers())
        answer = RolledBack.model_validate((await made.post("/rollback", groups=["zero"])).json())
        assert not any("continue as before" in line for line in answer.next)
        assert any("A does not answer: the mirror commits" in line for line in answer.next)

    play(test)


def test_a_rollback_that_is_refused_is_an_error() -> None:
    async def test(made: Made) -> None:
        made.moved("zero")

        def active(*_: object) -> Arguments:
            raise OperationRefused("group zero is STABLE on B")

        made.rounds.answer = active
        assert (
            error(await made.post("/rollback", all=True), 409, "refused").message
            == "group zero is STABLE on B"
        )

    play(test)


# -- the way home ----------------------------------------------------------------------------------------------------

BACK = {
    "source.cluster.alias": "B",
    "target.cluster.alias": "A",
    "reverse.checkpointing.enabled": "true",
    "sync.group.offsets.enabled": "true",
}


def returning(made: Made, config: dict[str, str] = BACK, kind: str = "checkpoint", /, **changes: Any) -> None:
    """The flow back, with the group `zero`; `changes` are of its partition 1."""
    made.table.start_task("back", 0, session(1), kind, 1, config)
    rows = [
        partition(
            0, topic="A.orders", target_topic="orders", committed=450, target_offset=1051, written=1051
        ),
        partition(
            1, topic="A.orders", target_topic="orders", committed=460, target_offset=1062, written=1062
        ),
    ]
    rows[1] = rows[1].model_copy(update=changes)
    result = report("zero", "back").model_copy(update={"source": "B", "target": "A", "partitions": rows})
    made.at.reports(result, connector="back")


def test_groups_come_home_when_the_flow_back_has_put_them_where_they_were_left() -> None:
    async def test(made: Made) -> None:
        made.moved("zero")
        returning(made)
        answer = RolledBack.model_validate((await made.post("/back", groups=["zero"])).json())
        assert made.operations == [
            ("back", "refresh", False),
            ("g", "give_back", False),
            ("g", "refresh", False),
        ]
        ((_, _, given),) = [each for each in made.rounds.operated if each[1] == "give_back"]
        rows = given["groups"]["zero"]
        assert [(row["offset"], row["targetTopic"], row["targetOffset"]) for row in rows] == [
            (1051, "A.orders", 450),
            (1062, "A.orders", 460),
        ]
        assert answer.groups == ["zero"]
        said = message("failover.failed_back", groups="zero", source="A", target="B")
        assert answer.next[0].startswith(said)
        dry = RolledBack.model_validate((await made.post("/back", all=True, dry_run=True)).json())
        assert (dry.groups, dry.unchanged) == (["zero"], ["one"])
        assert [each for each in made.operations if each[1] == "give_back"] == [("g", "give_back", False)]
        again = RolledBack.model_validate((await made.post("/back", groups=["one"])).json())
        assert (again.groups, again.unchanged) == ([], ["one"])

    play(test)


def test_a_group_offset_connector_is_a_flow_back_without_any_checkpoints() -> None:
    async def test(made: Made) -> None:
        made.moved("zero")
        returning(
            made,
            {name: value for name, value in BACK.items() if not name.startswith("sync.")},
            "group_offset",
        )
        answer = RolledBack.model_validate((await made.post("/back", groups=["zero"])).json())
        assert answer.groups == ["zero"]

    play(test)


def test_a_group_that_no_consumer_has_moved_on_the_target_comes_home_too() -> None:
    async def test(made: Made) -> None:
        made.moved("zero")
        stayed = {"verdict": "pending", "reason": "moved_by_mirror", "target_offset": None}
        returning(made, **stayed, written=1002)
        assert (await made.post("/back", groups=["zero"])).status_code == 200
        returning(made, **stayed, written=1001)
        error(await made.post("/back", groups=["zero"]), 409, "not_ready")

    play(test)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"written": 1061}, "not_looked_at_yet: orders-1 is committed at 1061 and not at 1062"),
        ({"verdict": "pending", "reason": "target_ahead"}, "target_ahead: orders-1 is pending"),
        ({"partition": 7}, "not_covered: the flow back does not cover orders-1"),
    ],
)
def test_a_group_that_is_not_where_it_was_left_does_not_come_home(changes: dict[str, Any], why: str) -> None:
    async def test(made: Made) -> None:
        made.moved("zero")
        returning(made, **changes)
        body = error(await made.post("/back", groups=["zero"]), 409, "not_ready")
        assert body.validation_errors[0].message.startswith(why)
        assert ("g", "give_back", False) not in made.operations

    play(test)


@pytest.mark.parametrize(
    ("config", "kind"),
    [
        ({**BACK, "reverse.checkpointing.enabled": "false"}, "checkpoint"),
        ({**BACK, "sync.group.offsets.enabled": "false"}, "checkpoint"),
        ({**BACK, "dry.run": "true"}, "checkpoint"),
        ({**BACK, "reverse.checkpointing.enabled": "false"}, "group_offset"),
        ({**BACK, "dry.run": "true"}, "group_offset"),
        (FLOW, "checkpoint"),
    ],
)
def test_without_a_flow_back_nothing_comes_home(config: dict[str, str], kind: str) -> None:
    async def test(made: Made) -> None:
        made.moved("zero")
        returning(made, config, kind)
        body = error(await made.post("/back", groups=["zero"]), 409, "refused")
        assert message("failover.needs_reverse", flow="B-to-A") in body.message
        assert made.operations == []

    play(test)


def test_a_flow_back_that_can_not_tell_brings_nothing_home() -> None:
    async def test(made: Made) -> None:
        made.moved("zero")
        returning(made)
        made.snapshots.summary("back", 1, Summary(rounds=1, as_of_ms=5, interval_ms=1, tasks=(0,)))
        body = error(await made.post("/back", groups=["zero"]), 409, "cannot_tell")
        assert body.validation_errors[0].message.startswith("cannot_tell: connector back")

    play(test)


# -- plans -----------------------------------------------------------------------------------------------------------


def test_a_plan_has_every_offset_or_is_none() -> None:
    async def test(made: Made) -> None:
        async def get(**query: Any) -> httpx.Response:
            return await made.at.client.get("/v1/failover/plan", params={"flow": "A-to-B", **query})

        whole = (await get()).json()
        assert [each["group"] for each in whole["groups"]] == ["one", "zero"]
        assert [row["offset"] for row in whole["groups"][0]["partitions"]] == [400, 401]
        assert [each["group"] for each in (await get(group=["zero"])).json()["groups"]] == ["zero"]
        # What is not committed on the target can be planned all the same.
        waiting = report("zero", "g").model_copy(update={"ready": False, "reason": "dry_run"})
        made.snapshots.groups("g", 1, [pack_report("zero", waiting)])
        assert (await get()).status_code == 200
        pending = partition(1, verdict="pending", reason="copy_not_found", target_offset=None)
        half = waiting.model_copy(update={"reason": "copy_not_found", "partitions": [partition(0), pending]})
        made.snapshots.groups("g", 1, [pack_report("zero", half)])
        body = error(await get(), 409, "not_ready")
        assert body.validation_errors[0].message == "copy_not_found: orders-1 is pending"
        assert (await get(group=["one"])).status_code == 200
        error(await get(group=["nobody"]), 409, "cannot_tell")
        made.round(away_since_ms={"source": 5}, **made.target_answers())
        error(await get(group=["one"]), 409, "cannot_tell")
        assert (await get(group=["one"], accept_as_of="true")).status_code == 200
        made.round(as_of_ms=5)
        error(await get(group=["one"], accept_as_of="true"), 409, "cannot_tell")

    play(test)


def test_a_plan_names_offsets_behind_which_records_are_missing() -> None:
    async def test(made: Made) -> None:
        lost = partition(0, verdict="pending", reason="records_not_on_target", detail={"not_on_target": 100})
        unknown = partition(1, verdict="pending", reason="copies_unknown")
        waiting = report("zero", "g").model_copy(
            update={"ready": False, "reason": "records_not_on_target", "partitions": [lost, unknown]}
        )
        made.snapshots.groups("g", 1, [pack_report("zero", waiting)])
        query = {"flow": "A-to-B", "group": "zero"}
        planned = (await made.at.client.get("/v1/failover/plan", params=query)).json()
        rows = planned["groups"][0]["partitions"]
        assert [(row["offset"], row["reason"], row["missing_records"]) for row in rows] == [
            (400, "records_not_on_target", 100),
            (401, "copies_unknown", None),
        ]
        (text,) = [line for line in explain([waiting]) if line.startswith("orders-0:")]
        assert "100 records" in text
        assert "none skipped" not in text

    play(test)


def test_what_is_missing_where_a_group_has_committed_nothing_is_kept_and_told() -> None:
    async def test(made: Made) -> None:
        zero, one, two = (TopicPartition("orders", number) for number in range(3))
        rows = {zero: Missing(0), one: Missing(0), two: Missing(12, -1)}
        made.snapshots.missing("g", 1, rows)
        part = NotBegunPartition(topic="orders", partition=2, not_on_target=100)
        beginning = report("zero", "g").model_copy(update={"not_begun": [part]})
        made.at.reports(beginning, connector="g")
        planned = (await made.at.client.get("/v1/failover/plan", params={"flow": "A-to-B"})).json()
        named = [
            (each["group"], row["partition"], row["not_on_target"], row["missing_records"])
            for each in planned["groups"]
            for row in each["not_begun"]
        ]
        assert named == [("one", 2, 0, 12), ("zero", 2, 100, 112)]
        kept = {"topic": "orders", "partition": 2, "notOnTarget": 100, "missing": 112}
        less = {"topic": "orders", "partition": 2, "notOnTarget": 0, "missing": 12}
        records = {"zero": RECORD | {"notBegun": [kept]}, "one": RECORD | {"notBegun": [less]}}
        for record in records.values():
            del record["missingSinceMs"]
        made.rounds.answer = lambda _name, operation, _given: (
            {"moved": records, "refused": {}} if operation == "move" else {"found": 2}
        )
        answer = Failover.model_validate((await made.post(all=True, dry_run=True)).json())
        facts = made.rounds.operated[-1][2]["groups"]
        assert {group: each["not_begun"] for group, each in facts.items()} == {
            "zero": [["orders", 2, 100, 112]],
            "one": [["orders", 2, 0, 12]],
        }
        assert facts["zero"]["missing_since_ms"] is None
        # The rows have 12 besides, of one partition that both groups read.
        assert (answer.missing_records, answer.missing_since_ms) == (124, None)
        assert [[row.missing_records for row in each.not_begun] for each in answer.groups] == [[12], [112]]
        assert any("At most 124 records of A were missing on B" in line for line in answer.next)
        (line,) = [line for line in answer.next if line.startswith("In orders-2")]
        assert "by zero: at most 100 of its records" in line
        made.round(away_since_ms={"source": 5}, **made.target_answers())
        body = error(await made.post(all=True), 409, "cannot_tell")
        assert "at most 112 record(s) were missing then" in body.message

    play(test)


def test_a_body_has_its_limits() -> None:
    assert MoveGroups(flow="A-to-B", all=True).timeout_ms == 60_000
