"""The steps of the demo, in order.

Configurations of the demo's three connectors: our source and group offset connectors, stock's checkpoints.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Mapping
from importlib.resources import files
from typing import NamedTuple

from rich.console import Console

from bridge.demo import answers
from bridge.demo.answers import Alignment, align
from bridge.demo.data import (
    PARTITIONS,
    TOPICS,
    Amounts,
    Groups,
    Produced,
    Shape,
    admin,
    choose,
    commit,
    ends,
    produce_all,
)
from bridge.demo.failover import fail_over, first_unprocessed
from bridge.demo.logs import PartitionLog, Tp, read_logs, reader
from bridge.demo.report import Advance, Judged, Report, Steps, Verdicts, make_rows
from bridge.local import Broker, Cluster, LocalStack, WaitTimedOut, eventually
from bridge.protocol.messages import PartitionReport

CHECKPOINTS = "stock-checkpoints"
INTERVAL_SECONDS = "2"
_STOCK = "org.apache.kafka.connect.mirror."
_BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"

Config = dict[str, str]
_MIRROR_SECONDS = 120.0
_SYNC_SECONDS = 60.0
_CHECKPOINT_SECONDS = 25.0
_UNCHANGED_SECONDS = 4.0
"""Seconds without a new checkpoint after which stock counts as done: it emits every second."""


def mirror(source: Cluster, target: Cluster, service: str) -> tuple[str, Config]:
    """Returns connectors/source/connector.json for all topics, with a single replica."""
    name, config = _shipped("source", source, target, service)
    return name, config | {
        "topics": ",".join(TOPICS),
        "replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        "heartbeats.replication.enabled": "false",
        "sync.topic.acls.enabled": "false",
    }


def checkpoints(source: Cluster, target: Cluster) -> Config:
    """Stock's MirrorCheckpointConnector, with an interval of a second. It only writes checkpoints: ours commits the
    groups' offsets."""
    return _stock("MirrorCheckpointConnector", source, target) | {
        "groups": ".*",
        "sync.group.offsets.enabled": "false",
        "emit.checkpoints.interval.seconds": "1",
        "refresh.groups.interval.seconds": "1",
        "consumer.poll.timeout.ms": "200",
        "checkpoints.topic.replication.factor": "1",
    }


def ours(source: Cluster, target: Cluster, service: str) -> tuple[str, Config]:
    """Returns connectors/group_offset/connector.json, with shorter intervals."""
    name, config = _shipped("group_offset", source, target, service)
    return name, config | {
        "sync.group.offsets.interval.seconds": INTERVAL_SECONDS,
        "refresh.groups.interval.seconds": INTERVAL_SECONDS,
    }


def _shipped(kind: str, source: Cluster, target: Cluster, service: str) -> tuple[str, Config]:
    """Name and configuration of one of our connectors as shipped, with the addresses of this stack."""
    shipped = json.loads(files(f"connectors.{kind}").joinpath("connector.json").read_text("utf-8"))
    addresses = {
        "source.cluster.alias": source.name,
        "target.cluster.alias": target.name,
        "source.cluster.bootstrap.servers": source.bootstrap,
        "target.cluster.bootstrap.servers": target.bootstrap,
        "bridge.url": service,
    }
    return str(shipped["name"]), {**shipped["config"], **addresses}


def _stock(kind: str, source: Cluster, target: Cluster) -> Config:
    return {
        "connector.class": _STOCK + kind,
        "tasks.max": "1",
        "key.converter": _BYTES,
        "value.converter": _BYTES,
        "source.cluster.alias": source.name,
        "target.cluster.alias": target.name,
        "source.cluster.bootstrap.servers": source.bootstrap,
        "target.cluster.bootstrap.servers": target.bootstrap,
        "replication.factor": "1",
    }


class Played(NamedTuple):
    report: Report
    records: int
    verdicts: Verdicts
    connector: str


class Truth(NamedTuple):
    """The truth: what both logs hold, by source partition."""

    target: Mapping[Tp, PartitionLog]
    alignments: Mapping[Tp, Alignment]


