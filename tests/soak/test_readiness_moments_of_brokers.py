"""B has three brokers, and the copy is on two of them: leaders move, are lost, and come back with less than they had.
No moment says yes where a group would miss records, and none says no for long where none would."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridge.local import DEFAULT_KAFKA, Broker, kafka_jars
from tests.soak.node_scene import NodeScene, begin, node_scene
from tests.soak.scenes import MORE, RECORDS
from tests.support import admin, eventually, set_topic_config
from tests.support.waits import WAIT

pytestmark = pytest.mark.timeout(1800)

REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
SECOND, THIRD = 2, 3
LOOKS = float(os.environ.get("MIRROR_BRIDGE_MOMENTS_SECONDS", "30"))


@pytest.fixture
def scene(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[NodeScene]:
    with node_scene(tmp_path, request.node.name, LOOKS) as made:
        yield made


class Copy:
    """The copy of `orders` on the second and the third broker of B, which join when all else is on the first."""

    def __init__(self, scene: NodeScene, directory: Path) -> None:
        self.bootstrap, self.directory = scene.target.bootstrap, directory
        self.topic = "A." + scene.topics["orders"]
        self.brokers: dict[int, Broker] = {}
        for node in (SECOND, THIRD):
            properties = {"node.id": str(node), "group.min.session.timeout.ms": "1000"}
            self.brokers[node] = scene.stack.broker(f"B{node}", properties=properties, joins=scene.target)
        set_topic_config(
            self.bootstrap,
            self.topic,
            {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"},
        )
        self.move(SECOND, THIRD)
        scene.mark("the copy is on the second and the third broker")

    def move(self, *replicas: int) -> None:
        """Moves it to these brokers; done when all of them are in sync."""
        plan = self.directory / "plan.json"
        place = {"topic": self.topic, "partition": 0, "replicas": replicas}
        plan.write_text(json.dumps({"version": 1, "partitions": [place]}))
        arguments = ["--bootstrap-server", self.bootstrap, "--reassignment-json-file", str(plan), "--execute"]
        done = subprocess.run(
            kafka_jars(DEFAULT_KAFKA).command(REASSIGN, *arguments),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        self.wait(leaders=replicas, in_sync=replicas)

    def wait(self, *, leaders: tuple[int, ...], in_sync: tuple[int, ...]) -> int:
        """Until one of these leads it, and exactly these are in sync; returns who leads."""

        def led() -> int:
            partition = (
                admin(self.bootstrap).list_topics(self.topic, timeout=WAIT).topics[self.topic].partitions[0]
            )
            state = partition.leader, sorted(partition.isrs)
            assert partition.leader in leaders, state
            assert sorted(partition.isrs) == sorted(in_sync), state
            return int(partition.leader)

        found = eventually(led, WAIT, what=f"{self.topic} is led by one of {leaders}, in sync {in_sync}")
        assert isinstance(found, int)
        return found

    def lose_the_last(self, scene: NodeScene) -> None:
        """The third broker leads without what the second alone has had."""
        scene.mark("the third broker is stopped, and 100 more records")
        self.brokers[THIRD].stop()
        self.wait(leaders=(SECOND,), in_sync=(SECOND,))
        scene.fill("orders", RECORDS, MORE)
        scene.steady()

    def elect(self, scene: NodeScene) -> None:
        scene.mark("the second is killed, the third started")
        self.brokers[SECOND].kill()
        self.brokers[THIRD].start()
        self.wait(leaders=(THIRD,), in_sync=(THIRD,))
        scene.mark("the third leads, without the last records")


def test_a_leader_lacks_the_last_copies(scene: NodeScene, tmp_path: Path) -> None:
    begin(scene)
    scene.steady()
    copy = Copy(scene, tmp_path)
    copy.lose_the_last(scene)
    copy.elect(scene)
    scene.look(2 * LOOKS)
    scene.print_all("the third leads")
    scene.mark("100 more records")
    scene.fill("orders", RECORDS + MORE, MORE)
    scene.look()
    scene.print_all("with more records")
    scene.mark("the second is started")
    copy.brokers[SECOND].start()
    copy.wait(leaders=(SECOND, THIRD), in_sync=(SECOND, THIRD))
    scene.look()
    scene.mark("groups have passed what was lost")
    for name in scene.groups:
        scene.group(name, {("orders", 0): RECORDS + 2 * MORE})
    scene.wait_whole()
    scene.look(2 * LOOKS)
    scene.print_all("at the end")


def test_a_leader_lacks_the_last_copies_while_the_source_is_away(scene: NodeScene, tmp_path: Path) -> None:
    begin(scene)
    scene.steady()
    copy = Copy(scene, tmp_path)
    copy.lose_the_last(scene)
    with scene.within("A is killed"):
        scene.source.kill()
        scene.look()
        scene.print_all("A is away")
        copy.elect(scene)
        scene.look(2 * LOOKS)
        scene.print_all("the third leads")
        scene.mark("the node is started again")
        scene.start()
        scene.look(2 * LOOKS)
        scene.print_all("started again")


def test_leaders_move(scene: NodeScene, tmp_path: Path) -> None:
    """Brokers are rolled, killed and started, with a replica in sync at any time."""
    begin(scene)
    scene.steady()
    copy = Copy(scene, tmp_path)
    done = RECORDS
    for node in (SECOND, THIRD):
        scene.mark(f"broker {node} is rolled")
        copy.brokers[node].stop()
        scene.fill("orders", done, MORE)
        done += MORE
        scene.look()
        copy.brokers[node].start()
        copy.wait(leaders=(SECOND, THIRD), in_sync=(SECOND, THIRD))
        scene.steady()
    leader = copy.wait(leaders=(SECOND, THIRD), in_sync=(SECOND, THIRD))
    scene.mark(f"broker {leader} leads, and is killed")
    copy.brokers[leader].kill()
    scene.fill("orders", done, MORE)
    scene.steady()
    scene.print_all("the leader is gone")
    copy.brokers[leader].start()
    copy.wait(leaders=(SECOND, THIRD), in_sync=(SECOND, THIRD))
    scene.mark("the copy moves to the first broker")
    copy.move(1)
    scene.fill("orders", done + MORE, MORE)
    scene.steady()
    scene.print_all("at the end")


def test_no_broker_leads_the_copy(scene: NodeScene, tmp_path: Path) -> None:
    """Both brokers are gone for a while, with A there and without."""
    begin(scene)
    scene.steady()
    copy = Copy(scene, tmp_path)
    set_topic_config(copy.bootstrap, copy.topic, {"unclean.leader.election.enable": "false"})
    for away in (False, True):
        scene.mark("both brokers of the copy are killed")
        for broker in copy.brokers.values():
            broker.kill()
        scene.look()
        scene.print_all(f"no leader, A is {'away' if away else 'there'}")
        if away:
            scene.mark("A is back")
            scene.source.start()
        for broker in copy.brokers.values():
            broker.start()
        copy.wait(leaders=(SECOND, THIRD), in_sync=(SECOND, THIRD))
        scene.steady()
        if not away:
            scene.mark("A is killed")
            scene.source.kill()
            scene.look()
    scene.print_all("at the end")
