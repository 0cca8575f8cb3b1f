"""A flow that our pipeline copies: its topics, a pipeline in this process or a driver, and what must hold after."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TypeVar

import pytest

from bridge.errors import KafkaFailure
from bridge.kafka.config.settings import client_settings
from bridge.kafka.network.client import NetworkClient
from bridge.kafka.protocol import log_requests
from bridge.kafka.state_topics import read_committed
from bridge.local import Cluster, eventually
from bridge.model.copying import (
    Copied,
    Gap,
    PipelineSpec,
    PipelineStatus,
    Transform,
)
from bridge.model.partition_states import Skip
from bridge.model.values import LogRecord, Side, TopicPartition
from bridge.pipeline.driver.supervisor import Supervisor
from bridge.pipeline.layouts.slots import Slice
from bridge.pipeline.slices.gaps import read_ledger
from bridge.pipeline.slices.running import copy_slice
from bridge.translation.records.log_window import LogBounds
from bridge.translation.runs.partition_runs import PartitionRuns
from bridge.translation.runs.run_evidence import ConsistentRuns, read_runs
from tests.support.names import unique
from tests.support.pipeline_spec import SPEC
from tests.support.records import Record, read
from tests.support.topics import bounds, create_topic
from tests.support.waits import WAIT

COMPACTED = {"cleanup.policy": "compact"}
T = TypeVar("T")
all_flows: list[CopyFlow] = []
"""Those of which the layout topics are still there."""


@dataclass
class CopyFlow:
    """Topics of this name and their copies; state topics of its own."""

    source: Cluster
    target: Cluster
    settings: Mapping[str, object] = field(default_factory=dict)
    props: Mapping[str, str] = field(default_factory=dict)
    alias: str = field(default_factory=lambda: unique("src"))
    topics: list[str] = field(default_factory=list)
    transforms: Sequence[Transform] = ()
    """What records of all topics go through."""
    start: int | None = None
    """Where a stock mirror had come to in all partitions."""
    also: Sequence[str] = ()
    """Other topics of the target that they may go to."""

    def __post_init__(self) -> None:
        for topic in self.state_topics:
            create_topic(self.target.bootstrap, topic, 1, COMPACTED)
        if self.settings.get("syncs_topic"):
            side = self.target if self.settings.get("syncs_on_target") else self.source
            create_topic(side.bootstrap, str(self.settings["syncs_topic"]), 1, COMPACTED)
        all_flows.append(self)

    @property
    def state_topics(self) -> tuple[str, str, str]:
        return tuple(f"mm2-{what}.{self.alias}.internal" for what in ("offset-runs", "layout", "gaps"))  # type: ignore[return-value]

    @property
    def spec(self) -> PipelineSpec:
        runs, layout, gaps = self.state_topics
        common = replace(
            SPEC,
            name=f"mirror-{self.alias}",
            props={
                "source.cluster.bootstrap.servers": self.source.bootstrap,
                "target.cluster.bootstrap.servers": self.target.bootstrap,
                **({} if "spark.remote" in self.props else {"spark.master": "local[2]"}),
                **self.props,
            },
            source_alias=self.alias,
            runs_topic=runs,
            layout_topic=layout,
            gaps_topic=gaps,
            transforms=tuple(self.transforms),
        )
        return replace(common, **self.settings)  # type: ignore[arg-type]

    def topic(
        self,
        partitions: int = 1,
        configs: Mapping[str, str] | None = None,
        *,
        remote: Mapping[str, str] | None = None,
    ) -> str:
        """A topic and its empty copy."""
        topic = create_topic(self.source.bootstrap, unique("copied"), partitions, configs)
        create_topic(self.target.bootstrap, self.remote(topic), partitions, remote or {})
        self.topics.append(topic)
        return topic

    def remote(self, topic: str) -> str:
        return f"{self.alias}.{topic}"

    def partitions(self) -> list[Copied]:
        """All partitions of all topics, with the ids that they have now."""
        return [
            Copied(
                TopicPartition(topic, partition),
                topic_id(self.source.bootstrap, topic),
                self.remote(topic),
                topic_id(self.target.bootstrap, self.remote(topic)),
                self.start,
                transforms=tuple(range(len(self.transforms))),
                also=tuple((other, topic_id(self.target.bootstrap, other)) for other in self.also),
            )
            for topic in self.topics
            for partition in bounds(self.source.bootstrap, topic)
        ]

    def copy(self, *, slots: int = 2) -> PipelineStatus:
        """Copies what is there now, in this process, and answers the last status."""
        with self.pipeline(slots=slots, until_caught_up=True) as running:
            return running.ended()

    @contextmanager
    def pipeline(
        self,
        *,
        slots: int = 2,
        jobs: ThreadJobs | None = None,
        partitions: Sequence[Copied] | None = None,
        **changes: object,
    ) -> Iterator[InProcess]:
        """The pipeline without Spark and in this process, for the time of the block. `partitions`: as they were found
        while all of them could be asked."""
        partitions = self.partitions() if partitions is None else partitions
        running = InProcess(replace(self.spec, **changes), jobs or ThreadJobs(slots))  # type: ignore[arg-type]
        try:
            running.assign(partitions)
            yield running
        finally:
            running.stop()

    # -- what must hold ----------------------------------------------------------------------------------------------

    def assert_copied(self, *, committed_only: bool = True) -> None:
        """Bit for bit: key, value, headers, timestamp and order; nothing lost, nothing twice."""
        for topic in self.topics:
            for partition in bounds(self.source.bootstrap, topic):
                here = self.original(topic, partition, committed_only=committed_only)
                there = self.copies(topic, partition)
                assert [each.content for each in there] == [each.content for each in here], (
                    f"{topic}-{partition}: {_difference(there, here)}"
                )

    def original(self, topic: str, partition: int = 0, *, committed_only: bool = True) -> list[Record]:
        return read(self.source.bootstrap, topic, partition, committed_only=committed_only)

    def copies(self, topic: str, partition: int = 0) -> list[Record]:
        return read(self.target.bootstrap, self.remote(topic), partition, committed_only=True)

    def assert_runs_true(self, *, committed_only: bool = True) -> None:
        """Asserts for each record that was copied as it stands now that the runs know where its copy is."""
        known = self.runs()
        for topic in self.topics:
            for partition in bounds(self.source.bootstrap, topic):
                here = self.original(topic, partition, committed_only=committed_only)
                there = self.copies(topic, partition)
                # A partition without records has runs only once its position was committed.
                runs = known.get(TopicPartition(topic, partition), PartitionRuns([]))
                for one, other in zip(here, there, strict=True):
                    (held,) = [
                        run for run in runs.runs if run.upstream_start <= one.offset < run.upstream_end
                    ]
                    low = held.downstream_start + max(0, one.offset - held.upstream_start - held.skipped)
                    assert low <= other.offset <= low + held.skipped + held.extra, (
                        one.offset,
                        other.offset,
                        held,
                    )

    def assert_answers_safe(self) -> None:
        """Whatever has happened to the logs: no offset of the source is answered with a place behind the first copy
        that a group with this offset has not read. Values of a partition are distinct."""
        known, ids = self.runs(), {each.source: each for each in self.partitions()}
        for place, copied in ids.items():
            runs = ConsistentRuns(known[place].runs)
            copies = {each.value: each.offset for each in self.copies(*place)}
            here = [(each.offset, copies.get(each.value)) for each in self.original(*place)]
            ends = [
                LogBounds(*bounds(cluster.bootstrap, topic)[place.partition])
                for cluster, topic in ((self.target, copied.target_topic), (self.source, place.topic))
            ]
            for offset in range(ends[1].end):
                translated = runs.translate(
                    offset, copied.target_topic_id, ends[0], copied.source_topic_id, ends[1]
                )
                unread = [there for at, there in here if at >= offset and there is not None]
                if translated is not None and unread:
                    assert translated.offset is not None
                    assert translated.offset <= min(unread), (place, offset, translated, unread[0])

    def known(self, place: TopicPartition) -> Answers:
        """Returns what the runs answer for a partition, as our connectors ask them."""
        return Answers(ConsistentRuns(self.runs()[place].runs))

    def runs(self) -> dict[TopicPartition, PartitionRuns]:
        """Returns the runs of this flow's copies, by source partition."""
        copied_runs = read_runs(self.state(self.spec.runs_topic))
        return {
            copy.source: each
            for copy, each in copied_runs.items()
            if copy.target_topic == self.remote(copy.source.topic)
        }

    def state(self, topic: str) -> list[LogRecord]:
        """All committed records of a state topic."""

        async def reading() -> list[LogRecord]:
            client = NetworkClient(client_settings(Side.TARGET, self.spec.props).raw)
            try:
                return list(await read_committed(client, topic))
            finally:
                await client.close()

        return _once_back(reading, f"{topic} is read")


