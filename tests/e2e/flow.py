"""A flow between two clusters for end-to-end tests: our connector on a real worker, and the service that it talks to.

Topics are copied by hand where a test wants to know every downstream offset: the copy begins with `shift` records
of somebody else, so that an offset carried over literally would be wrong.
"""

from __future__ import annotations

import functools
import re
import ssl
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

import httpx
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient

from bridge.local import NO_AUTHORITIES, BridgeService, Cluster, ConnectWorker
from tests.support import Record, connector, create_topic, eventually, numbered, produce, unique
from tests.support.waiting import wait_equal
from tests.support.waits import WAIT

Json = Any
"""Whatever the service answers; tests know the form."""

Places = Mapping[tuple[str, int], int]

CLASS = "MirrorGroupOffsetConnector"
FULL_CLASS = f"org.apache.kafka.connect.mirror.{CLASS}"
"""As KIP-1292's JSON has it."""
LEASE_MS = 5000
LONG_LEASE_MS = 60_000
"""Of connectors whose end is seen before their lease ends, on a busy machine too."""
SHIFT = 7


def group_config(
    source: Cluster, target: Cluster, url: str, groups: str, **settings: object
) -> dict[str, str]:
    """Our connector's JSON with intervals that suit a test; `settings` use `_` for `.`."""
    common = {
        "connector.class": CLASS,
        "tasks.max": "1",
        "source.cluster.alias": source.name,
        "target.cluster.alias": target.name,
        "source.cluster.bootstrap.servers": source.bootstrap,
        "target.cluster.bootstrap.servers": target.bootstrap,
        "groups": groups,
        "groups.exclude": "nobody",
        "refresh.groups.interval.seconds": "1",
        "sync.group.offsets.interval.seconds": "1",
        "bridge.url": url,
        "bridge.task.lease.ms": str(LEASE_MS),
    }
    return {**common, **{name.replace("_", "."): str(value) for name, value in settings.items()}}


class ServiceClient:
    """The service as operators ask it."""

    def __init__(self, url: str, tls: ssl.SSLContext | None = None, token: str | None = None) -> None:
        self.url = url
        self._verify = tls or NO_AUTHORITIES
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}

    def get(self, path: str) -> Json:
        answer = httpx.get(f"{self.url}{path}", timeout=30.0, verify=self._verify, headers=self._headers)
        answer.raise_for_status()
        return answer.json()

    def status(self, name: str) -> Json:
        return self.get(f"/v1/connectors/{quote(name, safe='')}/status")

    def health(self) -> Json:
        return self.get("/health")

    def readiness(self) -> Json:
        """The answer for everything, with its flows and reasons."""
        return self.get("/v1/readiness")

    def sessions(self, name: str) -> dict[int, str]:
        return {task["task"]: task["session"] for task in self.status(name)["tasks"]}

    def task_states(self, name: str) -> list[str]:
        return [task["state"] for task in self.status(name)["tasks"]]

    def groups(self, name: str) -> dict[str, Json]:
        """Summaries of the connector's groups by id."""
        return {
            each["group"]: each
            for each in self.get(f"/v1/groups?connector={quote(name)}&limit=1000")["groups"]
        }

    def report(self, group: str, name: str | None = None) -> Json:
        """The one report on a group; `name` where several connectors have one."""
        reports = self.get(f"/v1/groups/{quote(group, safe='')}")["reports"]
        (result,) = [each for each in reports if name in (None, each["connector"])]
        return result

    def partition(self, group: str, topic: str, partition: int = 0) -> Json:
        """The verdict on one partition of a group."""
        rows = self.report(group)["partitions"]
        (result,) = [row for row in rows if (row["topic"], row["partition"]) == (topic, partition)]
        return result


