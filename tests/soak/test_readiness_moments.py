"""Whatever happens to two clusters and the mirror between them: no moment says yes where a group would miss
records, and no moment says no for long where none would."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bridge.cli import app
from bridge.local import Broker, LocalStack, MirrorNode
from bridge.local.spark_classes import spark_environment
from tests.e2e.dedicated import dedicated_stack, mm2
from tests.soak.both_logs import BothLogs
from tests.soak.moments import STALE, Finding, Judge, Sampler, answers, kinds, longest_pause, truths
from tests.support import (
    Record,
    add_partitions,
    commit,
    create_topic,
    delete_records,
    delete_topic,
    eventually,
    produce,
    set_topic_config,
    unique,
)
from tests.support.processes import processes
from tests.support.waits import WAIT

pytestmark = pytest.mark.timeout(1800)

RECORDS, MORE = 1000, 100
OFFSETS = (0, 500, 1000)
INTERVALS = {
    "emit.checkpoints.interval.seconds": "2",
    "sync.group.offsets.interval.seconds": "2",
    "refresh.topics.interval.seconds": "2",
    "refresh.groups.interval.seconds": "2",
}
LOOKS = float(os.environ.get("MIRROR_BRIDGE_MOMENTS_SECONDS", "30"))
"""How long answers are looked at behind an event."""
COPY = ("bridge.pipeline.driver.main", "SparkSubmit", "bridge.pipeline.slices.workers", "pyspark")
STALE_SECONDS = 8.0
"""For so long a yes may rest on what was true when both clusters were last queried: three intervals, and a round."""


@dataclass
class Scene:
    """Two clusters, a node of dedicated mode that is not started yet, and groups of a topic at several offsets."""

    directory: Path
    stack: LocalStack
    node: MirrorNode
    properties: dict[str, str]
    both: BothLogs
    sampler: Sampler
    groups: dict[str, str] = field(default_factory=dict)
    topics: dict[str, str] = field(default_factory=dict)
    marks: list[tuple[float, str]] = field(default_factory=list)
    starts: list[float] = field(default_factory=list)
    printed: list[str] = field(default_factory=list)
    began: float = field(default_factory=time.time)

    @property
    def source(self) -> Broker:
        return _broker(self.stack, "A")

    @property
    def target(self) -> Broker:
        return _broker(self.stack, "B")

    def configure(self, **properties: str) -> None:
        """Writes the node's file again; `properties`: of the flow, with `_` for `.`."""
        self.properties |= {f"A->B.{key.replace('_', '.')}": value for key, value in properties.items()}
        clusters = {"A": self.source, "B": self.target}
        mm2(self.node.file, clusters, ["A->B"], INTERVALS | self.properties)

    def topic(self, name: str, records: int = RECORDS, partitions: int = 1) -> str:
        """A topic of A with so many records; `name`: for people."""
        topic = self.topics.setdefault(name, unique(name))
        create_topic(self.source.bootstrap, topic, partitions)
        self.fill(name, 0, records)
        self.both.topics.append(topic)
        return topic

    def fill(self, name: str, start: int, count: int, partition: int = 0, life: str = "first") -> None:
        records = [
            Record(b"%s-%d-%d" % (life.encode(), partition, number), partition=partition)
            for number in range(start, start + count)
        ]
        produce(self.source.bootstrap, self.topics[name], records)

    def group(self, name: str, offsets: Mapping[tuple[str, int], int]) -> None:
        """A group of A at these offsets of topics by their names for people."""
        group = self.groups.setdefault(name, unique(name))
        commit(
            self.source.bootstrap, group, {(self.topics[t], n): offset for (t, n), offset in offsets.items()}
        )
        if group not in self.both.groups:
            self.both.groups.append(group)

    def start(self) -> None:
        """Starts the node, or starts it again."""
        self.node.stop()
        self.starts.append(time.time())
        self.mark("the node is started")
        self.node.launch()

    def mark(self, event: str) -> None:
        self.marks.append((time.time(), event))

    def look(self, seconds: float = LOOKS) -> None:
        time.sleep(seconds)

    def wait_whole(self, *names: str) -> None:
        """Until by both logs these groups, or all, could fail over now."""
        groups, asked = [self.groups[name] for name in names or self.groups], time.time()

        def whole() -> None:
            look = self.both.looks[-1]
            assert look.began > asked
            last = look.groups
            assert all(last[group].whole for group in groups), {g: last[g].told() for g in groups}

        eventually(whole, WAIT, what="all is copied and committed", watched=[self.node.process])

    def wait_ready(self, *names: str, seconds: float = WAIT) -> None:
        """Until the service says yes for these groups, or all."""

        asked = time.time()

        def ready() -> None:
            last = self.sampler.samples[-1]
            assert last.began > asked
            found = {name: last.listed.get(self.groups[name]) for name in names or self.groups}
            assert all(each is not None and each["ready"] for each in found.values()), found

        eventually(ready, seconds, what="the service says yes", watched=[self.node.process])

    def wait_round(self) -> None:
        """Until a round has ended."""

        def ended() -> None:
            assert self.sampler.samples, self.node.process.log_tail()
            answer = self.sampler.samples[-1].readiness
            assert answer["as_of_ms"] is not None, answer

        eventually(ended, WAIT, what="a round has ended", watched=[self.node.process])

    def wait_copying(self) -> None:
        """Until it is known of each group what of it is copied."""
        unknown = {"not_looked_at_yet", "target_topic_missing", "copies_unknown"}

        def known() -> None:
            listed = self.sampler.samples[-1].listed
            reasons = {name: listed[group]["reason"] for name, group in self.groups.items()}
            assert not unknown.intersection(reasons.values()), reasons

        eventually(known, WAIT, what="the copy has begun", watched=[self.node.process])

    def print_all(self, when: str) -> None:
        """Keeps what the commands print now."""
        commands = [
            ["readiness"],
            ["groups"],
            *(["explain", group] for group in self.groups.values()),
            ["failover", "--all", "--flow", "A-to-B", "--dry-run", "--timeout", "20"],
        ]
        self.printed.append(f"--- {when}, {time.time() - self.began:.1f} s")
        for command in commands:
            done = CliRunner().invoke(app, [*command, "--url", self.node.url])
            self.printed.append(
                f"$ mirror-bridge {' '.join(command)}   # status {done.exit_code}\n{done.output}"
            )

    @contextmanager
    def hung(self, *pids: int) -> Iterator[None]:
        """Stops these processes for the time of the block; they keep their connections."""
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)

    def copying(self) -> list[int]:
        """The processes that copy."""
        return sorted({pid for word in COPY for pid in processes(self.node.process.pid, word)})


