"""docs/failover.md as it stands: its commands, in their order, on a real stack, with a consumer that counts records."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException

from bridge.local import Broker, LocalStack
from bridge.model.state_records.move_record import MoveRecord
from bridge.model.state_records.readiness_records import decode
from tests.e2e.control import aliased
from tests.e2e.flow import Flow, committed_offsets, exactly
from tests.e2e.mirrored_flow import PARTITIONS, RECORDS, OurFlow
from tests.support import admin, commit, create_topic, eventually, numbered, produce, read
from tests.support.brokers import RESTARTED
from tests.support.waits import WAIT

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "failover.md"
_BLOCK = re.compile(r"^ *```sh\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^## (.*)$", re.MULTILINE)


class Page:
    """The fenced blocks of the page by section; every one has to be run, in its order."""

    def __init__(self, mirrored_flow: OurFlow, folder: Path) -> None:
        """`folder`: where the commands run."""
        self._flow, self.folder = mirrored_flow, folder
        parts = _HEADING.split(PAGE.read_text("utf-8"))
        self._blocks = {
            title: _BLOCK.findall(text) for title, text in zip(parts[1::2], parts[2::2], strict=True)
        }
        self.sections = [title for title, blocks in self._blocks.items() if blocks]
        self._now: list[str] = []
        self._at = 0
        self.settings = _BLOCK.findall(parts[0])

    def section(self, title: str) -> None:
        assert self.sections.pop(0) == title
        assert not self._at or self._at == len(self._now), "a block was left out"
        self._now, self._at = self._blocks[title], 0

    def run(self, expected: str, **settings: str) -> str:
        """The next block; `expected` is the first command of it."""
        block, self._at = self._now[self._at], self._at + 1
        lines = [line.strip() for line in block.splitlines() if line.strip()]
        assert lines[0].split()[1] == expected, lines
        url = self._flow.flow.process.url
        mirrored_flow = f"{self._flow.source.name}-to-{self._flow.target.name}"
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        env = {**os.environ, "PATH": path, "SERVICE": url, "FLOW": mirrored_flow, **settings}
        done = subprocess.run(
            ["bash", "-e", "-c", "\n".join(lines)],
            env=env,
            capture_output=True,
            text=True,
            check=False,
            cwd=self.folder,
        )
        assert done.returncode == 0, f"{lines}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr
        return done.stdout

    def end(self) -> None:
        assert not self.sections
        assert self._at == len(self._now)


@dataclass
class Counting:
    """A consumer of a group that counts what it reads, wherever it runs."""

    group: str
    seen: Counter[tuple[int, bytes]] = field(default_factory=Counter)

    def read(self, bootstrap: str, topic: str, most: int | None = None) -> int:
        """Joins, reads to the end of every partition or so many records of each, commits and leaves; how many it
        read."""
        consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": self.group,
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
                "isolation.level": "read_committed",
                "session.timeout.ms": 30000,
            }
        )
        counts: Counter[int] = Counter()
        ended: set[int] = set()
        try:
            consumer.subscribe([topic])
            while len(ended) < PARTITIONS:
                message = consumer.poll(WAIT)
                assert message is not None, f"{self.group} reads nothing of {topic}"
                error, partition = message.error(), message.partition()
                assert partition is not None
                if error is not None:
                    if error.code() != KafkaError._PARTITION_EOF:
                        raise KafkaException(error)
                    ended.add(partition)
                    continue
                if most is not None and counts[partition] >= most:
                    ended.add(partition)
                    continue
                value = message.value()
                assert value is not None
                self.seen[partition, value] += 1
                counts[partition] += 1
                consumer.commit(message=message, asynchronous=False)
        finally:
            consumer.close()
        return counts.total()

    def assert_once(self, count: int) -> None:
        """So many records of each partition, each exactly once."""
        expected = {(p, b"%d-%d" % (p, n)) for p in range(PARTITIONS) for n in range(count)}
        again = {each: times for each, times in self.seen.items() if times != 1}
        assert not again, f"read more than once: {again}"
        assert set(self.seen) == expected, f"skipped: {expected - set(self.seen)}"


@pytest.fixture(scope="module")
def primary(stack: LocalStack) -> Iterator[Broker]:
    """A source that may be killed."""
    broker = stack.broker("primary", properties=RESTARTED)
    yield broker
    broker.close()


@pytest.fixture(scope="module")
def own(stack: LocalStack, primary: Broker) -> Flow:
    return Flow(primary, stack.target, stack.worker("runbook"), stack.service("runbook-service"))


def begin(mirrored_flow: OurFlow, what: str) -> tuple[str, Counting]:
    """A topic that is mirrored, and a group that has read three records of each partition on A."""
    topic, group = mirrored_flow.topic(what, shifted=False), Counting(mirrored_flow.name(what))
    mirrored_flow.commit(group.group, topic, dict.fromkeys(range(PARTITIONS), 0))
    mirrored_flow.produce(topic)
    group.read(mirrored_flow.source.bootstrap, topic, 3)
    mirrored_flow.wait_mirrored(topic)
    ready(mirrored_flow, group.group)
    return topic, group


def ready(mirrored_flow: OurFlow, *groups: str) -> None:
    def green() -> None:
        for group in groups:
            report = mirrored_flow.flow.service.report(group)
            assert report["ready"], report
            assert report["missing_records"] == 0, report

    eventually(green, WAIT, what=f"{groups} are ready", watched=mirrored_flow.flow.watched)


def test_the_runbook(own: Flow, primary: Broker, tmp_path: Path) -> None:
    mirrored_flow = OurFlow(aliased(own))
    with ExitStack() as running:
        mirror = running.enter_context(mirrored_flow.mirror())
        running.enter_context(mirrored_flow.group_offsets(f"{mirrored_flow.mark}.*"))
        page = Page(mirrored_flow, tmp_path)
        planned(mirrored_flow, page)
        unplanned(mirrored_flow, page, mirror, primary)
        drill(mirrored_flow, page)
        back_home(mirrored_flow, page)
        page.end()


def planned(mirrored_flow: OurFlow, page: Page) -> None:
    topic, group = begin(mirrored_flow, "planned")
    page.section("Planned")
    assert page.run("readiness").startswith("ready as of")
    # Producers have stopped; what is left is read on A up to the last but two.
    group.read(mirrored_flow.source.bootstrap, topic, RECORDS - 5)
    assert "can fail over" in page.run("failover", GROUP=group.group)
    output = page.run("failover", GROUP=group.group)
    assert "No record of" in output
    assert f"on {mirrored_flow.remote(topic)}" in output
    assert group.read(mirrored_flow.target.bootstrap, mirrored_flow.remote(topic)) == 2 * PARTITIONS
    group.assert_once(RECORDS)
    assert "has failed over" in page.run("explain", GROUP=group.group)
    again = mirrored_flow.flow.service.report(group.group)
    assert (again["readiness"], again["ready"]) == ("moved", False)
    page.run("plan", GROUP=group.group)
    lines = (page.folder / "offsets.csv").read_text().splitlines()
    assert len(lines) == PARTITIONS
    assert all(line.startswith(f"{mirrored_flow.remote(topic)},") for line in lines)


def unplanned(mirrored_flow: OurFlow, page: Page, mirror: str, primary: Broker) -> None:
    topic, group = begin(mirrored_flow, "unplanned")
    rest = mirrored_flow.flow.worker.rest
    rest.pause(mirror)
    rest.wait_state(mirror, "PAUSED")

    def stopped() -> None:
        (reason,) = mirrored_flow.flow.service.report(group.group)["reasons"]
        assert reason["reason"] == "copying_stopped"

    eventually(stopped, WAIT, what="nothing is copied", watched=mirrored_flow.flow.watched)
    mirrored_flow.flow.wait_copying_stopped(mirror)
    mirrored_flow.produce(topic, 5, start=RECORDS)

    def missing() -> None:
        assert mirrored_flow.flow.service.report(group.group)["missing_records"] == 5 * PARTITIONS

    eventually(missing, WAIT, what="what is missing is counted", watched=mirrored_flow.flow.watched)
    primary.kill()
    try:

        def gone() -> None:
            assert mirrored_flow.flow.service.report(group.group)["readiness"] == "ready_as_of"

        eventually(gone, WAIT, what="A is gone")
        page.section("Unplanned: A is gone")
        assert "was ready to fail over" in page.run("explain", GROUP=group.group)
        output = page.run("failover", GROUP=group.group)
        assert f"At most {5 * PARTITIONS} records" in output
        assert (
            group.read(mirrored_flow.target.bootstrap, mirrored_flow.remote(topic))
            == (RECORDS - 3) * PARTITIONS
        )
        group.assert_once(RECORDS)
    finally:
        primary.start()
    rest.resume(mirror)
    mirrored_flow.wait_mirrored(topic)
    assert group.read(mirrored_flow.target.bootstrap, mirrored_flow.remote(topic)) == 5 * PARTITIONS
    group.assert_once(RECORDS + 5)


def drill(mirrored_flow: OurFlow, page: Page) -> None:
    topic, group = begin(mirrored_flow, "drill")
    page.section("Drill")
    page.run("failover", GROUP=group.group)
    before = committed_offsets(mirrored_flow.target.bootstrap, group.group)
    other = Counting(group.group)
    assert (
        other.read(mirrored_flow.target.bootstrap, mirrored_flow.remote(topic)) == (RECORDS - 3) * PARTITIONS
    )
    assert not set(other.seen) & set(group.seen)
    assert committed_offsets(mirrored_flow.target.bootstrap, group.group) != before
    group.read(mirrored_flow.source.bootstrap, topic, 2)
    assert "ready to fail over" in page.run("rollback", GROUP=group.group)
    ready(mirrored_flow, group.group)
    # In earnest now: what A's consumer has read since the drill counts, and nothing that the drill's has.
    subprocess.run(_failover(mirrored_flow, group.group), check=True, capture_output=True)
    assert (
        group.read(mirrored_flow.target.bootstrap, mirrored_flow.remote(topic)) == (RECORDS - 5) * PARTITIONS
    )
    group.assert_once(RECORDS)


def back_home(mirrored_flow: OurFlow, page: Page) -> None:
    """There and back, with consumers that read in three places of each partition."""
    topic, group = begin(mirrored_flow, "home")
    subprocess.run(_failover(mirrored_flow, group.group), check=True, capture_output=True)
    assert group.read(mirrored_flow.target.bootstrap, mirrored_flow.remote(topic), 4) == 4 * PARTITIONS
    refused = subprocess.run(
        _failover(mirrored_flow, "--back", group.group), capture_output=True, text=True, check=False
    )
    assert refused.returncode == 1
    assert "reverse.checkpointing.enabled=true" in refused.stderr
    page.section("Failback")
    back = mirrored_flow.flow.reversed()
    with back.connector(exactly(group.group), reverse_checkpointing_enabled="true") as name:
        eventually(
            lambda: mirrored_flow.flow.service.report(group.group, name), WAIT, what="the flow back runs"
        )
        assert "failed back to" in page.run("failover", GROUP=group.group)
    assert group.read(mirrored_flow.source.bootstrap, topic) == (RECORDS - 7) * PARTITIONS
    group.assert_once(RECORDS)

    def synced() -> None:
        (report,) = [
            each
            for each in mirrored_flow.flow.service.get(f"/v1/groups/{group.group}")["reports"]
            if each["source"] == mirrored_flow.source.name
        ]
        assert report["ready"], report

    eventually(synced, WAIT, what="no alarm is left", watched=mirrored_flow.flow.watched)
    mirrored_flow.produce(topic, 5, start=RECORDS)
    mirrored_flow.wait_mirrored(topic)
    assert group.read(mirrored_flow.source.bootstrap, topic) == 5 * PARTITIONS
    group.assert_once(RECORDS + 5)
    eventually(synced, WAIT, what="the flow goes on", watched=mirrored_flow.flow.watched)


MANY = 450
"""Groups: a move writes 200 of them at a time."""


def test_a_service_that_is_killed_in_the_middle_has_moved_no_group_by_halves(own: Flow) -> None:
    """Killed as soon as the first moves are in the topic: what is there stays, the rest is not moved, the command ends
    with an error, and a repetition completes it."""
    mirrored_flow = OurFlow(aliased(own))
    topic, names = (
        mirrored_flow.name("killed"),
        [mirrored_flow.name(f"g{number:03d}") for number in range(MANY)],
    )
    create_topic(mirrored_flow.source.bootstrap, topic)
    create_topic(mirrored_flow.target.bootstrap, mirrored_flow.remote(topic))
    with mirrored_flow.group_offsets(f"{mirrored_flow.mark}.*") as connector:
        records = numbered(9, timestamp=1_700_000_000_000)
        for cluster, name in (
            (mirrored_flow.source, topic),
            (mirrored_flow.target, mirrored_flow.remote(topic)),
        ):
            produce(cluster.bootstrap, name, records)
        for name in names:
            commit(mirrored_flow.source.bootstrap, name, {(topic, 0): 5})
        readiness_of(mirrored_flow, connector, {"ready": MANY})
        command = _failover(mirrored_flow, "--all")
        done: list[subprocess.CompletedProcess[str]] = []
        running = threading.Thread(
            target=lambda: done.append(subprocess.run(command, capture_output=True, text=True, check=False))
        )
        running.start()
        eventually(lambda: len(moves(mirrored_flow)) > 0, WAIT, what="the first moves are written")
        own.process.kill()
        running.join(WAIT)
        first = moves(mirrored_flow)
        assert done[0].returncode == (0 if len(first) == MANY and "moved to" in done[0].stdout else 3), done
        own.process.start()
        readiness_of(mirrored_flow, connector, {"moved": len(first), "ready": MANY - len(first)})
        again = subprocess.run(command, capture_output=True, text=True, check=False)
        assert again.returncode == 0, again.stderr
        whole = moves(mirrored_flow)
        assert set(whole) == set(names)
        assert {name: whole[name] for name in first} == first, "what was moved keeps its time"
        readiness_of(mirrored_flow, connector, {"moved": MANY})


def _failover(mirrored_flow: OurFlow, *arguments: str) -> list[str]:
    name = f"{mirrored_flow.source.name}-to-{mirrored_flow.target.name}"
    url = mirrored_flow.flow.process.url
    return [
        f"{Path(sys.executable).parent}/mirror-bridge",
        "failover",
        *arguments,
        "--flow",
        name,
        "--url",
        url,
    ]


def moves(mirrored_flow: OurFlow) -> dict[str, MoveRecord]:
    """Those that stand in the readiness topic."""
    topic = f"mm2-group-readiness.{mirrored_flow.source.name}.internal"
    if topic not in admin(mirrored_flow.target.bootstrap).list_topics(timeout=60).topics:
        return {}
    collected: dict[str, MoveRecord] = {}
    for record in read(mirrored_flow.target.bootstrap, topic):
        key, value = decode(record.key, record.value)
        if key.kind == MoveRecord.kind:
            assert isinstance(value, MoveRecord)
            collected[key.name] = value
    return collected


def readiness_of(mirrored_flow: OurFlow, connector: str, expected: Mapping[str, int]) -> None:
    """Until the connector's groups have these answers, by number."""

    def there() -> None:
        flows = mirrored_flow.flow.service.get("/v1/readiness")["flows"]
        (result,) = [each for each in flows if each["connector"] == connector]
        assert {name: result[name] for name in expected} == dict(expected), result

    eventually(there, WAIT, what=f"{expected}", watched=mirrored_flow.flow.watched)
