"""Whether groups can fail over: each thing that can be wrong makes the answer another one than `ready`."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from bridge.model.copying import Progress
from bridge.model.partition_states import PartitionState, PartitionStatus
from bridge.model.values import TopicPartition
from bridge.protocol.messages import CopyTotals, GroupReport, NotBegunPartition
from bridge.protocol.readiness import Readiness
from bridge.service.answers.reasons import REASONS
from bridge.service.ipc.messages import InstanceStatus, pack_report
from bridge.service.state.snapshots import RoundsState
from connectors.base import CopyReport, Missing, Summary
from tests.support.messages import message
from tests.unit.service.answers.ready_flow import FLOW, INTERVAL_MS, Flow
from tests.unit.service.service_fakes import FakeEngine, report, session
from tests.unit.service.service_harness import START, ServiceHarness, run

GROUPS = {**START, "kind": "group_offset", "config": FLOW}
COPY = {**START, "kind": "source", "config": FLOW}


def flow(test: Callable[[Flow], Awaitable[None]]) -> None:
    """Runs it with clocks that stand still: a busy machine makes nothing old."""
    now = time.time()

    async def begun(at: ServiceHarness) -> None:
        made = Flow(at)
        await made.begin()
        assert await made.answers() == (both("ready"), [])
        await test(made)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "time", lambda: now)
        run(begun)


def both(answer: str) -> dict[str, str]:
    return {"one": answer, "zero": answer}


async def _health(at: ServiceHarness) -> str:
    return str((await at.client.get("/health")).json()["status"])


# -- connectors and tasks that do not run ----------------------------------------------------------------------------


def test_a_stopped_connector_can_not_tell_and_health_is_not_ok() -> None:
    async def test(made: Flow) -> None:
        made.table.stop_connector("g", session(1))
        for task in (0, 1):
            made.table.stop_task("g", task, session(1))
        readiness, ((code, text),) = await made.answers()
        assert (readiness, code) == (both("cannot_tell"), "connector_stopped")
        assert text == message("health.stopped", connector="g")
        assert await _health(made.at) == "degraded"

    flow(test)


def test_a_paused_connector_can_not_tell_within_two_seconds() -> None:
    """Connect stops the connector then, and polls its tasks no more."""

    async def test(made: Flow) -> None:
        made.table.stop_connector("g", session(1))
        made.at.clock.ms += 1_000
        made.at.service.expire()
        assert await made.answers() == (both("ready"), []), "the tasks may poll in another worker"
        made.at.clock.ms += 500
        made.at.service.expire()
        readiness, reasons = await made.answers()
        assert readiness == both("cannot_tell")
        assert reasons == [("connector_stopped", message("health.connector_paused", connector="g"))]
        assert await _health(made.at) == "degraded"

    flow(test)


def test_tasks_that_go_on_polling_when_their_connector_moves_are_not_paused() -> None:
    async def test(made: Flow) -> None:
        made.table.stop_connector("g", session(1))
        for _ in range(10):
            made.at.clock.ms += 1_000
            for task in (0, 1):
                made.table.poll("g", task, session(1))
            made.table.poll("s", 0, session(1))
            made.at.service.expire()
        assert await made.answers() == (both("ready"), [])

    flow(test)


def test_the_groups_of_a_lapsed_task_can_not_tell_and_the_others_are_ready() -> None:
    async def test(made: Flow) -> None:
        made.at.clock.ms += 29_000
        made.table.poll("g", 1, session(1))
        made.table.poll("s", 0, session(1))
        made.at.clock.ms += 2_000
        made.at.service.expire()
        readiness, ((code, text),) = await made.answers()
        assert readiness == {"one": "ready", "zero": "cannot_tell"}
        lapsed = message("health.task_lapsed", task=0, connector="g", seconds=31)
        assert (code, text) == ("task_lapsed", lapsed)
        assert await _health(made.at) == "degraded"
        made.round(as_of_ms=int(time.time() * 1000) - 100)
        made.table.poll("g", 0, session(1))
        readiness, ((code, _),) = await made.answers()
        assert (readiness["zero"], code) == ("cannot_tell", "not_looked_at_yet"), (
            "no round has looked at it again"
        )
        made.at.clock.ms += 50
        made.round()
        assert await made.answers() == (both("ready"), [])

    flow(test)


def test_a_connector_that_was_deleted_can_be_forgotten_with_its_groups_and_metrics() -> None:
    async def test(made: Flow) -> None:
        refused = await made.at.client.delete("/v1/connectors/g")
        assert refused.status_code == 409
        assert "has running tasks: delete it in Connect" in refused.json()["message"]
        made.table.stop_connector("g", session(1))
        for task in (0, 1):
            made.table.stop_task("g", task, session(1))
        assert (await made.at.client.delete("/v1/connectors/g")).status_code == 204
        assert (await made.at.client.get("/v1/groups")).json()["total"] == 0
        assert 'connector="g"' not in (await made.at.client.get("/metrics")).text
        report = (await made.at.client.get("/v1/readiness")).json()
        assert (report["readiness"], report["as_of_ms"], report["missing_records"]) == (
            "cannot_tell",
            None,
            None,
        )
        (whole,) = report["flows"]
        assert (whole["connector"], whole["groups"]) == ("s", 0), "what is left is the copy"
        assert (await made.at.client.delete("/v1/connectors/g")).status_code == 404
        assert await _health(made.at) == "ok"

    flow(test)


def test_tasks_beyond_the_count_that_the_connector_has_now_hold_up_nothing() -> None:
    """`tasks.max` was lowered from 2 to 1: Connect stops both tasks, and starts one."""

    async def test(made: Flow) -> None:
        for task in (0, 1):
            made.table.stop_task("g", task, session(1))
        made.table.start_task("g", 0, session(2), "group_offset", 1, FLOW)
        made.table.connector("g").tasks[0].active_since -= 1_000
        readiness, _ = await made.answers()
        assert readiness == {"zero": "ready", "one": "cannot_tell"}
        (one,) = (await made.at.client.get("/v1/groups/one")).json()["reports"]
        assert [each["reason"] for each in one["reasons"]] == ["not_looked_at_yet"]
        made.round(tasks=(0,), clusters_seen=frozenset({"source", "target"}))
        made.snapshots.groups("g", 1, [pack_report("one", report("one", "g"))])
        assert await made.answers() == (both("ready"), [])
        whole = (await made.at.client.get("/v1/readiness")).json()
        assert (whole["readiness"], whole["flows"][0]["reasons"]) == ("ready", [])
        assert await _health(made.at) == "ok"
        made.table.stop_connector("g", session(3))
        made.table.stop_task("g", 0, session(2))
        _, ((code, text),) = await made.answers()
        assert (code, text) == ("connector_stopped", message("health.stopped", connector="g"))

    flow(test)


def test_a_task_that_lapsed_before_the_count_was_lowered_does_not_make_a_stopped_connector_paused() -> None:
    async def test(made: Flow) -> None:
        made.table.stop_task("g", 0, session(1))
        made.table.start_task("g", 0, session(2), "group_offset", 1, FLOW)
        made.table.stop_connector("g", session(3))
        made.table.stop_task("g", 0, session(2))
        _, ((code, text),) = await made.answers()
        assert (code, text) == ("connector_stopped", message("health.stopped", connector="g"))

    flow(test)


# -- tasks that run beside other services ------------------------------------------------------------------------------


def _shared(made: Flow) -> None:
    """Task 1 runs in a worker that has a service of its own."""
    del made.table.connector("g").tasks[1]
    made.table.version += 1


def _ago(seconds: float) -> int:
    return int(time.time() * 1000 - 1000 * seconds)


def test_the_groups_of_a_task_beside_another_service_are_as_that_one_has_seen_them() -> None:
    async def test(made: Flow) -> None:
        _shared(made)
        at_ms = _ago(2)
        made.round(tasks=(0,), other_tasks={1: (at_ms, INTERVAL_MS, made.table.now_ms)})
        assert await made.answers() == (both("ready"), [])
        (one,) = (await made.at.client.get("/v1/groups/one")).json()["reports"]
        assert one["as_of_ms"] == at_ms
        whole = (await made.at.client.get("/v1/readiness")).json()
        assert (whole["readiness"], whole["as_of_ms"], whole["flows"][0]["reasons"]) == ("ready", at_ms, [])

    flow(test)


@pytest.mark.parametrize(
    ("looked", "code", "message"),
    [
        (None, "task_lapsed", "task 1 of connector g does not run on this service"),
        (
            (7, INTERVAL_MS),
            "outdated",
            "task 1 of connector g runs on another service, which has not reported",
        ),
        (
            (-60, INTERVAL_MS),
            "outdated",
            "another service reports task 1 of connector g by a clock",
        ),
    ],
)
def test_without_a_fresh_record_of_a_task_its_groups_are_unknown(
    looked: tuple[int, int] | None, code: str, message: str
) -> None:
    async def test(made: Flow) -> None:
        _shared(made)
        other_tasks = {} if looked is None else {1: (_ago(looked[0]), looked[1], made.table.now_ms)}
        made.round(tasks=(0,), other_tasks=other_tasks)
        readiness, reasons = await made.answers()
        assert (readiness, reasons) == ({"zero": "ready", "one": "cannot_tell"}, [])
        whole = (await made.at.client.get("/v1/readiness")).json()
        (why,) = whole["flows"][0]["reasons"]
        assert why["reason"] == code
        assert why["detail"].startswith(message)
        (one,) = (await made.at.client.get("/v1/groups/one")).json()["reports"]
        assert (why.pop("groups"), why.pop("names")) == (1, ["one"])
        assert one["reasons"] == [why]

    flow(test)


def test_a_task_of_which_nothing_is_known_makes_the_flow_unknown_also_without_groups() -> None:
    async def test(made: Flow) -> None:
        _shared(made)
        made.round(tasks=(0,))
        made.snapshots.groups("g", 1, [pack_report("one", None)])
        whole = (await made.at.client.get("/v1/readiness")).json()
        assert (whole["readiness"], whole["flows"][0]["ready"]) == ("cannot_tell", 1)

    flow(test)


def test_without_the_source_what_another_service_knew_counts_as_of_then() -> None:
    async def test(made: Flow) -> None:
        _shared(made)
        at_ms, away_ms = _ago(3_600), _ago(3_500)
        changes = {
            "other_tasks": {1: (at_ms, INTERVAL_MS, made.table.now_ms)},
            "away_since_ms": {"source": away_ms},
            **made.target_answers(),
        }
        made.round(tasks=(0,), as_of_ms=at_ms + 7, **changes)
        readiness, ((code, _),) = await made.answers()
        assert (readiness, code) == (both("ready_as_of"), "source_unreachable")
        whole = (await made.at.client.get("/v1/readiness")).json()
        assert (whole["readiness"], whole["as_of_ms"]) == ("ready_as_of", at_ms)
        made.round(tasks=(0,), **changes | {"away_since_ms": {"source": away_ms, "target": away_ms}})
        readiness, _ = await made.answers()
        assert readiness == both("cannot_tell")

    flow(test)


def test_a_task_that_has_moved_to_another_worker_is_not_lapsed() -> None:
    async def test(made: Flow) -> None:
        made.table.stop_task("g", 1, session(1))
        made.round(tasks=(0,))
        readiness, _ = await made.answers()
        assert readiness == {"zero": "ready", "one": "cannot_tell"}
        made.round(tasks=(0,), other_tasks={1: (_ago(1), INTERVAL_MS, made.table.now_ms)})
        assert await made.answers() == (both("ready"), [])

    flow(test)


def _moved_away(made: Flow, *tasks: int) -> dict[str, Any]:
    """Workers were rolled: Connect has stopped the connector here, and runs these tasks beside another service. The
    fields of a round then."""
    made.table.stop_connector("g", session(1))
    for task in (0, 1):
        made.table.stop_task("g", task, session(1))
    others = {task: (_ago(1), INTERVAL_MS, made.table.now_ms) for task in tasks}
    return {"tasks": (), "other_tasks": others, "clusters_seen": frozenset({"source", "target"})}


def test_a_connector_whose_tasks_have_all_moved_to_another_service_is_as_that_one_reports_it() -> None:
    async def test(made: Flow) -> None:
        made.round(**_moved_away(made, 0, 1))
        made.at.service.expire()
        assert await made.answers() == (both("ready"), [])
        assert await _health(made.at) == "ok"
        status = (await made.at.client.get("/v1/connectors/g/status")).json()
        assert (status["state"], status["conditions"], status["waiting_for"]) == ("elsewhere", [], [])
        refused = await made.at.client.post("/v1/failover", json={"flow": "A-to-B", "all": True})
        assert refused.status_code == 409
        assert "another service" in refused.json()["message"]

    flow(test)


def test_a_copy_that_has_moved_to_another_service_is_not_stopped() -> None:
    """The source task runs beside the other service, the group's task here, and nothing is produced meanwhile."""

    async def test(made: Flow) -> None:
        made.table.stop_connector("s", session(1))
        made.table.stop_task("s", 0, session(1))
        made.at.service.expire()
        readiness, ((code, _),) = await made.answers()
        assert (readiness, code) == (both("not_ready"), "copying_stopped")
        seen = {"clusters_seen": frozenset({"source", "target"})}
        made.round(**seen, other_connectors={"s": (_ago(3), 5_000, made.table.now_ms)})
        made.at.service.expire()
        assert await made.answers() == (both("ready"), [])
        assert await _health(made.at) == "ok"
        made.round(**seen, other_connectors={"s": (_ago(16), 5_000, made.table.now_ms)})
        made.at.service.expire()
        readiness, ((code, text),) = await made.answers()
        assert (readiness, code) == (both("not_ready"), "copying_stopped"), "it has stopped there too"
        assert "another service, which no longer reports it" in text

    flow(test)


