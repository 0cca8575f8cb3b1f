"""The pipeline while things break: nothing lost, nothing twice for read_committed readers, nothing out of order, no
reader held up for long, and runs that are true for every record (decision 0012)."""

from __future__ import annotations

import asyncio
import os
import random
import resource
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.network.client import NetworkClient
from bridge.kafka.producer.producer import TransactionalProducer, fence, producer_settings
from bridge.kafka.producer.transaction_coordinator import Coordinator
from bridge.kafka.record.batch import parse
from bridge.local import Broker, Cluster, LocalStack, Security, eventually, kafka_jars
from bridge.local.processes import WaitTimedOut
from bridge.model.copying import PipelineSpec, PipelineState
from bridge.model.values import Side, TopicPartition
from bridge.pipeline.driver import supervisor
from bridge.pipeline.layouts.slots import Slice, transactional_id
from tests.conftest import chosen_clusters
from tests.integration.copy_flow import CopyFlow, InProcess, ThreadJobs, fetch_by_name, ledger
from tests.support import Record, allow, bounds, denied, numbered, produce, set_topic_config
from tests.support.forms import mostly_long
from tests.support.records import open_transaction
from tests.support.traffic import Reader, Writer
from tests.support.waits import WAIT

STALL = 45.0
"""Seconds that no reader may go without records, for as long as records are written: a broker and a layout begin anew
meanwhile, on a busy machine too."""
SECONDS = float(os.environ.get("MIRROR_BRIDGE_FAULT_SECONDS", "20"))
"""Seconds of faults at random."""
PARTITIONS = 3
FENCED = 10.0
"""Seconds after which a slot counts as not fenced, and is fenced again."""
MIRROR, PASSWORD = "User:mirror", "wonder-3b1f"


@pytest.fixture(scope="module")
def own(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStack]:
    """Two brokers that these tests may kill; running again after each."""
    if chosen_clusters(request.config):
        pytest.skip("kills brokers, so it needs brokers from jars")
    with LocalStack(tmp_path_factory.mktemp("mortal"), broker_heap="384m") as stack:
        stack.start_clusters()
        yield stack


@pytest.fixture
def flow(own: LocalStack) -> CopyFlow:
    return CopyFlow(own.source, own.target)


class CopyScenario:
    """A topic that is written to and whose copy is read, and the pipelines that were started over it."""

    def __init__(self, flow: CopyFlow, reader: Reader, pipelines: ExitStack) -> None:
        self.flow, self.reader, self._pipelines = flow, reader, pipelines
        self._running: list[InProcess] = []

    def pipeline(self, jobs: ThreadJobs | None = None) -> InProcess:
        running = self._pipelines.enter_context(self.flow.pipeline(jobs=jobs))
        self._running.append(running)
        return running

    def log(self) -> str:
        """What there was to copy, and how far that has come."""
        topic, *_ = self.flow.topics
        ends = {
            number: (end, len(self.flow.original(topic, number)))
            for number, (_, end) in bounds(self.flow.source.bootstrap, topic).items()
        }
        read = {number: len(values) for number, values in self.reader.values.items()}
        statuses = [each.status for each in self._running]
        return f"log ends and committed records {ends}, read {read}, pipelines {statuses}"

    def breaks(self, fault: Callable[[Cluster], None], cluster: Cluster) -> None:
        fault(cluster)
        self.reader.clusters_are_back()


@contextmanager
def traffic(flow: CopyFlow) -> Iterator[CopyScenario]:
    """While the block goes on, and until all is read that was written; then everything must hold."""
    topic = flow.topic(PARTITIONS)
    reader = Reader(flow.target.bootstrap, flow.remote(topic), PARTITIONS)
    with ExitStack() as pipelines, reader.running():
        scenario = CopyScenario(flow, reader, pipelines)
        with Writer(flow.source.bootstrap, topic).running():
            yield scenario

        try:
            eventually(lambda: reader.done, WAIT, what="all records are read")
        except WaitTimedOut as late:
            raise AssertionError(scenario.log()) from late
    flow.assert_copied()
    flow.assert_runs_true()


# -- brokers -------------------------------------------------------------------------------------------------------


def killed(cluster: Cluster) -> None:
    """At any moment: of a transaction that is being ended a broker that comes back writes no marker."""
    assert isinstance(cluster, Broker)
    cluster.kill()
    cluster.start()