def play(stack: LocalStack, records: int, started: float, shown: Console) -> Played:
    steps = Steps(shown)
    with steps.step("Starting brokers A and B, the bridge service and a Connect worker") as advance:
        stack.start_clusters()
        advance(1, 3)
        stack.service()
        advance(2, 3)
        worker = stack.worker()
    amounts = Amounts.for_total(records)
    with steps.step(f"Producing to {', '.join(TOPICS)} on A; compacting, aborting"):
        produced = produce_all(stack.source.bootstrap, amounts)
    with steps.step("Mirroring A to B on Spark with BridgeMirrorSourceConnector") as advance:
        name, config = mirror(stack.source, stack.target, stack.service().url)
        worker.rest.put(name, config)
        source = read_logs(stack.source.bootstrap, PARTITIONS, committed_only=True)
        wait_mirrored(stack, source, advance)
        worker.rest.wait_running(name)
    with steps.step("Reading both logs whole, and choosing groups"):
        truth = find_truth(stack, source)
        groups = choose(shapes(source, produced), amounts.burst)
        client = admin(stack.source.bootstrap)
        for group, offsets in groups.items():
            commit(client, group, offsets)
    name, config = ours(stack.source, stack.target, stack.service().url)
    with steps.step("Syncing groups with MirrorGroupOffsetConnector") as advance:
        worker.rest.put(name, config)
        worker.rest.put(CHECKPOINTS, checkpoints(stack.source, stack.target))
        for text in (name, CHECKPOINTS):
            worker.rest.wait_running(text)
        wait_synced(stack, name, groups, advance)
    with steps.step("Asking the timestamp rule, and stock's checkpoints"):
        judged = judge(stack, name, groups)
    first = first_unprocessed(stack.source.bootstrap, groups)
    with steps.step("Killing A; failing over: every group's consumer starts on B"):
        source_broker = stack.source
        assert isinstance(source_broker, Broker), "the demo starts its own brokers"
        source_broker.kill()
        resumed = fail_over(first, stack.target.bootstrap, stack.source.name, groups)
    rows = make_rows(groups, truth.alignments, truth.target, judged)
    return Played(Report(rows, resumed, time.monotonic() - started), produced.records, judged.verdicts, name)


def shapes(source: Mapping[Tp, PartitionLog], produced: Produced) -> dict[Tp, Shape]:
    return {tp: Shape(log.offsets, log.end, produced.aborted.get(tp, ())) for tp, log in source.items()}


def wait_mirrored(stack: LocalStack, source: Mapping[Tp, PartitionLog], advance: Advance) -> None:
    """Waits until every partition of B holds as many data records as A's. Log ends are looked at first, which is cheap,
    but they count control records too."""
    alias = stack.source.name
    copies = {(f"{alias}.{topic}", number): len(log.entries) for (topic, number), log in source.items()}
    total = sum(copies.values())

    with reader(stack.target.bootstrap, committed_only=True) as consumer:

        def mirrored() -> bool:
            log_ends = ends(consumer, copies)
            advance(min(total, sum(log_ends.values())), total)
            return all(log_ends.get(copy, 0) >= count for copy, count in copies.items())

        what = "B holds a copy of every record of A"
        eventually(mirrored, _MIRROR_SECONDS, what=what, watched=stack.watched)

    def whole() -> bool:
        logs = read_logs(stack.target.bootstrap, copies, committed_only=True)
        return all(len(logs[copy].entries) >= count for copy, count in copies.items())

    eventually(whole, _MIRROR_SECONDS, what=what, watched=stack.watched)


def find_truth(stack: LocalStack, source: Mapping[Tp, PartitionLog]) -> Truth:
    alias = stack.source.name
    copies = {(f"{alias}.{topic}", partition): (topic, partition) for topic, partition in source}
    read = read_logs(stack.target.bootstrap, copies, committed_only=True)
    target = {copies[copy]: log for copy, log in read.items()}
    return Truth(target, {tp: align(log.entries, target[tp].entries) for tp, log in source.items()})


def wait_synced(stack: LocalStack, connector: str, groups: Groups, advance: Advance) -> None:
    """Waits until the service reports every offset as committed on B. What is not committed in time is a row of the
    report without an offset, which makes the demo fail."""
    total = sum(map(len, groups.values()))

    def synced() -> bool:
        rows = verdicts(stack, connector, groups).values()
        done = sum(row.verdict != "pending" and row.written == row.target_offset for row in rows)
        advance(done, total)
        return done == total

    with contextlib.suppress(WaitTimedOut):
        eventually(synced, _SYNC_SECONDS, what="all groups have offsets on B", watched=stack.watched)


def verdicts(stack: LocalStack, connector: str, groups: Groups) -> dict[tuple[str, Tp], PartitionReport]:
    return {
        (group, tp): row
        for group in groups
        for tp, row in answers.verdicts(stack.service().url, connector, group).items()
    }


def judge(stack: LocalStack, connector: str, groups: Groups) -> Judged:
    source, target, alias = stack.source.bootstrap, stack.target.bootstrap, stack.source.name
    ours = answers.on_target(target, alias, groups)
    reported = verdicts(stack, connector, groups)
    plain = answers.by_timestamp(source, target, alias, groups)
    return Judged(plain, _last_checkpoints(target, alias), ours, reported)


def _last_checkpoints(target: str, alias: str) -> answers.Answers:
    """Stock's checkpoints once no new one comes; empty if it emits none."""
    deadline = time.monotonic() + _CHECKPOINT_SECONDS
    last, since = answers.checkpoints(target, alias), time.monotonic()
    while time.monotonic() < deadline and (not last or time.monotonic() - since < _UNCHANGED_SECONDS):
        time.sleep(0.5)
        now = answers.checkpoints(target, alias)
        if now != last:
            last, since = now, time.monotonic()
    return last
