"""The laws of the outbox: by examples, and against a model of Connect for any order of calls."""

from __future__ import annotations

import gc
import json
import os
import random
import tracemalloc
from base64 import b64decode
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from bridge.model.values import task_of
from bridge.protocol.messages import Record
from bridge.service.ipc.checkpoint_records import (
    AFFINITY,
    TEXT,
    PackedRecord,
    pack,
    pack_records,
    partition_digest,
    unpack_records,
)
from bridge.service.state import outbox as outbox_module
from bridge.service.state.outbox import Batch, Counts, Outbox, Written
from connectors.base import EmittedRecord
from tests.support.forms import examples, mostly_long
from tests.unit.service.service_fakes import session

NAME, TOPIC = "c", "A.checkpoints.internal"
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


def emitted(key: str, stamp: int, affinity: str | None = None, partition: str | None = None) -> EmittedRecord:
    """The value of a record is its timestamp: records of one key are told apart by nothing else."""
    return EmittedRecord(
        affinity=affinity if affinity is not None else key,
        source_partition={"group": partition if partition is not None else key, "partition": 0},
        source_offset={"offset": 0},
        topic=TOPIC,
        key=key.encode(),
        value=str(stamp).encode(),
        timestamp=stamp,
    )


def packed(key: str, stamp: int, affinity: str | None = None, partition: str | None = None) -> PackedRecord:
    return pack(emitted(key, stamp, affinity, partition))


def place(key: str) -> bytes:
    return partition_digest({"partition": 0, "group": key})


def read(text: bytes) -> tuple[str, int]:
    """Key and timestamp."""
    record = Record.model_validate_json(text)
    assert record.key is not None
    assert record.timestamp is not None
    return b64decode(record.key).decode(), record.timestamp


class Box:
    """One connector of an outbox, with one task unless said otherwise."""

    def __init__(self, tasks: int = 1) -> None:
        self.outbox, self.tasks, self.generation = Outbox(), tasks, 1

    def offer(self, *records: PackedRecord) -> None:
        self.outbox.offer(NAME, self.generation, self.tasks, records)

    def batch(self, seen: int | None = None, at: int = 1, task: int = 0, most: int = 500) -> Batch:
        return self.outbox.drain(NAME, self.generation, self.tasks, task, session(at), seen, most)

    def take(
        self, seen: int | None = None, at: int = 1, task: int = 0, most: int = 500
    ) -> list[tuple[str, int]]:
        return [read(text) for text in self.batch(seen, at, task, most).texts]

    def ack(self, key: str, stamp: int, at: int = 1, task: int = 0) -> Written | None:
        return self.outbox.ack(NAME, task, session(at), place(key), stamp)

    def counts(self) -> Counts:
        return self.outbox.counts(NAME)


def test_of_one_key_only_the_newest_waits_and_keeps_its_place_in_the_queue() -> None:
    box = Box()
    box.offer(packed("a", 1), packed("b", 2), packed("a", 3))
    assert box.counts() == Counts(2, 0, 1)
    assert box.take() == [("a", 3), ("b", 2)]
    assert box.counts() == Counts(0, 2, None)


def test_one_key_of_two_topics_is_two_lines() -> None:
    box = Box()
    box.offer(packed("a", 1), pack(EmittedRecord("a", {"x": 1}, {}, "heartbeats", b"a", b"", 2)))
    assert box.take() == [("a", 1), ("a", 2)]


def test_a_newer_record_is_taken_while_the_older_is_in_flight_and_one_acknowledgement_counts_for_both() -> (
    None
):
    box = Box()
    box.offer(packed("a", 1))
    assert box.take() == [("a", 1)]
    box.offer(packed("a", 2))
    assert box.take(1) == [("a", 2)]
    assert box.counts() == Counts(0, 2, None)
    assert box.ack("a", 2) == Written("a", 2, 2)
    assert box.ack("a", 2) is None
    assert box.ack("a", 1) is None
    assert box.counts() == Counts(0, 0, None)