def test_the_count_of_tasks_is_that_of_the_service_that_runs_them() -> None:
    """`tasks.max` was lowered when none of the tasks was here any more."""

    async def test(made: Flow) -> None:
        made.round(**_moved_away(made, 0), task_count=1)
        made.at.service.expire()
        assert made.table.connector("g").task_count == 1
        made.snapshots.groups("g", 1, [pack_report("one", report("one", "g"))])
        assert await made.answers() == (both("ready"), [])

    flow(test)


def test_one_task_that_nobody_reports_is_unknown_also_where_all_have_left() -> None:
    async def test(made: Flow) -> None:
        made.round(**_moved_away(made, 0))
        made.at.service.expire()
        readiness, _ = await made.answers()
        assert readiness == {"zero": "ready", "one": "cannot_tell"}
        (one,) = (await made.at.client.get("/v1/groups/one")).json()["reports"]
        assert [each["reason"] for each in one["reasons"]] == ["task_lapsed"]

    flow(test)


def test_a_pause_is_seen_although_another_service_has_just_reported_its_task() -> None:
    async def test(made: Flow) -> None:
        _shared(made)
        made.table.stop_connector("g", session(1))
        made.at.clock.ms += 1_500
        made.round(tasks=(), other_tasks={1: (_ago(1), INTERVAL_MS, made.table.now_ms)})
        made.at.service.expire()
        made.at.service.expire()
        _, ((code, text),) = await made.answers()
        assert (code, text) == ("connector_stopped", message("health.connector_paused", connector="g"))

    flow(test)


