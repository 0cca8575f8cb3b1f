"""Random histories of outages: no group is ever said to be ready when it is not, and all are again when it is over."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

import pytest

from bridge.model.values import GroupListing, GroupState
from bridge.protocol.messages import GroupReport, PartitionReport
from bridge.service.answers.readiness import COPY_SILENT_MS
from bridge.service.state.connector_entry import LEASE_MS
from bridge.service.state.snapshots import RoundsState
from tests.support.forms import mostly_long
from tests.unit.service.drill_clusters import PARTITIONS, between
from tests.unit.service.drill_world import GROUPS, INTERVAL, World
from tests.unit.virtual_time import VirtualLoop, run_virtual

HISTORIES = int(os.environ.get("MIRROR_BRIDGE_DRILLS", "16"))
FEW = 3
"""Of them, which are not long."""
SECONDS = 240.0
CALM = 30.0
"""Seconds after the last trouble in which an answer other than yes is no mistake."""
SOON = 10.0
"""Seconds in which a trouble is seen, unless docs/readiness.md promises another time."""
PAUSED = 3.0
LAPSED = LEASE_MS / 1000 + 2
STUCK = COPY_SILENT_MS / 1000 + 2

Step = Callable[[World], None]


class Trouble(NamedTuple):
    """`seen`: seconds in which no group is ready any more; None: that follows from the offsets."""

    name: str
    begin: Step
    end: Step
    seen: float | None

    @property
    def thing(self) -> str:
        """What it happens to."""
        return self.name.split()[0]


def _leave(which: str, state: str) -> Step:
    def leave(world: World) -> None:
        getattr(world, which).leave(state, world.table if world.serving else None)

    return leave


def _resume(which: str) -> Step:
    def resume(world: World) -> None:
        connect = getattr(world, which)
        connect.alive = True
        if connect.state != "running":
            connect.resume(world.table)

    return resume


def _kill(which: str) -> Step:
    return lambda world: setattr(getattr(world, which), "alive", False)


def _engine(state: RoundsState) -> Step:
    def change(world: World) -> None:
        world.rounds = state
        world.restarting = asyncio.ensure_future(world.restart_rounds())

    return change


def _serving(*, serving: bool) -> Step:
    def change(world: World) -> None:
        if serving:
            world.start_service()
        world.serving = serving

    return change


def _members(state: GroupState) -> Step:
    def change(world: World) -> None:
        for group in GROUPS:
            world.mirrored.b.listed[group] = GroupListing(group, state, "classic", "consumer")

    return change


def _clock(seconds: float) -> Step:
    def change(world: World) -> None:
        world.loop.skew += seconds
        world.clock_set = True

    return change


def _throttle(pause: float) -> Step:
    return lambda world: setattr(world, "copy_pause", pause)


def _nothing(world: World) -> None:
    pass


TROUBLES = (
    Trouble("groups paused", _leave("groups_connect", "paused"), _resume("groups_connect"), PAUSED),
    Trouble("groups stopped", _leave("groups_connect", "stopped"), _resume("groups_connect"), PAUSED),
    Trouble("groups worker killed", _kill("groups_connect"), _resume("groups_connect"), LAPSED),
    Trouble("copy paused", _leave("copy_connect", "paused"), _resume("copy_connect"), PAUSED),
    Trouble("copy stopped", _leave("copy_connect", "stopped"), _resume("copy_connect"), PAUSED),
    Trouble("copy worker killed", _kill("copy_connect"), _resume("copy_connect"), LAPSED),
    Trouble(
        "copy stuck",
        lambda world: setattr(world, "copying", False),
        lambda world: setattr(world, "copying", True),
        STUCK,
    ),
    Trouble(
        "A killed", lambda world: world.mirrored.a.die(), lambda world: world.mirrored.a.come_back(), SOON
    ),
    Trouble(
        "A hangs", lambda world: world.mirrored.a.hang(), lambda world: world.mirrored.a.come_back(), SOON
    ),
    Trouble(
        "B killed", lambda world: world.mirrored.b.die(), lambda world: world.mirrored.b.come_back(), SOON
    ),
    Trouble(
        "B hangs", lambda world: world.mirrored.b.hang(), lambda world: world.mirrored.b.come_back(), SOON
    ),
    Trouble("rounds process down", _engine(RoundsState.RESTARTING), _engine(RoundsState.RUNNING), 0.0),
    Trouble("service killed", _serving(serving=False), _serving(serving=True), 0.0),
    Trouble("copy throttled", _throttle(60.0), _throttle(0.0), None),
    # It says that it copies, and copies nothing.
    Trouble("copy hung", _throttle(SECONDS), _throttle(0.0), None),
    Trouble("topic deleted on B", lambda world: world.mirrored.delete_copy(world.now), _nothing, None),
    Trouble("offsets deleted on B", lambda world: world.mirrored.delete_offsets(world.now), _nothing, None),
    Trouble("group active on B", _members(GroupState.STABLE), _members(GroupState.EMPTY), SOON),
    Trouble("clock an hour on", _clock(3600), _clock(-3600), None),
    Trouble("clock an hour back", _clock(-3600), _clock(3600), None),
    Trouble("clock 12 s back", _clock(-12), _clock(12), None),
)


@dataclass
class Looks:
    """What was read each second, held against the truth."""

    world: World
    began: dict[str, tuple[float, float | None]] = field(default_factory=dict)
    """Troubles that last: since when, and in which time they have to be seen."""
    calm_since: float = 0.0
    looked_since: float = 0.0
    """Since when both clusters are well, and the connector of the groups and the rounds process run."""
    calm: int = 0
    not_yet: int = 0
    """Looks after CALM that were no yes."""
    log: list[str] = field(default_factory=list)

    def look(self) -> None:
        world, result = self.world, self.world.groups()
        connect = world.groups_connect
        runs = connect.alive and connect.state == "running" and world.rounds is RoundsState.RUNNING
        if not (runs and world.mirrored.a.well and world.mirrored.b.well):
            self.looked_since = world.now
        for group, report in result.items():
            if report.readiness == "ready":
                self._check(group, report, world.now - SOON, world.now)
                late = [
                    name
                    for name, (since, seen) in self.began.items()
                    if seen is not None and self._lasts(name, since, seen) > seen
                ]
                assert not late, self.failure(f"{group} is ready with {late}", report)
                assert not self._nothing_copied(), self.failure(
                    f"{group} is ready, nothing is copied", report
                )
            elif report.readiness == "ready_as_of":
                away = min(self.began.get(name, (world.now, None))[0] for name in ("B killed", "B hangs"))
                assert world.now - away <= SOON, self.failure(f"{group} was ready, and B is away", report)
                if not world.clock_set and report.as_of_ms is not None:
                    at = world.virtual(report.as_of_ms)
                    self._check(group, report, at - SOON, at + SOON)
        if not self.began and world.serving and world.now - self.calm_since > CALM:
            self.calm += len(GROUPS)
            bad = [group for group in GROUPS if group not in result or result[group].readiness != "ready"]
            self.not_yet += len(bad)
            for group in bad:
                self.log.append(f"{world.now:.0f} {group} is not ready: {result.get(group)}")

    def _lasts(self, name: str, since: float, seen: float) -> float:
        """How long it could be seen. A service that was started since, or has had no report of the copy since, sees by
        its looks alone that nobody copies, where offset runs say what is missing; the first look comes within an
        interval."""
        world = self.world
        reported = world.copy_reported or not name.startswith("copy")
        if world.served_since < since and reported:
            return world.now - since
        looked = max(world.served_since, self.looked_since)
        return world.now - (looked + INTERVAL + STUCK - seen) if world.mirrored.runs else 0.0

    def _nothing_copied(self) -> bool:
        """Whether records wait to be copied for so long that it has to be seen, by offset runs."""
        world = self.world
        waiting = [world.mirrored.waiting_since(number) for number in range(PARTITIONS)]
        looked = max(world.served_since, self.looked_since)
        return world.mirrored.runs and any(
            since is not None and world.now - max(since, looked) > STUCK + SOON for since in waiting
        )

    def _check(self, group: str, report: GroupReport, since: float, until: float) -> None:
        """The group resumes where the answer says, as it was committed on the source at a time in between."""
        if self.world.now - self.world.mirrored.deleted_at <= SOON:
            return
        seen = {part.partition for part in report.partitions}
        known = {
            number
            for (name, number), places in self.world.mirrored.committed.items()
            if name == group and places[0].at < since
        }
        assert known <= seen, self.failure(f"{group} has partitions without an answer", report)
        missing = 0
        for part in report.partitions:
            self._resumes(group, report, part, since, until)
            ends = between(self.world.mirrored.ends[part.partition], since, until)
            copied = max(between(self.world.mirrored.copies[part.partition], since, until))
            missing += max(0, min(ends, default=0) - copied)
        if report.missing_records is not None:
            assert report.missing_records >= missing, self.failure(
                f"{missing} records of {group} are missing", report
            )

    def _resumes(
        self, group: str, report: GroupReport, part: PartitionReport, since: float, until: float
    ) -> None:
        world = self.world.mirrored
        resumes = world.resumes_at(group, part.partition)
        assert resumes is not None, self.failure(f"{group} has no offset on B", report)
        assert part.bound is not None, self.failure(f"how much {group} reads again is not known", report)
        offsets = between(world.committed[group, part.partition], since, until)
        again = [offset - resumes for offset in offsets]
        assert any(0 <= records <= part.bound for records in again), self.failure(
            f"{group}-{part.partition} resumes at {resumes}, committed were {offsets}, bound {part.bound}",
            report,
        )

    def failure(self, what: str, report: GroupReport) -> str:
        history = "\n".join(self.log)
        return f"at {self.world.now:.1f}: {what}\n{history}\n{report.model_dump_json()}"


class Drill(NamedTuple):
    """A trouble from one second to another."""

    begin: float
    end: float
    trouble: Trouble


def drawn(random: Random) -> list[Drill]:
    """Troubles at random; two of one thing at a time there are never."""
    collected: list[Drill] = []
    at = random.uniform(20, 60)
    while at < SECONDS - 80:
        trouble, lasts = random.choice(TROUBLES), random.choice([2, 8, 20, 45])
        under_way = {each.trouble.thing for each in collected if each.end >= at}
        if trouble.thing not in under_way:
            collected.append(Drill(at, at + lasts, trouble))
        at += random.choice([3, 10, 45])
    return collected


async def _history(world: World, looks: Looks, drills: list[Drill]) -> None:
    running = [asyncio.ensure_future(each) for each in (world.host(), world.traffic(), world.copy())]
    steps = sorted(
        [(each.begin, True, each.trouble) for each in drills]
        + [(each.end, False, each.trouble) for each in drills],
        key=lambda step: step[0],
    )
    try:
        while world.now < min(SECONDS, max(each.end for each in drills) + 2 * CALM):
            await asyncio.sleep(1.0)
            while steps and steps[0][0] <= world.now:
                _, begins, trouble = steps.pop(0)
                if begins:
                    trouble.begin(world)
                    looks.began[trouble.name] = world.now, trouble.seen
                else:
                    trouble.end(world)
                    del looks.began[trouble.name]
                    looks.calm_since = world.now
                looks.log.append(f"{world.now:.0f} {trouble.name}{'' if begins else ' is over'}")
            looks.look()
            for each in running:
                assert not each.done(), each.exception()
    finally:
        for each in running:
            each.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await world.end_rounds()


def played(random: Random, drills: list[Drill], *, runs: bool) -> Looks:
    """Plays them, and holds every look against the truth. `runs`: whether the mirror leaves offset runs."""
    loop = VirtualLoop()
    world = World(loop, random, runs=runs)
    looks = Looks(world)
    run_virtual(_history(world, looks, drills), loop)
    return looks


@pytest.mark.parametrize("seed", mostly_long(range(HISTORIES), FEW))
def test_no_history_makes_a_false_yes(seed: int) -> None:
    random = Random(seed)
    looks = played(random, drawn(random), runs=seed % 4 != 3)
    assert looks.calm > 0
    assert looks.not_yet <= 0.02 * looks.calm, "\n".join(looks.log)


@pytest.mark.parametrize(
    "drills",
    [
        ["40 service killed 45", "42 copy paused 120"],
        ["40 A hangs 60", "50 groups stopped 95"],
        ["40 A killed 120", "46 topic deleted on B 48"],
        ["40 copy stuck 130", "43 clock an hour back 140"],
        ["40 service killed 90", "45 A killed 150"],
        ["40 service killed 90", "45 B killed 150"],
        ["32 A killed 34", "35 A hangs 80", "38 topic deleted on B 46"],
        ["141 B hangs 161", "144 topic deleted on B 146", "147 groups stopped 192", "150 A killed 235"],
        ["40 A hangs 100", "44 clock 12 s back 130"],
        ["40 service killed 45", "42 copy paused 130", "60 clock 12 s back 150"],
        ["40 copy throttled 150"],
        ["40 copy hung 150"],
        ["40 A killed 150", "50 B hangs 100"],
    ],
)
def test_no_history_that_made_one_once_makes_it_again(drills: list[str]) -> None:
    looks = played(Random(7), planned(drills), runs=True)
    assert looks.not_yet <= 0.02 * looks.calm, "\n".join(looks.log)


@pytest.mark.parametrize(
    "drills",
    [
        ["40 A killed 120", "46 offsets deleted on B 48"],
        ["40 A killed 120", "46 topic deleted on B 48"],
        ["40 A killed 120", "46 group active on B 110"],
        ["32 A killed 34", "35 A hangs 80", "38 topic deleted on B 46"],
    ],
)
def test_nor_does_one_of_a_mirror_without_offset_runs(drills: list[str]) -> None:
    looks = played(Random(7), planned(drills), runs=False)
    assert looks.not_yet <= 0.02 * looks.calm, "\n".join(looks.log)


def planned(drills: list[str]) -> list[Drill]:
    named = {trouble.name: trouble for trouble in TROUBLES}
    plan = []
    for drill in drills:
        begin, _, rest = drill.partition(" ")
        name, _, end = rest.rpartition(" ")
        plan.append(Drill(float(begin), float(end), named[name]))
    return plan