def test_an_acknowledgement_of_the_older_leaves_the_newer_in_flight() -> None:
    box = Box()
    box.offer(packed("a", 1))
    box.take()
    box.offer(packed("a", 2))
    box.take(1)
    assert box.ack("a", 1) == Written("a", 1, 1)
    assert box.counts() == Counts(0, 1, None)
    assert box.ack("a", 9) is None
    assert box.ack("other", 2) is None


def test_records_of_one_partition_and_one_millisecond_are_not_in_flight_together() -> None:
    """Their acknowledgements would look the same."""
    box = Box()
    box.offer(packed("a", 1, "g", "p"), packed("b", 1, "g", "p"), packed("c", 2, "g", "p"))
    assert box.take() == [("a", 1), ("c", 2)]
    assert box.take(1) == []
    assert box.ack("p", 1) == Written("g", 1, 1)
    assert box.take(1) == [("b", 1)]


def test_a_lost_answer_is_handed_out_again_before_anything_else_under_the_same_number() -> None:
    box = Box()
    box.offer(packed("a", 1), packed("b", 1))
    first = box.batch(most=1)
    assert first.number == 1
    box.offer(packed("a", 2))
    assert box.batch(most=1) == first
    assert box.batch(0, most=1) == first
    second = box.batch(1)
    assert (second.number, [read(text) for text in second.texts]) == (2, [("b", 1), ("a", 2)])
    assert box.batch(1, most=1) == second, "what was lost comes whole"
    assert box.batch(2) == Batch(2, ())


def test_a_session_that_reads_on_after_the_service_was_started_anew_keeps_its_count() -> None:
    box = Box()
    assert box.batch(41) == Batch(41, ())
    box.offer(packed("a", 1))
    lost = box.batch(41)
    assert lost.number == 42
    assert box.batch(41) == lost
    assert box.batch(42) == Batch(42, ())


def test_a_new_session_is_given_what_was_in_flight_unless_a_newer_one_waits() -> None:
    box = Box()
    box.offer(packed("a", 1), packed("b", 1), packed("c", 1))
    box.take()
    box.offer(packed("b", 2))
    box.take(1)
    box.offer(packed("c", 2), packed("d", 2))
    assert box.take(at=2) == [("a", 1), ("b", 2), ("c", 2), ("d", 2)]
    assert box.ack("a", 1, at=1) is None, "an older session is not heard"
    assert box.ack("a", 1, at=2) == Written("a", 1, 1)


def test_a_record_that_is_to_be_handed_out_again_is_superseded_too() -> None:
    box = Box()
    box.offer(packed("a", 1), packed("b", 1))
    box.take()
    assert box.take(at=2, most=1) == [("a", 1)]
    box.offer(packed("b", 5))
    assert box.counts() == Counts(1, 1, 1)
    assert box.take(1, at=2) == [("b", 5)]


def test_records_go_to_the_task_of_their_affinity_and_are_dealt_anew_with_another_number_of_tasks() -> None:
    box = Box(3)
    keys = [f"g-{number}" for number in range(40)]
    box.offer(*(packed(key, 1) for key in keys))
    for task in range(3):
        assert [key for key, _ in box.take(task=task)] == [key for key in keys if task_of(key, 3) == task]
    box.offer(packed("g-0", 2))
    box.tasks = 2
    given = [dict(box.take(at=2, task=task)) for task in range(2)]
    assert given[0] | given[1] == dict.fromkeys(keys, 1) | {"g-0": 2}
    assert all(task_of(key, 2) == task for task in range(2) for key in given[task])
    assert not given[0].keys() & given[1].keys()


def test_a_later_generation_leaves_nothing_of_an_earlier_one() -> None:
    box = Box()
    box.offer(packed("a", 1), packed("b", 1))
    box.take(most=1)
    box.generation = 2
    assert box.batch(1) == Batch(1, ())
    box.outbox.offer(NAME, 1, 1, [packed("a", 9)])
    assert box.batch(1) == Batch(1, ())
    assert box.outbox.drain(NAME, 1, 1, 0, session(1), 1, 5) == Batch(1, ())
    box.offer(packed("c", 2))
    assert box.take(1) == [("c", 2)]


