"""Faults while groups commit: something is killed, hangs, is moved to another worker, or fenced. Half of the groups are
those of a group-offset connector, half those of a checkpoint connector, and there are heartbeats.

Throughout: no task FAILED, no group offset on the target moves back, none goes past what its group has committed, and
every checkpoint that anybody ever reads is exact. After each fault every checkpoint in the topic, every group and the
heartbeats are current again within two intervals of the thing being back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from bridge.local import Broker, Cluster, LocalStack
from tests.e2e.fault_scenario import INTERVAL, FaultScenario, Running, give_syncs
from tests.e2e.faults import (
    PARTITIONS,
    RECORDS,
    Task,
    bounce,
    let_pass,
    lines_of,
    no_traceback,
    spread_over,
)
from tests.e2e.flow import CLASS, Flow
from tests.support import eventually, unique
from tests.support.brokers import MORTAL
from tests.support.waits import WAIT

pytestmark = pytest.mark.long

AWAY_SECONDS = 30.0
"""How long the service is gone; what else is killed is as long away as its restart takes, and a little more."""
HANG_SECONDS = 10.0
"""Past the lease and the worker's session timeout."""
STOP_SECONDS = 30.0
"""In which a worker stops, and Connect answers, whatever the service does; on a busy machine too."""
BUSY = 45.0
"""Seconds that a busy machine may add to what is promised."""


@pytest.fixture(scope="module")
def scenario(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[FaultScenario]:
    if request.config.getoption("--kafka-source") or request.config.getoption("--kafka") == "testcontainers":
        pytest.skip("kills brokers, so it needs brokers from jars")
    with LocalStack(tmp_path_factory.mktemp("faults"), broker_properties=MORTAL) as stack:
        stack.start_clusters()
        worker = stack.worker("first", group_id=unique("faults"))
        flow = Flow(stack.source, stack.target, worker, stack.service())
        topic = flow.topic(RECORDS, partitions=PARTITIONS)
        give_syncs(flow, topic)
        yield FaultScenario(stack, flow, topic)


# -- one thing after the other -----------------------------------------------------------------------------------------


def _kill_service(running: Running) -> None:
    running.flow.process.kill()
    let_pass(AWAY_SECONDS)
    running.flow.process.start()


def _kill_worker(running: Running) -> None:
    running.flow.worker.kill()
    running.flow.worker.start()
    # Its tasks start when the group has noticed that the dead member does not come back.
    for name in running.names:
        running.flow.worker.rest.wait_running(name, tasks=None)


def _hang(broker: Cluster) -> None:
    assert isinstance(broker, Broker)
    broker.process.pause()
    try:
        let_pass(HANG_SECONDS)
    finally:
        broker.process.resume()


FAULTS: dict[str, Callable[[Running], None]] = {
    "kill of the service": _kill_service,
    "kill of the worker": _kill_worker,
    "kill of the source": lambda running: bounce(running.flow.source),
    "kill of the target": lambda running: bounce(running.flow.target),
    "hang of the source": lambda running: _hang(running.flow.source),
    "hang of the target": lambda running: _hang(running.flow.target),
}


def test_after_every_fault_all_is_current_within_two_intervals(
    scenario: FaultScenario,
    record_property: Callable[[str, object], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    healed: dict[str, float] = {}
    with scenario.running(tasks=2) as running:
        for what, fault in FAULTS.items():
            fault(running)
            healed[what] = running.current(f"after the {what}")
        running.settle()
        # One worker writes checkpoints in order, whatever dies.
        assert running.arrivals.back == 0
        assert running.watch.statuses > 100
        assert running.watch.readings > 1000
    for what, seconds in healed.items():
        record_property(f"seconds until current after {what}", round(seconds, 2))
    with capsys.disabled():
        line = ", ".join(f"{what} {seconds:.1f} s" for what, seconds in healed.items())
        print(f"\nall current again after: {line} (interval {INTERVAL} s)")
    late = {what: seconds for what, seconds in healed.items() if seconds > 2 * INTERVAL + BUSY}
    assert not late, f"later than two intervals of {INTERVAL} s: {late}"
    no_traceback(scenario.flow.process.process.log)


# -- two workers -------------------------------------------------------------------------------------------------------


def test_tasks_that_move_lose_no_checkpoint_and_a_zombie_is_fenced(scenario: FaultScenario) -> None:
    """A worker is killed, comes back, and then sleeps past its lease and its session. What it had been given goes to
    the task's new home; what it writes when it wakes up is older, and made good."""
    second, first = scenario.second(), scenario.flow.worker
    service, fenced = scenario.flow.service, "fenced by a newer session"
    with scenario.running(tasks=4) as running:
        names = running.grouped

        def sessions() -> dict[Task, str]:
            return {(name, task): each for name in names for task, each in service.sessions(name).items()}

        spread_over(first, names, 2)
        second.kill()
        spread_over(first, names, 1)
        running.current("after the kill of a worker, by the other one")
        second.start()
        homes, there = spread_over(first, names, 2), second.url.removeprefix("http://")
        running.current("after it came back")

        sleeping = [place for place, home in homes.items() if home == there]
        before = sessions()
        second.process.pause()
        try:
            eventually(
                lambda: all(service.task_states(name)[task] == "lapsed" for name, task in sleeping),
                WAIT,
                what="the sleeper's leases have run out",
            )
            spread_over(first, names, 1)
            running.current("while a worker sleeps")
            taken = sessions()
        finally:
            second.process.resume()
        for name in {name for name, _ in sleeping}:
            eventually(
                partial(lines_of, second, name, fenced),
                WAIT,
                what="the sleeper says that it is fenced",
            )
        # Awake, it is given tasks again, in new sessions; the old ones are never served.
        spread_over(first, names, 2)
        running.current("after it woke up")
        running.settle()
        after = sessions()
        assert sorted(after) == [(name, task) for name in sorted(names) for task in range(4)]
        assert all(taken[place] > before[place] for place in sleeping)
        assert all(after[place] >= taken[place] for place in after)
        # A move while it wakes up starts a task once more, and that one may be overtaken in its turn.
        for name, task in sleeping:
            lives = "\n".join(lines_of(second, f"{name}-{task}")).split("Creating task")
            assert all(life.count(fenced) <= 1 for life in lives), "a zombie says so once"


def test_a_worker_stops_in_time_while_the_service_hangs(
    scenario: FaultScenario, record_property: Callable[[str, object], None]
) -> None:
    second, service = scenario.second(), scenario.flow.process
    rest = scenario.flow.worker.rest
    with scenario.running(tasks=4) as running:
        spread_over(scenario.flow.worker, running.grouped, 2)
        service.process.pause()
        try:
            began = time.monotonic()
            second.stop()
            took = time.monotonic() - began
            # The REST API of the one that is left is not held up either.
            began = time.monotonic()
            assert rest.validation_errors(CLASS, {**scenario.flow.config("x"), "name": "x"}) == {}
            validated = time.monotonic() - began
        finally:
            service.process.resume()
        record_property("seconds to stop a worker while the service hangs", round(took, 2))
        assert second.process.exit_status in (0, 143), "it ended by itself"
        assert took < STOP_SECONDS, f"the worker took {took:.1f} s to stop"
        assert validated < STOP_SECONDS, f"Connect took {validated:.1f} s to validate"

        def active(name: str) -> bool:
            return running.flow.service.task_states(name) == ["active"] * 4

        for name in running.grouped:
            eventually(
                partial(active, name),
                WAIT,
                what=f"all tasks of {name} are served again, by the other worker",
                watched=running.flow.watched,
            )
        running.current("after the service woke up")
        running.settle()