@dataclass(frozen=True)
class Flow:
    source: Cluster
    target: Cluster
    worker: ConnectWorker
    process: BridgeService

    @property
    def service(self) -> ServiceClient:
        return ServiceClient(self.process.url)

    def config(self, groups: str, **settings: object) -> dict[str, str]:
        return group_config(self.source, self.target, self.process.url, groups, **settings)

    @contextmanager
    def connector(self, groups: str, **settings: object) -> Iterator[str]:
        """Our connector, running for the time of the block."""
        with connector(self.worker, self.config(groups, **settings), unique("ours")) as name:
            yield name

    def reversed(self) -> Flow:
        """From B to A, by the same worker and service."""
        return replace(self, source=self.target, target=self.source)

    def topic(self, count: int = 100, *, partitions: int = 1, shift: int = SHIFT) -> str:
        """A topic on the source and its whole copy on the target, `shift` offsets further on."""
        topic = create_topic(self.source.bootstrap, unique("topic"), partitions)
        create_topic(self.target.bootstrap, self.remote(topic), partitions)
        for partition in range(partitions):
            if shift:
                self.foreign(topic, shift, partition)
            self.fill(topic, count, partition=partition)
        return topic

    def remote(self, topic: str) -> str:
        return f"{self.source.name}.{topic}"

    def fill(
        self, topic: str, count: int, *, start: int = 0, partition: int = 0, copy: bool = True
    ) -> list[Record]:
        """Records on the source and, unless the mirror is to be late, the same on the target."""
        began = 1_700_000_000_000 + start
        records = numbered(count, start=start, timestamp=began, partition=partition)
        produce(self.source.bootstrap, topic, records)
        if copy:
            self.copy(topic, records)
        return records

    def copy(self, topic: str, records: list[Record]) -> None:
        produce(self.target.bootstrap, self.remote(topic), records)

    def foreign(self, topic: str, count: int, partition: int = 0) -> None:
        """Records on the target that no source has, older than all others."""
        others = [
            Record(b"foreign-%d" % n, timestamp=1_600_000_000_000 + n, partition=partition)
            for n in range(count)
        ]
        produce(self.target.bootstrap, self.remote(topic), others)

    def there(self, group: str) -> dict[tuple[str, int], int]:
        """What the group has committed on the target."""
        return committed_offsets(self.target.bootstrap, group)

    def wait_there(self, group: str, expected: Places, timeout: float = WAIT) -> None:
        """Until the group stands on the target at exactly these offsets of source topics' copies."""
        remote_offsets = {
            (self.remote(topic), partition): offset for (topic, partition), offset in expected.items()
        }

        def stands() -> None:
            assert self.there(group) == remote_offsets, f"{group} stands at {self.there(group)}"

        eventually(stands, timeout, what=f"{group} stands at {remote_offsets}", watched=self.watched)

    def wait_ready(self, group: str) -> None:
        """Until the report says so; it comes a moment after the offsets that it tells of."""

        def ready() -> None:
            report = self.service.report(group)
            assert report["ready"], report

        eventually(ready, WAIT, what=f"{group} is ready", watched=self.watched)

    def wait_verdict(
        self, group: str, topic: str, verdict: str = "exact", partition: int = 0, reason: str | None = None
    ) -> Json:
        """Until the partition has this verdict; its report. It comes a moment after the offset that it tells of."""

        def reported() -> Json:
            row = self.service.partition(group, topic, partition)
            assert (row["verdict"], row["reason"]) == (verdict, reason), row
            return row

        what = f"{group} is {verdict}" + (f": {reason}" if reason else "")
        return eventually(reported, WAIT, what=what, watched=self.watched)

    def wait_reason(self, group: str, topic: str, reason: str, partition: int = 0) -> Json:
        """Until the partition is pending for this reason; its report."""
        return self.wait_verdict(group, topic, "pending", partition, reason)

    def wait_undisturbed(
        self, name: str, sessions: Mapping[int, str], configs: Sequence[Mapping[str, Any]]
    ) -> None:
        """Until all tasks run, in the sessions and with the configurations that they had: none was restarted."""
        rest = self.worker.rest
        wait_equal(lambda: self.service.sessions(name), sessions, watched=self.watched)
        wait_equal(lambda: rest.tasks(name), configs, watched=self.watched)
        wait_equal(
            lambda: [task["state"] for task in rest.status(name)["tasks"]],
            ["RUNNING"] * len(configs),
            watched=self.watched,
        )

    def wait_rounds(self, name: str, more: int = 2) -> None:
        """Until `more` rounds have ended that began after now."""
        before = self.service.status(name)["rounds"]
        what = f"{more} rounds of {name} after the {before}th"
        # The round under way when we asked may have read what was before; it does not count.
        eventually(
            lambda: self.service.status(name)["rounds"] > before + more, WAIT, what=what, watched=self.watched
        )

    def wait_newer_report(self, name: str, group: str, more: int = 2) -> Json:
        """Until the connector's report on a group counts in `more` rounds that began after now; that report."""
        before = self.service.status(name)["rounds"]

        def newer() -> Json:
            report = self.service.report(group, name)
            assert report["rounds"] > before + more, report
            return report

        what = f"a report of {name} on {group} {more} rounds after the {before}th"
        return eventually(newer, WAIT, what=what, watched=self.watched)

    def wait_copying_stopped(self, name: str) -> None:
        """Until the driver of a source connector that was paused has ended: what was under way when the pause came is
        still copied."""

        def stopped() -> None:
            totals = self.service.get(f"/v1/connectors/{quote(name, safe='')}/progress")["totals"]
            assert totals["state"] == "stopped", totals

        eventually(stopped, WAIT, what=f"{name} copies nothing any more", watched=self.watched)

    @property
    def watched(self) -> tuple[Any, ...]:
        return (*self.source.watched, *self.target.watched, self.worker.process, self.process.process)


@functools.cache
def _admin(bootstrap: str) -> AdminClient:
    """One for all polls of a cluster; it lives as long as the run and says nothing while a broker is away."""
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})


def forget_clients() -> None:
    """After a broker was restarted: clients that have seen it go ask it for a while no more."""
    _admin.cache_clear()


def committed_offsets(bootstrap: str, group: str, timeout: float = 10.0) -> dict[tuple[str, int], int]:
    """What a group has committed on a cluster; empty for one that does not exist."""
    request = [ConsumerGroupTopicPartitions(group)]
    (future,) = _admin(bootstrap).list_consumer_group_offsets(request, request_timeout=timeout).values()
    result = future.result(timeout + 1).topic_partitions or []
    return {(each.topic, each.partition): each.offset for each in result if each.offset >= 0}


def stays(holds: Callable[[], object], seconds: float, *, what: str) -> None:
    """That something does not change over a time: nothing to wait for can show that."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert holds(), f"did not stay so for {seconds:g} s: {what}"
        time.sleep(0.1)


def exactly(name: str) -> str:
    """A pattern that takes this name and nothing else."""
    return re.escape(name).replace("\\-", "-")
