"""The store of offset syncs: vectors of Kafka 4.3.1's class, stock's own cases by their names, and the invariants.

A state is written `[slot]upstream:downstream`, each sync at the first slot that holds it; without the downstream offset
where it equals the upstream one.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from itertools import combinations, pairwise
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.mm2.offset_sync_store import SLOTS, OffsetSyncStore, SyncBounds
from bridge.mm2.records import OffsetSync
from bridge.model.values import TopicPartition
from tests.support.forms import examples

TP = TopicPartition("topic1", 2)
LONGEST = 2**63 - 1
Pair = tuple[int, int]


def same(offsets: Iterable[int]) -> list[Pair]:
    return [(offset, offset) for offset in offsets]


def started(
    start_up: Iterable[Pair] = (),
    then: Iterable[Pair] = (),
    *,
    must_read_to_end: bool = True,
    mended: bool = False,
) -> OffsetSyncStore:
    store = OffsetSyncStore(must_read_to_end, mended)
    feed(store, start_up)
    store.finish_start()
    feed(store, then)
    return store


def feed(store: OffsetSyncStore, pairs: Iterable[Pair]) -> None:
    """A to C after each sync for neighbouring slots, and for all at the end."""
    for pair in pairs:
        store.apply(OffsetSync(TP, *pair))
        ups = upstream_offsets(store)
        assert ups[0] == pair[0]
        check(ups, zip(range(SLOTS), range(1, SLOTS), strict=False))
    if store.kept(TP):
        check(upstream_offsets(store), combinations(range(SLOTS), 2))


def check(ups: list[int], slots: Iterable[tuple[int, int]]) -> None:
    """B and C. Two distinct syncs may have one upstream offset: of that pair they say nothing."""
    for i, j in slots:
        if ups[i] != ups[j]:
            assert ups[i] <= ups[j] + 2**j - 2**i, f"B({i},{j})"
            assert ups[i] >= ups[j] + 2 ** max(i - 2, 0), f"C({i},{j})"


def upstream_offsets(store: OffsetSyncStore) -> list[int]:
    syncs = [store.sync_for(TP, slot) for slot in range(SLOTS)]
    return [sync.upstream_offset for sync in syncs if sync]


def kept(store: OffsetSyncStore) -> list[OffsetSync]:
    return [sync for _, sync in store.kept(TP)]


def state(store: OffsetSyncStore) -> str:
    return " ".join(
        f"[{slot}]{upstream}" if upstream == downstream else f"[{slot}]{upstream}:{downstream}"
        for slot, (_, upstream, downstream) in store.kept(TP)
    )


class Vector(NamedTuple):
    start_up: Sequence[Pair]
    then: Sequence[Pair]
    must_read_to_end: bool
    state: str
    answers: dict[int, int | None]


def sparse(*syncs: int) -> dict[int, int | None]:
    """Stock's `assertSparseSync` for each kept sync and the one before it (-1 for none)."""
    answers: dict[int, int | None] = {}
    for previous, sync in pairwise(syncs):
        answers |= {
            sync - 1: previous + 1 if previous >= 0 else -1,
            sync: sync,
            sync + 1: sync + 1,
            sync + 2: sync + 1,
        }
    return answers


