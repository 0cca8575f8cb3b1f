"""Connectors of several source aliases that claim one target topic at once, in many orders of reads and writes."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, cast

import pytest

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.network.client import NetworkClient
from bridge.kafka.producer.producer import TransactionalProducer
from bridge.model.copy_owners import OtherCopy
from bridge.model.copying import Copied, PipelineSpec
from bridge.model.values import LogRecord, TopicPartition
from bridge.pipeline.layouts import ownership
from bridge.pipeline.layouts.ownership import CopyTaken, claims
from bridge.pipeline.layouts.records import (
    LayoutRecord,
    LayoutTopic,
    layout_key,
    read_claims,
    read_layouts,
)
from tests.support.forms import examples
from tests.support.messages import message_pattern
from tests.unit.pipeline.values import spec

ALIASES = ("A", "B", "C")


class Topics:
    """The layout topics of a cluster. Each read and write takes a while, as long as chance has it."""

    def __init__(self, seed: int, aliases: Sequence[str] = ALIASES) -> None:
        self._random = random.Random(seed)
        self._logs: dict[str, list[LogRecord]] = {layout(alias): [] for alias in aliases}

    async def pause(self) -> None:
        for _ in range(self._random.choice((0, 0, 1, 2, 5, 20))):
            await asyncio.sleep(0)

    async def read(self, name: str) -> list[LogRecord]:
        await self.pause()
        records = list(self._logs[name])
        await self.pause()
        return records

    async def write(self, topic: str, records: Sequence[tuple[bytes, bytes | None]]) -> None:
        await self.pause()
        log = self._logs[topic]
        log += [LogRecord(len(log) + number, 0, *each) for number, each in enumerate(records)]
        await self.pause()

    async def topic_names(self) -> Collection[str]:
        return self._logs.keys()

    def settled(self) -> list[str]:
        """The connectors that may copy."""
        return [
            claim.connector
            for records in self._logs.values()
            for held in read_claims(records).values()
            for claim in held
            if claim.settled
        ]

    def claims(self) -> int:
        return sum(len(held) for records in self._logs.values() for held in read_claims(records).values())


def layout(alias: str) -> str:
    return f"mm2-layout.{alias}.internal"


def of(alias: str, name: str = "") -> PipelineSpec:
    return spec(name=name or f"from-{alias}", source_alias=alias, layout_topic=layout(alias))


def copied() -> Copied:
    return Copied(TopicPartition("t", 0), "source-id", "merged", "target-id")


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads go to the fake cluster."""

    async def read(target: Topics, name: str) -> tuple[list[LogRecord], list[LogRecord]]:
        return await target.read(name), []

    async def read_layout(target: Topics, spec: PipelineSpec) -> LayoutTopic:
        return read_layouts(await target.read(spec.layout_topic), spec)

    monkeypatch.setattr(ownership, "read_beside_open", read)
    monkeypatch.setattr(ownership, "LOOK_SECONDS", 0)
    monkeypatch.setattr(ownership, "layout_topic", read_layout)


async def start(
    topics: Topics, connector: PipelineSpec, *partitions: Copied, source: Topics | None = None
) -> str | None:
    """The refusal of a connector that starts; None where it may copy. `topics`: those of its target."""
    target = cast(NetworkClient, topics)
    known = read_layouts(await topics.read(connector.layout_topic), connector)
    try:
        claimed = await ownership.claim(
            connector,
            cast(NetworkClient, source or topics),
            target,
            cast(TransactionalProducer, topics),
            known,
            partitions,
        )
    except CopyTaken as refused:
        return str(refused)
    assert len(claimed.partitions) == len(partitions), claimed
    return None


@pytest.mark.usefixtures("reads")
@pytest.mark.parametrize("aliases", [("A", "B"), ("B", "A"), ("A", "B", "C"), ("C", "B", "A")])
def test_of_those_that_start_at_once_exactly_one_copies(aliases: Sequence[str]) -> None:
    async def once(seed: int) -> str:
        topics = Topics(seed)
        refusals = await asyncio.gather(*(start(topics, of(alias), copied()) for alias in aliases))
        winners = [alias for alias, refusal in zip(aliases, refusals, strict=True) if refusal is None]
        assert len(winners) == 1, (seed, refusals)
        assert topics.settled() == [f"from-{winners[0]}"], seed
        assert topics.claims() == 1, (seed, "the others have withdrawn")
        return winners[0]

    first = {asyncio.run(once(seed)) for seed in range(examples(40, 100))}
    assert first == set(aliases), "each of them may be the first"