def test_a_connector_that_moved_away_and_is_reported_no_more_is_stopped() -> None:
    async def test(made: Flow) -> None:
        fields = _moved_away(made, 0, 1)
        made.round(**fields | {"other_tasks": {0: (_ago(60), INTERVAL_MS, made.table.now_ms)}})
        made.at.service.expire()
        _, ((code, text),) = await made.answers()
        assert (code, text) == ("connector_stopped", message("health.stopped", connector="g"))

    flow(test)


# -- started while the source is away ----------------------------------------------------------------------------------


def test_what_an_instance_before_has_seen_is_an_answer_only_without_the_source() -> None:
    async def test(made: Flow) -> None:
        at_ms = _ago(3_600)
        begun: dict[str, Any] = {"rounds": 0, "as_of_ms": at_ms, "tasks": ()}
        made.round(**begun)
        readiness, _ = await made.answers()
        assert readiness == both("cannot_tell")
        made.round(**begun, away_since_ms={"source": _ago(3)})
        readiness, _ = await made.answers()
        assert readiness == both("cannot_tell"), "the target was not asked yet"
        begun |= made.target_answers()
        made.round(**begun | {"tasks": (0, 1)}, away_since_ms={"source": _ago(3)})
        readiness, ((code, _),) = await made.answers()
        assert (readiness, code) == (both("ready_as_of"), "source_unreachable")
        made.round(**begun | {"tasks": (0, 1), "as_of_ms": _ago(-3_600)}, away_since_ms={"source": _ago(3)})
        readiness, ((code, _), *_) = await made.answers()
        assert (readiness, code) == (both("cannot_tell"), "outdated"), (
            "a clock that was wrong is not believed"
        )

    flow(test)


@pytest.mark.parametrize("state", [RoundsState.RESTARTING, RoundsState.STALLED, RoundsState.STOPPED])
def test_while_the_rounds_process_does_not_run_nothing_is_known(state: RoundsState) -> None:
    async def test(made: Flow) -> None:
        rounds = made.at.service.rounds
        assert isinstance(rounds, FakeEngine)
        rounds.state = state
        readiness, ((code, _),) = await made.answers()
        assert (readiness, code) == (both("cannot_tell"), "rounds_process_down")
        assert await _health(made.at) == "down"

    flow(test)


def test_a_failed_and_a_broken_instance_can_not_tell() -> None:
    async def test(made: Flow) -> None:
        why = "the credentials are wrong"
        made.round(failure=why)
        readiness, ((code, text),) = await made.answers()
        assert (readiness, code) == (both("cannot_tell"), "connector_failed")
        assert text == message("health.failed", connector="g", why=why)
        made.round()
        made.snapshots.instance_status(InstanceStatus("g", 1, "it broke", 1.0, 1))
        readiness, ((code, text),) = await made.answers()
        assert (readiness, code) == (both("cannot_tell"), "connector_failed")
        assert text == message("health.restarting", connector="g", why="it broke")

    flow(test)


def test_what_an_earlier_instance_has_found_is_no_answer() -> None:
    async def test(made: Flow) -> None:
        made.snapshots.restarted()
        readiness, ((code, _),) = await made.answers()
        assert (readiness, code) == (both("cannot_tell"), "not_looked_at_yet")

    flow(test)


# -- time ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("age_ms", "changes", "answer"),
    [
        (5_900, {}, "ready"),
        (6_500, {}, "cannot_tell"),
        (6_500, {"usual_round_seconds": 3.0}, "ready"),
        (6_500, {"last_round_seconds": 3.0}, "cannot_tell"),
        (9_500, {"usual_round_seconds": 3.0}, "cannot_tell"),
        (4_900, {"interval_ms": 100}, "ready"),
        (5_500, {"interval_ms": 100}, "cannot_tell"),
        (-500, {}, "ready"),
        (-3_600_000, {}, "cannot_tell"),
        (3_600_000, {}, "cannot_tell"),
    ],
)
def test_an_answer_is_no_older_than_three_intervals(
    age_ms: int, changes: dict[str, Any], answer: str
) -> None:
    """Nor is it of a clock that was an hour off; a round that takes long may be three times as old."""

    async def test(made: Flow) -> None:
        as_of_ms = int(time.time() * 1000) - age_ms
        made.round(as_of_ms=as_of_ms, **changes)
        readiness, reasons = await made.answers()
        assert readiness == both(answer)
        assert [code for code, _ in reasons] == ([] if answer == "ready" else ["outdated"])
        (first, *_) = (await made.at.client.get("/v1/groups")).json()["groups"]
        assert first["as_of_ms"] == as_of_ms

    flow(test)


def test_before_its_first_round_nothing_is_known() -> None:
    async def test(made: Flow) -> None:
        made.round(as_of_ms=None)
        readiness, ((code, _),) = await made.answers()
        assert (readiness, code) == (both("cannot_tell"), "not_looked_at_yet")

    flow(test)


def test_the_group_of_the_empty_id_can_be_asked_for() -> None:
    """Kafka keeps offsets for it, and so it is synced."""

    async def test(made: Flow) -> None:
        made.at.reports(report("", "g"), connector="g")
        client = made.at.client
        page = (await client.get("/v1/groups?group=")).json()
        assert [each["group"] for each in page["groups"]] == [""]
        full, explained = [(await client.get(f"/v1/groups/{path}")).json() for path in ("", "/explain")]
        assert [(each["group"], len(each["reports"])) for each in (full, explained)] == [("", 1), ("", 1)]
        assert explained["lines"]

    flow(test)


# -- clusters --------------------------------------------------------------------------------------------------------


def test_while_the_target_does_not_answer_nothing_is_known() -> None:
    async def test(made: Flow) -> None:
        made.at.reports(report("zero", "g", ready=False, reason="target_unreachable"), connector="g")
        made.round(away_since_ms={"target": 1_795_000_060_000})
        readiness, reasons = await made.answers()
        assert (readiness, reasons) == (
            both("cannot_tell"),
            [("target_unreachable", REASONS["target_unreachable"].detail)],
        )
        lines = (await made.at.client.get("/v1/groups/zero/explain")).json()["lines"]
        assert any("since 2026-11-18T11:07:40.000+00:00" in line for line in lines), lines

    flow(test)


