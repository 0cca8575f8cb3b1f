"""The proof behind a verdict, held against both logs for groups at every offset of random worlds: pure, thus many.

What look-ups find (what another mirror has left) is told here as it is; tests of rounds have it found by look-ups.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import pytest

from bridge.model.copying import Copied
from bridge.model.values import Bounds, Judgement, TopicPartition, Verdict
from bridge.translation.records.log_window import LogBounds
from bridge.translation.records.other_mirror import AnotherMirror, Extent
from bridge.translation.records.partition_cache import Anchor
from bridge.translation.runs.partition_runs import PartitionRuns
from bridge.translation.runs.run_evidence import ConsistentRuns
from bridge.translation.runs.runs import Segment
from connectors.group_translation.translating.pairs import BothSides, PairIdentity, PairMemory, TargetOnly
from connectors.group_translation.translating.proof import KnownPair, uncovered
from tests.support.forms import examples

ORIGINAL = TopicPartition("orders", 0)
AWAY = Verdict(Judgement.PENDING)
WORLDS = examples(25_000, 400_000)


@dataclass
class World:
    """A topic of one partition, its copy, and our mirror between them; `originals`: by offset on B, that on A."""

    start: int = 0
    end: int = 0
    copy_start: int = 0
    copy_end: int = 0
    made: int = 1
    position: int = 0
    reached: int = 0
    another_position: int = 0
    originals: dict[int, int] = field(default_factory=dict)
    by_another: set[int] = field(default_factory=set)
    runs: PartitionRuns = field(default_factory=PartitionRuns)

    def produce(self, random: Random) -> None:
        self.end += random.randint(1, 20)

    def copy(self, random: Random) -> None:
        begin = max(self.position, self.start)
        count = min(random.randint(1, 20), self.end - begin)
        if count <= 0:
            return
        segment = Segment(begin, begin, self.copy_end, count)
        for offset in range(begin, begin + count):
            self._send(offset)
        self.copy_end += 1  # the marker
        self.commit(begin + count, [segment])

    def another_copies(self, random: Random) -> None:
        begin = max(self.another_position, self.start)
        for offset in range(begin, min(self.end, begin + random.randint(1, 8))):
            self.by_another.add(self.copy_end)
            self._send(offset)
            self.another_position = offset + 1

    def others_send(self, random: Random) -> None:
        self.copy_end += random.randint(1, 3)

    def skip(self, random: Random) -> None:
        """An operator has copying go on further on."""
        position = random.randint(self.position, max(self.position, self.end))
        self.runs.reset(position, self.copy_end)
        self._move_to(position)

    def delete_copy(self, random: Random) -> None:
        """The copy is made anew, and copying goes on where it was, or begins again."""
        self.made += 1
        self.copy_start = self.copy_end = 0
        self.originals, self.by_another = {}, set()
        self.commit(self.start if random.random() < 0.5 else self.position, [])

    def expire_on_source(self, random: Random) -> None:
        self.start = random.randint(self.start, max(self.start, self.position))

    def expire_on_target(self, random: Random) -> None:
        self.copy_start = random.randint(self.copy_start, self.copy_end)

    def _send(self, offset: int) -> None:
        self.originals[self.copy_end] = offset
        self.copy_end += 1

    def commit(self, position: int, segments: list[Segment]) -> None:
        self.runs.commit(segments, position, Copied(ORIGINAL, "a", "A.orders", f"b{self.made}"))
        self._move_to(position)

    def _move_to(self, position: int) -> None:
        self.position, self.reached = position, max(self.reached, position)

    # -- what is known of it, and what is so -------------------------------------------------------------------------

    def known(self) -> KnownPair:
        ledger = ConsistentRuns(self.runs.runs)
        identity = PairIdentity("a", 1, f"b{self.made}", 1)
        state = BothSides(
            identity, Bounds(self.start, self.end), Bounds(self.copy_start, self.copy_end), False
        )
        memory = PairMemory(identity, source_start=self.start, another=self._another(ledger))
        for origin, goal in uncovered(ledger, 0, state):
            memory.extents[origin, goal] = self._extent(origin, goal)
        return KnownPair(state, memory, ledger, {}, ledger.position, source_away=False)

    def _extent(self, origin: LogBounds, goal: LogBounds) -> Extent:
        held = [
            original
            for place, original in self.originals.items()
            if goal.start <= place < goal.end and origin.start <= original < origin.end
        ]
        return Extent(min(held), max(held) + 1) if held else Extent(origin.end, origin.end)

    def _another(self, ledger: ConsistentRuns) -> AnotherMirror:
        readable = [(place, self.originals[place]) for place in self.by_another if place >= self.copy_start]
        known = [(place, original) for place, original in readable if original >= self.start]
        ours = {original for _, original in known if ledger.held(original) is not None}
        alone = [Anchor(original, place) for place, original in known if original not in ours]
        twice = [Anchor(original, place) for place, original in known if original in ours]
        return AnotherMirror(
            max(twice, key=lambda anchor: anchor.downstream, default=None),
            max(alone, key=lambda anchor: anchor.downstream, default=None),
        )

    def read_at(self, offset: int, *, ours_alone: bool = False) -> list[int]:
        """What of A's records that it still has a reader from an offset of B on reads, in order."""
        begin = max(offset, self.copy_start)
        return [
            original
            for place, original in self.originals.items()
            if place >= begin and original >= self.start and not (ours_alone and place in self.by_another)
        ]