TENS = same(range(0, 1001, 10))
VECTORS: dict[str, Vector] = {
    "V4 startup OffsetSyncStoreTest.testPastOffsetTranslation": Vector(
        TENS, [], True, "[0]1000", sparse(-1, 1000)
    ),
    "V4 OffsetSyncStoreTest.testPastOffsetTranslation": Vector(
        TENS,
        same(range(1010, 10001, 10)),
        True,
        "[0]10000 [5]9990 [6]9970 [7]9940 [8]9880 [9]9640 [10]9160 [11]8680 [12]6760 [13]4840 [14]1000",
        sparse(-1, 1000, 4840, 6760, 8680, 9160, 9640, 9880, 9940, 9970, 9990, 10000),
    ),
    "V5 startup OffsetSyncStoreTest.testPastOffsetTranslationWithoutInitializationReadToEnd": Vector(
        TENS,
        [],
        False,
        "[0]1000 [5]990 [6]960 [7]900 [8]840 [9]720 [10]480 [11]0",
        sparse(0, 480, 720) | sparse(990, 1000),
    ),
    "V5 OffsetSyncStoreTest.testPastOffsetTranslationWithoutInitializationReadToEnd": Vector(
        TENS,
        same(range(1000, 10001, 10)),
        False,
        "[0]10000 [5]9990 [6]9960 [7]9900 [8]9840 [9]9600 [10]9120 [11]8640 [12]7680 [13]3840 [14]0",
        sparse(0, 3840, 7680, 8640, 9120, 9600, 9840, 9900, 9960, 9990, 10000),
    ),
    "V6 after V4": Vector(
        TENS,
        [*same(range(1010, 10001, 10)), (1500, 11000)],
        True,
        "[0]1500:11000",
        {1499: -1, 1500: 11000, 2000: 11001},
    ),
    "V6 after V5": Vector(
        TENS,
        [*same(range(1000, 10001, 10)), (1500, 11000)],
        False,
        "[0]1500:11000",
        {1499: -1, 1500: 11000, 2000: 11001},
    ),
    "V7": Vector(
        [],
        same(range(0, 1_000_001, 100)),
        True,
        "[0]1000000 [8]999900 [9]999800 [10]999600 [11]999200 [12]998400 [13]995200 [14]992000 [15]985600 "
        "[16]972800 [17]921600 [18]819200 [19]614400 [20]409600 [21]0",
        {
            1000100: 1000001,
            999999: 999901,
            999890: 999801,
            999650: 999601,
            996800: 995201,
            987200: 985601,
            948800: 921601,
            897600: 819201,
            795200: 614401,
            250000: 1,
            99: 1,
        },
    ),
    "V8": Vector(
        [],
        same(range(0, 999_901, 101)),
        True,
        "[0]999900 [8]999799 [9]999698 [10]999496 [11]998688 [12]997072 [13]995456 [14]988992 [15]982528 "
        "[16]956672 [17]930816 [18]827392 [19]620544 [20]413696 [21]0",
        {},
    ),
    "V9": Vector(
        [],
        same(range(1001)),
        True,
        "[0]1000 [1]999 [2]998 [3]996 [4]992 [5]976 [6]960 [7]896 [8]768 [9]512 [10]0",
        {},
    ),
    "V10 MirrorCheckpointTaskTest.testCheckpointsTaskRestartUsesExistingCheckpoints": Vector(
        same([100, 200, 300]), [], False, "[0]300 [8]200 [9]100", {250: 201}
    ),
    "V10 after the restart": Vector(
        same([175, 275, 375, 475]),
        [],
        False,
        "[0]475 [8]375 [9]175",
        {250: 176, 370: 176, 400: 376},
    ),
    "V11 MirrorCheckpointTaskTest.testCheckpointRecordsMonotonicIfStoreRewinds": Vector(
        [],
        [(11, 4), (12, 5), (13, 6), (14, 7), (15, 8), (16, 9), (17, 10)],
        True,
        "[0]17:10 [1]16:9 [2]15:8 [3]11:4",
        {13: 5, 12: 5},
    ),
    "V12": Vector(
        [],
        [(up, up // 2) for up in range(0, 2001, 50)],
        True,
        "[0]2000:1000 [7]1950:975 [8]1900:950 [9]1800:900 [10]1600:800 [11]800:400 [12]0",
        {1: 1, 999: 401, 1501: 401, 1999: 976, 99999: 1001},
    ),
    "V12 rewound": Vector(
        [],
        [*((up, up // 2) for up in range(0, 2001, 50)), (700, 5000)],
        True,
        "[0]700:5000",
        {699: -1, 700: 5000, 2000: 5001},
    ),
    "V13 B5": Vector(
        [],
        [(100, 200), (150, 251), (200, 10)],
        True,
        "[0]200:10 [7]150:251 [8]100:200",
        {99: -1, 120: 201, 150: 251, 160: 252, 200: 10, 201: 11},
    ),
    "the same upstream offset": Vector(
        [], [(10, 10), (10, 20)], True, "[0]10:20 [1]10", {9: -1, 10: 20, 11: 21}
    ),
    "the largest offsets": Vector(
        [], [(0, LONGEST), (LONGEST, LONGEST)], True, f"[0]{LONGEST}", {1: -1, LONGEST: LONGEST}
    ),
    "a step past the largest offset": Vector(
        [], [(0, LONGEST)], True, f"[0]0:{LONGEST}", {0: LONGEST, 1: -(2**63)}
    ),
}


@pytest.mark.parametrize("vector", VECTORS.values(), ids=VECTORS)
def test_vectors(vector: Vector) -> None:
    store = started(vector.start_up, vector.then, must_read_to_end=vector.must_read_to_end)
    assert state(store) == vector.state
    assert {offset: store.translate(TP, offset) for offset in vector.answers} == vector.answers


@pytest.mark.parametrize(
    ("newest", "expected"),
    [
        (4, [4, 3, 2, 0]),
        (7, [7, 6, 4, 0]),
        (8, [8, 7, 6, 4, 0]),
        (12, [12, 11, 10, 8, 0]),
        (16, [16, 15, 14, 12, 8, 0]),
        (19, [19, 18, 16, 12, 8, 0]),
    ],
)
def test_every_offset_synced(newest: int, expected: list[int]) -> None:
    store = started(then=same(range(newest + 1)))
    assert [sync.upstream_offset for sync in kept(store)] == expected


def test_what_a_group_behind_reads_again() -> None:
    """By V7: what the way by the records has to be better than."""
    end = 1_000_000
    store = started(then=same(range(0, end + 1, 100)))
    expected = {0: 0, 50: 49, 150: 49, 500: 299, 1_000: 599, 5_000: 2_999, 10_000: 4_399, 50_000: 28_399}
    expected |= {100_000: 80_799, 250_000: 135_599, 500_000: 90_399, 590_500: 409_499, 900_000: 99_999}
    for lag, again in expected.items():
        assert store.translate(TP, end - lag) == end - lag - again, lag


def test_the_table_of_the_documentation() -> None:
    """1,000,000 records and a sync each 100: what the documentation of stock's offset translation says of them."""
    store = started(then=same(range(0, 1_000_001, 100)))
    table = [1_000_000, 999_900, 999_800, 999_600, 999_200, 921_600, 819_200, 614_400, 409_600, 0]
    assert {*table} <= {sync.upstream_offset for sync in kept(store)}
    assert [store.translate(TP, offset) for offset in table] == table
    assert store.translate(TP, 999_250) == 999_201
    assert store.translate(TP, 420_000) == 409_601
    assert store.translate(TP, 1_000_001) == 1_000_001, "the newest sync, and one"


def test_offset_translation() -> None:
    """V1, OffsetSyncStoreTest.testOffsetTranslation"""
    store = started()
    feed(store, [(100, 200)])
    assert store.translate(TP, 150) == 201
    feed(store, [(150, 251)])
    assert (store.translate(TP, 150), store.translate(TP, 5)) == (251, -1)
    feed(store, [(200, 10)])
    assert store.translate(TP, 200) == 10
    feed(store, [(20, 20)])
    assert store.translate(TP, 20) == 20


@pytest.mark.parametrize("must_read_to_end", [True, False])
def test_no_translation_if_store_not_started(must_read_to_end: bool) -> None:
    """V2, OffsetSyncStoreTest.testNoTranslationIfStoreNotStarted"""
    store = OffsetSyncStore(must_read_to_end)
    offsets = (0, 100, 200)
    assert [store.translate(TP, offset) for offset in offsets] == [None, None, None]
    feed(store, [(100, 200)])
    assert [store.translate(TP, offset) for offset in offsets] == [None, None, None]
    assert [store.bounds(TP, offset) for offset in offsets] == [None, None, None]
    store.finish_start()
    assert [store.translate(TP, offset) for offset in offsets] == [-1, 200, 201]


def test_no_translation_if_no_offset_sync() -> None:
    """V3, OffsetSyncStoreTest.testNoTranslationIfNoOffsetSync"""
    store = started()
    assert (store.translate(TP, 0), store.bounds(TP, 0), store.sync_for(TP, 0), store.kept(TP)) == (
        None,
        None,
        None,
        [],
    )


def worst_expiry(first: int, steps: Iterable[int]) -> int:
    """The most distinct syncs that one update has expired; A and D hold all along."""
    store = started()
    store.apply(OffsetSync(TP, first, first))
    offset, count, worst = first, 1, 0
    for step in steps:
        offset += step
        store.apply(OffsetSync(TP, offset, offset))
        syncs = kept(store)
        assert (syncs[0].upstream_offset, syncs[-1].upstream_offset) == (offset, first)
        worst = max(worst, count + 1 - len(syncs))
        count = len(syncs)
    return worst


def test_consistently_spaced_syncs() -> None:
    """OffsetSyncStoreTest.testConsistentlySpacedSyncs"""
    step, iterations = 1, 100
    while step < LONGEST // iterations:
        for first in range(0, 30, examples(15, 1)):
            assert worst_expiry(first, [step] * iterations) <= 1, (first, step)
        step = step * 2 + 1


def test_randomly_spaced_syncs() -> None:
    """OffsetSyncStoreTest.testRandomlySpacedSyncs"""
    rng = random.Random(0)
    for bits in range(1, 54, examples(8, 1)):
        for least in (0, 2**16):
            steps = [rng.randrange(least, least + 2**bits) for _ in range(1024)]
            assert worst_expiry(0, steps) <= bits + 2, (bits, least)


def test_dropped_syncs_spacing() -> None:
    """OffsetSyncStoreTest.testDroppedSyncsSpacing"""
    rng = random.Random(0)
    assert worst_expiry(0, [rng.choice([100, 200]) for _ in range(examples(2_500, 10_000))]) <= 2


STEPS = st.one_of(
    st.integers(0, 3),
    st.integers(0, 300),
    st.integers(0, 62).map(lambda bits: 1 << bits),
    st.integers(-500, 300),
)


@st.composite
def histories(draw: st.DrawFn) -> list[Pair]:
    """Syncs of one partition, either log going back now and then; offsets may lie near the largest one."""
    upstream = draw(st.sampled_from([0, 1000, LONGEST - 1000]))
    downstream, pairs = draw(st.integers(0, 1000)), []
    for step, moved in draw(st.lists(st.tuples(STEPS, STEPS), max_size=60)):
        upstream = min(max(upstream + step, 0), LONGEST)
        downstream = min(max(downstream + moved, 0), LONGEST)
        pairs.append((upstream, downstream))
    return pairs


def around(pairs: Iterable[Pair]) -> list[int]:
    offsets = {max(0, up + by) for up, _ in pairs for by in (-1, 0, 1)}
    return sorted(offset for offset in {0, LONGEST, *offsets} if offset <= LONGEST)


@given(histories(), histories(), st.booleans(), st.booleans())
def test_invariants(start_up: list[Pair], then: list[Pair], must_read_to_end: bool, mended: bool) -> None:
    """A to C after every sync, D at the end, and one sync in each slot; nothing but usable syncs in any."""
    store = started(start_up, then, must_read_to_end=must_read_to_end, mended=mended)
    if not start_up and not then:
        return
    syncs = [*(start_up[-1:] if must_read_to_end else start_up), *then]
    usable = syncs[:1]
    for sync in syncs[1:]:
        if sync[0] < usable[-1][0]:
            usable = []
        elif mended and sync != usable[-1] and sync[1] <= usable[-1][1]:
            usable = [each for each in usable if each[1] < sync[1]]
        usable.append(sync)
    pairs = [(sync.upstream_offset, sync.downstream_offset) for sync in kept(store)]
    assert set(pairs) <= set(usable)
    if usable[-1][0] - usable[0][0] < 2**62:
        assert pairs[-1] == usable[0]
    assert len(upstream_offsets(store)) == SLOTS


@given(histories(), st.booleans())
def test_slots_are_those_of_an_array(pairs: list[Pair], mended: bool) -> None:
    """Slot by slot what stock's `updateSyncArray` makes of an array of 64."""
    store, array = OffsetSyncStore(must_read_to_end=False, mended=mended), list[OffsetSync]()
    for pair in pairs:
        sync = OffsetSync(TP, *pair)
        store.apply(sync)
        array = updated(array, sync, mended=mended)
        assert [store.sync_for(TP, slot) for slot in range(SLOTS)] == array
        begins = [slot for slot in range(SLOTS) if slot == 0 or array[slot] is not array[slot - 1]]
        assert store.kept(TP) == [(slot, array[slot]) for slot in begins]


def updated(array: list[OffsetSync], new: OffsetSync, *, mended: bool) -> list[OffsetSync]:
    """The array after a sync; of `mended` see OffsetSyncStore."""
    if not array or new.upstream_offset < array[0].upstream_offset:
        return [new] * SLOTS
    old = list(array)
    if mended and new.downstream_offset <= old[0].downstream_offset and new != old[0]:
        left = [each for each in old if each.downstream_offset < new.downstream_offset]
        old = [left[0] if left else new] * (SLOTS - len(left)) + left
    slots, replacement, at = [new, *old[1:]], new, 0
    for slot in range(1, SLOTS):
        before = slots[slot - 1].upstream_offset
        if before <= old[slot].upstream_offset + 2**slot - 2 ** (slot - 1):
            break
        while at < slot:
            value, last = old[at], at + 1 == SLOTS or old[at + 1] is not old[at]
            if last:  # of its slots: only there it may be promoted
                apart = before >= value.upstream_offset + 2 ** max(slot - 3, 0)
                if apart:
                    near = before <= value.upstream_offset + 2**slot - 2 ** (slot - 1)
                    behind = (
                        old[slot + 1].upstream_offset if slot < SLOTS - 1 else value.upstream_offset - 2**62
                    )
                    if not near or value.upstream_offset < behind + 2 ** max(slot - 2, 0):
                        break
                    replacement = value
                    at += 1
                    break
            at += 1
        slots[slot] = replacement
    return slots


@given(histories(), st.booleans())
def test_answers_rise_with_the_offset(pairs: list[Pair], mended: bool) -> None:
    """For one state, where downstream offsets rise with the upstream ones; `mended` sees to that itself."""
    if not mended:
        pairs = list(zip(sorted({up for up, _ in pairs}), sorted({down for _, down in pairs}), strict=False))
    store = started(pairs, must_read_to_end=False, mended=mended)
    answers = [answer for offset in around(pairs) if (answer := store.translate(TP, offset)) is not None]
    assert [each for each in answers if each >= -1] == sorted(each for each in answers if each >= -1)


@given(histories())
def test_mended_never_answers_past_the_latest_sync(pairs: list[Pair]) -> None:
    """B5: after each sync every answer lies at its place plus one or below."""
    store = started(mended=True)
    for at, pair in enumerate(pairs):
        store.apply(OffsetSync(TP, *pair))
        assert all((store.translate(TP, offset) or 0) <= pair[1] + 1 for offset in around(pairs[: at + 1]))
        assert all(
            newer.downstream_offset >= older.downstream_offset for newer, older in pairwise(kept(store))
        )


@given(histories())
def test_mended_is_stock_where_the_targets_log_only_grows(pairs: list[Pair]) -> None:
    growing = [(up, down) for (up, _), down in zip(pairs, range(10, 10 * len(pairs) + 10, 10), strict=True)]
    stock, mended = (started(then=[(0, 0), *growing], mended=mended) for mended in (False, True))
    assert stock.kept(TP) == mended.kept(TP)
    assert upstream_offsets(stock) == upstream_offsets(mended)


@pytest.mark.parametrize(
    ("pairs", "expected", "answers"),
    [
        pytest.param(
            [(100, 200), (150, 251), (200, 10)], "[0]200:10", {150: -1, 200: 10, 201: 11}, id="B5, V13: anew"
        ),
        pytest.param(
            [(100, 200), (150, 251), (200, 220)],
            "[0]200:220 [8]100:200",
            {99: -1, 120: 201, 150: 201, 199: 201, 200: 220, 201: 221},
            id="B5: cut back to between two syncs",
        ),
        pytest.param(
            [(100, 200), (150, 251), (200, 251)],
            "[0]200:251 [8]100:200",
            {150: 201, 199: 201},
            id="the same place",
        ),
        pytest.param(
            [(100, 200), (150, 251), (150, 251)],
            "[0]150:251 [1]150:251 [7]100:200",
            {150: 251},
            id="sent again",
        ),
        pytest.param(
            [(100, 200), (100, 190)], "[0]100:190", {100: 190, 101: 191}, id="the same record, lower"
        ),
        pytest.param(
            [(100, 200), (100, 300)], "[0]100:300 [1]100:200", {100: 300}, id="the same record, twice"
        ),
    ],
)
def test_mended(pairs: list[Pair], expected: str, answers: dict[int, int]) -> None:
    store = started(then=pairs, mended=True)
    assert state(store) == expected
    assert {offset: store.translate(TP, offset) for offset in answers} == answers


def test_bounds() -> None:
    store = started(then=[(100, 1000), (200, 1100), (300, 1250)])
    first, last = OffsetSync(TP, 100, 1000), OffsetSync(TP, 300, 1250)
    assert [sync.upstream_offset for sync in kept(store)] == [300, 200, 100]
    assert store.bounds(TP, 99) == SyncBounds(None, first)
    assert store.bounds(TP, 100) == SyncBounds(first, first)
    assert store.bounds(TP, 250) == SyncBounds(OffsetSync(TP, 200, 1100), last)
    assert store.bounds(TP, 300) == SyncBounds(last, last)
    assert store.bounds(TP, 301) == SyncBounds(last, None)


@given(histories(), st.booleans())
def test_bounds_are_the_nearest_kept_syncs(pairs: list[Pair], mended: bool) -> None:
    store = started(pairs, must_read_to_end=False, mended=mended)
    for offset in around(pairs):
        bounds, answer = store.bounds(TP, offset), store.translate(TP, offset)
        if bounds is None:
            assert answer is None
            continue
        lower, upper = bounds
        if lower is None:
            assert answer == -1
        elif lower.upstream_offset == offset:
            assert (answer, upper) == (lower.downstream_offset, lower)
        else:
            assert answer in (lower.downstream_offset + 1, -(2**63))
        if upper is not None and upper is not lower:
            newer = [sync for sync in kept(store) if sync.upstream_offset > offset]
            assert newer[-1] == upper
        if upper is None:
            assert lower == store.sync_for(TP, 0)