@pytest.mark.parametrize(
    ("seconds", "tasks", "code"),
    [(None, (), "not_looked_at_yet"), (7, (0, 1), "outdated"), (1, (1,), "not_looked_at_yet")],
)
def test_without_the_source_a_group_that_was_not_held_against_the_target_is_not_ready(
    seconds: float | None, tasks: tuple[int, ...], code: str
) -> None:
    """Its topics and offsets may have gone since."""

    async def test(made: Flow) -> None:
        made.at.clock.ms += 10_000
        target = {} if seconds is None else made.target_answers(seconds, *tasks)
        made.round(as_of_ms=_ago(60), away_since_ms={"source": _ago(50)}, **target)
        readiness, reasons = await made.answers()
        assert readiness["zero"] == "cannot_tell"
        assert code in [each for each, _ in reasons]

    flow(test)


def test_without_the_source_a_round_from_before_a_pause_does_not_count() -> None:
    async def test(made: Flow) -> None:
        away = {"as_of_ms": _ago(60), "away_since_ms": {"source": _ago(50)}, **made.target_answers()}
        made.round(**away)
        assert (await made.answers())[0] == both("ready_as_of")
        made.at.clock.ms += 1_000
        for task in (0, 1):
            made.table.stop_task("g", task, session(1))
            made.table.start_task("g", task, session(2), "group_offset", 2, FLOW)
        readiness, reasons = await made.answers()
        assert (readiness, reasons[0][0]) == (both("cannot_tell"), "not_looked_at_yet")
        made.round(**away | made.target_answers())
        assert (await made.answers())[0] == both("ready_as_of")

    flow(test)


def test_a_clock_that_is_set_back_makes_nothing_young() -> None:
    """By the wall clock each of these was just now."""

    async def test(made: Flow) -> None:
        now_ms = made.table.now_ms
        made.round(as_of_monotonic_ms=now_ms - 7_000)
        readiness, reasons = await made.answers()
        assert (readiness, reasons[0][0]) == (both("cannot_tell"), "outdated")
        made.round(as_of_monotonic_ms=now_ms)
        made.copied(copying_monotonic_ms=now_ms - 31_000)
        readiness, reasons = await made.answers()
        assert (readiness, reasons[0][0]) == (both("not_ready"), "copying_stopped")
        made.copied(copying_monotonic_ms=now_ms)
        assert await made.answers() == (both("ready"), [])
        _shared(made)
        made.round(tasks=(0,), other_tasks={1: (_ago(0), INTERVAL_MS, now_ms - 7_000)})
        readiness, _ = await made.answers()
        assert readiness == {"zero": "ready", "one": "cannot_tell"}

    flow(test)


@pytest.mark.parametrize("source_away", [False, True])
def test_a_clock_that_is_set_back_makes_nothing_unknown_of_which_the_age_is_known(source_away: bool) -> None:
    """The next round may come in a minute, and while the source is away none does that it has answered."""

    async def test(made: Flow) -> None:
        now_ms, ahead_ms = made.table.now_ms, _ago(-3_600)
        away = {"away_since_ms": {"source": ahead_ms}, **made.target_answers()} if source_away else {}
        made.round(as_of_ms=ahead_ms, as_of_monotonic_ms=now_ms - 1_000, **away)
        made.copied(copying_ms=ahead_ms, copying_monotonic_ms=now_ms)
        readiness, _ = await made.answers()
        assert readiness == both("ready_as_of" if source_away else "ready")
        made.copied(copying_ms=ahead_ms)
        readiness, reasons = await made.answers()
        assert source_away or (readiness, reasons[0][0]) == (both("not_ready"), "copying_stopped")

    flow(test)


def test_without_the_source_groups_were_ready_as_of_the_time_when_it_answered_last() -> None:
    """However long ago that was; and never a bare yes."""

    async def test(made: Flow) -> None:
        as_of_ms = int(time.time() * 1000) - 3_600_000
        away = {"as_of_ms": as_of_ms, "away_since_ms": {"source": as_of_ms + 60_000}, **made.target_answers()}
        made.round(**away)
        made.copied(copying_ms=as_of_ms)
        readiness, reasons = await made.answers()
        assert readiness == both("ready_as_of")
        assert reasons[0] == ("source_unreachable", REASONS["source_unreachable"].detail)
        assert [code for code, _ in reasons[1:]] == ["copying_stopped"], (
            "what follows from it comes behind it"
        )
        whole = (await made.at.client.get("/v1/readiness")).json()
        assert (whole["readiness"], whole["as_of_ms"]) == ("ready_as_of", as_of_ms)
        made.at.reports(report("zero", "g", ready=False, reason="not_mirrored_yet"), connector="g")
        made.round(**away)
        readiness, _ = await made.answers()
        assert readiness == {"one": "ready_as_of", "zero": "not_ready"}
        assert (await made.at.client.get("/v1/readiness")).json()["readiness"] == "not_ready"

    flow(test)


@pytest.mark.parametrize(("side", "answer"), [("source", "ready_as_of"), ("target", "cannot_tell")])
def test_who_copies_knows_before_the_next_round_that_a_cluster_is_away(side: str, answer: str) -> None:
    """A round comes once an interval, which may be a minute. That nothing is copied meanwhile is the consequence."""

    async def test(made: Flow) -> None:
        now_ms = int(time.time() * 1000)
        made.round(interval_ms=60_000, as_of_ms=now_ms - 40_000, **made.target_answers(40))
        assert await made.answers() == (both("ready"), [])
        away: dict[str, Any] = {"away_since_ms": {side: now_ms - 35_000}, "errors": ["connection refused"]}
        made.copied(copying_ms=now_ms - 36_000, **away)
        readiness, ((code, _),) = await made.answers()
        assert (readiness, code) == (both(answer), f"{side}_unreachable")
        (told,) = (await made.at.client.get("/v1/readiness")).json()["flows"][0]["reasons"]
        assert told["since_ms"] == now_ms - 35_000
        made.copied()
        assert await made.answers() == (both("ready"), [])
        # What it knew when it was stopped is no news.
        made.copied(**away)
        made.table.stop_connector("s", session(1))
        made.table.stop_task("s", 0, session(1))
        readiness, ((code, _),) = await made.answers()
        assert (readiness, code) == (both("not_ready"), "copying_stopped")

    flow(test)


def test_a_connector_that_never_began_to_copy_is_told_beside_what_groups_lack() -> None:
    """Spark can't start, say: no topic is known to be copied by it, and each group lacks something else."""

    async def test(made: Flow) -> None:
        made.table.start_task("t", 0, session(4), "source", 1, FLOW)
        seen = frozenset({"source", "target"})
        made.snapshots.summary("t", 1, Summary(rounds=1, failure="there is no Java", clusters_seen=seen))
        assert await made.answers() == (both("ready"), [])
        made.at.reports(report("zero", "g", ready=False, reason="copies_unknown"), connector="g")
        readiness, reasons = await made.answers()
        assert readiness == {"zero": "cannot_tell", "one": "ready"}
        assert [code for code, _ in reasons] == ["copying_failed", "copies_unknown"]
        (whole,) = (await made.at.client.get("/v1/readiness")).json()["flows"]
        told = [(each["reason"], each["follows_from"], each["names"]) for each in whole["reasons"]]
        assert told == [("copying_failed", None, ["zero"]), ("copies_unknown", "copying_failed", ["zero"])]
        lines = (await made.at.client.get("/v1/groups/zero/explain")).json()["lines"]
        assert any(line.startswith("    so copies_unknown: ") for line in lines), lines

    flow(test)