def _broker(stack: LocalStack, name: str) -> Broker:
    broker = stack.cluster(name)
    assert isinstance(broker, Broker)
    return broker


@pytest.fixture
def scene(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Scene]:
    """Judged at its end."""
    environment = {**spark_environment(), **getattr(request, "param", {})}
    with dedicated_stack(tmp_path) as stack:
        stack.start_clusters()
        node = MirrorNode(tmp_path, tmp_path / "mm2.properties", environment=environment)
        both = BothLogs(stack.source.bootstrap, stack.target.bootstrap)
        sampler = Sampler(node.url, [])
        made = Scene(tmp_path, stack, node, {"emit.heartbeats.enabled": "false"}, both, sampler)
        try:
            yield made
        finally:
            sampler.close()
            both.close()
            node.close()
    findings = report(made, request.node.name)
    assert sampler.samples, node.process.log_tail()
    assert kinds(findings) == {}, "\n".join(each.told(made.began, made.marks) for each in findings)


def report(scene: Scene, name: str) -> list[Finding]:
    """Writes what was asked, answered and true; returns what was wrong for longer than it may be."""
    names = {group: each for each, group in scene.groups.items()}
    samples, looks = scene.sampler.samples, scene.both.looks
    found = Judge(looks, names, scene.starts).judge(samples)
    short = [each for each in found if each.kind.endswith(STALE) and each.seconds <= STALE_SECONDS]
    wrong = [each for each in found if each not in short]
    folder = os.environ.get("MIRROR_BRIDGE_MOMENTS")
    lines = [
        f"=== {name}: {len(samples)} samples, {len(looks)} looks, {scene.sampler.unanswered} unanswered, "
        f"longest pause {longest_pause(samples):.1f} s",
        *(f"  {at - scene.began:6.1f} s EVENT {event}" for at, event in scene.marks),
        *(each.told(scene.began, scene.marks) for each in wrong),
        f"  and {len(short)} stale for {max((each.seconds for each in short), default=0.0):.1f} s at most: "
        f"{dict(kinds(short))}",
        "answers:",
        *answers(samples, scene.began, lambda group: names.get(group, group)),
        "truth:",
        *truths(looks, scene.began, lambda group: names.get(group, group)),
        *scene.printed,
    ]
    print("\n".join(lines[: 2 + len(scene.marks) + len(wrong)]))
    if folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        safe = name.replace("[", "-").replace("]", "").replace("/", "-")
        Path(folder, f"{safe}.txt").write_text("\n".join(lines))
        log = scene.node.process.log
        if log.exists():
            Path(folder, f"{safe}.log").write_bytes(log.read_bytes())
    return wrong


