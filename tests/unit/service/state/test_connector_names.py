"""A connector's name where several Connect clusters share a service: the second never disturbs the first."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.errors import BridgeError, ErrorCode, NameTaken, NotFound
from bridge.service.state.connector_entry import HELD_MS
from bridge.service.state.task_table import NOT_KNOWN, ConnectCluster, Connector, TaskTable
from tests.unit.service.service_fakes import Clock, session

CONFIG: dict[str, str | None] = {"groups": ".*"}
OTHER: dict[str, str | None] = {"groups": "other"}
FIRST, SECOND = ConnectCluster("east"), ConnectCluster("west")


def table() -> tuple[TaskTable, Clock]:
    """One connector `c` of the first Connect cluster, with a task that is polled."""
    clock = Clock()
    known = TaskTable(clock)
    start(known, FIRST, 1)
    return known, clock


def start(known: TaskTable, group: ConnectCluster, at: int, config: dict[str, str | None] = CONFIG) -> None:
    known.start_connector("c", session(at), "fake", config, group)
    known.start_task("c", 0, session(at), "fake", 1, config, group)


def owner(known: TaskTable) -> Connector:
    return known.connector("c")


def refused(known: TaskTable, at: int = 9) -> ErrorCode:
    """The code with which each call of the second is refused; the first is as before."""
    before, desired = owner(known), known.desired()
    calls: list[Callable[[], object]] = [
        lambda: known.start_connector("c", session(at), "fake", OTHER, SECOND),
        lambda: known.start_task("c", 0, session(at), "fake", 1, OTHER, SECOND),
        lambda: known.start_task("c", 1, session(at), "fake", 2, OTHER, SECOND),
        lambda: known.stop_task("c", 0, session(at), SECOND),
        lambda: known.stop_connector("c", session(at), SECOND),
    ]
    codes = set()
    for call in calls:
        with pytest.raises(NameTaken) as caught:
            call()
        codes.add(caught.value.code)
    at_put = known.name_taken("c", SECOND)
    assert at_put is not None
    assert {"c", "east"} <= set(str(at_put).replace(",", " ").replace(".", " ").split())
    assert owner(known) is before
    assert known.desired() == desired
    (code,) = {*codes, at_put.code}
    return code


def test_a_name_that_another_connect_cluster_runs_is_refused() -> None:
    known, clock = table()
    for _ in range(900):
        clock.ms += 1_000
        known.poll("c", 0, session(1))
        known.expire()
    assert refused(known) is ErrorCode.NAME_TAKEN
    assert owner(known).active() == {0}
    assert not owner(known).stopped
    known.poll("c", 0, session(1))


@pytest.mark.parametrize("group", [FIRST, NOT_KNOWN], ids=["the same", "an older shim"])
def test_its_own_connect_cluster_updates_moves_and_makes_it_again(group: ConnectCluster) -> None:
    known, _ = table()
    assert known.name_taken("c", group) is None
    start(known, group, 2, OTHER)
    assert owner(known).config == OTHER
    known.stop_task("c", 0, session(2), group)
    known.stop_connector("c", session(2), group)
    start(known, group, 3)
    assert owner(known).config == CONFIG
    assert refused(known) is ErrorCode.NAME_TAKEN


def test_workers_of_one_group_id_on_two_kafka_clusters_are_two_connect_clusters() -> None:
    known, _ = table()
    start(known, ConnectCluster("east", "kafka-1"), 2)
    assert owner(known).runs_in == ("east", "kafka-1")
    for same in (ConnectCluster("east"), ConnectCluster(None, "kafka-1"), NOT_KNOWN):
        assert known.name_taken("c", same) is None
    for other in (ConnectCluster("east", "kafka-2"), ConnectCluster(None, "kafka-2")):
        refusal = known.name_taken("c", other)
        assert refusal is not None
        assert "east on Kafka cluster kafka-1" in str(refusal)


def test_nobody_is_refused_where_the_first_is_not_known() -> None:
    known, _ = table()
    known.start_task("d", 0, session(1), "fake", 1, CONFIG)
    assert known.name_taken("d", SECOND) is None
    assert known.name_taken("e", SECOND) is None
    known.start_task("d", 0, session(2), "fake", 1, OTHER, SECOND)
    assert known.connector("d").runs_in == SECOND


@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_the_name_is_held_for_ten_minutes_after_the_first_was_last_heard_of(how: str) -> None:
    """Workers that restart stop their connectors too: a second that waits for the name is not to have it then."""
    known, clock = table()
    if how == "stopped":
        known.stop_task("c", 0, session(1), FIRST)
        known.stop_connector("c", session(1), FIRST)
        assert refused(known) is ErrorCode.NAME_HELD
    clock.ms += 6_000
    known.expire()
    assert refused(known) is ErrorCode.NAME_HELD
    clock.ms += HELD_MS - 7_000
    assert refused(known) is ErrorCode.NAME_HELD
    clock.ms += 1_000
    known.expire()
    assert known.name_taken("c", SECOND) is None
    start(known, SECOND, 9, OTHER)
    assert owner(known).config == OTHER
    with pytest.raises(BridgeError):
        known.poll("c", 0, session(1))
    assert known.name_taken("c", FIRST) is not None


def test_the_first_is_back_in_time_and_keeps_its_name() -> None:
    known, clock = table()
    clock.ms += HELD_MS - 1
    known.expire()
    start(known, FIRST, 2)
    assert refused(known) is ErrorCode.NAME_TAKEN


def test_a_paused_first_that_says_so_keeps_its_name() -> None:
    known, clock = table()
    known.stop_connector("c", session(1), FIRST)
    for minute in range(30):
        known.idle("c", 0, session(1), 1_000 + 60_000 * minute)
        clock.ms += 60_000
        known.expire()
    assert refused(known) is ErrorCode.NAME_HELD
    known.poll("c", 0, session(1))
    assert refused(known) is ErrorCode.NAME_TAKEN


def test_an_operator_frees_the_name() -> None:
    known, clock = table()
    clock.ms += 30_000
    known.expire()
    assert refused(known) is ErrorCode.NAME_HELD
    known.forget("c")
    start(known, SECOND, 9)
    assert owner(known).runs_in == SECOND


def test_after_a_restart_of_the_service_the_older_one_has_the_name_whoever_comes_first() -> None:
    restarted = TaskTable(Clock())
    start(restarted, SECOND, 5, OTHER)
    restarted.start_task("c", 0, session(3), "fake", 1, CONFIG, FIRST)
    assert owner(restarted).config == CONFIG
    assert refused(restarted) is ErrorCode.NAME_TAKEN
    with pytest.raises(NotFound):  # so the shim asks for a session again, and is refused
        restarted.poll("c", 0, session(5))


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["connector", "task", "poll", "stop", "delete", "wait"]),
            st.integers(0, 1),
            st.integers(10, 20),
        ),
        max_size=30,
    )
)
def test_whatever_the_second_calls_the_first_runs_on(calls: list[tuple[str, int, int]]) -> None:
    known, clock = table()
    before = owner(known)
    for what, index, at in calls:
        if what == "wait":
            clock.ms += 900
        known.poll("c", 0, session(1))
        known.expire()
        try:
            if what == "connector":
                known.start_connector("c", session(at), "fake", OTHER, SECOND)
            elif what == "task":
                known.start_task("c", index, session(at), "fake", 2, OTHER, SECOND)
            elif what == "poll":
                known.poll("c", index, session(at))
            elif what == "stop":
                known.stop_connector("c", session(at), SECOND)
            elif what == "delete":
                known.stop_task("c", index, session(at), SECOND)
        except BridgeError:
            pass
        else:
            assert what == "wait"
    assert owner(known) is before
    assert before.active() == {0}
    assert before.config == CONFIG
    assert (before.stopped, before.task_count) == (False, 1)