def test_records_that_wait_for_a_connector_that_never_began_to_copy_are_told_at_once() -> None:
    """A group at the end of its topic lacks none of them; no copy of its topic is alive."""

    async def test(made: Flow) -> None:
        made.table.start_task("t", 0, session(4), "source", 1, FLOW)
        seen = frozenset({"source", "target"})
        made.snapshots.summary("t", 1, Summary(rounds=1, failure="there is no Java", clusters_seen=seen))
        stuck = Missing(7, -1, int(time.time() * 1000))
        made.snapshots.missing("g", 1, {TopicPartition("orders", 0): stuck})
        assert await made.answers() == (both("ready"), []), "another connector copies the topic"
        made.table.stop_connector("s", session(1))
        made.table.stop_task("s", 0, session(1))
        made.at.service.forget_connector("s")
        readiness, ((code, _),) = await made.answers()
        assert (readiness, code) == (both("not_ready"), "copying_failed")
        (whole,) = (await made.at.client.get("/v1/readiness")).json()["flows"]
        assert [reason["reason"] for reason in whole["reasons"]] == ["copying_failed"]

    flow(test)


# -- a service that runs the copy alone ------------------------------------------------------------------------------


def test_a_service_that_only_copies_names_the_flow_and_why_nothing_is_known_of_its_groups() -> None:
    async def test(made: Flow) -> None:
        made.table.stop_connector("g", session(1))
        for task in (0, 1):
            made.table.stop_task("g", task, session(1))
        made.at.service.forget_connector("g")
        now_ms = int(time.time() * 1000)
        told = {"g": (now_ms - 600_000, 5_000, 0)}
        cases: tuple[tuple[dict[str, Any], str, str], ...] = (
            ({}, "not_looked_at_yet", "connector s has not read yet"),
            ({"group_connectors": {}}, "no_group_connector", "start a group connector"),
            ({"group_connectors": {}, "groups_unread": "grant READ"}, "no_group_connector", "grant READ"),
            ({"group_connectors": told}, "outdated", "connector g, which follows the groups of this flow"),
        )
        for changes, code, text in cases:
            made.copied(**changes)
            report = (await made.at.client.get("/v1/readiness")).json()
            assert report["readiness"] == "cannot_tell"
            (whole,) = report["flows"]
            assert (whole["connector"], whole["source"], whole["target"]) == ("s", "A", "B")
            (why,) = whole["reasons"]
            assert why["reason"] == code
            assert text in why["detail"]
        made.table.stop_connector("s", session(1))
        made.table.stop_task("s", 0, session(1))
        (whole,) = (await made.at.client.get("/v1/readiness")).json()["flows"]
        assert [each["reason"] for each in whole["reasons"]] == ["connector_stopped"]
        refused = await made.at.client.post("/v1/failover", json={"flow": "A-to-B", "all": True})
        assert "the service that runs its group connector" in refused.json()["message"]

    flow(test)


def test_a_service_that_only_copies_knows_the_groups_that_another_one_follows() -> None:
    async def test(made: Flow) -> None:
        made.table.start_task("copy", 0, session(4), "source", 1, FLOW | {"source.cluster.alias": "C"})
        now_ms = int(time.time() * 1000)
        made.copied("copy", group_connectors={"groups": (now_ms, 5_000, made.table.now_ms)})
        made.at.service.expire()
        known = made.table.connector("groups")
        assert (known.kind, known.flow, known.recorded, known.elsewhere) == (
            "group_offset",
            ("C", "B"),
            True,
            True,
        )
        assert known.config["name"] == "groups"
        assert "groups" in {each.name for each in made.table.desired()}
        status = (await made.at.client.get("/v1/connectors/groups/status")).json()
        assert (status["state"], status["conditions"]) == ("elsewhere", [])
        # It stays while the source is away, for then there is nothing new to report.
        old = {"groups": (now_ms - 600_000, 5_000, 0)}
        made.copied("copy", group_connectors=old, away_since_ms={"source": now_ms})
        made.at.service.expire()
        assert made.table.get("groups") is not None
        made.copied("copy", group_connectors=old)
        made.at.service.expire()
        assert made.table.get("groups") is None
        # Once it starts here it is one as any other.
        made.copied("copy", group_connectors={"groups": (now_ms, 5_000, made.table.now_ms)})
        made.at.service.expire()
        config = FLOW | {"source.cluster.alias": "C", "groups": "some"}
        made.table.start_task("groups", 0, session(5), "checkpoint", 1, config)
        known = made.table.connector("groups")
        assert (known.kind, known.recorded, known.config["groups"]) == ("checkpoint", False, "some")

    flow(test)


def test_what_a_connector_that_was_renamed_has_left_in_the_topic_is_none_of_the_flow() -> None:
    """While the source is away no record is new, and those of one that is long gone are as old as before."""

    async def test(made: Flow) -> None:
        now_ms = int(time.time() * 1000)
        away: dict[str, Any] = {"away_since_ms": {"source": now_ms - 600_000}}
        told = {"g": (now_ms - 605_000, 5_000, 0), "slow": (now_ms - 660_000, 60_000, 0)}
        old = {"old": (now_ms - 700_000, 5_000, 0)}
        made.copied(group_connectors=told | old, **away)
        made.at.service.expire()
        assert made.table.get("old") is None
        assert made.table.get("slow") is not None
        made.copied(group_connectors=old, **away)
        made.at.service.expire()
        assert made.table.get("old") is not None, "it is all that is known"

    flow(test)


def test_what_a_forgotten_connector_has_written_before_brings_it_not_back() -> None:
    async def test(made: Flow) -> None:
        made.table.stop_connector("g", session(1))
        for task in (0, 1):
            made.table.stop_task("g", task, session(1))
        now_ms = int(time.time() * 1000)
        made.at.service.forget_connector("g")
        made.copied(group_connectors={"g": (now_ms, 60_000, made.table.now_ms)})
        made.at.service.expire()
        assert made.table.get("g") is None
        made.copied(group_connectors={"g": (now_ms + 1, 60_000, made.table.now_ms)})
        made.at.service.expire()
        assert made.table.get("g") is not None

    flow(test)


# -- several flows ----------------------------------------------------------------------------------------------------


def test_a_group_of_two_sources_whose_copies_share_topics_needs_both() -> None:
    """Its offset there lies behind records of both: what it has not read of the other one it would miss."""

    async def test(made: Flow) -> None:
        other = FLOW | {"source.cluster.alias": "C"}
        made.table.start_task("s2", 0, session(3), "source", 1, other | {"bridge.merge.with": "s"})
        made.table.start_task("h", 0, session(3), "group_offset", 1, other)
        made.copied("s2")
        now_ms = int(time.time() * 1000)
        made.snapshots.summary(
            "h", 1, Summary(rounds=1, as_of_ms=now_ms, tasks=(0,), interval_ms=INTERVAL_MS)
        )
        made.at.reports(report("zero", "h", ready=False, reason="target_ahead"), connector="h")
        assert await by_group(made) == {"zero": ("not_ready", ["target_ahead"]), "one": ("ready", [])}
        (whole, _) = (await made.at.client.get("/v1/readiness")).json()["flows"]
        assert (whole["connector"], whole["not_ready"], whole["readiness"]) == ("g", 1, "not_ready")
        made.at.reports(report("zero", "h"), connector="h")
        assert await by_group(made) == {"zero": ("ready", []), "one": ("ready", [])}
        # By another name on its source the topic has the same copy.
        renamed = [each.model_copy(update={"topic": "payments"}) for each in report("zero").partitions]
        theirs = report("zero", "h", ready=False, reason="target_ahead").model_copy(
            update={"partitions": renamed}
        )
        made.at.reports(theirs, connector="h")
        assert await by_group(made) == {"zero": ("ready", []), "one": ("ready", [])}
        row = Progress("payments", 0, "A.orders", 9, 9, 9, 90)
        totals = CopyTotals(source="C", target="B", state="caught_up")
        made.snapshots.progress("s2", 1, CopyReport(totals, [row], whole=True))
        assert (await by_group(made))["zero"] == ("not_ready", ["target_ahead"])

    async def by_group(made: Flow) -> dict[str, tuple[str, list[str]]]:
        page = (await made.at.client.get("/v1/groups?connector=g")).json()
        return {
            group["group"]: (group["readiness"], [reason["reason"] for reason in group["reasons"]])
            for group in page["groups"]
        }

    flow(test)


