"""Killed with SIGKILL, one after the other, while groups go on committing: service, worker, source, target.

Throughout: no task FAILED, no target offset moves back, none goes past what its group has committed. After each fault
every group is current again within two intervals of the thing being back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import pytest

from bridge.local import LocalStack
from tests.e2e.faults import PARTITIONS, RECORDS, Committers, Member, Watch, bounce, let_pass, no_traceback
from tests.e2e.ground import SHIFT, Ground
from tests.support import connector, eventually, unique

INTERVAL = 3
GROUPS = 6
AWAY_SECONDS = 30.0
"""How long the service is gone; the other things are as long away as their restart takes, and a little more."""


def _kill_service(ground: Ground, _: LocalStack) -> None:
    ground.process.kill()
    let_pass(AWAY_SECONDS)
    ground.process.start()


def _kill_worker(ground: Ground, _: LocalStack) -> None:
    ground.worker.kill()
    ground.worker.start()
    # Its tasks start when the group has noticed that the dead member does not come back.
    ground.worker.rest.wait_running(next(iter(ground.worker.rest.connectors())), tasks=2)


def _kill_source(ground: Ground, _: LocalStack) -> None:
    bounce(ground.source)


def _kill_target(ground: Ground, _: LocalStack) -> None:
    bounce(ground.target)


FAULTS: dict[str, Callable[[Ground, LocalStack], None]] = {
    "service": _kill_service,
    "worker": _kill_worker,
    "source": _kill_source,
    "target": _kill_target,
}


@pytest.mark.timeout(420)
def test_every_fault_heals_within_two_intervals(
    new_stack: Callable[..., LocalStack],
    record_property: Callable[[str, object], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    stack = new_stack()
    stack.start_clusters()
    ground = Ground(stack.source, stack.target, stack.worker(), stack.service())
    topic = ground.topic(RECORDS, partitions=PARTITIONS)
    mark = unique("fault")
    groups = [f"{mark}-{number}" for number in range(GROUPS)]
    config = ground.config(f"{mark}-.*", tasks_max=2, sync_group_offsets_interval_seconds=INTERVAL)
    committers = Committers(ground, topic, groups)
    healed: dict[str, float] = {}
    with connector(ground.worker, config, mark) as name, committers.running():
        there = {group: Member(ground.target.bootstrap, group, ground.remote(topic)) for group in groups}
        watch = Watch(ground, [name], committers, there)
        with watch.running():
            _current(ground, there, committers, 30.0, "at first")
            for what, fault in FAULTS.items():
                fault(ground, stack)
                healed[what] = _current(ground, there, committers, 60.0, f"after the {what} is back")
                assert not watch.wrong, f"{what}: {watch.wrong[:5]}"
            status = ground.service.status(name)
            assert (status["state"], status["errors"], status["failure"]) == ("running", [], None)
            assert [task["state"] for task in status["tasks"]] == ["active", "active"]
            committers.end()
            _current(ground, there, committers, 30.0, "at last")
            last = {group: [offset + SHIFT] * PARTITIONS for group, offset in committers.done().items()}
            assert {group: there[group].committed() for group in groups} == last
        assert not watch.wrong, watch.wrong[:5]
        assert watch.statuses > 100
        assert watch.readings > 1000
    for what, seconds in healed.items():
        record_property(f"seconds until current after {what}", round(seconds, 2))
    with capsys.disabled():
        told = ", ".join(f"{what} {seconds:.1f} s" for what, seconds in healed.items())
        print(f"\nevery group current again after: {told} (interval {INTERVAL} s)")
    late = {what: seconds for what, seconds in healed.items() if seconds > 2 * INTERVAL}
    assert not late, f"current again, but not within two intervals of {INTERVAL} s: {late}"
    no_traceback(ground.process.process.log)


def _current(
    ground: Ground, there: Mapping[str, Member], committers: Committers, timeout: float, what: str
) -> float:
    """Seconds until every group stands at or past what it had committed when we began."""
    began = time.monotonic()
    expected = committers.done()

    def caught_up() -> None:
        for group, offset in expected.items():
            stands = there[group].committed()
            assert min(stands) >= offset + SHIFT, (
                f"{group} stands at {stands}, committed {offset}; {ground.service.health()}"
            )

    eventually(caught_up, timeout, what=f"every group is current {what}", watched=ground.watched)
    return time.monotonic() - began
