"""The same with Connect workers and services of their own: connectors are paused, stopped, restarted, deleted, given
other tasks and topics, and workers and services are rolled."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from bridge.local import BridgeService, ConnectFailed, ConnectWorker, LocalStack
from tests.e2e.control import our_control
from tests.e2e.flow import Flow
from tests.soak.both_logs import BothLogs
from tests.soak.moments import Sampler
from tests.soak.scenes import MORE, RECORDS, Scene
from tests.support import unique

pytestmark = pytest.mark.timeout(1800)

LOOKS = float(os.environ.get("MIRROR_BRIDGE_MOMENTS_SECONDS", "30"))
ENV = {
    "config.providers": "env",
    "config.providers.env.class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
}


@dataclass(kw_only=True)
class ConnectScene(Scene):
    """With workers of one Connect cluster, each with its service. `copy` and `names`: names of the connectors."""

    workers: Sequence[ConnectWorker]
    services: Sequence[BridgeService]
    copy: str
    names: str
    produced: int = RECORDS

    @property
    def worker(self) -> ConnectWorker:
        return self.workers[0]

    def more(self, *names: str) -> None:
        """More records of these topics."""
        for name in names or ("orders",):
            self.fill(name, self.produced, MORE)
        self.produced += MORE

    def put_copy(self, *topics: str) -> None:
        chosen = ",".join(self.topics[name] for name in topics or ("orders",))
        self._put(self.copy, our_control("Source", self._flow, topics=chosen, spark_master="local[1]"))

    def put_groups(self, *, tasks: int = 1, groups: str | None = None) -> None:
        chosen = groups or "|".join(self.groups.values())
        config = self._flow.config(chosen, tasks_max=tasks, sync_group_offsets_interval_seconds=2)
        self._put(self.names, config)

    @property
    def _flow(self) -> Flow:
        return Flow(self.source, self.target, self.worker, self.services[0])

    def _put(self, name: str, config: dict[str, str]) -> None:
        self.worker.rest.put(name, config | {"bridge.url": "${env:BRIDGE_URL}"})


def start(scene: ConnectScene, *, tasks: int = 1) -> None:
    """Answers are asked for before anything is there."""
    scene.topic("orders")
    for offset in (0, 500, RECORDS):
        scene.group(f"at-{offset}", {("orders", 0): offset})
    scene.ask()
    scene.starts.append(time.time())
    scene.mark("PUT of both connectors")
    scene.put_copy()
    scene.put_groups(tasks=tasks)
    scene.steady()


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalStack]:
    with LocalStack(tmp_path_factory.mktemp("connect"), broker_heap="256m") as stack:
        stack.start_clusters()
        yield stack


@pytest.fixture
def scene(clusters: LocalStack, request: pytest.FixtureRequest) -> Iterator[ConnectScene]:
    """`param`: how many workers and services there are, one by default."""
    with clusters.part() as stack, ExitStack() as closing:
        group = unique("connect")
        services, workers = list[BridgeService](), list[ConnectWorker]()
        for _ in range(getattr(request, "param", 1)):
            services.append(stack.service(unique("service")))
            environment = {"BRIDGE_URL": services[-1].url}
            name = unique("worker")
            workers.append(stack.worker(name, group_id=group, properties=ENV, environment=environment))
            closing.callback(workers[-1].stop)
        names = unique("groups")
        made = ConnectScene(
            stack,
            BothLogs(stack.source.bootstrap, stack.target.bootstrap),
            {f"service {at}": Sampler(each.url, names) for at, each in enumerate(services)},
            [each.process for each in services],
            [each.process.log for each in (*services, *workers)],
            LOOKS,
            workers=workers,
            services=services,
            copy=unique("copy"),
            names=names,
        )
        with made.judged(request.node.name):
            yield made
            for name in workers[0].rest.connectors():
                workers[0].rest.delete(name)


def test_connectors_are_paused_stopped_and_restarted(scene: ConnectScene) -> None:
    start(scene)
    rest = scene.worker.rest
    for name in (scene.copy, scene.names):
        what = "the copy" if name == scene.copy else "the connector of groups"
        for event, doing in (("paused", rest.pause), ("stopped", rest.stop)):
            with scene.within(f"{what} is {event}"):
                doing(name)
                scene.look(5.0)
                scene.more()
                scene.look()
                scene.print_all(f"{what} is {event}")
                rest.resume(name)
            scene.steady()
        scene.mark(f"{what} is restarted")
        rest.restart(name)
        scene.more()
        scene.steady()


def test_tasks_and_topics_change(scene: ConnectScene) -> None:
    start(scene)
    for tasks in (3, 1):
        scene.mark(f"tasks.max={tasks}")
        scene.put_groups(tasks=tasks)
        scene.more()
        scene.look()
        scene.steady()
    scene.topic("clicks")
    scene.mark("another topic, which the copy leaves out")
    scene.group("both-700", {("clicks", 0): 700, ("orders", 0): 700})
    scene.put_groups()
    scene.look()
    scene.mark("the copy takes it in")
    scene.put_copy("orders", "clicks")
    scene.steady()
    with scene.within("the copy leaves it out"):
        scene.put_copy("orders")
        scene.more("orders")
        scene.fill("clicks", RECORDS, MORE)
        scene.look(2 * LOOKS)
        scene.print_all("without clicks")
        scene.put_copy("orders", "clicks")
    scene.steady()


def test_a_worker_is_rolled_and_connectors_are_deleted(scene: ConnectScene) -> None:
    start(scene)
    with scene.within("the worker is down"):
        scene.worker.stop()
        scene.more()
        scene.look()
        scene.print_all("without a worker")
        scene.worker.start()
    scene.steady()
    for name, put in ((scene.names, scene.put_groups), (scene.copy, scene.put_copy)):
        with scene.within(f"{name} is deleted"):
            scene.worker.rest.delete(name)
            scene.look(5.0)
            scene.more()
            scene.look()
            scene.print_all(f"{name} is deleted")
            put()
        scene.steady()


@pytest.mark.parametrize("scene", [2], indirect=True, ids=["two"])
def test_workers_are_rolled_where_each_has_its_service(scene: ConnectScene) -> None:
    """With so many tasks that each service has one: it does not answer for a connector that it has not heard of."""
    start(scene, tasks=4)
    for at, worker in enumerate(scene.workers):
        with scene.within(f"worker {at} is down"):
            worker.stop()
            scene.more()
            scene.look()
            scene.print_all(f"without worker {at}")
            worker.start()
            scene.more()
            scene.wait_whole()  # tasks move back once more, and a copy that moves has a start of its own
        scene.steady()
        scene.look(2 * LOOKS)
        scene.print_all(f"worker {at} is back")
    for at, service in enumerate(scene.services):
        with scene.within(f"service {at} is down"):
            service.stop()
            scene.more()
            scene.look(5.0)
            service.start()
            scene.starts.append(time.time())
        scene.steady()
    scene.print_all("at the end")


def test_another_connect_cluster_may_not_take_the_name(scene: ConnectScene) -> None:
    start(scene)
    environment = {"BRIDGE_URL": scene.services[0].url}
    other = scene.stack.worker(unique("other"), properties=ENV, environment=environment)
    scene.mark("another Connect cluster is given connectors of these names")
    for name in (scene.names, scene.copy):
        with pytest.raises(ConnectFailed):
            other.rest.put(name, scene.worker.rest.config(name))
    scene.more()
    scene.look(2 * LOOKS)
    scene.print_all("with another Connect cluster")
    other.stop()
    scene.steady()
