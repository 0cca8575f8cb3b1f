"""Messages of tasks to the driver when they have written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql.datasource import WriterCommitMessage

from bridge.spark.writing.commits import SinkTask, WrittenTotals, verify_partitions


@dataclass(frozen=True)
class Wrote(WriterCommitMessage):
    """The message of one task. `others`: Spark partitions of its epoch that were written before. `again`: it was
    written before, and is not written again."""

    task: SinkTask
    written: WrittenTotals
    others: frozenset[int] = frozenset()
    again: bool = False


def verify_epoch(messages: Sequence[WriterCommitMessage | None]) -> None:
    """Raises SourceRejected when the epoch was written in more Spark partitions before."""
    for message in messages:
        if isinstance(message, Wrote):
            verify_partitions(message.others, message.task, len(messages))
