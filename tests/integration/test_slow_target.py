"""A target that takes little: behind a producer quota, and behind a thin link that is far away. The copy goes on all
the same, transaction by transaction. Both are copied to at once, because each takes its time."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass, replace

import pytest

from bridge.kafka.record.batch import CONTROL, RawBatch, parse
from bridge.local import Cluster, eventually
from bridge.model.copying import PipelineState
from bridge.pipeline.layouts.slots import Slice
from tests.conftest import chosen_clusters
from tests.integration.copy_flow import CopyFlow, InProcess, ThreadJobs
from tests.integration.far import FarBroker, far_cluster
from tests.integration.quotas import quota
from tests.support import Record, numbered, produce, unique

pytestmark = pytest.mark.long

QUOTA, LINK = 500_000, 1_000_000
"""Bytes per second."""
ONE_WAY_MS = 1500.0
PARTITIONS, RECORDS, SIZE = 4, 6_000, 4000
"""24 MB: more than either takes while one transaction lasts."""
PROGRESS = {"quota": 2500, "link": 1200}
"""Records that have to be committed in time: 10 MB, twice what a quota lets through at once; and 5 MB, which the link
alone takes a good deal of a transaction's time for."""
WITHIN = 200.0
"""Seconds: a slice asks a dozen times, one after the other, before it begins, and its commits take some round trips."""


class FarJobs(ThreadJobs):
    """Only the slices go the long way: the layout before them would take as long again."""

    def __init__(self, slots: int, far: Cluster) -> None:
        super().__init__(slots)
        self._far = far

    def start(self, slices: Sequence[Slice]) -> Future[list[str]]:
        props = {"target.cluster.bootstrap.servers": self._far.bootstrap}
        return super().start(
            [replace(each, spec=replace(each.spec, props={**each.spec.props, **props})) for each in slices]
        )


@dataclass
class Slow:
    """A backlog on its way to a slow target."""

    flow: CopyFlow
    progress: int
    running: InProcess
    broker: FarBroker
    began: float

    def copied(self) -> int:
        return sum(each.position for each in self.running.status.progress.values())

    def progresses(self) -> None:
        """Copies as much as it should in time, and without aborted transactions but the first ones. One slice may be
        about to begin anew when the other has come as far: that it copies again is waited for, too."""

        def there() -> None:
            status = self.running.status
            seen = self.copied(), self.aborted(), status
            assert self.copied() >= self.progress, seen
            assert status.state is PipelineState.COPYING, seen

        eventually(there, self.began + WITHIN - time.monotonic(), what="progress")
        print(f"{self.copied()} records after {time.monotonic() - self.began:.0f} s, {self.aborted()} aborts")
        assert self.aborted() <= 3

    def aborted(self) -> int:
        """Transactions that the target's logs say were aborted: a new epoch of the producer follows each."""
        collected = set()
        for topic in self.flow.topics:
            for log in self.broker.data.glob(f"{self.flow.remote(topic)}-*/*.log"):
                for batch in parse(log.read_bytes()):
                    if _aborts(batch):
                        collected.add(bytes(batch.data[43:53]))  # producer id and epoch
        return len(collected)


def _aborts(batch: RawBatch) -> bool:
    """A marker's key is its version and its type, of which ABORT is 0."""
    return bool(batch.attributes & CONTROL) and bytes(batch.data[66:70]) == b"\0\0\0\0"


@pytest.fixture(scope="module")
def slow(
    request: pytest.FixtureRequest, source: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Slow]]:
    if chosen_clusters(request.config):
        pytest.skip("needs a broker from jars: it reads the log, and puts a proxy before it")
    with ExitStack() as stack:
        directory = tmp_path_factory.mktemp("slow")
        near, far = stack.enter_context(far_cluster(directory, ONE_WAY_MS, rate=LINK))
        client_id = unique("mirror")
        stack.enter_context(quota(near.bootstrap, client_id, QUOTA))
        limited = CopyFlow(source, near, props={"target.producer.client.id": client_id})
        distant = CopyFlow(source, near)
        collected = {}
        for name, flow, jobs in (
            ("link", distant, FarJobs(2, far)),
            ("quota", limited, ThreadJobs(2)),
        ):
            produce(source.bootstrap, flow.topic(PARTITIONS), numbered(1))
            flow.copy()  # begins where nothing is slow: the first positions are committed
            running = stack.enter_context(flow.pipeline(jobs=jobs))
            collected[name] = Slow(flow, PROGRESS[name], running, near, time.monotonic())
        for each in collected.values():
            produce(source.bootstrap, each.flow.topics[0], backlog(), batch_size=65536)
        yield collected


def backlog() -> list[Record]:
    dice = random.Random(5)
    return [
        Record(b"%d-" % number + dice.randbytes(SIZE), key=b"%d" % number, partition=number % PARTITIONS)
        for number in range(RECORDS)
    ]


@pytest.mark.parametrize("which", ["quota", "link"])
def test_a_slow_target_gets_copies_transaction_by_transaction(slow: dict[str, Slow], which: str) -> None:
    one = slow[which]
    one.progresses()
    one.running.stop()
    # What is left would take its time: without the quota, and by the near way, it takes none.
    one.flow.props = {}
    assert one.flow.copy().state is PipelineState.CAUGHT_UP
    one.flow.assert_copied()
    one.flow.assert_runs_true()