def test_what_is_known_of_the_other_source_as_of_an_earlier_time_makes_no_yes() -> None:
    """Its flow runs in another service: the group's own flow reads there that it has told nothing for long."""

    async def test(made: Flow) -> None:
        made.at.reports(report("zero", "g", reason="other_source_outdated"), connector="g")
        page = (await made.at.client.get("/v1/groups?connector=g")).json()
        answers = {each["group"]: each for each in page["groups"]}
        assert [answers[name]["readiness"] for name in ("zero", "one")] == ["ready_as_of", "ready"]
        (why,) = answers["zero"]["reasons"]
        assert why["reason"] == "other_source_outdated"
        (whole,) = (await made.at.client.get("/v1/readiness")).json()["flows"]
        assert (whole["readiness"], whole["ready_as_of"]) == ("ready_as_of", 1)
        # What is wrong besides counts as ever.
        made.table.stop_connector("s", session(1))
        made.table.stop_task("s", 0, session(1))
        assert (await made.answers())[0] == both("not_ready")

    flow(test)


# -- copying ---------------------------------------------------------------------------------------------------------


def test_groups_are_not_ready_while_records_are_not_copied() -> None:
    async def test(made: Flow) -> None:
        made.table.stop_connector("s", session(1))
        made.table.stop_task("s", 0, session(1))
        readiness, ((code, text),) = await made.answers()
        assert (readiness, code) == (both("not_ready"), "copying_stopped")
        assert text.startswith("connector s is stopped or deleted")
        await made.at.put("/v1/connectors/s/tasks/0", {**COPY, "session": session(2), "task_count": 1})
        made.copied()
        assert await made.answers() == (both("ready"), [])
        made.copied(copying_ms=int(time.time() * 1000) - 31_000, errors=["the target is away"])
        readiness, ((code, text),) = await made.answers()
        said = message("health.not_copying", connector="s", why="the target is away")
        assert (readiness, code, text) == (both("not_ready"), "copying_stopped", said)
        made.copied(last_success_ms=None, errors=["topic wrong can't be made"])
        assert await made.answers() == (both("ready"), []), "an error of one topic holds up no other"
        made.copied(failure="not authorized")
        readiness, ((code, text),) = await made.answers()
        assert (readiness, code, text) == (
            both("not_ready"),
            "copying_failed",
            "connector s has failed: not authorized",
        )

    flow(test)


@pytest.mark.parametrize(("source", "topic"), [("C", "orders"), ("A", "payments")])
def test_a_stopped_copy_of_other_topics_or_another_flow_says_nothing_of_these_groups(
    source: str, topic: str
) -> None:
    async def test(made: Flow) -> None:
        there = {"source.cluster.alias": source, "target.cluster.alias": "B"}
        made.table.start_task("other", 0, session(1), "source", 1, there)
        made.copied("other", topic)
        made.table.stop_task("other", 0, session(1))
        assert await made.answers() == (both("ready"), [])
        (ours,) = (await made.at.client.get("/v1/readiness")).json()["flows"]
        assert (ours["readiness"], ours["reasons"]) == ("ready", [])

    flow(test)


def test_another_connector_that_copies_the_same_topic_takes_the_place_of_a_deleted_one() -> None:
    async def test(made: Flow) -> None:
        made.table.stop_task("s", 0, session(1))
        assert (await made.answers())[0] == both("not_ready")
        made.table.start_task("new", 0, session(1), "source", 1, FLOW)
        made.copied("new")
        assert await made.answers() == (both("ready"), [])

    flow(test)


def test_groups_are_not_ready_while_records_wait_to_be_copied_and_nobody_is_known_to_copy() -> None:
    """A service that was restarted does not know of a connector that is paused; nor of another tool's."""

    async def test(made: Flow) -> None:
        made.table.stop_connector("s", session(1))
        made.table.stop_task("s", 0, session(1))
        made.at.service.forget_connector("s")
        place, now_ms = TopicPartition("orders", 0), int(time.time() * 1000)
        for stuck_ms, expected in ((29_000, "ready"), (31_000, "not_ready")):
            made.round(as_of_ms=now_ms)
            made.snapshots.missing("g", 1, {place: Missing(7, -1, now_ms - stuck_ms)})
            readiness, reasons = await made.answers()
            assert readiness == both(expected), stuck_ms
        text = "records of topic orders wait to be copied, and none is copied: check the connector that copies it"
        assert reasons == [("copying_stopped", text)]
        made.snapshots.missing("g", 1, {place: Missing(3)})
        assert await made.answers() == (both("ready"), [])
        other = TopicPartition("payments", 0)
        made.snapshots.missing("g", 1, {other: Missing(7, -1, now_ms - 60_000)})
        assert await made.answers() == (both("ready"), []), "no group reads it"

    flow(test)


def test_a_partition_that_is_not_copied_is_told_at_once_where_records_wait() -> None:
    async def test(made: Flow) -> None:
        damaged = PartitionStatus("orders", 0, PartitionState.FAILED, 5, "damaged", "skip it")
        made.snapshots.connector("s").copying.apart = {damaged.source: damaged}
        made.round()
        assert await made.answers() == (both("ready"), []), "nothing waits behind it"
        now_ms = int(time.time() * 1000)
        made.snapshots.missing("g", 1, {damaged.source: Missing(7, -1, now_ms)})
        readiness, reasons = await made.answers()
        assert (readiness, reasons) == (
            both("not_ready"),
            [("copying_stopped", "orders-0: damaged; skip it")],
        )
        made.snapshots.missing("g", 1, {damaged.source: Missing(7)})
        assert await made.answers() == (both("ready"), []), "another mirror copies it"

    flow(test)


def test_a_topic_that_its_connector_leaves_out_by_now_is_told_at_once() -> None:
    async def test(made: Flow) -> None:
        waiting = Missing(7, -1, int(time.time() * 1000))
        made.snapshots.missing("g", 1, {TopicPartition("orders", 0): waiting})
        assert await made.answers() == (both("ready"), []), "it is copied"
        made.copied(topic="payments")
        readiness, ((code, text),) = await made.answers()
        assert (readiness, code) == (both("not_ready"), "copying_stopped")
        assert "topics.exclude of connector s" in text
        made.snapshots.missing("g", 1, {TopicPartition("orders", 0): Missing(0)})
        assert await made.answers() == (both("ready"), []), "all of it is on the target"

    flow(test)


