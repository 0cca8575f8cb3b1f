"""Epochs of a stream are on the target once, whoever dies at which step, and however a replay splits its rows.

The driver's part is the real one; the cluster is a model of what coordinators do. A history is random: epochs,
attempts, splits, a process that dies before or after a request has taken effect, and transactions whose time is up
before the epoch is decided.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from random import Random

import pytest

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.protocol.produce_requests import DescribedTransaction, ProducerIdAndEpoch
from bridge.spark.rejected import SourceRejected
from bridge.spark.writing import epochs
from bridge.spark.writing.commits import Decision, Prepared, decided
from bridge.spark.writing.epochs import abort_epoch, commit_epoch, last_decision
from bridge.spark.writing.options import PartialEpoch, SinkOptions
from tests.support.forms import examples
from tests.support.messages import message_pattern

QUERY = "query"
HISTORIES = examples(4_000, 100_000)


class Dies(Exception):
    """The process is gone."""


@dataclass
class Id:
    """A transactional id at its coordinator."""

    holder: ProducerIdAndEpoch
    state: str = "Empty"
    rows: list[int] = field(default_factory=list)


class Cluster:
    def __init__(self, dice: Random, deaths: float, slow: float = 0.0) -> None:
        """`deaths`: how likely a process dies before or after a request; `slow`: an epoch takes longer than a
        transaction may."""
        self.dice, self.deaths, self.slow = dice, deaths, slow
        self.ids: dict[str, Id] = {}
        self.log: list[tuple[bytes, bytes]] = []
        """Of the commits topic."""
        self.rows = Counter[int]()
        """What readers of committed records see."""

    def step(self) -> None:
        if self.dice.random() < self.deaths:
            raise Dies

    def init(self, name: str) -> ProducerIdAndEpoch:
        self.step()
        last = self.ids.get(name)
        epoch = 0 if last is None else last.holder.epoch + 1
        self.ids[name] = Id(ProducerIdAndEpoch(hash(name) & 0xFFFF, epoch))
        self.step()
        return self.ids[name].holder

    def end(self, name: str, holder: ProducerIdAndEpoch, *, commit: bool) -> None:
        self.step()
        one = self.ids[name]
        if one.holder != holder:
            raise KafkaFailure(KafkaFault.FENCED, "end", retriable=False)
        if one.state == "Ongoing":
            if commit:
                self.rows.update(one.rows)
            one.state, one.rows = ("CompleteCommit" if commit else "CompleteAbort"), []
        self.step()

    def time_out(self, name: str) -> None:
        one = self.ids[name]
        if one.state == "Ongoing":
            holder = one.holder._replace(epoch=one.holder.epoch + 1)
            self.ids[name] = Id(holder, "CompleteAbort")

    async def nodes(self) -> list[int]:
        return []

    async def metadata(self, topics: list[str]) -> dict[str, object]:
        return {}

    async def close(self) -> None:
        pass


class Coordinator:
    def __init__(self, client: Cluster, transactional_id: str) -> None:
        self._cluster, self.transactional_id = client, transactional_id
        self.last_committed = False

    async def init(self, *_: object) -> ProducerIdAndEpoch:
        last = self._cluster.ids.get(self.transactional_id)
        self.last_committed = last is not None and last.state == "CompleteCommit"
        return self._cluster.init(self.transactional_id)

    async def describe(self, within: float) -> DescribedTransaction:
        self._cluster.step()
        one = self._cluster.ids[self.transactional_id]
        return DescribedTransaction(0, one.state, 0, one.holder)

    async def end(self, holder: ProducerIdAndEpoch, within: float, *, commit: bool) -> None:
        self._cluster.end(self.transactional_id, holder, commit=commit)


class Producer:
    """Of decisions."""

    def __init__(self, cluster: Cluster, transactional_id: str) -> None:
        self._cluster, self._id, self._holder = cluster, transactional_id, ProducerIdAndEpoch()

    async def start(self) -> None:
        self._holder = self._cluster.init(self._id)

    async def write(self, topic: str, records: list[tuple[bytes, bytes]]) -> None:
        self._cluster.step()
        if self._cluster.ids[self._id].holder != self._holder:
            raise KafkaFailure(KafkaFault.FENCED, "write", retriable=False)
        self._cluster.log += records
        self._cluster.step()

    async def close(self) -> None:
        pass


@pytest.fixture
def enter(monkeypatch: pytest.MonkeyPatch) -> Callable[[Cluster], None]:
    """Has drivers and tasks find this cluster from now on."""
    clusters: list[Cluster] = []

    async def ensure(*_: object) -> None:
        pass

    async def find_decision(cluster: Cluster, topic: str, query: str) -> Decision | None:
        cluster.step()
        return decided(cluster.log, query)

    monkeypatch.setattr(epochs, "network_client", lambda _: clusters[-1])
    monkeypatch.setattr(epochs, "Coordinator", Coordinator)
    monkeypatch.setattr(epochs, "TransactionalProducer", lambda _, name: Producer(clusters[-1], name))
    monkeypatch.setattr(epochs, "ensure", ensure)
    monkeypatch.setattr(epochs, "find_decision", find_decision)
    return clusters.append


OPTIONS = SinkOptions({"bootstrap.servers": "127.0.0.1:1", "delivery.timeout.ms": "1000"})


async def send(cluster: Cluster, epoch: int, partition: int, rows: list[int]) -> Prepared | None:
    """A task: see tasks.write_epoch_task."""
    if not rows:
        return None
    last = await last_decision(cluster, OPTIONS, QUERY)  # type: ignore[arg-type]
    if last is not None and last.epoch == epoch:
        return None
    name = OPTIONS.transactional_id(QUERY, partition)
    holder = cluster.init(name)
    cluster.ids[name] = Id(holder, "Ongoing", list(rows))
    cluster.step()
    return Prepared(partition, *holder)


async def attempt(cluster: Cluster, epoch: int, rows: list[int], options: SinkOptions = OPTIONS) -> None:
    """One run of an epoch, which splits its rows as it likes."""
    count = cluster.dice.randint(1, 4)
    split: list[list[int]] = [[] for _ in range(count)]
    for row in rows:
        split[cluster.dice.randrange(count)].append(row)
    prepared = []
    for partition in cluster.dice.sample(range(count), count):
        for _ in range(cluster.dice.choice((1, 1, 2))):  # a task that is run twice
            sent = await send(cluster, epoch, partition, split[partition])
        if sent is not None:
            prepared.append(sent)
    if prepared and cluster.dice.random() < cluster.slow:
        late = cluster.dice.choice(prepared)
        cluster.time_out(options.transactional_id(QUERY, late.partition))
    await commit_epoch(options, QUERY, epoch, prepared)


async def until_written(cluster: Cluster, epoch: int, rows: list[int]) -> None:
    """Starts the query again until the epoch is done: it has died, or has taken too long."""
    for _ in range(1000):
        try:
            await attempt(cluster, epoch, rows)
            return
        except (Dies, SourceRejected):
            with suppress(Dies):
                if cluster.dice.random() < 0.5:  # Spark does that where the driver lives
                    await abort_epoch(OPTIONS, QUERY, epoch)
    raise AssertionError("the epoch is never done")


async def history(cluster: Cluster) -> None:
    for epoch in range(cluster.dice.randint(1, 4)):
        rows = [epoch * 100 + number for number in range(cluster.dice.randint(0, 6))]
        await until_written(cluster, epoch, rows)
        assert Counter(rows) == {row: count for row, count in cluster.rows.items() if row >= epoch * 100}
    assert set(cluster.rows.values()) <= {1}


def test_every_row_is_there_once(enter: Callable[[Cluster], None]) -> None:
    async def histories() -> None:
        for seed in range(HISTORIES):
            dice = Random(seed)
            cluster = Cluster(dice, dice.choice((0.0, 0.01, 0.03)), dice.choice((0.0, 0.1)))
            enter(cluster)
            try:
                await history(cluster)
            except AssertionError as error:
                raise AssertionError(f"history {seed}") from error

    asyncio.run(histories())


@pytest.mark.parametrize("skip", [False, True])
def test_what_was_aborted_after_the_decision_is_named(enter: Callable[[Cluster], None], skip: bool) -> None:
    """Its time was up before the driver, or the next one, has come to commit it."""
    cluster = Cluster(Random(1), 0.0)
    enter(cluster)

    async def play() -> None:
        prepared = [await send(cluster, 0, partition, [partition]) for partition in range(3)]
        sent = [task for task in prepared if task is not None]
        cluster.log.append(Decision(QUERY, 0, tuple(sent)).packed)
        cluster.time_out(OPTIONS.transactional_id(QUERY, 1))
        options = replace(OPTIONS, partial_epoch=PartialEpoch.SKIP) if skip else OPTIONS
        await commit_epoch(options, QUERY, 0, [])

    with (
        nullcontext()
        if skip
        else pytest.raises(SourceRejected, match=r"Spark partition\(s\) 1: .*partialEpoch=skip")
    ):
        asyncio.run(play())
    assert cluster.rows == {0: 1, 2: 1}


def test_an_epoch_that_took_too_long_is_not_written(enter: Callable[[Cluster], None]) -> None:
    cluster = Cluster(Random(1), 0.0)
    enter(cluster)

    async def play() -> None:
        prepared = [await send(cluster, 0, partition, [partition]) for partition in range(2)]
        cluster.time_out(OPTIONS.transactional_id(QUERY, 1))
        with pytest.raises(SourceRejected, match=r"kafka\.transaction\.timeout\.ms .*nothing .*was written"):
            await commit_epoch(OPTIONS, QUERY, 0, [task for task in prepared if task is not None])
        assert not cluster.log
        await until_written(cluster, 0, [0, 1])

    asyncio.run(play())
    assert cluster.rows == {0: 1, 1: 1}


def test_an_older_checkpoint_is_an_error(enter: Callable[[Cluster], None]) -> None:
    cluster = Cluster(Random(1), 0.0)
    enter(cluster)

    async def play() -> None:
        for epoch in (0, 1):
            await until_written(cluster, epoch, [epoch])
        with pytest.raises(
            SourceRejected, match=message_pattern("spark.epoch_over", query=QUERY, written=1, epoch=0)
        ):
            await commit_epoch(OPTIONS, QUERY, 0, [])

    asyncio.run(play())