def test_no_more_is_in_flight_than_the_shim_can_acknowledge(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox_module, "MOST_IN_FLIGHT", 3)
    box = Box()
    box.offer(*(packed(key, 1) for key in "abcde"))
    assert [key for key, _ in box.take()] == ["a", "b", "c"]
    assert box.take(1) == []
    box.ack("b", 1)
    assert [key for key, _ in box.take(1)] == ["d"]


def test_a_connector_that_is_forgotten_leaves_nothing() -> None:
    box = Box()
    box.offer(packed("a", 1))
    box.outbox.forget(NAME)
    assert box.counts() == Counts(0, 0, None)
    assert box.ack("a", 1) is None
    assert box.take() == []


# -- any order of calls ----------------------------------------------------------------------------------------------

EXAMPLES = int(os.environ.get("MIRROR_BRIDGE_EXAMPLES", examples(40, 100)))
KEYS = [f"key-{number}" for number in range(6)]
SELDOM = st.sampled_from([False, False, False, False, True])


class Task:
    """A task in a worker, with its producer: what it has read is written in order, some time later."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.seen: int | None = None
        self.unwritten: list[tuple[str, int]] = []
        self.acks: dict[str, int] = {}


class AnyOrder(RuleBasedStateMachine):
    """Sessions come and go, answers get lost, acknowledgements are late or never come, instances are made anew."""

    def __init__(self) -> None:
        super().__init__()
        self.box = Box()
        self.stamp = self.sessions = 0
        self.tasks: list[Task] = []
        self.newest: dict[str, int] = {}
        self.topic: dict[str, int] = {}
        """What a reader of the compacted topic sees."""

    @initialize(count=st.integers(1, 3))
    def begin(self, count: int) -> None:
        self._start_all(count)

    def _start_all(self, count: int) -> None:
        self.box.tasks = count
        self.tasks = [self._task() for _ in range(count)]

    def _task(self) -> Task:
        self.sessions += 1
        return Task(self.sessions)

    @rule(keys=st.lists(st.sampled_from(KEYS), max_size=8), pause=st.booleans())
    def publish(self, keys: list[str], pause: bool) -> None:
        self.stamp += pause or not self.stamp
        for key in keys:
            self.stamp += self.newest.get(key) == self.stamp and key in KEYS[:3]
            self.newest[key] = self.stamp
            self.box.offer(packed(key, self.stamp))

    @rule(index=st.integers(0, 2), most=st.integers(1, 4), lost=st.booleans())
    def poll(self, index: int, most: int, lost: bool) -> None:
        index %= len(self.tasks)
        task = self.tasks[index]
        batch = self.box.batch(task.seen, task.at, index, most)
        given = [read(text) for text in batch.texts]
        assert all(task_of(key, len(self.tasks)) == index for key, _ in given)
        if not lost:
            assert batch.texts == () or batch.number == (task.seen or 0) + 1
            task.seen = batch.number
            task.unwritten += given

    @rule(index=st.integers(0, 2), most=st.integers(1, 6))
    def write(self, index: int, most: int) -> None:
        task = self.tasks[index % len(self.tasks)]
        for key, stamp in task.unwritten[:most]:
            assert stamp >= self.topic.get(key, 0), "an older record behind a newer one"
            self.topic[key] = task.acks[key] = stamp
        del task.unwritten[:most]

    @rule(index=st.integers(0, 2), taken=st.booleans())
    def flush(self, index: int, taken: bool) -> None:
        """The shim forgets acknowledgements only when their answer has come back."""
        index %= len(self.tasks)
        task = self.tasks[index]
        for key, stamp in task.acks.items():
            self.box.ack(key, stamp, task.at, index)
        if taken:
            task.acks = {}

    @rule(index=st.integers(0, 2), really=SELDOM)
    def restart_task(self, index: int, really: bool) -> None:
        """Its producer is closed with it: what it had read and not written is gone."""
        if really:
            self.tasks[index % len(self.tasks)] = self._task()

    @rule(count=st.integers(1, 3), really=SELDOM)
    def change_task_count(self, count: int, really: bool) -> None:
        if really and count != len(self.tasks):
            self._start_all(count)

    @rule(really=SELDOM)
    def make_the_instance_anew(self, really: bool) -> None:
        """The new one says again what it finds not written; its tasks were started with it."""
        if not really:
            return
        self.box.generation += 1
        self._start_all(len(self.tasks))
        for key, stamp in self.newest.items():
            if self.topic.get(key) != stamp:
                self.box.offer(packed(key, stamp))

    @invariant()
    def numbers_agree(self) -> None:
        waiting, in_flight, since = self.box.counts()
        assert 0 <= waiting <= len(KEYS)
        # Those of a partition have timestamps of their own.
        assert 0 <= in_flight <= len(KEYS) * self.stamp
        assert (since is None) == (waiting == 0)

    def teardown(self) -> None:
        """Once all is quiet, everything has been written, and the outbox is empty."""
        for _ in range(4):
            for index in range(len(self.tasks)):
                while True:
                    before = self.box.counts(), self.tasks[index].seen
                    self.poll(index, 4, False)
                    self.write(index, 100)
                    if before == (self.box.counts(), self.tasks[index].seen):
                        break
                self.flush(index, True)
        assert self.topic == self.newest
        assert self.box.counts() == Counts(0, 0, None)


AnyOrder.TestCase.settings = settings(max_examples=EXAMPLES, stateful_step_count=60, deadline=None)
TestAnyOrder = AnyOrder.TestCase


# -- records ---------------------------------------------------------------------------------------------------------

POSITIONS = st.dictionaries(TEXTS, TEXTS | st.integers(-(2**63), 2**63 - 1), max_size=3)


@given(
    TEXTS,
    st.lists(
        st.builds(
            EmittedRecord,
            affinity=TEXTS,
            source_partition=POSITIONS,
            source_offset=POSITIONS,
            topic=TEXTS,
            key=st.binary(max_size=9),
            value=st.binary(max_size=9),
            timestamp=st.integers(0, 2**63 - 1),
        ),
        max_size=5,
    ),
)
def test_records_cross_the_pipe_unchanged_and_read_as_the_contract_says(
    name: str, records: list[EmittedRecord]
) -> None:
    packed = [pack(record) for record in records]
    assert unpack_records(pack_records(name, 7, packed)) == (name, 7, packed)
    for record, packed_one in zip(records, packed, strict=True):
        assert packed_one[AFFINITY] == record.affinity
        parsed = Record.model_validate_json(packed_one[TEXT], strict=True)
        assert (parsed.source_partition, parsed.source_offset) == (
            record.source_partition,
            record.source_offset,
        )
        assert (parsed.topic, parsed.partition, parsed.timestamp) == (record.topic, 0, record.timestamp)
        assert b64decode(parsed.key or "") == record.key
        assert b64decode(parsed.value or "") == record.value
        shuffled = list(json.loads(packed_one[TEXT])["source_partition"].items())
        random.Random(7).shuffle(shuffled)
        assert partition_digest(dict(shuffled)) == partition_digest(record.source_partition)


@pytest.mark.parametrize(("count", "most_mb"), mostly_long([(5_000, 3.75), (20_000, 15)]))
def test_what_is_waiting_is_kept_small(count: int, most_mb: float) -> None:
    """Two records to a group; 100,000 take as many times that."""

    def frames() -> Iterator[bytes]:
        for start in range(0, count, 100):
            yield pack_records(
                NAME,
                1,
                [
                    packed(
                        f"a-group-of-consumers-{n // 2}:A.topic-{n % 50}-{n}",
                        1_795_000_000_000 + n,
                        f"g-{n // 2}",
                    )
                    for n in range(start, start + 100)
                ],
            )

    payloads = list(frames())
    box = Outbox()
    gc.collect()
    tracemalloc.start()
    for payload in payloads:
        name, generation, records = unpack_records(payload)
        box.offer(name, generation, 4, records)
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert box.counts(NAME).waiting == count
    assert used / 1e6 < most_mb
