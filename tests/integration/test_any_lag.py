"""Groups however far behind, whose source is killed before their records are copied: by the runs of many commits
and the target alone each goes on at the exact record."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import httpx
import pytest

from bridge.kafka.consumer.fetcher import Fetcher
from bridge.local import NO_AUTHORITIES, BridgeService, LocalStack
from bridge.model.values import TopicPartition
from bridge.pipeline.slices import copier
from bridge.translation.runs import holes, partition_runs
from bridge.translation.runs.runs import OffsetRun
from tests.integration.copy_flow import CopyFlow
from tests.perf.group_rounds import DirectTasks
from tests.support import commit, committed, eventually, numbered, read, unique
from tests.support.records import producer
from tests.support.waits import WAIT

pytestmark = pytest.mark.long

FIRST, RECORDS, TRANSACTION = 10, 2500, 5
GROUPS = 40
Reports = dict[str, Any]


def lags() -> list[int]:
    """0, small ones, and in even steps up to all that there is."""
    few = range(10)
    return [*few, *(round(RECORDS * step / (GROUPS - len(few))) for step in range(1, GROUPS - len(few) + 1))]


def write(bootstrap: str, topic: str, first: int, end: int, *, transactions: bool) -> None:
    """Batches of five records each; a transaction's marker behind each of them."""
    given = {"transactional_id": unique("tx")} if transactions else {}
    with producer(bootstrap, **given) as sink:
        if transactions:
            sink.init_transactions(WAIT)
        for at in range(first, end, TRANSACTION):
            if transactions:
                sink.begin_transaction()
            for each in numbered(TRANSACTION, start=at):
                sink.produce(topic, each.value, each.key)
            assert sink.flush(WAIT) == 0
            if transactions:
                sink.commit_transaction(WAIT)


def copy(flow: CopyFlow) -> None:
    """A batch or two a commit."""
    with flow.pipeline(slots=2, until_caught_up=True, transaction_interval=0.0) as running:
        running.ended()


def merged(flow: CopyFlow, topic: str) -> list[OffsetRun]:
    """Runs of many commits."""
    runs = flow.runs()[TopicPartition(topic, 0)].runs
    assert sum(run.extra for run in runs) >= 20, [(run.upstream_count, run.extra) for run in runs]
    return [run for run in runs if run.extra > 4]


class Rounds:
    """Of a group-offset connector: one for each time that its task starts, the next ten minutes later."""

    def __init__(self, service: BridgeService, flow: CopyFlow, groups: str) -> None:
        self._service, self._name = service, unique("groups")
        self._config = {
            "source.cluster.alias": flow.alias,
            "source.cluster.bootstrap.servers": flow.source.bootstrap,
            "target.cluster.bootstrap.servers": flow.target.bootstrap,
            "groups": groups,
            "sync.group.offsets.interval.seconds": "600",
            "admin.timeout.ms": "5000",
        }

    def wait(self, what: str, holds: Callable[[Reports], object]) -> None:
        """Starts the task, until the reports by group hold; then stops it. What the service knows stays."""

        def exact() -> None:
            listed = httpx.get(
                f"{self._service.url}/v1/groups?connector={self._name}&limit=1000", verify=NO_AUTHORITIES
            ).json()
            result = {each["group"]: self._report(each["group"]) for each in listed["groups"]}
            assert holds(result), [report for report in result.values() if report["verdict"] != "exact"][:2]

        with DirectTasks(self._service.url, self._name, self._config):
            eventually(exact, WAIT, what=what, watched=[self._service.process])

    def wait_trouble(self, what: str) -> None:
        """Starts the task, until health tells of it."""
        with DirectTasks(self._service.url, self._name, self._config) as tasks:
            eventually(
                lambda: what in str(tasks.status().errors), WAIT, what=f"trouble with the {what} is told"
            )

    def _report(self, group: str) -> Any:
        (body,) = httpx.get(f"{self._service.url}/v1/groups/{group}", verify=NO_AUTHORITIES).json()["reports"]
        return body


def exact(report: Mapping[str, Any]) -> bool:
    verdicts = {(row["verdict"], row["evidence"], row["bound"]) for row in report["partitions"]}
    return (verdicts, report["reason"]) == ({("exact", "run", 0)}, "source_unreachable")


def test_forty_lags_are_exact_though_the_source_never_comes_back(
    stack: LocalStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One topic is of small transactions, and its merged runs list their holes. Those of the other tell none, as where
    lists are full: the target's headers do. The service sees the groups while nothing is copied, and the source never
    again. A service that starts later knows of no group; what was committed stands."""
    origin, service = stack.broker(unique("origin")), stack.service("any-lag")
    flow = CopyFlow(origin, stack.target)
    listed, by_headers = flow.topic(), flow.topic()
    topics = {listed: True, by_headers: False}
    for topic, transactions in topics.items():
        write(origin.bootstrap, topic, 0, FIRST, transactions=transactions)
    copy(flow)
    for topic, transactions in topics.items():
        write(origin.bootstrap, topic, FIRST, RECORDS, transactions=transactions)
    mark = unique("lag")
    groups = {f"{mark}-{lag:04d}": RECORDS - lag for lag in lags()}
    for group, processed in groups.items():
        commit(origin.bootstrap, group, {(topic, 0): behind(topics[topic], processed) for topic in topics})
    rounds = Rounds(service, flow, f"{mark}-.*")
    rounds.wait("all groups are seen", lambda reports: reports.keys() == groups.keys())

    # How many commits there are depends on how busy the machine is: few of them are left unmerged.
    monkeypatch.setattr(partition_runs, "KEPT", 4)
    monkeypatch.setattr(partition_runs, "MERGED_AT_ONCE", 2)
    monkeypatch.setattr(copier, "Fetcher", partial(Fetcher, partition_bytes=1))
    flow.topics = [listed]
    copy(flow)
    flow.topics = [by_headers]
    monkeypatch.setattr(holes, "MOST_BYTES", 1)
    copy(flow)
    assert all(run.holes for run in merged(flow, listed))
    assert not any(run.holes for run in merged(flow, by_headers))
    origin.kill()

    flow.topics = [listed, by_headers]
    rounds.wait("all are exact", lambda reports: all(map(exact, reports.values())))
    offsets = {group: committed(flow.target.bootstrap, group) for group in groups}
    assert again(flow, groups, offsets) == {}
    service.restart()
    rounds.wait_trouble("source cluster")
    assert {group: committed(flow.target.bootstrap, group) for group in groups} == offsets


def behind(transactions: bool, processed: int) -> int:
    """The offset of the record behind so many."""
    return processed + processed // TRANSACTION if transactions else processed


def again(
    flow: CopyFlow, groups: Mapping[str, int], offsets: Mapping[str, Mapping[tuple[str, int], int]]
) -> dict[tuple[str, str], int]:
    """How many records each group reads twice, or passes over (less than 0), of those that do so: what a reader finds
    on the target from where the group stands."""
    collected = {}
    for group, processed in groups.items():
        for topic in flow.topics:
            copy = flow.remote(topic)
            records = read(flow.target.bootstrap, copy, start=offsets[group][copy, 0], committed_only=True)
            if len(records) != RECORDS - processed:
                collected[group, topic] = len(records) - (RECORDS - processed)
    return collected
