"""The driver with plain processes instead of Spark's workers: what Spark adds is the difference.

python -m tests.perf.without_spark    (standard input and output: bridge.pipeline.driver.frames)
"""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from unittest import mock

from bridge.kafka.gc_tuning import collect_seldom
from bridge.pipeline.driver import main as driver
from bridge.pipeline.layouts.slots import Slice
from bridge.pipeline.slices.running import copy_slice


def _run(work: Slice) -> str:
    collect_seldom()  # as on Spark: what Spark adds is a row of the benchmark
    return asyncio.run(copy_slice(work))


class ProcessJobs:
    """As SparkJobs, with `local[N]` for N processes."""

    ui = ""

    def __init__(self, _name: str, props: Mapping[str, str], _functions: Sequence[str] = ()) -> None:
        self.slots = int(props["spark.master"].removeprefix("local[").removesuffix("]"))
        self._pool = ProcessPoolExecutor(self.slots, multiprocessing.get_context("spawn"))
        list(self._pool.map(abs, range(self.slots)))

    def start(self, slices: Sequence[Slice]) -> Future[list[str]]:
        ends = [self._pool.submit(_run, work) for work in slices]
        all_: Future[list[str]] = Future()

        def ended(_: Future[str]) -> None:
            if all(each.done() for each in ends) and not all_.done():
                all_.set_result([each.result() for each in ends])

        for each in ends:
            each.add_done_callback(ended)
        return all_

    def lost(self) -> str:
        return ""

    def cancel(self) -> None:
        raise AssertionError("slices did not end in time")

    def close(self) -> None:
        self._pool.shutdown()


if __name__ == "__main__":
    with mock.patch.object(driver, "SparkJobs", ProcessJobs):
        driver.main()