def test_records_behind_an_open_transaction_are_told_as_that() -> None:
    async def test(made: Flow) -> None:
        now_ms = int(time.time() * 1000)
        made.round(as_of_ms=now_ms)
        waiting = Missing(7, -1, now_ms - 31_000)
        made.snapshots.missing("g", 1, {TopicPartition("orders", 0): waiting})
        readiness, ((code, text),) = await made.answers()
        assert (readiness, code) == (both("not_ready"), "copying_stopped")
        assert "open transaction" in text
        made.snapshots.missing("g", 1, {TopicPartition("orders", 1): waiting})
        assert "open transaction" not in (await made.answers())[1][0][1], "of that one nothing is known"

    flow(test)


def test_of_two_that_have_copied_a_topic_the_last_one_is_told() -> None:
    async def test(made: Flow) -> None:
        for name, at_ms in (("new", 2_000), ("s", 1_000)):
            made.table.start_task(name, 0, session(1), "source", 1, FLOW)
            made.copied(name, copying_ms=at_ms)
            made.table.stop_task(name, 0, session(1))
            made.table.stop_connector(name, session(1))
        made.at.service.expire()
        assert "connector new is" in (await made.answers())[1][0][1]

    flow(test)


# -- what is missing -------------------------------------------------------------------------------------------------


def test_a_partition_that_the_group_has_not_begun_to_read_counts_too() -> None:
    """It was added, say: a consumer begins there at its start."""

    async def test(made: Flow) -> None:
        zero, one, new = (TopicPartition("orders", number) for number in range(3))
        made.snapshots.missing("g", 1, {zero: Missing(0), one: Missing(0), new: Missing(100, -1)})
        made.snapshots.missing("g", 1, {TopicPartition("payments", 0): Missing(7, -1)})
        (listed,) = (await made.at.client.get("/v1/groups?group=zero")).json()["groups"]
        (full,) = (await made.at.client.get("/v1/groups/zero")).json()["reports"]
        assert {listed["missing_records"], full["missing_records"]} == {100}

    flow(test)


def test_what_is_missing_as_of_no_time_is_not_known() -> None:
    """Another service has counted it, and this one has not looked at the clusters since its connector was restarted.
    Nor is the flow's number while nothing can be told of one of its groups, here those of the other task."""

    async def test(made: Flow) -> None:
        zero, one = (TopicPartition("orders", number) for number in range(2))
        made.snapshots.missing("g", 1, {zero: Missing(0), one: Missing(0)})
        for as_of_ms, expected in ((int(time.time() * 1000), 0), (None, None)):
            made.snapshots.summary("g", 1, Summary(rounds=1, as_of_ms=as_of_ms, tasks=(0,)))
            (listed,) = (await made.at.client.get("/v1/groups?group=zero")).json()["groups"]
            (full,) = (await made.at.client.get("/v1/groups/zero")).json()["reports"]
            (whole,) = (await made.at.client.get("/v1/readiness")).json()["flows"]
            numbers = [each["missing_records"] for each in (listed, full, *full["partitions"])]
            assert numbers == [expected] * 4
            assert whole["cannot_tell"] > 0
            assert whole["missing_records"] is None
        made.snapshots.summary("g", 1, Summary(rounds=2, as_of_ms=int(time.time() * 1000), tasks=(0, 1)))
        (whole,) = (await made.at.client.get("/v1/readiness")).json()["flows"]
        assert (whole["cannot_tell"], whole["missing_records"]) == (0, 0)

    flow(test)


def test_what_is_missing_of_a_task_that_the_last_round_has_not_read_is_not_known() -> None:
    """Its task is stopped, and the rounds of the others go on."""

    async def test(made: Flow) -> None:
        zero, one = (TopicPartition("orders", number) for number in range(2))
        made.snapshots.missing("g", 1, {zero: Missing(0), one: Missing(0)})
        now_ms = int(time.time() * 1000)
        for tasks, expected in (((0,), (now_ms, 0)), ((1,), (None, None))):
            made.snapshots.summary("g", 1, Summary(rounds=1, as_of_ms=now_ms, tasks=tasks))
            (listed,) = (await made.at.client.get("/v1/groups?group=zero")).json()["groups"]
            assert (listed["as_of_ms"], listed["missing_records"]) == expected

    flow(test)


def lacking(group: str, count: int, to_come: int) -> GroupReport:
    """A report of a group whose first partition lacks records on the target."""
    made = report(group, "g", ready=False, reason="records_not_on_target")
    first, second = made.partitions
    detail = {"not_on_target": count, "to_come": to_come}
    lacks = first.model_copy(update={"reason": "records_not_on_target", "detail": detail})
    return made.model_copy(update={"partitions": [lacks, second]})


def test_what_is_missing_on_the_target_is_counted_with_its_age() -> None:
    """Over the partitions of each group; where one is not known the sum is not known."""

    async def test(made: Flow) -> None:
        async def answered() -> tuple[object, ...]:
            (listed,) = (await made.at.client.get("/v1/groups?group=zero")).json()["groups"]
            (full,) = (await made.at.client.get("/v1/groups/zero")).json()["reports"]
            (flow_,) = (await made.at.client.get("/v1/readiness")).json()["flows"]
            result = {(each["missing_records"], each["missing_since_ms"]) for each in (listed, full, flow_)}
            (same,) = result
            return (*same, *(part["missing_records"] for part in full["partitions"]))

        zero, one = TopicPartition("orders", 0), TopicPartition("orders", 1)
        assert await answered() == (None, None, None, None)
        made.snapshots.missing("g", 1, {zero: Missing(7, 1_795_000_000_000), one: Missing(0)})
        assert await answered() == (7, 1_795_000_000_000, 7, 0)
        lines = (await made.at.client.get("/v1/groups/zero/explain")).json()["lines"]
        message = "  At most 7 records of A were not on B then, appended since 2026-11-18T11:06:40.000+00:00."
        assert message in lines
        made.snapshots.missing("g", 1, {one: Missing(5, -1)})
        assert await answered() == (12, None, 7, 5)
        made.snapshots.missing("g", 1, {one: Missing()})
        assert await answered() == (None, None, 7, None)
        made.snapshots.missing("g", 1, {one: None})
        (full,) = (await made.at.client.get("/v1/groups/zero")).json()["reports"]
        assert full["missing_records"] is None
        made.snapshots.missing("g", 1, {zero: Missing(0), one: Missing(0)})
        assert await answered() == (0, None, 0, 0)
        made.snapshots.missing("g", 0, {zero: Missing(3, 1)})
        assert await answered() == (0, None, 0, 0), "an earlier instance"
        # What the copies are past counts too, of each partition once, and what is yet to be copied counts already.
        made.at.reports(lacking("zero", 70, 30), connector="g")
        made.at.reports(lacking("one", 20, 0), connector="g")
        assert await answered() == (40, None, 40, 0)
        made.at.reports(lacking("one", 50, 0), connector="g")
        (whole,) = (await made.at.client.get("/v1/readiness")).json()["flows"]
        assert whole["missing_records"] == 50
        made.at.reports(report("one", "g"), connector="g")
        assert await answered() == (40, None, 40, 0)
        made.snapshots.restarted()
        assert await answered() == (None, None, None, None)

    flow(test)


