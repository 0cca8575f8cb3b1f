"""Messages of tasks to the driver when they have written."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql.datasource import WriterCommitMessage

from bridge.spark.writing.commits import Prepared, SinkTask, WrittenTotals


@dataclass(frozen=True)
class Wrote(WriterCommitMessage):
    """The message of one task. `again`: it was written before, and is not written again. `prepared`: the transaction
    that a task of an epoch has left open; None where it had no rows, and of a batch job, which has committed."""

    task: SinkTask
    written: WrittenTotals
    again: bool = False
    prepared: Prepared | None = None
