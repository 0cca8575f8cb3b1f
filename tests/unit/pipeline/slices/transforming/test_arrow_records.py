"""Records as Arrow batches, and back."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from bridge.kafka.record.batch import parse
from bridge.kafka.record.columns import Records
from bridge.kafka.record.compression import Compression
from bridge.pipeline.slices.transforming.calls import as_batch, as_records
from bridge.transforms.contract import SCHEMA, checked
from tests.unit.kafka.record.raw_batches import NONE, NOW, Plain, batch_of, plain_records

BYTES = st.none() | st.binary(max_size=30)
PLAIN = st.builds(
    Plain,
    st.sampled_from([-1, 0, NOW, NOW + 1]),
    BYTES,
    BYTES,
    st.lists(st.tuples(st.text("aä", max_size=2), BYTES), max_size=3).map(tuple),
)


@given(st.lists(st.none() | PLAIN, min_size=1, max_size=20).filter(any), st.data())
def test_a_batch_says_what_the_records_do_and_becomes_what_is_left_of_them(
    plain: list[Plain | None], data: st.DataObject
) -> None:
    (raw,) = parse(batch_of(plain, 7))
    batch = as_batch(Records.from_batch(raw), "A.orders", 3)
    assert batch.schema == SCHEMA
    batch.validate(full=True)
    there = [(7 + at, each) for at, each in enumerate(plain) if each is not None]
    assert [
        (
            row["topic"],
            row["partition"],
            row["offset"],
            -1 if row["timestamp"] is None else int(row["timestamp"].timestamp() * 1000),
            row["key"],
            row["value"],
            [(each["key"], each["value"]) for each in row["headers"]],
        )
        for row in batch.to_pylist()
    ] == [("A.orders", 3, at, each.timestamp, each.key, each.value, list(each.headers)) for at, each in there]
    kept = data.draw(st.lists(st.booleans(), min_size=len(there), max_size=len(there)))
    left = checked(batch, batch.filter(pa.array(kept)))
    back = as_records(pa.ipc.read_record_batch(left.serialize(), SCHEMA))
    expected = [each for each, stays in zip(there, kept, strict=True) if stays]
    assert back.columns[0].tolist() == [at for at, _ in expected]
    if expected:
        assert plain_records(bytes(back.chunk(Compression(NONE), 0).data)) == [each for _, each in expected]