def begin(
    scene: Scene, *, records: int = RECORDS, offsets: Sequence[int] = OFFSETS, **properties: str
) -> None:
    """A topic `orders` with groups at these offsets; asked from before the node is started on."""
    topic = scene.topic("orders", records)
    for offset in offsets:
        scene.group(f"at-{offset}", {("orders", 0): offset})
    start(scene, **{"topics": topic, **properties})


def start(scene: Scene, **properties: str) -> None:
    scene.configure(**{"groups": ".*", **properties})
    scene.sampler.groups = list(scene.groups.values())
    scene.both.start()
    scene.sampler.start()
    scene.look(1.0)
    scene.start()


def steady(scene: Scene, *names: str) -> None:
    """Until all is copied and said to be ready."""
    scene.wait_whole(*names)
    scene.wait_ready(*names)
    scene.mark("ready")
    scene.look(5.0)


def test_the_first_start(scene: Scene) -> None:
    begin(scene)
    steady(scene)
    scene.look()
    scene.print_all("at the end")


NOWHERE = "spark://127.0.0.1:9"


@pytest.mark.parametrize(
    "scene", [{"MIRROR_BRIDGE_ALLOWED_SPARK_MASTERS": NOWHERE}], indirect=True, ids=["nowhere"]
)
def test_spark_does_not_start(scene: Scene) -> None:
    begin(scene, spark_master=NOWHERE, spark_authenticate="true", spark_authenticate_secret="s" * 40)
    scene.wait_round()
    scene.look(2 * LOOKS)
    scene.print_all("after a minute")
    scene.look(2 * LOOKS)
    scene.print_all("at the end")


@pytest.mark.parametrize(
    "scene",
    [{"JAVA_HOME": "/nowhere", "PATH": str(Path(sys.executable).parent)}],
    indirect=True,
    ids=["nowhere"],
)
def test_no_java(scene: Scene) -> None:
    begin(scene)
    scene.wait_round()
    scene.look(2 * LOOKS)
    scene.print_all("at the end")


def test_the_copy_begins_at_the_end(scene: Scene) -> None:
    scene.properties["A.consumer.auto.offset.reset"] = "latest"
    begin(scene, records=100, offsets=(0, 30, 100))
    scene.wait_copying()
    scene.look()
    scene.print_all("before new records")
    scene.mark("20 new records")
    scene.fill("orders", 100, 20)
    scene.look()
    scene.print_all("after new records")
    scene.mark("the groups have passed the gap: at 100, 110, 120")
    for name, offset in (("at-0", 100), ("at-30", 110), ("at-100", 120)):
        scene.group(name, {("orders", 0): offset})
    scene.look()
    scene.print_all("at the end")


def test_the_copy_is_deleted(scene: Scene) -> None:
    begin(scene)
    steady(scene)
    scene.mark("the copy is deleted")
    delete_topic(scene.target.bootstrap, "A." + scene.topics["orders"])
    scene.look()
    scene.print_all("the copy is deleted")
    scene.mark("100 more records")
    scene.fill("orders", RECORDS, MORE)
    scene.look()
    scene.print_all("after 100 more records")


def test_records_are_deleted(scene: Scene) -> None:
    begin(scene)
    steady(scene)
    scene.mark("B's copy begins at 700")
    delete_records(scene.target.bootstrap, "A." + scene.topics["orders"], {0: 700})
    scene.look()
    scene.print_all("B's copy begins at 700")
    scene.mark("A's topic begins at 800")
    delete_records(scene.source.bootstrap, scene.topics["orders"], {0: 800})
    scene.look()
    scene.print_all("A's topic begins at 800")
    scene.mark("100 more records")
    scene.fill("orders", RECORDS, MORE)
    scene.look()


def test_records_of_the_source_are_deleted(scene: Scene) -> None:
    begin(scene)
    steady(scene)
    scene.mark("A's topic begins at 800")
    delete_records(scene.source.bootstrap, scene.topics["orders"], {0: 800})
    scene.look()
    scene.print_all("A's topic begins at 800")
    scene.mark("A's topic is empty, and has 100 more records")
    delete_records(scene.source.bootstrap, scene.topics["orders"], {0: RECORDS})
    scene.fill("orders", RECORDS, MORE)
    scene.look()
    scene.print_all("at the end")