@pytest.mark.usefixtures("reads")
def test_of_two_with_one_alias_exactly_one_copies() -> None:
    async def once(seed: int) -> None:
        topics = Topics(seed)
        names = ("one", "two")
        refusals = await asyncio.gather(*(start(topics, of("A", name), copied()) for name in names))
        winners = [name for name, refusal in zip(names, refusals, strict=True) if refusal is None]
        assert (len(winners), topics.settled()) == (1, winners), (seed, refusals)

    for seed in range(examples(20, 50)):
        asyncio.run(once(seed))


@pytest.mark.usefixtures("reads")
def test_one_that_died_before_its_claim_was_settled_goes_on_with_it() -> None:
    async def test() -> None:
        topics = Topics(1)
        await topics.write(layout("B"), claims([("t", "merged")], "from-B", settled=False))
        assert await start(topics, of("B"), copied()) is None
        assert topics.settled() == ["from-B"]

    asyncio.run(test())


@pytest.mark.usefixtures("reads")
@pytest.mark.parametrize(("alias", "dead"), [*pairwise(ALIASES), ("C", "A")])
def test_the_claim_of_one_that_died_is_waited_for_and_then_counts(
    alias: str, dead: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        topics = Topics(1)
        await topics.write(layout(dead), claims([("t", "merged")], "dead", settled=False))
        refusal = await start(topics, of(alias), copied())
        assert refusal is not None
        assert re.match(message_pattern("owners.mixed", owner="dead", copies="merged"), refusal)
        assert (topics.settled(), topics.claims()) == ([], 1)

    monkeypatch.setattr(ownership, "DECIDED_SECONDS", 0.05)
    asyncio.run(test())


@pytest.mark.usefixtures("reads")
def test_a_claim_that_is_settled_counts_before_all_others() -> None:
    async def test() -> None:
        topics = Topics(1)
        await topics.write(layout("C"), claims([("t", "merged")], "from-C"))
        refusal = await start(topics, of("A"), copied())
        assert refusal is not None
        assert "its claim is in mm2-layout.C.internal" in refusal
        assert topics.settled() == ["from-C"]

    asyncio.run(test())


@pytest.mark.usefixtures("reads")
@pytest.mark.parametrize("since", [0, 1])
def test_what_cannot_be_read_elsewhere_holds_up_new_copies_alone(
    monkeypatch: pytest.MonkeyPatch, since: int
) -> None:
    """`since`: the read of C's layout topic from which on it has no leader."""
    looks = 0

    async def read(target: Topics, name: str) -> tuple[list[LogRecord], list[LogRecord]]:
        nonlocal looks
        if name == layout("C"):
            looks += 1
            if looks > since:
                raise KafkaFailure(KafkaFault.LEADER_MOVED, "no leader")
        return await target.read(name), []

    async def test() -> None:
        topics = Topics(1)
        await topics.write(layout("A"), claims([("t", "merged")], "from-A"))
        known = read_layouts(await topics.read(layout("A")), of("A"))
        cluster: Any = topics
        new = Copied(TopicPartition("new", 0), "source-id", "A.new", "target-id")
        claimed = await ownership.claim(of("A"), cluster, cluster, cluster, known, [copied(), new])
        assert [each.source.topic for each in claimed.partitions] == ["t"]
        assert claimed.unread == {
            ("new", "A.new"): OtherCopy("", "", layout("C"), unread="no leader"),
        }
        assert not claimed.refusals
        assert (topics.settled(), topics.claims()) == (["from-A"], 1), "it claims nothing else"

    monkeypatch.setattr(ownership, "read_beside_open", read)
    asyncio.run(test())


@pytest.mark.usefixtures("reads")
def test_one_that_owns_nothing_yet_waits_until_all_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    async def read(*_: object) -> tuple[list[LogRecord], list[LogRecord]]:
        raise KafkaFailure(KafkaFault.LEADER_MOVED, "no leader")

    monkeypatch.setattr(ownership, "read_beside_open", read)
    with pytest.raises(KafkaFailure, match="no leader"):
        asyncio.run(start(Topics(1), of("A"), copied()))


def opposite_of(alias: str, other: str) -> PipelineSpec:
    """A connector from this alias to the other one, which keeps the names of topics (LegacyReplicationPolicy)."""
    return replace(of(alias), opposite_layouts=layout(other))


SAME = Copied(TopicPartition("t", 0), "source-id", "t", "target-id")


@pytest.mark.usefixtures("reads")
def test_what_has_begun_goes_on_while_the_opposite_layouts_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before, the connector copied nothing any more once its driver was started again."""

    async def test() -> None:
        a, b = Topics(1, ["B"]), Topics(2, ["A"])
        spec = opposite_of("A", "B")

        async def read(target: Topics, name: str) -> tuple[list[LogRecord], list[LogRecord]]:
            if target is a:
                raise KafkaFailure(KafkaFault.LEADER_MOVED, "no leader")
            return await target.read(name), []

        await b.write(layout("A"), claims([("t", "t")], spec.name))
        known = read_layouts(await b.read(layout("A")), spec)
        monkeypatch.setattr(ownership, "read_beside_open", read)
        source, target = cast("Any", a), cast("Any", b)
        new = Copied(TopicPartition("new", 0), "source-id", "new", "target-id")
        claimed = await ownership.claim(spec, source, target, target, known, [SAME, new])
        assert [each.source.topic for each in claimed.partitions] == ["t"]
        assert claimed.unread == {("new", "new"): OtherCopy("", "", layout("B"), unread="no leader")}
        assert (b.settled(), b.claims()) == ([spec.name], 1), "it claims nothing else"
        with pytest.raises(KafkaFailure, match="no leader"):
            await ownership.claim(replace(spec, name="another"), source, target, target, known, [new])

    asyncio.run(test())


@pytest.mark.usefixtures("reads")
@pytest.mark.parametrize("known", [False, True])
def test_of_two_opposite_ones_that_start_at_once_exactly_one_copies(known: bool) -> None:
    """Before, each saw the other's claim, and both were refused. `known`: one has stopped in good order before."""

    async def once(seed: int) -> str:
        a, b = Topics(seed, ["B"]), Topics(seed + 1_000, ["A"])
        if known:
            stopped = LayoutRecord(3, 1, stop=True).value()
            await b.write(layout("A"), [(layout_key(of("A")), stopped)])
        refusals = await asyncio.gather(
            start(b, opposite_of("A", "B"), SAME, source=a), start(a, opposite_of("B", "A"), SAME, source=b)
        )
        winners = [alias for alias, refusal in zip("AB", refusals, strict=True) if refusal is None]
        assert len(winners) == 1, (seed, refusals)
        assert [*a.settled(), *b.settled()] == [f"from-{winners[0]}"], seed
        assert a.claims() + b.claims() == 1, (seed, "the other one has withdrawn")
        return winners[0]

    first = {asyncio.run(once(seed)) for seed in range(examples(60, 200))}
    assert first == {"A", "B"}, "each of them may be the first"


@pytest.mark.usefixtures("reads")
@pytest.mark.parametrize(("alias", "dead"), [("A", "B"), ("B", "A")])
def test_an_opposite_claim_of_one_that_died_is_waited_for_and_then_counts(
    alias: str, dead: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        source, target = Topics(1, [dead]), Topics(2, [alias])
        await source.write(layout(dead), claims([("t", "t")], "dead", settled=False))
        refusal = await start(target, opposite_of(alias, dead), SAME, source=source)
        assert refusal is not None
        assert re.match(message_pattern("owners.opposite", owner="dead", copies="t to t"), refusal)
        assert (target.settled(), target.claims(), source.claims()) == ([], 0, 1)

    monkeypatch.setattr(ownership, "DECIDED_SECONDS", 0.05)
    asyncio.run(test())


@pytest.mark.usefixtures("reads")
@pytest.mark.parametrize("stopped", [False, True])
def test_one_that_owns_its_copies_waits_for_an_opposite_claim_only_where_it_had_stopped(
    stopped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever made the claim may not know yet that this one starts again: then both would copy. A runner it sees."""

    async def test() -> str | None:
        source, target = Topics(1, ["B"]), Topics(2, ["A"])
        await target.write(layout("A"), claims([("t", "t")], "from-A"))
        value = LayoutRecord(3, 1, stop=stopped).value()
        await target.write(layout("A"), [(layout_key(of("A")), value)])
        await source.write(layout("B"), claims([("t", "t")], "from-B", settled=False))
        return await start(target, opposite_of("A", "B"), SAME, source=source)

    monkeypatch.setattr(ownership, "DECIDED_SECONDS", 0.05)
    refusal = asyncio.run(test())
    assert ("opposite direction" in (refusal or "")) is stopped


class Flow:
    """One of two opposite connectors as its supervisor runs it: claims, makes a layout, copies until it is stopped."""

    def __init__(self, alias: str, other: str, target: Topics, source: Topics, copying: set[str]) -> None:
        self._spec = opposite_of(alias, other)
        self._target, self._source = target, source
        self._copying = copying
        self._layout = LayoutRecord(0, 0)
        self.refusals: list[str] = []

    @property
    def copies(self) -> bool:
        return self._spec.name in self._copying

    async def start(self) -> bool:
        """Whether it copies now."""
        refusal = await start(self._target, self._spec, SAME, source=self._source)
        if refusal is not None:
            self.refusals.append(refusal)
            await self._end()
            return False
        self._layout = LayoutRecord(self._layout.layout + 1, 1)
        await self._write()
        assert not self._copying, "the other one copies"
        self._copying.add(self._spec.name)
        return True

    async def stop(self) -> None:
        self.die()
        await self._end()

    def die(self) -> None:
        """It copies nothing then, and nobody can know."""
        self._copying.discard(self._spec.name)

    async def _end(self) -> None:
        self._layout = self._layout._replace(stop=True)
        await self._write()
        self._layout = self._layout._replace(stop=False)

    async def _write(self) -> None:
        await self._target.write(self._spec.layout_topic, [(layout_key(self._spec), self._layout.value())])


def flows(seed: int) -> tuple[Flow, Flow]:
    """A to B, and B to A."""
    a, b = Topics(seed, ["B"]), Topics(seed + 1_000, ["A"])
    copying: set[str] = set()
    return Flow("A", "B", b, a, copying), Flow("B", "A", a, b, copying)


@pytest.mark.usefixtures("reads")
@pytest.mark.parametrize("settled", ["first", "second", "both"])
def test_of_one_that_starts_again_and_an_opposite_one_exactly_one_copies(settled: str) -> None:
    """One that owned its copies already looked, and wrote nothing before it copied: the other one, that claimed at that
    moment, could not see that it was about to begin."""

    async def once(seed: int) -> int:
        both = flows(seed)
        for flow in {"first": both[:1], "second": both[1:], "both": both}[settled]:
            assert await flow.start()
            await flow.stop()
        copy = await asyncio.gather(*(flow.start() for flow in both))
        assert sum(copy) == 1, (seed, [flow.refusals for flow in both])
        winner, loser = both if copy[0] else both[::-1]
        assert not await loser.start(), (seed, "as long as the other one copies")
        await winner.stop()
        assert await loser.start(), (seed, loser.refusals)
        return copy.index(True)

    first = {asyncio.run(once(seed)) for seed in range(examples(60, 200))}
    assert first == {0, 1}, "each of them may be the first"


@pytest.mark.usefixtures("reads")
def test_two_opposite_ones_that_start_stop_and_die_never_copy_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def life(flow: Flow, chance: random.Random) -> None:
        for _ in range(12):
            starting = asyncio.create_task(flow.start())
            if chance.random() < 0.3:  # its process dies somewhere on the way
                for _ in range(chance.randrange(120)):
                    await asyncio.sleep(0)
                starting.cancel()
            await asyncio.wait({starting})
            assert starting.cancelled() or starting.exception() is None, starting
            for _ in range(chance.randrange(60)):
                await asyncio.sleep(0)
            if flow.copies and chance.random() < 0.8:
                await flow.stop()
            flow.die()

    async def once(seed: int) -> int:
        there, back = flows(seed)
        chance = random.Random(seed)
        await asyncio.gather(life(there, chance), life(back, chance))
        # Whatever either has left: each is started and stopped once more, and then the other one may copy.
        for one, other in ((there, back), (back, there)):
            await one.start()
            await one.stop()
            await other.start()
            await other.stop()
        assert await there.start(), (seed, there.refusals)
        assert not await back.start()
        return len(there.refusals) + len(back.refusals)

    monkeypatch.setattr(ownership, "DECIDED_SECONDS", 0.01)
    assert all(asyncio.run(once(seed)) for seed in range(examples(20, 60))), "refusals were tried"
