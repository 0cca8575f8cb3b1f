"""The tasks of an index without Spark."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bridge.spark.indexing.task import PairedPart, PairTask


class InProcess:
    """Runs tasks one after the other, in the place of SparkJobs. `before`: called before each pass."""

    def __init__(self, before: Callable[[], None] = lambda: None) -> None:
        self._before = before

    def results(self, work: Callable[[PairTask], PairedPart], items: Sequence[PairTask]) -> list[PairedPart]:
        self._before()
        return [work(each) for each in items]

    def close(self) -> None:
        pass