def beginning(group: str, *, lacks: int | None) -> GroupReport:
    """A report of a group that has committed nothing in `orders-2`."""
    part = NotBegunPartition(topic="orders", partition=2, not_on_target=lacks)
    return report(group, "g").model_copy(update={"not_begun": [part]})


def test_what_is_missing_where_a_group_has_committed_nothing_is_counted_and_named() -> None:
    """Once, with what is yet to be copied; another group may have begun there, and lack less."""

    async def test(made: Flow) -> None:
        async def answered() -> tuple[Any, ...]:
            (listed,) = (await made.at.client.get("/v1/groups?group=zero")).json()["groups"]
            (full,) = (await made.at.client.get("/v1/groups/zero")).json()["reports"]
            (flow_,) = (await made.at.client.get("/v1/readiness")).json()["flows"]
            (same,) = {(each["missing_records"], each["missing_since_ms"]) for each in (listed, full)}
            assert {listed["readiness"], full["readiness"], flow_["readiness"]} == {"ready"}
            named = [
                (each["partition"], each["not_on_target"], each["missing_records"])
                for each in full["not_begun"]
            ]
            lines = (await made.at.client.get("/v1/groups/zero/explain")).json()["lines"]
            return (*same, flow_["missing_records"], named, [line for line in lines if "orders-2" in line])

        zero, one, two = (TopicPartition("orders", number) for number in range(3))
        made.snapshots.missing("g", 1, {zero: Missing(0), one: Missing(0), two: Missing(0)})
        assert await answered() == (0, None, 0, [], [])
        made.at.reports(beginning("zero", lacks=100), connector="g")
        text = "orders-2: the group has committed nothing there; at most 100 of its records are not on B"
        assert await answered() == (
            100,
            None,
            100,
            [(2, 100, 100)],
            [f"{text}, which the copy is past."],
        )
        made.at.reports(beginning("one", lacks=70), connector="g")
        assert (await answered())[:3] == (100, None, 100)
        made.snapshots.missing("g", 1, {two: Missing(12, 1_795_000_000_000)})
        *counted, (line,) = await answered()
        assert counted == [112, None, 112, [(2, 100, 112)]]
        assert line.endswith(", 100 of which the copy is past.")
        made.at.reports(report("zero", "g"), report("one", "g"), connector="g")
        assert (await answered())[:4] == (12, 1_795_000_000_000, 12, [(2, 0, 12)])
        made.at.reports(beginning("zero", lacks=None), connector="g")
        *numbers, (line,) = await answered()
        assert numbers == [None, None, None, [(2, None, None)]]
        assert "how many of its records" in line

    flow(test)


# -- groups ----------------------------------------------------------------------------------------------------------


def test_a_connector_that_finds_no_group_is_not_ready() -> None:
    """A filter with a typing error must not be a yes."""

    async def test(made: Flow) -> None:
        made.at.service.snapshots.forget("g")
        made.round(2)
        whole = (await made.at.client.get("/v1/readiness")).json()
        assert whole["readiness"] == "cannot_tell"
        assert [each["reason"] for each in whole["flows"][0]["reasons"]] == ["no_groups"]

    flow(test)


@pytest.mark.parametrize("reason", ["target_ahead", "not_mirrored_yet", "target_topic_missing"])
def test_a_group_that_does_not_stand_on_the_target_is_not_ready(reason: str) -> None:
    async def test(made: Flow) -> None:
        made.at.reports(report("zero", "g", ready=False, reason=reason), connector="g")
        readiness, ((code, _),) = await made.answers()
        assert readiness == {"one": "ready", "zero": "not_ready"}
        assert code == reason

    flow(test)


def test_a_topic_without_a_copy_that_no_connector_copies_is_told_with_the_connector() -> None:
    async def test(made: Flow) -> None:
        made.copied(topic="payments")
        zero = report("zero", "g", ready=False, reason="target_topic_missing")
        made.at.reports(zero, connector="g")
        readiness, ((cause, text), (consequence, _)) = await made.answers()
        assert (readiness["zero"], cause, consequence) == (
            "not_ready",
            "copying_stopped",
            "target_topic_missing",
        )
        assert "connector s does not copy topic orders" in text
        made.copied(topic="orders")
        readiness, ((code, _),) = await made.answers()
        assert (readiness["zero"], code) == ("not_ready", "target_topic_missing")

    flow(test)


@pytest.mark.parametrize(
    "reason",
    ["source_not_authorized", "target_not_authorized", "group_state_unknown", "not_looked_at_yet"],
)
def test_a_group_that_could_not_be_looked_at_can_not_tell(reason: str) -> None:
    async def test(made: Flow) -> None:
        made.at.reports(report("zero", "g", ready=False, reason=reason), connector="g")
        readiness, ((code, _),) = await made.answers()
        assert readiness == {"one": "ready", "zero": "cannot_tell"}
        assert code == reason

    flow(test)


def test_a_group_that_nobody_has_moved_on_the_source_is_at_home() -> None:
    """Of a flow back: no alarm, whether its topics are copied or not, and nothing to move."""

    async def test(made: Flow) -> None:
        made.at.reports(report("zero", "g", ready=False, reason="at_home"), connector="g")
        made.copied(failure="there is no Spark")
        readiness, reasons = await made.answers()
        assert readiness == {"one": "not_ready", "zero": "home"}
        assert [code for code, _ in reasons] == ["at_home"]
        made.copied()
        whole = (await made.at.client.get("/v1/readiness")).json()
        assert (whole["readiness"], whole["flows"][0]["home"], whole["flows"][0]["reasons"]) == (
            "ready",
            1,
            [],
        )
        for path in ("/v1/failover/plan?flow=A-to-B", "/v1/failover/plan?flow=A-to-B&group=zero"):
            assert (await made.at.client.get(path)).json()["at_home"] == ["zero"]
        made.at.reports(
            *(report(name, "g", ready=False, reason="at_home") for name in ("zero", "one")), connector="g"
        )
        assert (await made.at.client.get("/v1/readiness")).json()["readiness"] == "home"
        made.round(away_since_ms={"source": 5}, **made.target_answers())
        readiness, _ = await made.answers()
        assert readiness == both("ready_as_of")

    flow(test)


# -- words -----------------------------------------------------------------------------------------------------------


def test_the_docs_name_every_answer() -> None:
    text = (Path(__file__).parents[4] / "docs" / "readiness.md").read_text("utf-8")
    for name in Readiness:
        assert f"`{name}`" in text, name


def test_a_copy_that_is_resumed_counts_once_it_copies_again() -> None:
    async def test(made: Flow) -> None:
        made.copied(copying_monotonic_ms=made.table.now_ms)
        assert await made.answers() == (both("ready"), [])
        made.at.clock.ms += 1_000
        made.table.stop_task("s", 0, session(1))
        made.table.stop_connector("s", session(1))
        made.at.clock.ms += 1_000
        made.at.service.expire()
        assert (await made.answers())[1][0][0] == "copying_stopped"
        made.table.start_task("s", 0, session(2), "source", 1, FLOW)
        readiness, ((code, text),) = await made.answers()
        assert (readiness, code) == (both("not_ready"), "copying_stopped")
        assert text.startswith("connector s was started")
        made.copied(copying_monotonic_ms=made.table.now_ms, errors=["a topic is refused"])
        assert await made.answers() == (both("ready"), [])

    flow(test)
