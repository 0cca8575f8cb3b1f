"""Syncs applied in columns leave the slots that they leave one after the other."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.mm2 import offset_sync_columns, offset_sync_store
from bridge.mm2.offset_sync_columns import apply_columns
from bridge.mm2.offset_sync_store import OffsetSyncStore, Slots, updated
from bridge.mm2.records import OffsetSync, SyncColumns
from bridge.model.values import TopicPartition

_LAST_OFFSET = 2**63 - 1


def one_by_one(slots: dict[TopicPartition, Slots], syncs: list[OffsetSync], *, mended: bool) -> None:
    for tp, upstream, downstream in syncs:
        slots[tp] = updated(slots.get(tp), (upstream, downstream), mended=mended)


def in_columns(
    slots: dict[TopicPartition, Slots], syncs: list[OffsetSync], *, mended: bool
) -> list[OffsetSync]:
    """Applies syncs, and returns those that were left."""
    waiting = SyncColumns.from_syncs(syncs)
    return [syncs[place] for place in apply_columns(slots, waiting, mended=mended)]


def history(random: Random, tp: TopicPartition, length: int, least: int) -> list[OffsetSync]:
    """Mostly a log that grows, by steps of any size from `least` on; of 0 also with equal syncs, and cut back."""
    syncs: list[OffsetSync] = []
    upstream = downstream = 0
    largest = random.choice((0, 3, 7, 12, 40, 61))
    cut_back = 0 if least else random.choice((0, 0, 0, 0.1))
    for _ in range(length):
        kind = random.random()
        if kind < cut_back:
            upstream, downstream = random.choice(
                ((upstream // 2, downstream), (upstream, downstream // 2), (upstream, max(downstream - 1, 0)))
            )
        elif least or kind > 0.05:
            step = least + random.randrange(2 ** random.randint(0, largest) + 1)
            upstream = min(upstream + step, _LAST_OFFSET)
            downstream = min(downstream + step + random.randrange(1, 3), _LAST_OFFSET)
        syncs.append(OffsetSync(tp, upstream, downstream))
    return syncs


def interleaved(random: Random, histories: list[list[OffsetSync]]) -> list[OffsetSync]:
    """All histories in one log, each in its order."""
    turns = [number for number, each in enumerate(histories) for _ in each]
    random.shuffle(turns)
    following = [iter(each) for each in histories]
    return [next(following[number]) for number in turns]


@settings(max_examples=20)
@given(st.integers(0), st.booleans())
def test_columns_leave_what_one_after_the_other_leaves(seed: int, mended: bool) -> None:
    random = Random(seed)
    partitions = [
        TopicPartition(f"topic-{number // 7}", number % 7) for number in range(random.randint(60, 150))
    ]
    usual, least = random.randint(8, 40), random.choice((0, 1, 3, 101, 2**20))
    histories = [
        history(random, tp, random.choice((usual, usual, usual, usual, usual + 1, 1, 2, 200)), least)
        for tp in partitions
    ]
    before = random.randrange(usual)
    expected: dict[TopicPartition, Slots] = {}
    one_by_one(expected, [sync for each in histories for sync in each[:before]], mended=mended)
    slots = {tp: Slots(list(each.pairs), list(each.ends)) for tp, each in expected.items()}
    syncs = interleaved(random, [each[before:] for each in histories])
    left = in_columns(slots, syncs, mended=mended)
    one_by_one(slots, left, mended=mended)
    one_by_one(expected, syncs, mended=mended)
    assert slots == expected


@pytest.mark.parametrize(
    ("partitions", "each", "left"), [(100, 50, 0), (63, 50, 63 * 50), (100, 8, 800), (100, 9, 0)]
)
def test_what_is_left(partitions: int, each: int, left: int) -> None:
    """The first sync of a partition fills its slots, so nine are eight rounds."""
    syncs = [
        OffsetSync(TopicPartition("orders", number), at, at)
        for at in range(each)
        for number in range(partitions)
    ]
    assert len(in_columns({}, syncs, mended=True)) == left


def test_a_few_syncs_of_many_partitions_are_left() -> None:
    """A column for each of them would take more time than their syncs."""
    many = [OffsetSync(TopicPartition("cold", number), 5, 5) for number in range(1000)]
    syncs = [OffsetSync(TopicPartition("hot", number), at, at) for at in range(20) for number in range(100)]
    assert in_columns({}, [*many, *syncs], mended=False) == many


@pytest.mark.parametrize("must_read_to_end", [False, True])
def test_a_store_that_applies_many_together_answers_as_one_that_is_asked_after_each(
    must_read_to_end: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offset_sync_store, "MANY", 800)
    monkeypatch.setattr(offset_sync_store, "TOGETHER", 2500)
    random = Random(7)
    partitions = [TopicPartition("orders", number) for number in range(100)]
    syncs = interleaved(random, [history(random, each, 100, 3) for each in partitions])
    together, each_asked = OffsetSyncStore(must_read_to_end), OffsetSyncStore(must_read_to_end)
    for sync in syncs:
        together.apply(sync)
        each_asked.apply(sync)
        each_asked.kept(sync.topic_partition)
    for store in (together, each_asked):
        store.finish_start()
    assert [together.kept(each) for each in partitions] == [each_asked.kept(each) for each in partitions]


def test_syncs_that_an_error_held_up_are_applied_later(monkeypatch: pytest.MonkeyPatch) -> None:
    store, tp = OffsetSyncStore(must_read_to_end=False), TopicPartition("orders", 0)
    with monkeypatch.context() as broken:
        broken.setattr(offset_sync_store, "MANY", 1)
        broken.setattr(offset_sync_columns, "apply_columns", _fails)
        store.apply(OffsetSync(tp, 5, 7))
        with pytest.raises(MemoryError):
            store.finish_start()
    store.finish_start()
    assert store.translate(tp, 5) == 7


def _fails(*_: object, **__: object) -> None:
    raise MemoryError


def test_a_partition_that_was_cut_back_is_left_whole_and_in_order() -> None:
    syncs = [
        OffsetSync(TopicPartition("orders", number), at, at) for at in range(20) for number in range(100)
    ]
    cut = TopicPartition("orders", 42)
    syncs.append(OffsetSync(cut, 3, 21))
    assert in_columns({}, syncs, mended=False) == [sync for sync in syncs if sync.topic_partition == cut]
