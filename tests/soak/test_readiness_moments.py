"""Whatever happens to two clusters and a node of dedicated mode between them: no moment says yes where a group would
miss records, and no moment says no for long where none would."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.soak.both_logs import BothLogs
from tests.soak.moments import Sampler
from tests.soak.node_scene import NodeScene, begin, node_scene, start
from tests.soak.scenes import MORE, RECORDS, hung
from tests.support import (
    add_partitions,
    commit,
    committed,
    create_topic,
    delete_records,
    delete_topic,
    set_topic_config,
    unique,
)

pytestmark = pytest.mark.timeout(1800)


LOOKS = float(os.environ.get("MIRROR_BRIDGE_MOMENTS_SECONDS", "30"))


@pytest.fixture
def scene(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[NodeScene]:
    with node_scene(tmp_path, request.node.name, LOOKS, getattr(request, "param", None)) as made:
        yield made


def test_the_first_start(scene: NodeScene) -> None:
    begin(scene)
    scene.steady()
    scene.look()
    scene.print_all("at the end")


NOWHERE = "spark://127.0.0.1:9"


@pytest.mark.parametrize(
    "scene", [{"MIRROR_BRIDGE_ALLOWED_SPARK_MASTERS": NOWHERE}], indirect=True, ids=["nowhere"]
)
def test_spark_does_not_start(scene: NodeScene) -> None:
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
def test_no_java(scene: NodeScene) -> None:
    begin(scene)
    scene.wait_round()
    scene.look(2 * LOOKS)
    scene.print_all("at the end")


def test_the_copy_begins_at_the_end(scene: NodeScene) -> None:
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


def test_the_copy_is_deleted(scene: NodeScene) -> None:
    begin(scene)
    scene.steady()
    scene.mark("the copy is deleted")
    delete_topic(scene.target.bootstrap, "A." + scene.topics["orders"])
    scene.look()
    scene.print_all("the copy is deleted")
    scene.mark("100 more records")
    scene.fill("orders", RECORDS, MORE)
    scene.look()
    scene.print_all("after 100 more records")


def test_records_are_deleted(scene: NodeScene) -> None:
    begin(scene)
    scene.steady()
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
    scene.mark("A's topic is empty, and has 100 more records")
    delete_records(scene.source.bootstrap, scene.topics["orders"], {0: RECORDS + MORE})
    scene.fill("orders", RECORDS + MORE, MORE)
    scene.look()
    scene.print_all("at the end")


def test_the_copy_hangs(scene: NodeScene) -> None:
    begin(scene)
    scene.steady()
    pids = scene.copying()
    assert pids
    scene.mark("the copy hangs")
    with hung(*pids):
        scene.fill("orders", RECORDS, MORE)
        scene.mark("100 more records are there")
        scene.look(2 * LOOKS)
        scene.print_all("the copy hangs")
        scene.mark("the copy goes on")
    scene.steady()
    scene.mark("the copy is killed, and 100 more records")
    for pid in scene.copying():
        os.kill(pid, signal.SIGKILL)
    scene.fill("orders", RECORDS + MORE, MORE)
    scene.steady()
    scene.print_all("at the end")


def test_the_service_is_killed(scene: NodeScene) -> None:
    begin(scene)
    scene.steady()
    scene.mark("the node is killed, and 100 more records")
    scene.node.kill()
    scene.fill("orders", RECORDS, MORE)
    scene.start()
    scene.steady()
    scene.look(10)
    scene.print_all("at the end")


def test_the_source_goes_and_comes(scene: NodeScene) -> None:
    begin(scene)
    scene.steady()
    scene.mark("A is killed")
    scene.source.kill()
    scene.look()
    scene.print_all("A is killed")
    scene.mark("A is started")
    scene.source.start()
    scene.mark("A is back")
    scene.steady()
    scene.mark("A hangs")
    with hung(scene.source.process.pid):
        scene.look(5 * LOOKS)
        scene.print_all("A hangs")
        scene.mark("A goes on")
    scene.steady()
    scene.fill("orders", RECORDS, MORE)
    scene.steady()
    scene.print_all("at the end")


def test_the_target_goes_and_comes(scene: NodeScene) -> None:
    begin(scene)
    scene.steady()
    scene.mark("B hangs")
    with hung(scene.target.process.pid):
        scene.look(10)
        scene.fill("orders", RECORDS, MORE)
        scene.mark("100 more records")
        scene.look(2 * LOOKS)
        scene.print_all("B hangs")
        scene.mark("B goes on")
    scene.steady()
    scene.mark("B is killed, and 100 more records")
    scene.target.kill()
    scene.fill("orders", RECORDS + MORE, MORE)
    scene.look()
    scene.print_all("B is killed")
    scene.mark("B is started")
    scene.target.start()
    scene.mark("B is back")
    scene.steady()
    scene.print_all("at the end")


def test_a_topic_is_taken_out(scene: NodeScene) -> None:
    scene.topic("orders")
    scene.topic("clicks")
    scene.group("orders-500", {("orders", 0): 500})
    scene.group("clicks-500", {("clicks", 0): 500})
    scene.group("both-700", {("clicks", 0): 700, ("orders", 0): 700})
    both = f"{scene.topics['orders']},{scene.topics['clicks']}"
    start(scene, topics=both)
    scene.steady()
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
    scene.steady()
    scene.print_all("at the end")


def test_partitions_are_added(scene: NodeScene) -> None:
    begin(scene)
    scene.steady()
    scene.mark("a second partition, and 100 records of it")
    add_partitions(scene.source.bootstrap, scene.topics["orders"], 2)
    scene.fill("orders", 0, MORE, partition=1)
    scene.look()
    scene.print_all("with a second partition")
    scene.mark("two groups have committed there")
    for name, offset, second in (("at-0", 0, 0), ("at-500", 500, 50)):
        scene.group(name, {("orders", 0): offset, ("orders", 1): second})
    scene.steady()
    scene.look()
    scene.print_all("at the end")


def test_a_group_has_committed_nothing_where_the_copy_lacks_records(scene: NodeScene) -> None:
    """The copy begins at the end, and B deletes more of it; A goes away, and with it who could tell anew."""
    scene.properties["A.consumer.auto.offset.reset"] = "latest"
    topic = scene.topic("orders", 100, partitions=2)
    scene.fill("orders", 0, 100, partition=1)
    scene.group("beside", {("orders", 1): 100})
    start(scene, topics=topic)
    scene.wait_copying()
    scene.look()
    for partition in range(2):
        scene.fill("orders", 100, 20, partition=partition)
    scene.steady()
    scene.look()
    scene.print_all("100 records of the other partition are on A alone")
    scene.mark("B deletes 10 copies more")
    delete_records(scene.target.bootstrap, f"A.{topic}", {0: 10})
    scene.look()
    scene.print_all("and 10 more")
    with scene.within("A is killed"):
        scene.source.kill()
        scene.look()
        scene.print_all("A is away")
        scene.mark("B deletes 5 more")
        delete_records(scene.target.bootstrap, f"A.{topic}", {0: 15})
        scene.look()
        scene.print_all("and 5 more")


def test_partitions_are_added_while_the_copy_hangs(scene: NodeScene) -> None:
    """A consumer that has committed nothing there begins at the start, and finds nothing on B."""
    begin(scene)
    scene.steady()
    scene.mark("the copy hangs; a second partition, and 100 records of it")
    with hung(*scene.copying()):
        add_partitions(scene.source.bootstrap, scene.topics["orders"], 2)
        scene.fill("orders", 0, MORE, partition=1)
        scene.look(2 * LOOKS)
        scene.print_all("with a second partition")
        scene.mark("the copy goes on")
    scene.steady()


def test_a_topic_is_made_again(scene: NodeScene) -> None:
    begin(scene)
    scene.steady()
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


def test_a_topic_is_made_again_at_once(scene: NodeScene) -> None:
    """With more records than it had, and groups where they were."""
    begin(scene)
    scene.steady()
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
def test_a_topic_that_cannot_be_copied(scene: NodeScene, what: str) -> None:
    """Beside a healthy one, whose groups stay ready."""
    scene.topic("orders")
    scene.group("healthy-500", {("orders", 0): 500})
    scene.group("healthy-1000", {("orders", 0): 1000})
    start(scene, topics=".*", topics_exclude="mm2.*,heartbeats,__.*", sync_topic_configs_enabled="false")
    scene.steady()
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


def test_timestamps_of_the_copy_change(scene: NodeScene) -> None:
    """The copy of one of two topics is set to LogAppendTime while it runs."""
    scene.topic("orders")
    scene.topic("clicks")
    scene.group("orders-500", {("orders", 0): 500})
    scene.group("clicks-500", {("clicks", 0): 500})
    topics = f"{scene.topics['orders']},{scene.topics['clicks']}"
    start(scene, topics=topics, sync_topic_configs_enabled="false")
    scene.steady()
    scene.mark("LogAppendTime for the copy of clicks, and 100 more records of both")
    set_topic_config(
        scene.target.bootstrap, "A." + scene.topics["clicks"], {"message.timestamp.type": "LogAppendTime"}
    )
    for name in ("orders", "clicks"):
        scene.fill(name, RECORDS, MORE)
    scene.look(2 * LOOKS)
    scene.print_all("at the end")


@pytest.mark.parametrize("topics", ["nothing-there.*", "nothing-there"])
def test_topics_that_are_nowhere(scene: NodeScene, topics: str) -> None:
    scene.topic("orders")
    scene.group("at-500", {("orders", 0): 500})
    start(scene, topics=topics)
    scene.wait_round()
    scene.look(2 * LOOKS)
    scene.print_all("at the end")


def test_groups_go_there_and_back(scene: NodeScene) -> None:
    """Twice, with an idle partition; both flows bring home the groups of the other side."""
    topic = scene.topic("orders", partitions=2)
    scene.fill("orders", 0, RECORDS, partition=1)
    for name, offset in (("first", 0), ("second", 500), ("third", 900)):
        scene.group(name, {("orders", 0): offset, ("orders", 1): 300})
    for flow in ("A->B", "B->A"):
        scene.properties[f"{flow}.enabled"] = "true"
        scene.properties[f"{flow}.reverse.checkpointing.enabled"] = "true"
    node, sampler = scene.node, scene.samplers["the node"]
    sampler.connector = "A->B.MirrorCheckpointConnector"
    both = BothLogs(scene.target.bootstrap, scene.source.bootstrap, lambda name: name.removeprefix("A."))
    samplers = {"the way back": Sampler(node.url, "B->A.MirrorCheckpointConnector")}
    back = NodeScene(scene.stack, both, samplers, [node.process], [], LOOKS, node=node)
    back.groups, back.starts, back.marks, back.began = scene.groups, scene.starts, scene.marks, scene.began
    both.topics, both.groups = [f"A.{topic}"], scene.both.groups
    with back.judged("test_groups_go_there_and_back-back"):
        back.ask()
        start(scene, topics="orders.*")
        for times in (1, 2):
            with back.within("the groups are on A"):
                scene.steady()
                scene.print_all(f"before move {times}")
                assert scene.command("failover", "--all", "--flow", "A-to-B") == 0, scene.printed[-1]
            scene.mark(f"the groups have moved {times} time(s)")
            for group in scene.groups.values():
                place = (f"A.{topic}", 0)
                at = committed(scene.target.bootstrap, group)[place]
                commit(scene.target.bootstrap, group, {place: at + 50})
            scene.fill("orders", RECORDS * (1 + times), MORE)
            back.steady()
            scene.print_all(f"after move {times}")
            scene.look()
            with back.within("the groups are back on A"):
                back_again = ("failover", "--back", "--all", "--flow", "A-to-B")
                assert scene.command(*back_again) == 0, scene.printed[-1]
                scene.steady()
