"""The acts of the demo, one step of the display each."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from typing import NamedTuple

from rich.console import Console

from bridge.demo import answers, mirrors
from bridge.demo.cluster import admin, commit, ends
from bridge.demo.data import PLACES, TOPICS, Amounts, Produced, produce_all
from bridge.demo.expected import Alignment, align
from bridge.demo.failover import fail_over, first_unprocessed
from bridge.demo.groups import Groups, Shape, choose
from bridge.demo.logs import PartitionLog, Place, read_logs, reader
from bridge.demo.report import Judged, Report, Verdicts, make_rows
from bridge.demo.show import Advance, Steps
from bridge.local import Broker, LocalStack, WaitTimedOut, eventually
from bridge.protocol.messages import PartitionReport

_MIRROR_SECONDS = 120.0
_SYNC_SECONDS = 60.0
_CHECKPOINT_SECONDS = 25.0
_CHECKPOINTS_AT_REST = 4.0
"""Stock emits every second; four without a change are its last word."""


class Played(NamedTuple):
    report: Report
    records: int
    verdicts: Verdicts
    connector: str


class Truth(NamedTuple):
    """Both sides read whole, by source partition."""

    target: Mapping[Place, PartitionLog]
    alignments: Mapping[Place, Alignment]


def play(stack: LocalStack, records: int, started: float, shown: Console) -> Played:
    steps = Steps(shown)
    with steps.step("Starting brokers A and B, the bridge service and a Connect worker") as advance:
        stack.start_clusters()
        advance(1, 3)
        stack.service()
        advance(2, 3)
        worker = stack.worker()
    amounts = Amounts.of(records)
    with steps.step(f"Producing to {', '.join(TOPICS)} on A; compacting, aborting"):
        produced = produce_all(stack.source.bootstrap, amounts)
    with steps.step("Mirroring A to B on Spark with BridgeMirrorSourceConnector") as advance:
        mirror, config = mirrors.mirror(stack.source, stack.target, stack.service().url)
        worker.rest.put(mirror, config)
        source = read_logs(stack.source.bootstrap, PLACES, committed_only=True)
        wait_mirrored(stack, source, advance)
        worker.rest.wait_running(mirror)
    with steps.step("Reading both logs whole, and choosing groups"):
        truth = find_truth(stack, source)
        groups = choose(shapes(source, produced), amounts.burst)
        client = admin(stack.source.bootstrap)
        for group, offsets in groups.items():
            commit(client, group, offsets)
    name, config = mirrors.ours(stack.source, stack.target, stack.service().url)
    with steps.step("Syncing groups with MirrorGroupOffsetConnector") as advance:
        worker.rest.put(name, config)
        worker.rest.put(mirrors.CHECKPOINTS, mirrors.checkpoints(stack.source, stack.target))
        for each in (name, mirrors.CHECKPOINTS):
            worker.rest.wait_running(each)
        wait_synced(stack, name, groups, advance)
    with steps.step("Asking the timestamp rule, and stock's checkpoints"):
        judged = judge(stack, name, groups)
    first = first_unprocessed(stack.source.bootstrap, groups)
    with steps.step("Killing A; failing over: every group's consumer starts on B"):
        source_broker = stack.source
        assert isinstance(source_broker, Broker), "the demo starts its own"
        source_broker.kill()
        resumed = fail_over(first, stack.target.bootstrap, stack.source.name, groups)
    rows = make_rows(groups, truth.alignments, truth.target, judged)
    return Played(Report(rows, resumed, time.monotonic() - started), produced.records, judged.verdicts, name)


def shapes(source: Mapping[Place, PartitionLog], produced: Produced) -> dict[Place, Shape]:
    return {
        place: Shape(log.offsets, log.end, produced.aborted.get(place, ())) for place, log in source.items()
    }


def wait_mirrored(stack: LocalStack, source: Mapping[Place, PartitionLog], advance: Advance) -> None:
    """Until every partition of B is as long as A's has data records, and then holds as many: copies have transaction
    markers between them."""
    alias = stack.source.name
    copies = {(f"{alias}.{topic}", number): len(log.entries) for (topic, number), log in source.items()}
    total = sum(copies.values())

    with reader(stack.target.bootstrap, committed_only=True) as consumer:

        def mirrored() -> bool:
            there = ends(consumer, copies)
            advance(min(total, sum(there.values())), total)
            return all(there.get(copy, 0) >= count for copy, count in copies.items())

        what = "B holds a copy of every record of A"
        eventually(mirrored, _MIRROR_SECONDS, what=what, watched=stack.watched)

    def whole() -> bool:
        there = read_logs(stack.target.bootstrap, copies, committed_only=True)
        return all(len(there[copy].entries) >= count for copy, count in copies.items())

    eventually(whole, _MIRROR_SECONDS, what=what, watched=stack.watched)


def find_truth(stack: LocalStack, source: Mapping[Place, PartitionLog]) -> Truth:
    alias = stack.source.name
    copies = {(f"{alias}.{topic}", partition): (topic, partition) for topic, partition in source}
    read = read_logs(stack.target.bootstrap, copies, committed_only=True)
    target = {copies[copy]: log for copy, log in read.items()}
    return Truth(target, {place: align(log.entries, target[place].entries) for place, log in source.items()})


def wait_synced(stack: LocalStack, connector: str, groups: Groups, advance: Advance) -> None:
    """Until the service says of every offset that it stands on B. What does not come in time is a row without an
    answer, and the demo fails by it at the end."""
    total = sum(map(len, groups.values()))

    def synced() -> bool:
        found = verdicts(stack, connector, groups).values()
        done = sum(row.verdict != "pending" and row.written == row.target_offset for row in found)
        advance(done, total)
        return done == total

    with contextlib.suppress(WaitTimedOut):
        eventually(synced, _SYNC_SECONDS, what="all groups stand on B", watched=stack.watched)


def verdicts(stack: LocalStack, connector: str, groups: Groups) -> dict[tuple[str, Place], PartitionReport]:
    return {
        (group, place): row
        for group in groups
        for place, row in answers.verdicts(stack.service().url, connector, group).items()
    }


def judge(stack: LocalStack, connector: str, groups: Groups) -> Judged:
    source, target, alias = stack.source.bootstrap, stack.target.bootstrap, stack.source.name
    ours = answers.on_target(target, alias, groups)
    found = verdicts(stack, connector, groups)
    plain = answers.by_timestamp(source, target, alias, groups)
    return Judged(plain, _stock_at_rest(target, alias), ours, found)


def _stock_at_rest(target: str, alias: str) -> answers.Answers:
    """Stock's checkpoints once no new one comes; an empty answer when it emits none at all."""
    deadline = time.monotonic() + _CHECKPOINT_SECONDS
    found, since = answers.checkpoints(target, alias), time.monotonic()
    while time.monotonic() < deadline and (not found or time.monotonic() - since < _CHECKPOINTS_AT_REST):
        time.sleep(0.5)
        now = answers.checkpoints(target, alias)
        if now != found:
            found, since = now, time.monotonic()
    return found
