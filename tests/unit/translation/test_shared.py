"""Groups of two sources whose copies share a partition: small worlds, with the truth by counting all logs."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

from bridge.model.values import (
    Committed,
    Evidence,
    GroupState,
    Judgement,
    TopicPartition,
    Verdict,
)
from bridge.translation.plan import (
    OtherFlow,
    OwnCommit,
    PartitionPlan,
    TargetGroup,
    Translated,
    accepted,
    plan_group,
    together,
    told,
    with_standing,
)
from tests.support.forms import examples

HERE, THERE = TopicPartition("orders", 0), TopicPartition("merged", 0)


@dataclass
class Flow:
    """One source's log as numbers of records, where each stands on the target, and its group's flow."""

    name: str
    places: list[int]
    committed: int | None
    slack: int = 0
    """How much lower than the right offset the flow's translations are."""
    told: OtherFlow | None = None
    """What it has told last; None for that it has no such group."""
    begun: bool = False
    written: dict[TopicPartition, OwnCommit] = field(default_factory=dict)
    said: OwnCommit | None = None
    noted: OwnCommit | None = None
    """What others know of it, in the topic."""
    row: PartitionPlan | None = None

    def alone(self, end: int) -> Verdict:
        assert self.committed is not None
        right = self.places[self.committed] if self.committed < len(self.places) else end
        low = max(0, right - self.slack)
        bound = sum(low <= place < right for place in self.places)
        judgement = Judgement.BOUNDED if bound else Judgement.EXACT
        return Verdict(judgement, low, bound, Evidence.RUN, not_on_target=0)

    def restart(self) -> None:
        """What it has written in the readiness topic is all that it knows then."""
        self.said, self.written = self.noted, {}
        if self.ready and self.row is not None:
            self.written[THERE] = OwnCommit(self.row.committed.offset, self.row.verdict)

    def skipped(self, at: int) -> int:
        """Records that the group has still to read on the source and that lie before an offset on the target."""
        return 0 if self.committed is None else sum(place < at for place in self.places[self.committed :])

    def twice(self, at: int) -> int:
        return 0 if self.committed is None else sum(place >= at for place in self.places[: self.committed])

    @property
    def ready(self) -> bool:
        row = self.row
        return (
            row is not None
            and row.verdict.judgement is not Judgement.PENDING
            and row.standing == row.verdict.offset
        )


@dataclass
class World:
    flows: list[Flow]
    end: int
    rewind: bool
    standing: int | None = None

    def round(self, flow: Flow) -> None:
        """One round of one flow, as connectors.group_translation.commits has it."""
        flow.begun = True
        if flow.committed is None:
            flow.told = flow.row = None
            flow.written.clear()
            flow.said = None
            return
        alone = flow.alone(self.end)
        row = Translated(HERE, THERE, Committed(flow.committed), alone, alone=alone)
        there = {} if self.standing is None else {THERE: Committed(self.standing)}
        row = with_standing(row, there.get(THERE), (flow.written.get(THERE), flow.said))
        flow.said = told(row, flow.said)
        assert row.alone is not None
        flow.noted = OwnCommit(flow.committed, row.alone)
        assert row.alone is not None
        flow.told = OtherFlow(flow.name, row.alone.offset, row.alone.bound)
        others = [
            other.told if other.begun else OtherFlow(other.name, None, said="it has told nothing yet")
            for other in self.flows
            if other is not flow and (other.told is not None or not other.begun)
        ]
        row = together(row, [other for other in others if other is not None])
        group = TargetGroup(GroupState.EMPTY, "classic", there)
        (planned,) = plan_group("g", [row], group, flow.written, rewind=self.rewind).rows
        if planned.write is not None:
            assert self.rewind or self.standing is None or planned.write.offset > self.standing
            self.standing = planned.write.offset
            flow.written[THERE] = OwnCommit(flow.committed, planned.verdict)
            planned = planned._replace(standing=self.standing)
        elif (own := accepted(row, planned.verdict, planned.standing)) is not None:
            flow.written[THERE] = own
        flow.row = planned


def world(seed: int) -> World:
    by = random.Random(seed)
    count = by.choice((2, 2, 2, 3))
    places: list[list[int]] = [[] for _ in range(count)]
    end = by.randint(0, 14)
    for place in range(end):
        owner = by.randrange(count + 1)
        if owner < count:  # else a control record
            places[owner].append(place)
    flows = [
        Flow(
            "ABC"[number],
            some,
            None if by.random() < 0.15 else by.randint(0, len(some)),
            by.choice((0, 0, 1, 3)),
        )
        for number, some in enumerate(places)
    ]
    return World(flows, end, rewind=by.random() < 0.3)


def test_no_flow_is_ready_where_another_would_skip_and_none_waits_for_ever() -> None:
    answers, count = 0, examples(short=4_000, whole=100_000)
    for seed in range(count):
        by, tried = random.Random(-1 - seed), world(seed)
        set_back = False
        for _ in range(by.randint(2, 12)):
            flow = by.choice(tried.flows)
            if by.random() < 0.4 and flow.committed is not None:
                goal = by.randint(0, len(flow.places))
                if goal < flow.committed and by.random() < 0.7:
                    continue
                set_back |= goal < flow.committed
                flow.committed = goal
            elif by.random() < 0.1:
                flow.restart()
            else:
                flow.slack = by.choice((flow.slack, 0, 2))
                tried.round(flow)
            if not set_back:
                answers += check(tried, seed)
        for _ in range(3):
            for flow in tried.flows:
                tried.round(flow)
        answers += check(tried, seed, settled=True)
        if not set_back or tried.rewind:
            assert all(flow.ready for flow in tried.flows if flow.committed is not None), seed
    assert answers > count


def check(tried: World, seed: int, *, settled: bool = False) -> int:
    """Holds what flows say against all logs. `settled`: each has had a round since anything has moved."""
    ready = [flow for flow in tried.flows if flow.ready and flow.row is not None]
    for flow in ready:
        assert flow.row is not None
        at, bound = flow.row.standing, flow.row.verdict.bound
        if at != tried.standing:
            continue  # another flow has moved the group on since
        assert at is not None
        assert bound is not None
        assert not any(other.skipped(at) for other in tried.flows), (seed, flow)
        if settled:
            twice = sum(other.twice(at) for other in tried.flows)
            assert twice <= bound, (seed, flow)
            assert flow.row.verdict.judgement is not Judgement.EXACT or not twice, (seed, flow)
    return len(ready)


def test_what_was_right_is_so_no_more_beyond_the_end_of_the_log() -> None:
    """A replica leads there that lacks what came last."""
    alone = Verdict(Judgement.BOUNDED, 95, 5, Evidence.RUN, not_on_target=0)
    row = Translated(HERE, THERE, Committed(100), alone, alone=alone)
    own = OwnCommit(100, replace(alone, offset=100))
    for end, offset in ((None, 100), (100, 100), (99, 95)):
        kept = with_standing(row, Committed(100), [own], end).alone
        assert kept is not None
        assert kept.offset == offset