def killed_for_long(cluster: Cluster) -> None:
    """For longer than a transaction may take, so that its coordinator ends it while it comes back: the length of the
    fault is part of the test."""
    assert isinstance(cluster, Broker)
    cluster.kill()
    threading.Event().wait(20.0)
    cluster.start()


def hung(cluster: Cluster, seconds: float = 4.0) -> None:
    """Keeps its connections, and answers nothing for this time: the length of the fault is part of the test."""
    assert isinstance(cluster, Broker)
    cluster.process.pause()
    threading.Event().wait(seconds)
    cluster.process.resume()


def full(cluster: Cluster) -> None:
    """No file may grow, as on a full disk: the broker fails by itself. Then there is room, and it is started."""
    assert isinstance(cluster, Broker)
    resource.prlimit(cluster.process.pid, resource.RLIMIT_FSIZE, (1, 1))
    eventually(lambda: not cluster.process.running, WAIT, what="the broker gives up")
    cluster.stop()
    cluster.start()


HUNG = pytest.param(hung, marks=pytest.mark.soak)


def copied_through(own: LocalStack, fault: Callable[[Cluster], None], cluster: Cluster) -> None:
    """Breaks a cluster while it is copied."""
    with traffic(CopyFlow(own.source, own.target)) as scenario:
        scenario.pipeline()
        scenario.reader.wait_more()
        scenario.breaks(fault, cluster)
        scenario.reader.wait_more()


@pytest.mark.parametrize("fault", mostly_long([killed, HUNG]))
def test_the_source_breaks(own: LocalStack, fault: Callable[[Cluster], None]) -> None:
    copied_through(own, fault, own.source)


