"""Connectors of several source aliases that claim one target topic at once, in many orders of reads and writes."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import cast

import pytest

from bridge.kafka.network.client import NetworkClient
from bridge.kafka.producer.producer import TransactionalProducer
from bridge.model.copying import Copied, PipelineSpec
from bridge.model.values import LogRecord, TopicPartition
from bridge.pipeline import claiming, elsewhere
from bridge.pipeline.claims import CopyTaken, claims
from bridge.pipeline.layout_records import LayoutTopic, read_claims, read_layouts
from tests.unit.pipeline.values import spec

ALIASES = ("A", "B", "C")


class Topics:
    """The layout topics of a cluster. Each read and write takes a while, as long as chance has it."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._logs: dict[str, list[LogRecord]] = {layout(alias): [] for alias in ALIASES}

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

    async def read(target: Topics, name: str) -> list[LogRecord]:
        return await target.read(name)

    async def read_layout(target: Topics, spec: PipelineSpec) -> LayoutTopic:
        return read_layouts(await target.read(spec.layout_topic), spec)

    monkeypatch.setattr(elsewhere, "read_committed", read)
    monkeypatch.setattr(elsewhere, "LOOK_SECONDS", 0)
    monkeypatch.setattr(claiming, "layout_topic", read_layout)


async def start(topics: Topics, connector: PipelineSpec, *partitions: Copied) -> str | None:
    """The refusal of a connector that starts; None where it may copy."""
    target = cast(NetworkClient, topics)
    known = read_layouts(await topics.read(connector.layout_topic), connector)
    try:
        ours, texts = await claiming.claim(
            connector, target, target, cast(TransactionalProducer, topics), known, partitions
        )
    except CopyTaken as refused:
        return str(refused)
    assert len(ours) == len(partitions), texts
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

    assert {asyncio.run(once(seed)) for seed in range(100)} == set(aliases), "each of them may be the first"


@pytest.mark.usefixtures("reads")
def test_of_two_with_one_alias_exactly_one_copies() -> None:
    async def once(seed: int) -> None:
        topics = Topics(seed)
        names = ("one", "two")
        refusals = await asyncio.gather(*(start(topics, of("A", name), copied()) for name in names))
        winners = [name for name, refusal in zip(names, refusals, strict=True) if refusal is None]
        assert (len(winners), topics.settled()) == (1, winners), (seed, refusals)

    for seed in range(50):
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
        assert "connector dead copies another source to merged already" in refusal
        assert (topics.settled(), topics.claims()) == ([], 1)

    monkeypatch.setattr(elsewhere, "DECIDED_SECONDS", 0.05)
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