def test_the_copy_hangs(scene: Scene) -> None:
    begin(scene)
    steady(scene)
    pids = scene.copying()
    assert pids
    scene.mark("the copy hangs")
    with scene.hung(*pids):
        scene.fill("orders", RECORDS, MORE)
        scene.mark("100 more records are there")
        scene.look(2 * LOOKS)
        scene.print_all("the copy hangs")
        scene.mark("the copy goes on")
    steady(scene)
    scene.mark("the copy is killed, and 100 more records")
    for pid in scene.copying():
        os.kill(pid, signal.SIGKILL)
    scene.fill("orders", RECORDS + MORE, MORE)
    steady(scene)
    scene.print_all("at the end")


def test_the_service_is_killed(scene: Scene) -> None:
    begin(scene)
    steady(scene)
    scene.mark("the node is killed, and 100 more records")
    scene.node.kill()
    scene.fill("orders", RECORDS, MORE)
    scene.start()
    steady(scene)
    scene.look(10)
    scene.print_all("at the end")


def test_the_source_goes_and_comes(scene: Scene) -> None:
    begin(scene)
    steady(scene)
    scene.mark("A is killed")
    scene.source.kill()
    scene.look()
    scene.print_all("A is killed")
    scene.mark("A is started")
    scene.source.start()
    scene.mark("A is back")
    steady(scene)
    scene.mark("A hangs")
    with scene.hung(scene.source.process.pid):
        scene.look(5 * LOOKS)
        scene.print_all("A hangs")
        scene.mark("A goes on")
    steady(scene)
    scene.fill("orders", RECORDS, MORE)
    steady(scene)
    scene.print_all("at the end")


def test_the_target_goes_and_comes(scene: Scene) -> None:
    begin(scene)
    steady(scene)
    scene.mark("B hangs")
    with scene.hung(scene.target.process.pid):
        scene.look(10)
        scene.fill("orders", RECORDS, MORE)
        scene.mark("100 more records")
        scene.look(2 * LOOKS)
        scene.print_all("B hangs")
        scene.mark("B goes on")
    steady(scene)
    scene.mark("B is killed, and 100 more records")
    scene.target.kill()
    scene.fill("orders", RECORDS + MORE, MORE)
    scene.look()
    scene.print_all("B is killed")
    scene.mark("B is started")
    scene.target.start()
    scene.mark("B is back")
    steady(scene)
    scene.print_all("at the end")


def test_a_topic_is_taken_out(scene: Scene) -> None:
    scene.topic("orders")
    scene.topic("clicks")
    scene.group("orders-500", {("orders", 0): 500})
    scene.group("clicks-500", {("clicks", 0): 500})
    scene.group("both-700", {("clicks", 0): 700, ("orders", 0): 700})
    both = f"{scene.topics['orders']},{scene.topics['clicks']}"
    start(scene, topics=both)
    steady(scene)
    scene.mark("restarted without clicks")
    scene.configure(topics=scene.topics["orders"])
    scene.start()
    scene.node.wait_ready()
    scene.mark("it is there without clicks, and 100 more records of both")
    for name in ("orders", "clicks"):
        scene.fill(name, RECORDS, MORE)
    scene.look(2 * LOOKS)
    scene.print_all("without clicks")
    scene.mark("restarted with clicks")
    scene.configure(topics=both)
    scene.start()
    steady(scene)
    scene.print_all("at the end")


def test_partitions_are_added(scene: Scene) -> None:
    begin(scene)
    steady(scene)
    scene.mark("a second partition, and 100 records of it")
    add_partitions(scene.source.bootstrap, scene.topics["orders"], 2)
    scene.fill("orders", 0, MORE, partition=1)
    scene.look()
    scene.print_all("with a second partition")
    scene.mark("two groups have committed there")
    for name, offset, second in (("at-0", 0, 0), ("at-500", 500, 50)):
        scene.group(name, {("orders", 0): offset, ("orders", 1): second})
    steady(scene)
    scene.look()
    scene.print_all("at the end")


def test_partitions_are_added_while_the_copy_hangs(scene: Scene) -> None:
    """A consumer that has committed nothing there begins at the start, and finds nothing on B."""
    begin(scene)
    steady(scene)
    scene.mark("the copy hangs; a second partition, and 100 records of it")
    with scene.hung(*scene.copying()):
        add_partitions(scene.source.bootstrap, scene.topics["orders"], 2)
        scene.fill("orders", 0, MORE, partition=1)
        scene.look(2 * LOOKS)
        scene.print_all("with a second partition")
        scene.mark("the copy goes on")
    steady(scene)