@pytest.mark.parametrize("fault", mostly_long([killed, HUNG, full, killed_for_long]))
def test_the_target_breaks(own: LocalStack, fault: Callable[[Cluster], None]) -> None:
    copied_through(own, fault, own.target)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A target where the mirror needs rights."""
    security, directory = (
        Security(users={"mirror": PASSWORD}, authorizer=True),
        tmp_path_factory.mktemp("guarded"),
    )
    with closing(Broker("guarded", kafka_jars(), directory, security=security, heap="384m")) as broker:
        broker.start()
        yield broker


def let_copy(flow: CopyFlow, topic: str) -> None:
    """What docs/security.md says that a target has to allow, and no more (remote topics exist here)."""
    rights: dict[str, dict[str, tuple[str, ...]]] = {
        "TOPIC": {flow.remote(topic): ("DESCRIBE", "WRITE", "DESCRIBE_CONFIGS")}
        | dict.fromkeys(flow.state_topics, ("READ", "WRITE")),
        "TRANSACTIONAL_ID": {transactional_id(flow.spec, who): ("WRITE",) for who in (0, 1, "driver")},
    }
    for kind, names in rights.items():
        for name, operations in names.items():
            for operation in operations:
                allow(flow.target.bootstrap, MIRROR, name, operation, kind)


def login(guarded: Broker) -> dict[str, str]:
    plain = "org.apache.kafka.common.security.plain.PlainLoginModule"
    return {
        "target.cluster.bootstrap.servers": guarded.address("SASL_PLAINTEXT"),
        "target.cluster.security.protocol": "SASL_PLAINTEXT",
        "target.cluster.sasl.mechanism": "PLAIN",
        "target.cluster.sasl.jaas.config": f'{plain} required username="mirror" password="{PASSWORD}";',
    }


@pytest.mark.long
def test_the_target_is_read_only_for_a_while(own: LocalStack, guarded: Broker) -> None:
    """It shows all it has, and takes nothing: what is missing is named, and copying goes on once it is granted."""
    flow = CopyFlow(own.source, guarded, props=login(guarded))
    with traffic(flow) as scenario:
        (topic,) = flow.topics
        let_copy(flow, topic)
        copying = scenario.pipeline()
        scenario.reader.wait_more()
        with denied(guarded.bootstrap, MIRROR, flow.remote(topic), "WRITE"):
            words = f"target cluster: not authorized to write topic {flow.remote(topic)}: grant WRITE on it"
            eventually(
                lambda: any(words in error for error in copying.status.errors),
                WAIT,
                what=f"it says: {words}",
            )
            assert copying.status.failure is None
            assert PASSWORD not in str(copying.status)
        eventually(lambda: not copying.status.errors, WAIT, what="it goes on")
        scenario.reader.wait_more()


@pytest.mark.long
def test_a_run_that_tells_of_more_than_the_source_holds_takes_a_right_to_read_the_copy(
    own: LocalStack, guarded: Broker
) -> None:
    """Somebody waits for the end of this copy, so that it ends with the right that is missing."""
    flow = CopyFlow(own.source, guarded, props=login(guarded))
    topic = flow.topic()
    let_copy(flow, topic)
    produce(flow.source.bootstrap, topic, numbered(10))
    assert flow.copy().state is PipelineState.CAUGHT_UP
    last = flow.runs()[TopicPartition(topic, 0)].last
    assert last is not None
    more = last._replace(upstream_count=last.upstream_count + 1, position=last.position + 1)
    produce(guarded.bootstrap, flow.spec.runs_topic, [Record(more.value(), key=more.key())])
    refused = flow.copy()
    assert refused.state is PipelineState.FAILED
    assert f"grant READ on topic {flow.remote(topic)}" in (refused.failure or "")
    allow(guarded.bootstrap, MIRROR, flow.remote(topic), "READ")
    assert flow.copy().state is PipelineState.CAUGHT_UP


# -- who may copy --------------------------------------------------------------------------------------------------


class Twice(ThreadJobs):
    """Every slice of the first layout is attempted once more while the first attempt writes on, as when Spark has lost
    sight of a worker that lives."""

    def __init__(self, slots: int) -> None:
        super().__init__(slots)
        self.ends: list[str] = []
        self.retry = threading.Event()

    def _one(self, work: Slice) -> str:
        return asyncio.run(self._both(work)) if work.layout == 1 else super()._one(work)

    async def _both(self, work: Slice) -> str:
        first = asyncio.create_task(self.attempt(work))
        await asyncio.to_thread(self.retry.wait, WAIT)
        second = asyncio.create_task(self.attempt(work, again=True))
        for ended in asyncio.as_completed([first, second]):
            self.ends.append(await ended)
        return await second


def test_a_slice_is_retried_while_the_old_attempt_still_writes(flow: CopyFlow) -> None:
    jobs = Twice(2)
    with traffic(flow) as scenario:
        scenario.pipeline(jobs)
        scenario.reader.wait_more()
        jobs.retry.set()
        eventually(lambda: "fenced" in jobs.ends, WAIT, what="one of the attempts shuts the other out")
        scenario.reader.wait_more()
        scenario.reader.wait_more()


def test_of_two_drivers_only_the_younger_one_copies(flow: CopyFlow) -> None:
    with traffic(flow) as scenario:
        zombie = scenario.pipeline()
        scenario.reader.wait_more()
        running = scenario.pipeline()
        assert any("has taken over" in error for error in zombie.ended().errors)
        scenario.reader.wait_more()
        assert running.status.state is PipelineState.COPYING
        assert running.status.restarts == 0


@pytest.mark.long
def test_a_slot_whose_transaction_took_too_long_gets_a_new_layout(flow: CopyFlow) -> None:
    """The broker answers as if somebody had taken over. The other slot goes on meanwhile, so the job does not end.
    Several times, because it may answer so whatever the slot is doing: adding a partition, writing, committing."""
    with traffic(flow) as scenario:
        running = scenario.pipeline()

        def newer(layout: int) -> bool:
            return running.status.layout > layout

        def fenced(before: int) -> None:
            """Again where the broker was asked to commit just then: it answers an unknown error (Kafka 4.3), and the
            slice takes its id over once more, with no new layout."""
            asyncio.run(
                fence(producer_settings(Side.TARGET, flow.spec.props), [transactional_id(flow.spec, 0)])
            )
            eventually(partial(newer, before), FENCED, what="a new layout")

        for _ in range(4):
            scenario.reader.wait_more()
            eventually(partial(fenced, running.status.layout), WAIT, what="a new layout")
        scenario.reader.wait_more()


@pytest.mark.long
@pytest.mark.parametrize("slots", [1, 2], ids=["of somebody else", "of a slot of ours"])
def test_an_open_transaction_hides_none_of_our_own_runs(flow: CopyFlow, slots: int) -> None:
    """A plain read_committed read of the runs topic would end where it begins, and the copy would happen twice. That of
    a slot of ours is fenced; any other one is waited for."""
    topic = flow.topic(2)
    with ExitStack() as transactions:
        with flow.pipeline(slots=1):
            produce(flow.source.bootstrap, topic, numbered(100))
            wait_copies(flow, topic, 100)
            sink = transactions.enter_context(
                open_transaction(
                    flow.target.bootstrap,
                    flow.spec.runs_topic,
                    numbered(3),
                    by=transactional_id(flow.spec, 1),
                )
            )
            produce(flow.source.bootstrap, topic, numbered(100, start=100))
            wait_copies(flow, topic, 200)
        if slots == 1:
            ending = threading.Timer(1.0, sink.abort_transaction, [10])
            ending.start()
            transactions.callback(ending.join)
        began = time.monotonic()
        assert flow.copy(slots=slots).state is PipelineState.CAUGHT_UP
        assert time.monotonic() - began < 40.0  # before the transaction's own time is up, a minute
    flow.assert_copied()
    flow.assert_runs_true()


def wait_copies(flow: CopyFlow, topic: str, count: int) -> None:
    eventually(lambda: len(flow.copies(topic)) == count, WAIT, what=f"{count} copies")


def wait_copying(running: InProcess) -> None:
    def copying() -> None:
        assert running.status.state is PipelineState.COPYING, replace(running.status, progress={})

    eventually(copying, WAIT, what="it copies")


def test_a_driver_that_could_neither_commit_nor_abort_goes_on(
    flow: CopyFlow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its transaction stays open as long as the target is away, and it is the only one who knows."""
    real, failed = Coordinator.end, list[str]()

    async def end(coordinator: Coordinator, *given: Any, commit: bool) -> None:
        if coordinator.transactional_id.endswith("-driver") and "abort" not in failed:
            failed.append("commit" if commit else "abort")
            raise KafkaFailure(KafkaFault.TIMEOUT, "no answer")
        await real(coordinator, *given, commit=commit)

    async def none_open(*_: object) -> tuple[dict[TopicPartition, int], dict[TopicPartition, KafkaFailure]]:
        """Transactions of busy slots look as if something hung, which the driver would end first."""
        return {}, {}

    with traffic(flow) as scenario:
        running = scenario.pipeline()
        scenario.reader.wait_more()
        monkeypatch.setattr(TransactionalProducer, "open_transactions", none_open)
        monkeypatch.setattr(Coordinator, "end", end)
        running.assign(flow.partitions()[:2])
        eventually(lambda: "abort" in failed, WAIT, what="commit and abort have failed")
        running.assign(flow.partitions())
        wait_copying(running)
        scenario.reader.wait_more()
    assert failed == ["commit", "abort"]


