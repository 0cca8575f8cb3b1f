"""A thin link to the source: fetches get so small that they come in time."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import replace

import pytest

from bridge.local import Cluster
from bridge.model.copying import PipelineState
from bridge.pipeline.layouts.slots import Slice
from tests.conftest import chosen_clusters
from tests.integration.copy_flow import CopyFlow, ThreadJobs
from tests.integration.far import far_cluster
from tests.support import Record, produce

pytestmark = pytest.mark.long

LINK = 300_000
"""Bytes per second."""
TIMEOUT_MS = 4000
PARTITIONS, RECORDS, SIZE = 8, 1000, 4000
"""4 MB: what one fetch asks for where nothing is thin. It would take 13 s."""


class ThinJobs(ThreadJobs):
    """Only the slice reads by the thin link, as far as its requests have the patience to."""

    def __init__(self, thin: Cluster) -> None:
        super().__init__(1)
        self._props = {
            "source.cluster.bootstrap.servers": thin.bootstrap,
            "source.consumer.request.timeout.ms": str(TIMEOUT_MS),
        }

    def start(self, slices: Sequence[Slice]) -> Future[list[str]]:
        return super().start(
            [
                replace(each, spec=replace(each.spec, props={**each.spec.props, **self._props}))
                for each in slices
            ]
        )


@pytest.fixture
def thin(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Cluster, Cluster]]:
    if chosen_clusters(request.config):
        pytest.skip("needs a broker from jars: it puts a proxy before it")
    with far_cluster(tmp_path_factory.mktemp("thin"), 1.0, rate=LINK) as (near, far):
        yield near, far


def test_a_thin_source_is_copied(thin: tuple[Cluster, Cluster], target: Cluster) -> None:
    near, far = thin
    flow = CopyFlow(near, target)
    dice = random.Random(7)
    records = [
        Record(dice.randbytes(SIZE), key=b"%d" % number, partition=number % PARTITIONS)
        for number in range(RECORDS)
    ]
    produce(near.bootstrap, flow.topic(PARTITIONS), records, batch_size=65536)
    with flow.pipeline(jobs=ThinJobs(far), until_caught_up=True) as running:
        assert running.ended().state is PipelineState.CAUGHT_UP
    flow.assert_copied()
    flow.assert_runs_true()