def fetch_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fetches as brokers before 3.1 understand them: no error tells that a topic is another one."""
    real = log_requests.fetch
    monkeypatch.setattr(
        log_requests, "fetch", lambda parts, **given: real(parts, **{**given, "by_id": False})
    )


def topic_id(bootstrap: str, topic: str) -> str:
    """As the bridge writes it: a UUID as text."""

    async def asking() -> str:
        client = NetworkClient(
            client_settings(Side.SOURCE, {"source.cluster.bootstrap.servers": bootstrap}).raw
        )
        try:
            return (await client.metadata([topic]))[topic].topic_id
        finally:
            await client.close()

    return _once_back(asking, f"the id of {topic} is known")


def _once_back(ask: Callable[[], Coroutine[None, None, T]], what: str) -> T:
    """The answer of a cluster; one that has just come back may name no broker for a moment, or lead nothing."""

    def attempt() -> T | KafkaFailure:
        try:
            return asyncio.run(ask())
        except KafkaFailure as error:
            if error.retriable:
                raise
            return error

    answered = eventually(attempt, WAIT, what=what)
    if isinstance(answered, KafkaFailure):
        raise answered
    return answered


@dataclass(frozen=True)
class Answers:
    """The answers of one copy's runs, with the target's log ending at `end`."""

    runs: ConsistentRuns

    def answer(self, offset: int, end: int) -> int:
        assert self.runs.last is not None
        log = LogBounds(self.runs.target_from(offset), end)
        verdict = self.runs.translate(offset, self.runs.last.target_topic_id, log)
        assert verdict is not None
        assert verdict.offset is not None
        return verdict.offset


class ThreadJobs:
    """Slices side by side in threads, each with an event loop of its own, as Spark has them in processes."""

    ui = ""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self._pool = ThreadPoolExecutor(64)
        self._copying: dict[asyncio.Task[str], asyncio.AbstractEventLoop] = {}

    def start(self, slices: Sequence[Slice]) -> Future[list[str]]:
        return self._pool.submit(self._run, list(slices))

    def _run(self, slices: list[Slice]) -> list[str]:
        return [each.result() for each in [self._pool.submit(self._one, work) for work in slices]]

    def _one(self, work: Slice) -> str:
        return asyncio.run(self.attempt(work))

    async def attempt(self, work: Slice, *, again: bool = False) -> str:
        """The slice, for as long as it is not cancelled."""
        task = asyncio.create_task(copy_slice(work, retried=again))
        self._copying[task] = asyncio.get_running_loop()
        try:
            await asyncio.wait({task})
            return "killed" if task.cancelled() else task.result()
        finally:
            del self._copying[task]

    def lost(self) -> str:
        return ""

    def cancel(self) -> None:
        for task, loop in list(self._copying.items()):
            loop.call_soon_threadsafe(task.cancel)


class InProcess:
    """A supervisor in a thread."""

    def __init__(self, spec: PipelineSpec, jobs: ThreadJobs) -> None:
        self.supervisor = Supervisor(spec)
        self._jobs = jobs
        self._errors: list[BaseException] = []
        self._thread = threading.Thread(target=self._run, name=f"pipeline {spec.name}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            asyncio.run(self.supervisor.run(self._jobs))
        except BaseException as error:
            self._errors.append(error)

    def assign(self, partitions: Sequence[Copied]) -> None:
        self.supervisor.assign(partitions)

    def release(self, topics: Sequence[str]) -> None:
        self.supervisor.release(topics)

    def skip(self, skip: Skip) -> None:
        self.supervisor.skip(skip)

    @property
    def status(self) -> PipelineStatus:
        return self.supervisor.status

    @property
    def alive(self) -> bool:
        """Whether it has not ended yet."""
        return self._thread.is_alive()

    def ended(self) -> PipelineStatus:
        """Once it has ended by itself."""
        self._thread.join(WAIT)
        assert not self._thread.is_alive(), f"still at it: {self.status}"
        if self._errors:
            raise self._errors[0]
        return self.status

    def wait_position(self, positions: Mapping[TopicPartition, int]) -> None:
        """Waits until the committed runs have come as far."""

        def there() -> None:
            result = {
                place: self.status.progress[place].position
                for place in positions
                if place in self.status.progress
            }
            assert result == dict(positions), self.status

        eventually(there, WAIT, what=f"copied to {positions}")

    def stop(self) -> PipelineStatus:
        self.supervisor.stop()
        return self.ended()


def gaps_of(status: PipelineStatus) -> list[tuple[str, int, int]]:
    return _ranges(status.gaps)


def ledger(flow: CopyFlow) -> list[tuple[str, int, int]]:
    """Returns the gaps that the ledger of this flow has."""
    newest = {each.key: each.value for each in flow.state(flow.spec.gaps_topic)}
    entries = [read_ledger(key, value) for key, value in newest.items()]
    return _ranges([gap for gap in entries if gap is not None])


def _ranges(gaps: Sequence[Gap]) -> list[tuple[str, int, int]]:
    return [(gap.kind.value, gap.upstream_from, gap.upstream_to) for gap in gaps]


def _difference(copies: Sequence[Record], originals: Sequence[Record]) -> str:
    """Says where the copies first differ from the originals, and what stands there."""
    pairs = list(zip(copies, originals, strict=False))
    at = next((at for at, (one, other) in enumerate(pairs) if one.content != other.content), len(pairs))
    near = slice(max(0, at - 2), at + 4)
    return f"{len(copies)} of {len(originals)}, from record {at} on: {copies[near]} of {originals[near]}"
