"""The runs of a copy of many commits, whose target loses what is old."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bridge.local import Cluster
from bridge.model.copying import Copied
from bridge.model.values import TopicPartition
from bridge.translation.runs import holes, markers, partition_runs
from tests.integration.copy_flow import CopyFlow
from tests.support import bounds, delete_records
from tests.support.records import producer

RECORDS = 4000
PART = 600
ANCHOR = 128 * 1024
VALUE = b"x" * 200


def write(bootstrap: str, topic: str, first: int, count: int) -> None:
    """Five at a time, each written before the next ones are: many commits' worth."""
    with producer(bootstrap, linger_ms=0) as sink:
        for number in range(first, first + count):
            sink.produce(topic, b"%d" % number + VALUE, b"%d" % number, 0)
            if number % 5 == 4:
                sink.flush(30)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs are as short as if the copy were a long one."""
    monkeypatch.setattr(holes, "MOST_BYTES", 2)
    monkeypatch.setattr(markers, "RATIO", 1)
    monkeypatch.setattr(markers, "ANCHOR_BYTES", ANCHOR)
    monkeypatch.setattr(partition_runs, "KEPT", 1)
    monkeypatch.setattr(partition_runs, "MERGED_AT_ONCE", 1)


def copy(flow: CopyFlow, *steps: Callable[[str], None]) -> Copied:
    """A topic, while a pipeline copies it: 3,000 records before the steps, in equal parts, and the rest behind them.
    A part is committed before the next one is written: a run for each, however slow the machine is."""
    topic = flow.topic()
    with flow.pipeline(slots=1) as running:
        first = 0
        for step in (*steps, None):
            count = RECORDS - first if step is None else 3000 // len(steps)
            end = first + count
            while first < end:
                part = min(PART, end - first)
                write(flow.source.bootstrap, topic, first, part)
                first += part
                running.wait_position({TopicPartition(topic, 0): first})
            if step is not None:
                step(flow.remote(topic))
    (copied,) = flow.partitions()
    return copied


def test_what_retention_took_from_the_target_is_one_run(source: Cluster, target: Cluster) -> None:
    flow = CopyFlow(source, target, {"transaction_interval": 0.005})
    began: list[int] = []

    def take(remote: str) -> None:
        began.append(bounds(target.bootstrap, remote)[0][1] * 9 // 10)
        delete_records(target.bootstrap, remote, {0: began[0]})

    copied = copy(flow, take)
    runs = flow.runs()[copied.source].runs
    gone = [run for run in runs if run.downstream_end <= began[0]]
    assert len(gone) == 1, (began, runs)
    assert gone[0].size > ANCHOR