@pytest.mark.long
def test_a_driver_whose_transaction_took_too_long_goes_on(
    flow: CopyFlow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its target was away for longer: the broker answers as if another driver had taken over, and there is none."""
    name, real = transactional_id(flow.spec, "driver"), Coordinator.end
    failing = threading.Event()

    async def end(coordinator: Coordinator, *given: Any, commit: bool) -> None:
        if coordinator.transactional_id == name and failing.is_set():
            raise KafkaFailure(KafkaFault.TIMEOUT, "no answer")
        await real(coordinator, *given, commit=commit)

    def brief(spec: PipelineSpec) -> TransactionalProducer:
        return TransactionalProducer(producer_settings(Side.TARGET, spec.props), name, timeout_ms=1000)

    async def state() -> str:
        client = NetworkClient(producer_settings(Side.TARGET, flow.spec.props))
        try:
            described = await Coordinator(client, name).describe(WAIT)
        finally:
            await client.close()
        return "" if described is None else described.state

    monkeypatch.setattr(Coordinator, "end", end)
    monkeypatch.setattr(supervisor, "driver", brief)
    with traffic(flow) as scenario:
        running = scenario.pipeline()
        scenario.reader.wait_more()
        failing.set()
        running.assign(flow.partitions()[:2])
        eventually(
            lambda: asyncio.run(state()) == "CompleteAbort",
            WAIT,
            what="the broker has aborted its transaction",
        )
        failing.clear()
        running.assign(flow.partitions())
        wait_copying(running)
        scenario.reader.wait_more()


@pytest.mark.long
def test_it_is_stopped_and_started_while_busy(flow: CopyFlow) -> None:
    with traffic(flow) as scenario:
        for slots in (2, 1, 3):
            running = scenario.pipeline(ThreadJobs(slots))
            scenario.reader.wait_more()
            running.stop()
            assert running.status.state is PipelineState.STOPPED
        scenario.pipeline()


# -- logs that lose their end --------------------------------------------------------------------------------------


def cut_back(cluster: Cluster, topics: Sequence[str], offset: int) -> None:
    """Partitions 0 lose what stands at and after the offset, as by an unclean election. A batch begins there."""
    assert isinstance(cluster, Broker)
    cluster.kill()
    for topic in topics:
        log = cluster.data / f"{topic}-0" / f"{0:020}.log"
        data = log.read_bytes()
        os.truncate(log, sum(len(each.data) for each in parse(data) if each.last_offset < offset))
        for ending in ("index", "timeindex", "snapshot"):
            for each in log.parent.glob(f"*.{ending}"):
                each.unlink()
    cluster.start()

    def cut() -> None:
        for topic in topics:
            assert bounds(cluster.bootstrap, topic)[0] == (0, offset)

    eventually(cut, WAIT, what=f"{topics} are served")


def values(records: Sequence[Record]) -> list[bytes | None]:
    return [each.value for each in records]


@pytest.mark.long
@pytest.mark.parametrize("names", [False, True], ids=["by id", "by name"])
def test_the_source_loses_what_was_copied(
    own: LocalStack, names: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the pipeline runs, and while it is down. What comes then is shorter than what was lost, or overtakes it:
    the log's end tells nothing then, and below it are new records."""
    if names:
        fetch_by_name(monkeypatch)
    cases = [
        (CopyFlow(own.source, own.target), written, runs) for written in (20, 100) for runs in (True, False)
    ]
    topics = [flow.topic() for flow, *_ in cases]
    for start in (0, 50):
        for topic in topics:
            produce(own.source.bootstrap, topic, numbered(50, start=start))
    with ExitStack() as pipelines:
        for flow, _, runs in cases:
            if runs:
                pipelines.enter_context(flow.pipeline())
            else:
                flow.copy()
        for (flow, _, runs), topic in zip(cases, topics, strict=True):
            if runs:
                wait_copies(flow, topic, 100)
        cut_back(own.source, topics, 50)
        for (flow, written, runs), topic in zip(cases, topics, strict=True):
            produce(own.source.bootstrap, topic, numbered(written, start=1000))
            if runs:
                wait_copies(flow, topic, 100 + written)
    for (flow, written, runs), topic in zip(cases, topics, strict=True):
        if not runs:
            flow.copy()
        assert values(flow.copies(topic)) == values([*numbered(100), *numbered(written, start=1000)])
        assert ledger(flow) == [("cut_back", 50, 100)]
        flow.assert_answers_safe()


@pytest.mark.long
def test_the_target_loses_copies(own: LocalStack) -> None:
    """Whether the next copies stand below the place where the last ones did or, all in one, go beyond it."""
    cases = [(CopyFlow(own.source, own.target), written) for written in (20, 100)]
    topics = [flow.topic() for flow, _ in cases]
    with ExitStack() as pipelines:
        for (flow, _), topic in zip(cases, topics, strict=True):
            pipelines.enter_context(flow.pipeline())
            for start in (0, 50):
                produce(own.source.bootstrap, topic, numbered(50, start=start))
                wait_copies(flow, topic, start + 50)
        firsts = [
            flow.runs()[TopicPartition(topic, 0)].runs for (flow, _), topic in zip(cases, topics, strict=True)
        ]
        # The marker of the first transaction stays: without it nobody could read on.
        (end,) = {runs[0].downstream_end + 1 for runs in firsts}
        assert [len(runs) for runs in firsts] == [2, 2]
        cut_back(
            own.target, [flow.remote(topic) for (flow, _), topic in zip(cases, topics, strict=True)], end
        )
        for (flow, written), topic in zip(cases, topics, strict=True):
            produce(own.source.bootstrap, topic, numbered(written, start=100))
            wait_copies(flow, topic, 50 + written)
    for (flow, written), topic in zip(cases, topics, strict=True):
        assert values(flow.copies(topic)) == values([*numbered(50), *numbered(written, start=100)])
        assert ledger(flow) == [("target_recreated", -1, 100)]
        flow.assert_answers_safe()


# -- at random -----------------------------------------------------------------------------------------------------


class Faults:
    """Broken at random, by a seed that a failure names: MIRROR_BRIDGE_FAULT_SEED repeats it."""

    def __init__(self, scenario: CopyScenario, seed: int) -> None:
        self._ground, self._dice = scenario, random.Random(seed)
        self._jobs = ThreadJobs(2)
        self._strict = scenario.flow.topic(remote={"cleanup.policy": "compact"})
        self._taken: list[Record] = []
        """Of the topic whose copy takes no record without a key."""
        self._running = scenario.pipeline(self._jobs)
        self.done: list[str] = []

    def copied_more(self, records: int) -> None:
        """Waits until so many more records are read."""
        most = self._ground.reader.count + records

        try:
            eventually(
                lambda: self._ground.reader.count >= most, WAIT, what=f"{records} more records are read"
            )
        except WaitTimedOut as late:
            raise AssertionError(self._ground.log()) from late

    def one(self) -> None:
        faults = [
            self.source_killed,
            self.target_killed,
            self.source_hung,
            self.target_hung,
            self.slices_killed,
            self.slot_fenced,
            self.restarted,
            self.taken_over,
            self.fewer_partitions,
            self.records_refused,
            self.replicas_missing,
            self.state_topic_held_open,
        ]
        fault = self._dice.choice(faults)
        self.done.append(f"{time.monotonic():.0f} {fault.__name__}")
        fault()

    def source_killed(self) -> None:
        self._ground.breaks(killed, self._ground.flow.source)

    def target_killed(self) -> None:
        self._ground.breaks(killed, self._ground.flow.target)

    def source_hung(self) -> None:
        self._ground.breaks(partial(hung, seconds=self._dice.uniform(0.1, 3.0)), self._ground.flow.source)

    def target_hung(self) -> None:
        self._ground.breaks(partial(hung, seconds=self._dice.uniform(0.1, 3.0)), self._ground.flow.target)

    def slices_killed(self) -> None:
        self._jobs.cancel()

    def slot_fenced(self) -> None:
        spec = self._ground.flow.spec
        ids = [transactional_id(spec, self._dice.randrange(2))]
        asyncio.run(fence(producer_settings(Side.TARGET, spec.props), ids))

    def restarted(self) -> None:
        self._running.stop()
        self._begin()

    def taken_over(self) -> None:
        self._begin()

    def fewer_partitions(self) -> None:
        self._running.assign(self._dice.sample(self._ground.flow.partitions(), 2))
        threading.Event().wait(self._dice.uniform(0.0, 1.0))
        self._running.assign(self._ground.flow.partitions())

    def records_refused(self) -> None:
        key = str(len(self._taken)).encode()
        self._taken.append(Record(b"one", key=key))
        records = [Record(b"refused"), self._taken[-1], Record(b"refused")]
        produce(self._ground.flow.source.bootstrap, self._strict, records)

    def replicas_missing(self) -> None:
        """Where a transaction is written, or kept: it can't be ended meanwhile either."""
        flow = self._ground.flow
        topic = self._dice.choice([flow.remote(flow.topics[0]), *flow.state_topics])
        set_topic_config(flow.target.bootstrap, topic, {"min.insync.replicas": "2"})
        threading.Event().wait(self._dice.uniform(0.1, 3.0))
        set_topic_config(flow.target.bootstrap, topic, {"min.insync.replicas": "1"})

    def state_topic_held_open(self) -> None:
        """By somebody else's transaction."""
        flow = self._ground.flow
        with open_transaction(
            flow.target.bootstrap, self._dice.choice(flow.state_topics), numbered(1)
        ) as sink:
            threading.Event().wait(self._dice.uniform(0.1, 3.0))
            sink.abort_transaction(WAIT)

    def assert_others_copied(self) -> None:
        """Asserts that what the strict copy takes is there, and forgets it: what it refuses is not."""
        flow = self._ground.flow
        expected = [each.key for each in self._taken]

        def there() -> None:
            assert [each.key for each in flow.copies(self._strict)] == expected

        eventually(there, WAIT, what="what the strict copy takes is copied")
        flow.topics.remove(self._strict)

    def _begin(self) -> None:
        self._jobs = ThreadJobs(self._dice.randint(1, 3))
        self._running = self._ground.pipeline(self._jobs)


@pytest.mark.long
def test_all_at_random(own: LocalStack) -> None:
    flow = CopyFlow(own.source, own.target, settings={"fail_on_refused_record": False})
    seed = int(os.environ.get("MIRROR_BRIDGE_FAULT_SEED", random.randrange(1 << 32)))
    with traffic(flow) as scenario:
        faults = Faults(scenario, seed)
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            print(f"MIRROR_BRIDGE_FAULT_SEED={seed}: {', '.join(faults.done[-1:])}")
            faults.copied_more(50)
            faults.one()
        faults.assert_others_copied()
    reader = scenario.reader
    assert reader.longest < STALL, f"until {reader.longest_at:.0f}"
