"""Runs the slices of a Spark partition, with or without progress rows."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator, Sequence

from bridge.kafka.gc_tuning import collect_seldom
from bridge.pipeline.layouts.slots import Slice
from bridge.pipeline.slices.progress_row import ProgressRow, Tally
from bridge.pipeline.slices.running import copy_slice

ROW_SECONDS = 1.0
"""Seconds between two rows of a slice that copies."""


def run_slices(slices: Iterable[Slice]) -> Iterator[str]:
    """Runs slices for RDD.mapPartitions, one slice a partition; yields why each has ended."""
    collect_seldom()
    retried = is_retry()
    for work in slices:
        yield asyncio.run(copy_slice(work, retried=retried))


def progress(slices: Sequence[Slice], *, retried: bool, every: float = ROW_SECONDS) -> Iterator[ProgressRow]:
    """Runs slices side by side until all have ended; yields a row for each that has committed something in `every`
    seconds, one more when it no longer does, and one when it ends. A partition has one slice; should Spark give it
    several, none of them waits for another."""
    with asyncio.Runner() as runner:  # ends what still runs when nobody asks for rows any more
        loop, running, reported = runner.get_loop(), {}, set[int]()
        for work in slices:
            tally = Tally()
            running[loop.create_task(copy_slice(work, retried=retried, tally=tally))] = work, tally
        while running:
            done, _ = runner.run(asyncio.wait(running, timeout=every, return_when=asyncio.FIRST_COMPLETED))
            position = int(time.time() * 1_000_000)
            for task, (work, tally) in list(running.items()):
                records, size = tally.take()
                row = ProgressRow(work.spec.name, work.layout, work.slot, records, size, position)
                if task in done:
                    del running[task]
                    yield row._replace(ended=task.result())
                elif records or work.slot in reported:
                    # A row of nothing pushes the one before it out of the worker's buffer.
                    (reported.add if records else reported.discard)(work.slot)
                    yield row


def is_retry() -> bool:
    """Whether an earlier attempt of the task may have committed something."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return context is not None and context.attemptNumber() > 0
