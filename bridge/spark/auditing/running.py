"""Runs an audit as a Spark job: a task has stretches of about the same size in bytes.

The Spark session that `mirror-bridge audit` runs in, by the `spark.*` keys of the connector's configuration.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from bridge.audit.report import AuditReport, Outcome, extra_digests, name_copies, put_together, unpacked
from bridge.errors import BridgeError, ErrorCode
from bridge.model.values import TopicPartition
from bridge.pipeline.driver.jobs import SparkStart
from bridge.pipeline.driver.spark_problem import error_line
from bridge.spark.auditing.collecting import PATIENCE, Work, collect
from bridge.spark.auditing.options import AuditOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from bridge.spark.auditing.comparing import Done


TASK_BYTES = 64 * 1024 * 1024
"""Of both sides together, as they are stored; a stretch that is larger has a task of its own."""
_SOUGHT = 100_000
"""Records that a partition has too many of at most, for which the source is read again: whether they are copies."""
_DEFAULTS = {
    "spark.python.daemon.module": "bridge.spark.auditing.workers",
    "spark.sql.session.timeZone": "UTC",
}


def audited(
    spark: SparkSession, options: AuditOptions, started: Callable[[int], None] | None = None
) -> AuditReport:
    """Compares all. `started` is told how many tasks there are. Raises KafkaFailure where a cluster does not answer,
    and JobFailed; what can't be compared while it runs is in the report."""
    collected = collect(options)
    job = _Job(spark, options, collected.work)
    numbers = range(len(collected.work))
    outcomes: list[Outcome] = [
        (collected.work[done.number].stretch.sides, done.failure or unpacked(done.text))
        for done in job.run(numbers, None, started)
    ]
    partitions = put_together(collected.partitions, outcomes, options.window_ms)
    report = AuditReport(partitions, collected.failures, options.window_ms, options.sample)
    _name_copies(report, job, started)
    return report


def divided(work: Sequence[Work], numbers: Sequence[int], slots: int) -> list[list[int]]:
    """The numbers of the stretches that each task has: neighbours, so that a task has few logs."""
    total = sum(work[number].size for number in numbers)
    most = min(TASK_BYTES, max(1, total // max(1, slots)))
    tasks: list[list[int]] = []
    held = 0
    for number in numbers:
        size = work[number].size
        if tasks and held + size <= most:
            tasks[-1].append(number)
            held += size
        else:
            tasks.append([number])
            held = size
    return tasks


def _name_copies(report: AuditReport, job: _Job, started: Callable[[int], None] | None) -> None:
    """Searches the source for records that the target has in excess: a copy of a record that stands far from it is
    there twice."""
    sought = {
        part.source: digests
        for part in report.partitions
        if 0 < len(digests := extra_digests(part)) <= _SOUGHT
    }
    numbers = [number for number, work in enumerate(job.work) if work.stretch.sides.source in sought]
    if not numbers:
        return
    copies: dict[TopicPartition, dict[int, tuple[int, int]]] = {tp: {} for tp in sought}
    for done in job.run(numbers, frozenset().union(*sought.values()), started):
        if not done.failure:
            tp = job.work[done.number].stretch.sides.source
            for digest, offset, claim in json.loads(done.text):
                copies[tp].setdefault(digest, (offset, claim))
    for part in report.partitions:
        name_copies(part, copies.get(part.source, {}), report.window_ms)


class JobFailed(BridgeError):
    """Raised when the Spark job fails."""

    code = ErrorCode.CANNOT_TELL


class _Job:
    def __init__(self, spark: SparkSession, options: AuditOptions, work: Sequence[Work]) -> None:
        self._spark, self._options, self.work = spark, options, work

    def run(
        self,
        numbers: Sequence[int],
        digests: frozenset[int] | None,
        started: Callable[[int], None] | None,
    ) -> list[Done]:
        """Compares these stretches, or looks for `digests` in them."""
        tasks = divided(self.work, numbers, self._spark.sparkContext.defaultParallelism)
        if not tasks:
            return []
        if started is not None:
            started(len(tasks))
        parts = [
            [(number, self.work[number].stretch, self.work[number].rules) for number in task]
            for task in tasks
        ]
        options = self._options
        compare = _comparing(parts, options.props, options.source.committed_only, digests)
        # A number for each task: what it has to do is in the function, of which Spark shows nothing.
        context = self._spark.sparkContext
        try:
            return context.parallelize(range(len(parts)), len(parts)).mapPartitions(compare).collect()
        except Exception as error:  # whatever Spark, or the way to it, raises
            raise JobFailed(f"the Spark job failed: {error_line(error)}") from None


def _comparing(
    parts: Sequence[Sequence[Any]],
    props: Mapping[str, str],
    committed_only: bool,
    digests: frozenset[int] | None,
) -> Callable[[Iterable[int]], Iterator[Done]]:
    def compare(tasks: Iterable[int]) -> Iterator[Done]:
        from bridge.spark.auditing.comparing import ClusterAccess, compare_all, find_all

        access = ClusterAccess(props, committed_only, PATIENCE)
        for task in tasks:
            part = parts[task]
            yield from compare_all(part, access) if digests is None else find_all(part, access, digests)

    return compare


@contextmanager
def session(props: Mapping[str, str]) -> Iterator[SparkSession]:
    """A session for the time of the block."""
    from pyspark.sql import SparkSession

    started = SparkStart("audit", props, defaults=_DEFAULTS)
    try:
        yield SparkSession(started.context)
    finally:
        started.close()