def test_a_topic_is_made_again(scene: Scene) -> None:
    begin(scene)
    steady(scene)
    scene.mark("A's topic is deleted")
    topic = scene.topics["orders"]
    delete_topic(scene.source.bootstrap, topic)
    scene.look(15)
    scene.print_all("A's topic is deleted")
    scene.mark("it is made again, with 300 other records")
    create_topic(scene.source.bootstrap, topic)
    scene.fill("orders", 0, 300, life="second")
    scene.mark("groups have committed 0, 100 and 300")
    for name, offset in (("at-0", 0), ("at-500", 100), ("at-1000", 300)):
        scene.group(name, {("orders", 0): offset})
    scene.look(2 * LOOKS)
    scene.print_all("at the end")


def test_a_topic_is_made_again_at_once(scene: Scene) -> None:
    """With more records than it had, and groups where they were."""
    begin(scene)
    steady(scene)
    scene.mark("A's topic is made again with 1,200 other records, and groups are where they were")
    topic = scene.topics["orders"]
    delete_topic(scene.source.bootstrap, topic)
    create_topic(scene.source.bootstrap, topic)
    scene.fill("orders", 0, 1200, life="second")
    for name, offset in (("at-0", 0), ("at-500", 500), ("at-1000", 1000)):
        scene.group(name, {("orders", 0): offset})
    scene.mark("groups have committed")
    scene.look(2 * LOOKS)
    scene.print_all("at the end")


BAD = {
    "longname": "a name too long for a copy",
    "logappend": "a copy with LogAppendTime",
    "minisr": "a copy with min.insync.replicas=2",
    "small": "a copy that takes small batches only",
}


@pytest.mark.parametrize("what", BAD)
def test_a_topic_that_cannot_be_copied(scene: Scene, what: str) -> None:
    """Beside a healthy one, whose groups stay ready."""
    scene.topic("orders")
    scene.group("healthy-500", {("orders", 0): 500})
    scene.group("healthy-1000", {("orders", 0): 1000})
    start(scene, topics=".*", topics_exclude="mm2.*,heartbeats,__.*", sync_topic_configs_enabled="false")
    steady(scene)
    bad = unique("bad").ljust(248, "x") if what == "longname" else unique("bad")
    copy = f"A.{bad}"
    scene.topics["bad"] = bad
    if what == "logappend":
        create_topic(scene.target.bootstrap, copy, configs={"message.timestamp.type": "LogAppendTime"})
    elif what == "minisr":
        create_topic(scene.target.bootstrap, copy, configs={"min.insync.replicas": "2"})
    elif what == "small":
        create_topic(scene.target.bootstrap, copy, configs={"max.message.bytes": "100"})
    scene.mark(f"{BAD[what]}: a topic on A with 1,000 records, and a group at 500")
    create_topic(scene.source.bootstrap, bad)
    scene.fill("bad", 0, RECORDS)
    if what != "longname":
        scene.both.topics.append(bad)
    commit(scene.source.bootstrap, unique("of-bad"), {(bad, 0): 500})
    scene.look(2 * LOOKS)
    scene.print_all("with the bad topic")
    scene.mark("100 more records of the healthy topic")
    scene.fill("orders", RECORDS, MORE)
    scene.look()
    scene.start()
    scene.look(2 * LOOKS)
    scene.print_all("after a restart")


def test_timestamps_of_the_copy_change(scene: Scene) -> None:
    """The copy of one of two topics is set to LogAppendTime while it runs."""
    scene.topic("orders")
    scene.topic("clicks")
    scene.group("orders-500", {("orders", 0): 500})
    scene.group("clicks-500", {("clicks", 0): 500})
    topics = f"{scene.topics['orders']},{scene.topics['clicks']}"
    start(scene, topics=topics, sync_topic_configs_enabled="false")
    steady(scene)
    scene.mark("LogAppendTime for the copy of clicks, and 100 more records of both")
    set_topic_config(
        scene.target.bootstrap, "A." + scene.topics["clicks"], {"message.timestamp.type": "LogAppendTime"}
    )
    for name in ("orders", "clicks"):
        scene.fill(name, RECORDS, MORE)
    scene.look(2 * LOOKS)
    scene.print_all("at the end")


@pytest.mark.parametrize("topics", ["nothing-there.*", "nothing-there"])
def test_topics_that_are_nowhere(scene: Scene, topics: str) -> None:
    scene.topic("orders")
    scene.group("at-500", {("orders", 0): 500})
    start(scene, topics=topics)
    scene.wait_round()
    scene.look(2 * LOOKS)
    scene.print_all("at the end")
