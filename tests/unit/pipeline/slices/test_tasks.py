"""What a task of Spark makes of its slices."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle

from bridge.pipeline.layouts.slots import Slice
from bridge.pipeline.queries.arrow_function import arrow_function
from bridge.pipeline.queries.sealing import new_key, seal
from bridge.pipeline.slices import tasks
from bridge.pipeline.slices.progress_row import ProgressRow, Tally
from tests.unit.pipeline.values import spec


def slices(count: int) -> list[Slice]:
    return [Slice(spec(), 7, slot, 60.0, [], []) for slot in range(count)]


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Slices commit ten records, wait for each other, and commit one more; what became of them."""
    collected: list[str] = []
    met = asyncio.Barrier(2)

    async def copy(work: Slice, *, retried: bool, tally: Tally) -> str:
        tally.add(10, 100)
        try:
            await met.wait()
            await asyncio.sleep(0.3)
            tally.add(1, 10)
            collected.append("ended")
            return f"stopped {retried}"
        except asyncio.CancelledError:
            collected.append("cancelled")
            raise

    monkeypatch.setattr(tasks, "copy_slice", copy)
    return collected


def test_slices_of_one_partition_run_side_by_side_and_tell_what_they_commit(ended: list[str]) -> None:
    rows = list(tasks.progress(slices(2), retried=True, every=0.05))
    for slot in range(2):
        first, *more = (row for row in rows if row.slot == slot)
        own = [first, *more]
        assert (first.records, first.bytes) == (10, 100)
        # A row may come between the last record and the end.
        assert (sum(row.records for row in more), sum(row.bytes for row in more)) == (1, 10)
        assert [row.ended for row in own] == [*[None] * len(more), "stopped True"]
        assert {(row.connector, row.layout) for row in own} == {(spec().name, 7)}
        assert first.at <= more[0].at


def test_slices_end_when_nobody_asks_for_their_rows_any_more(ended: list[str]) -> None:
    rows = tasks.progress(slices(2), retried=False, every=0.05)
    assert isinstance(rows, Iterator)
    assert next(rows).records == 10
    rows.close()  # type: ignore[attr-defined]
    assert ended == ["cancelled", "cancelled"]


def test_a_failed_slice_fails_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    async def copy(work: Slice, **_: object) -> str:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(tasks, "copy_slice", copy)
    with pytest.raises(RuntimeError, match="out of memory"):
        list(tasks.progress(slices(1), retried=False))


def test_the_function_needs_none_of_our_modules_before_it_is_called(
    ended: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pickled by value: a worker of a Connect server finds them only then."""
    key = new_key()
    pickles: Any = cloudpickle
    pickled = pickles.dumps(arrow_function("mirror, layout 7", key))
    with monkeypatch.context() as without:
        for name in [name for name in sys.modules if name.partition(".")[0] == "bridge"]:
            without.setitem(sys.modules, name, None)  # importing it is an error
        function = pickles.loads(pickled)
    sealed = pa.record_batch({"slice": pa.array([seal(work, key) for work in slices(2)], pa.binary())})
    batches = list(function(iter([sealed])))
    assert {tuple(batch.schema.names) for batch in batches} == {ProgressRow._fields}
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert sum(row["records"] for row in rows) == 22
    assert [row["ended"] for row in rows if row["ended"]] == ["stopped False"] * 2
