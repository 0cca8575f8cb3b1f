"""What is decided behind a last stable offset, beside what a plain reading of all markers says."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.kafka.record.decoding import OpenTransactions
from bridge.model.copying import MOST_BYTES
from bridge.model.values import LogRecord
from tests.unit.kafka.record.raw_batches import Plain, batch_of, marker, sealed

ABORT, COMMIT = 0, 1
PRODUCERS = 3


def transactional(data: bytes, producer: int) -> bytes:
    """As a broker stores what a transactional producer sends."""
    made = bytearray(data)
    made[22] |= 0x10
    made[43:51] = producer.to_bytes(8, "big")
    return sealed(made)


def data(offset: int, producer: int, key: bytes) -> bytes:
    """A batch of one record; producer -1: outside of transactions."""
    made = bytearray(batch_of([Plain(1, key, b"%d" % offset)]))
    made[0:8] = offset.to_bytes(8, "big")
    return transactional(bytes(made), producer) if producer >= 0 else sealed(made)


def offsets(records: list[LogRecord]) -> list[int]:
    return [each.offset for each in records]


STEP = st.tuples(st.sampled_from(["data", "outside", "commit", "abort"]), st.integers(0, PRODUCERS - 1))


@given(st.lists(STEP, max_size=30), st.data())
@settings(max_examples=300, deadline=None)
def test_what_is_decided_comes_once_however_the_log_is_cut(
    steps: list[tuple[str, int]], draw: st.DataObject
) -> None:
    """Keys are of one producer each, as those of state topics are of who holds a transactional id."""
    log: list[bytes] = []
    opened: dict[int, list[int]] = {}
    decided: set[int] = set()
    for offset, (step, producer) in enumerate(steps):
        if step == "data":
            log.append(data(offset, producer, b"%d-%d" % (producer, offset)))
            opened.setdefault(producer, []).append(offset)
        elif step == "outside":
            log.append(data(offset, -1, b"outside-%d" % offset))
            decided.add(offset)
        else:
            log.append(marker(offset, COMMIT if step == "commit" else ABORT, producer))
            ended = opened.pop(producer, [])
            decided |= set(ended) if step == "commit" else set()
    transactions, told, at = OpenTransactions(), list[int](), 0
    while at < len(log):
        end = draw.draw(st.integers(at + 1, len(log)))
        part = transactions.read(b"".join(log[at:end]), at, MOST_BYTES)
        assert part is not None
        assert part.end == end
        told += offsets(part.records)
        at = end
    assert sorted(told) == sorted(decided)
    assert len(told) == len(decided)
    left = sorted(each for some in opened.values() for each in some)
    assert offsets(transactions.undecided) == left
    assert bool(transactions) == bool(left)
    if left:
        assert transactions.begin == left[0]


def test_what_is_decided_later_does_not_follow_a_newer_record_of_its_key() -> None:
    log = [data(0, 1, b"a"), data(1, 1, b"b"), data(2, 2, b"a"), marker(3, COMMIT, 2), marker(4, COMMIT, 1)]
    transactions = OpenTransactions()
    first = transactions.read(b"".join(log[:4]), 0, MOST_BYTES)
    assert first is not None
    assert offsets(first.records) == [2]
    rest = transactions.read(log[4], 4, MOST_BYTES)
    assert rest is not None
    assert offsets(rest.records) == [1]


def test_bytes_that_are_not_those_that_were_written_change_nothing() -> None:
    transactions = OpenTransactions()
    whole = data(0, 1, b"a") + marker(1, COMMIT, 1)
    assert transactions.read(whole[:-1] + b"\xff", 0, MOST_BYTES) is None
    assert not transactions
    part = transactions.read(whole, 0, MOST_BYTES)
    assert part is not None
    assert offsets(part.records) == [0]