EVENTS = (
    World.produce,
    World.copy,
    World.copy,
    World.others_send,
    World.skip,
    World.delete_copy,
    World.expire_on_source,
    World.expire_on_target,
    World.another_copies,
)


def worlds(seed: int) -> World:
    random, world = Random(seed), World()
    world.commit(0, [])
    for _ in range(10):
        random.choice(EVENTS)(world, random)
    return world


@pytest.mark.parametrize("part", range(8))
def test_what_is_missing_is_counted_and_exact_is_exact(part: int) -> None:
    for seed in range(part, WORLDS, 8):
        world = worlds(seed)
        known = world.known()
        for offset in range(max(0, world.start - 1), world.end + 1):
            assert_proved(world, known, offset, seed)


def assert_proved(world: World, known: KnownPair, offset: int, seed: int) -> None:
    assert known.ledger is not None
    assert isinstance(known.state, BothSides)
    logs = LogBounds(world.copy_start, world.copy_end), LogBounds(world.start, world.end)
    verdict = known.ledger.translate(offset, known.state.identity.target_id, logs[0], "a", logs[1])
    if verdict is None or verdict.offset is None:
        return
    proved = known.prove(offset, verdict)
    together = known.proved_from
    if together is not None and offset >= together.source and verdict.offset >= together.target:
        assert (proved, proved.not_on_target) == (verdict, 0), (seed, offset)
    read = world.read_at(verdict.offset)
    unread = set(range(max(offset, world.start), min(world.reached, world.end)))
    lost, again = unread - set(read), len(read) - len({original for original in read if original >= offset})
    where = (seed, offset, proved)
    if proved.not_on_target is None:  # no yes; only where another mirror goes on in what ours left out
        assert known.memory is not None
        assert known.memory.another.alone is not None, where
    else:
        assert len(lost) <= proved.not_on_target, where
        # What ours has lost, and another mirror has copied beside it, counts as lost: runs know of ours alone.
        all_there = unread <= set(world.read_at(verdict.offset, ours_alone=True))
        if all_there and world.copy_start < world.copy_end:
            assert proved.not_on_target == 0, where
        assert proved.bound is not None, where
        assert again <= proved.bound, where
        assert proved.bound or proved.judgement is Judgement.EXACT, where


@pytest.mark.parametrize("part", range(2))
def test_without_the_source_nothing_is_said_that_its_target_denies(part: int) -> None:
    """The source is away; the target loses more meanwhile."""
    for seed in range(part, WORLDS // 4, 2):
        world = worlds(seed)
        before = world.known()
        assert before.ledger is not None
        world.expire_on_target(Random(seed))
        target = f"b{world.made}"
        state = TargetOnly(target, Bounds(world.copy_start, world.copy_end), AWAY)
        known = KnownPair(state, before.memory, before.ledger, {}, None, source_away=True)
        whole = not before.ledger.stretches
        together = known.proved_from
        for offset in range(world.start, world.end + 1):
            bounds = LogBounds(world.copy_start, world.copy_end)
            verdict = before.ledger.translate(offset, target, bounds)
            if verdict is None or verdict.offset is None:
                continue
            proved = known.prove(offset, verdict)
            if together is not None and offset >= together.source and verdict.offset >= together.target:
                assert (proved, proved.not_on_target) == (verdict, 0), (seed, offset)
            lost = set(range(offset, world.position)) - set(world.read_at(verdict.offset))
            if whole and proved.not_on_target is not None:
                assert len(lost) <= proved.not_on_target, (seed, offset, proved)
