"""The laws of the task table, for any order of arrival, on a clock of our own."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.errors import BodyRejected, BridgeError, Fenced, NotFound, Overloaded
from bridge.service.state import task_table as tasks_module
from bridge.service.state.connector_entry import lease_of
from bridge.service.state.task_table import FORGET_MS, IDLE_CLOSE_MS, TaskTable
from tests.unit.service.service_fakes import Clock, session

CONFIG: dict[str, str | None] = {"groups": ".*"}


def table() -> tuple[TaskTable, Clock]:
    clock = Clock()
    return TaskTable(clock), clock


def active(known: TaskTable, name: str = "c") -> set[int]:
    return set(known.connector(name).active())


@given(st.permutations([(at, f"config-{at}", at) for at in range(1, 6)]))
def test_the_greatest_session_rules_in_any_order(calls: list[tuple[int, str, int]]) -> None:
    known, _ = table()
    for at, config, count in calls:
        try:
            known.start_task("c", 0, session(at), "fake", count, {"groups": config})
        except Fenced:
            assert any(earlier[0] > at for earlier in calls[: calls.index((at, config, count))])
    connector = known.connector("c")
    assert connector.tasks[0].session == session(5)
    assert connector.config == {"groups": "config-5"}
    assert connector.task_count == 5
    for at in range(1, 5):
        with pytest.raises(Fenced, match="was fenced by"):
            known.poll("c", 0, session(at))
    known.poll("c", 0, session(5))


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["connector", "stop", "task", "delete", "poll", "wait", "expire"]),
            st.integers(0, 2),
            st.integers(1, 6),
            st.sampled_from(["x", "y"]),
        ),
        max_size=40,
    )
)
def test_laws_hold_after_any_calls(calls: list[tuple[str, int, int, str]]) -> None:
    known, clock = table()
    greatest: dict[int, int] = {}
    configs: dict[int, str] = {}
    for what, index, at, config in calls:
        config = configs.get(at, config)  # one session has one configuration
        desired, version = known.desired(), known.version
        try:
            if what == "connector":
                known.start_connector("c", session(at), "fake", {"groups": config})
                configs[at] = config
            elif what == "stop":
                known.stop_connector("c", session(at))
            elif what == "task":
                known.start_task("c", index, session(at), "fake", 3, {"groups": config})
                configs[at] = config
            elif what == "delete":
                known.stop_task("c", index, session(at))
            elif what == "poll":
                known.poll("c", index, session(at))
            elif what == "wait":
                clock.ms += 11_000
            else:
                known.expire()
        except BridgeError:
            assert known.desired() == desired
            continue
        if known.desired() != desired:
            assert known.version != version or what == "wait"
        if what in ("task", "delete"):
            assert at >= greatest.get(index, 0)
            greatest[index] = at
        connector = known.get("c")
        if connector is not None:
            assert {i: t.session for i, t in connector.tasks.items()} == {
                i: session(at) for i, at in greatest.items()
            }
            brought = max(configs)
            assert connector.config_session == session(brought)
            assert connector.config == {"groups": configs[brought]}
            for task in connector.tasks.values():
                assert not (task.active and task.stopped)


def test_calls_are_idempotent() -> None:
    known, _ = table()
    known.start_connector("c", session(1), "fake", CONFIG)
    known.start_task("c", 0, session(2), "fake", 1, CONFIG)
    desired = known.desired()
    assert known.start_task("c", 0, session(2), "fake", 1, CONFIG) is False
    known.start_connector("c", session(1), "fake", CONFIG)
    assert known.desired() == desired


def test_a_task_that_does_not_poll_for_its_lease_is_stopped_and_comes_back_with_a_poll() -> None:
    known, clock = table()
    known.start_task("c", 0, session(1), "fake", 2, CONFIG)
    known.start_task("c", 1, session(1), "fake", 2, CONFIG)
    clock.ms += 29_000
    known.poll("c", 1, session(1))
    assert known.expire() == []
    clock.ms += 1_000
    assert [(lapsed.name, lapsed.task) for lapsed in known.expire()] == [("c", 0)]
    assert active(known) == {1}
    generation = known.connector("c").generation
    known.poll("c", 0, session(1))
    assert active(known) == {0, 1}
    assert known.connector("c").generation == generation


@pytest.mark.parametrize(
    ("text", "lease"),
    [("5000", 5000), ("1", 2000), ("", 30_000), ("soon", 30_000), (None, 30_000), ("9" * 5000, 30_000)],
)
def test_lease_is_the_config_key_within_bounds(text: str | None, lease: int) -> None:
    assert lease_of({"bridge.task.lease.ms": text}) == lease


def test_a_stop_of_the_connector_ends_no_task_and_deletes_nothing() -> None:
    known, clock = table()
    known.start_connector("c", session(1), "fake", CONFIG)
    known.start_task("c", 0, session(2), "fake", 1, CONFIG)
    known.stop_connector("c", session(1))
    assert active(known) == {0}
    clock.ms += 30_000
    known.expire()
    assert active(known) == set()
    assert known.connector("c").config == CONFIG
    with pytest.raises(Fenced):
        known.stop_connector("c", session(0))


def test_a_stopped_session_stays_stopped() -> None:
    known, _ = table()
    known.start_task("c", 0, session(1), "fake", 1, CONFIG)
    known.stop_task("c", 0, session(1))
    known.stop_task("c", 0, session(1))
    with pytest.raises(Fenced, match="was stopped"):
        known.poll("c", 0, session(1))
    with pytest.raises(Fenced, match="was stopped"):
        known.start_task("c", 0, session(1), "fake", 1, CONFIG)
    assert known.start_task("c", 0, session(2), "fake", 1, CONFIG) is True


def test_unknown_names_say_which_is_unknown() -> None:
    known, _ = table()
    with pytest.raises(NotFound) as error:
        known.poll("c", 0, session(1))
    assert error.value.code == "unknown_connector"
    known.start_connector("c", session(1), "fake", CONFIG)
    with pytest.raises(NotFound) as error:
        known.poll("c", 0, session(1))
    assert error.value.code == "unknown_task"
    known.start_task("c", 0, session(1), "fake", 1, CONFIG)
    with pytest.raises(NotFound) as error:  # a session that the service has not met registers first
        known.poll("c", 0, session(2))
    assert error.value.code == "unknown_task"


def test_the_newest_configuration_rules_whoever_brings_it() -> None:
    orders = permutations(["connector", "old task", "new task"])
    for order in orders:
        known, _ = table()
        for what in order:
            if what == "connector":
                known.start_connector("c", session(2), "fake", {"groups": "connector"})
            elif what == "old task":
                known.start_task("c", 0, session(1), "fake", 2, {"groups": "old"})
            else:
                known.start_task("c", 1, session(3), "fake", 2, {"groups": "new"})
        assert known.connector("c").config == {"groups": "new"}


def test_keys_that_differ_by_task_make_no_new_instance() -> None:
    known, _ = table()
    known.start_connector("c", session(1), "fake", {**CONFIG, "tasks.max": None})
    generation = known.connector("c").generation
    known.start_task("c", 0, session(2), "fake", 1, {**CONFIG, "task.class": "x"})
    assert known.connector("c").generation == generation
    known.start_task("c", 0, session(3), "other", 1, CONFIG)
    assert known.connector("c").generation > generation


def test_task_count_is_that_of_the_newest_session_and_tasks_beyond_it_are_fenced() -> None:
    known, _ = table()
    for index in range(4):
        known.start_task("c", index, session(1), "fake", 4, CONFIG)
    known.start_task("c", 0, session(2), "fake", 2, CONFIG)
    (desired,) = known.desired()
    assert desired.assignment.task_count == 2
    assert desired.assignment.active == {0, 1}
    with pytest.raises(Fenced, match="2 tasks now"):
        known.poll("c", 3, session(1))
    with pytest.raises(Fenced, match="2 tasks now"):
        known.start_task("c", 3, session(1), "fake", 4, CONFIG)
    known.start_task("c", 2, session(3), "fake", 3, CONFIG)
    assert known.desired()[0].assignment.task_count == 3
    with pytest.raises(BodyRejected):
        known.start_task("c", 3, session(4), "fake", 3, CONFIG)


def test_an_idle_instance_is_closed_after_a_while_and_forgotten_after_a_day() -> None:
    known, clock = table()
    known.start_task("c", 0, session(1), "fake", 1, CONFIG)
    clock.ms += 30_000
    known.expire()
    assert [desired.assignment.active for desired in known.desired()] == [frozenset()]
    clock.ms += IDLE_CLOSE_MS
    known.expire()
    assert known.desired() == ()
    assert known.get("c") is not None
    clock.ms += FORGET_MS
    assert [(lapsed.name, lapsed.task) for lapsed in known.expire()] == [("c", None)]
    assert list(known) == []


def test_there_is_an_end_to_the_number_of_connectors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks_module, "MOST_CONNECTORS", 2)
    known, _ = table()
    known.start_connector("a", session(1), "fake", CONFIG)
    known.start_connector("b", session(1), "fake", CONFIG)
    known.start_connector("b", session(2), "fake", CONFIG)
    with pytest.raises(Overloaded):
        known.start_connector("c", session(1), "fake", CONFIG)
