"""Where copying goes on, and what is missing there: promise R7, decided before anything is committed."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.model.copying import Copied, Gap, GapKind
from bridge.model.lookups import Window
from bridge.model.state_records.fields import SchemaError
from bridge.model.values import Bounds, Side, TopicPartition
from bridge.pipeline.slices.gaps import (
    Resume,
    RunCheck,
    agreement,
    contradicted,
    doubted,
    holds_none,
    ledger_entry,
    reach,
    read_ledger,
    refusal,
    resume,
)
from bridge.translation.runs.holes import CopySpan, listed
from bridge.translation.runs.runs import OffsetRun
from tests.unit.connectors.fake_clusters import Row
from tests.unit.pipeline.values import copied

NOW = 1_700_000_000_000
WHOLE = Bounds(0, 1000)


def run(
    position: int = 500, *, downstream: int = 500, ids: tuple[str, str] = ("source-id", "target-id")
) -> OffsetRun:
    """Everything from 0 to `position` was copied to the same offsets, up to `downstream`."""
    place = TopicPartition("orders", 0)
    return OffsetRun(
        place, ids[0], "A.orders", ids[1], 0, 0, downstream - position, position, 0, 0, 3, position, 1
    )


def resumed(
    last: OffsetRun | None,
    source: Bounds,
    target: Bounds = WHOLE,
    *,
    latest: bool = False,
    of: Copied | None = None,
    not_again: str | None = "",
) -> Resume:
    runs = [last] if last else []
    return resume(of or copied(), runs, source, target, from_latest=latest, now_ms=NOW, not_again=not_again)


@pytest.mark.parametrize(
    ("latest", "start", "offset"),
    [(False, None, 40), (True, None, 90), (False, 60, 60), (True, 60, 60), (False, 90, 90)],
)
def test_without_a_run_copying_begins_where_it_is_told_to(
    latest: bool, start: int | None, offset: int
) -> None:
    result = resumed(None, Bounds(40, 90), Bounds(0, 0), latest=latest, of=copied(start=start))
    assert result == Resume(offset)


@pytest.mark.parametrize(
    ("latest", "offset", "missing", "message"),
    [
        (False, 40, (40, -1), "copied before are duplicated"),
        (True, 90, (-1, 90), "not copied before are missing"),
    ],
    ids=["earliest", "latest"],
)
def test_a_target_that_is_not_empty_where_no_run_is_known_is_told_of(
    latest: bool, offset: int, missing: tuple[int, int], message: str
) -> None:
    """The runs topic was deleted, or lost what it held; or somebody else has written there."""
    result = resumed(None, Bounds(40, 90), Bounds(3, 203), latest=latest)
    assert result.offset == offset
    (gap,) = result.gaps
    assert (gap.kind, gap.upstream_from, gap.upstream_to) == (GapKind.TARGET_NOT_EMPTY, *missing)
    for words in ("A.orders-0", "offsets 3 to 202", message):
        assert words in gap.detail


@pytest.mark.parametrize("target", [Bounds(0, 0), Bounds(70, 70)], ids=["new", "nothing left of it"])
@pytest.mark.parametrize("latest", [False, True])
def test_an_empty_target_tells_of_nothing(target: Bounds, latest: bool) -> None:
    assert resumed(None, Bounds(40, 90), target, latest=latest).gaps == ()


def test_what_a_stock_mirror_has_filled_is_no_gap() -> None:
    assert resumed(None, Bounds(40, 90), Bounds(0, 60), of=copied(start=60)) == Resume(60)


def test_what_a_stock_mirror_has_filled_is_one_where_we_have_copied_too() -> None:
    """The runs that told how far are lost."""
    of = replace(copied(start=60), copied_before=True)
    result = resumed(None, Bounds(40, 90), Bounds(0, 85), of=of)
    assert result.offset == 60
    (gap,) = result.gaps
    assert (gap.kind, gap.upstream_from, gap.upstream_to) == (GapKind.TARGET_NOT_EMPTY, 60, -1)
    assert resumed(None, Bounds(40, 90), Bounds(0, 0), of=of) == Resume(60)


def test_with_fail_the_sentence_says_what_to_do() -> None:
    (gap,) = resumed(None, Bounds(40, 90), Bounds(3, 203)).gaps
    message = refusal([gap])
    for words in (
        "source.gap.policy is fail",
        "orders-0",
        "A.orders-0",
        "source.gap.policy=report",
        "delete topic A.orders",
    ):
        assert words in message
    (cut,) = resumed(run(), Bounds(0, 450)).gaps
    assert refusal([cut]) == f"source.gap.policy is fail: {cut.sentence}"


# -- runs that tell of more than a log holds ---------------------------------------------------------------------------


def wrong(start: int, count: int = 10, *, downstream: int = 500, **changed: object) -> OffsetRun:
    place = TopicPartition("orders", 0)
    made = OffsetRun(
        place,
        "source-id",
        "A.orders",
        "target-id",
        start,
        start,
        downstream,
        count,
        0,
        0,
        3,
        start + count,
        7,
    )
    return made._replace(**changed)  # type: ignore[arg-type]


HOLES = listed([CopySpan(50, 100), CopySpan(50)])
LOGS = Bounds(0, 600), Bounds(0, 600)


def test_what_no_log_contradicts_is_not_doubted() -> None:
    assert doubted(run(), copied(), *LOGS, []) is None
    assert doubted(run(600, downstream=600), copied(), *LOGS, []) is None
    assert doubted(wrong(400, position=2**60), copied(), *LOGS, []) is None, "only its position is in doubt"


def test_copies_that_the_target_does_not_hold_are_looked_for_on_the_source() -> None:
    assert doubted(wrong(300, downstream=700), copied(), *LOGS, []) == RunCheck(Side.SOURCE, 309, 7)


def test_the_timestamp_of_a_transformed_copy_says_nothing_of_its_record() -> None:
    beyond_target = wrong(300, downstream=700, transformed=True)
    assert doubted(beyond_target, copied(), *LOGS, []) == RunCheck(Side.SOURCE, 309, -1)
    beyond_source = wrong(2**60, downstream=500, transformed=True)
    assert doubted(beyond_source, copied(), *LOGS, []) == RunCheck(Side.TARGET, 509, 7)


def test_records_that_the_source_does_not_hold_are_looked_for_on_the_target() -> None:
    assert doubted(wrong(2**60, downstream=500), copied(), *LOGS, []) == RunCheck(Side.TARGET, 509, 7)


@pytest.mark.parametrize(
    "untrue",
    [wrong(2**60, downstream=2**60), wrong(2**60, 0), wrong(700, 0, downstream=0)],
    ids=["neither log has them", "a bare position", "a bare position not far away"],
)
def test_what_nothing_can_prove_is_untrue(untrue: OffsetRun) -> None:
    assert isinstance(doubted(untrue, copied(), *LOGS, []), str)


def test_a_run_of_other_topics_is_untrue_where_there_are_runs_of_those_that_are_there() -> None:
    older = wrong(2**60, source_topic_id="older-id")
    assert isinstance(doubted(older, copied(), *LOGS, [run()]), str)
    assert doubted(older, copied(), *LOGS, []) is None, "the topic was made again"
    assert doubted(older, copied(), *LOGS, [run(ids=("older-id", "target-id"))]) is None


def test_a_run_beyond_a_log_that_contradicts_another_is_untrue() -> None:
    """It has taken the place of copies that are really there, so that a look at them would bear it out."""
    assert isinstance(doubted(wrong(2**60, 500, downstream=0), copied(), *LOGS, [run()]), str)
    assert isinstance(doubted(wrong(500, downstream=2**60), copied(), *LOGS, [run()]), str)
    assert doubted(wrong(500), copied(), *LOGS, [run()]) is None, "within both logs"


@pytest.mark.parametrize(
    ("runs", "end", "expected"),
    [
        ([wrong(0, 100)], 60, 60),
        ([wrong(0, 100), wrong(100, 50)], 120, 120),
        ([wrong(0, 100), wrong(100, 50)], 70, 70),
        ([wrong(0, 100), wrong(2**60, 50)], 250, 100),
        ([wrong(0, 2**60, skipped=2**60 - 100)], 250, 100),
        ([wrong(0, 200, skipped=100, holes=HOLES)], 120, 120),
        ([wrong(0, 200, skipped=99, holes=HOLES)], 120, 101),
        ([wrong(0, 200, skipped=100, holes=b"junk")], 120, 100),
        ([wrong(40, 100)], 30, None),
        ([wrong(0, 0)], 30, 0),
    ],
    ids=[
        "in it",
        "in the last",
        "before it",
        "between",
        "mostly holes",
        "listed holes",
        "another run's list",
        "no list",
        "before all",
        "a bare position",
    ],
)
def test_up_to_where_a_shorter_log_was_copied_for_sure(
    runs: list[OffsetRun], end: int, expected: int | None
) -> None:
    assert reach(runs, end) == expected


@pytest.mark.parametrize(
    ("check", "record", "true"),
    [
        (RunCheck(Side.SOURCE, 9, 7), (9, 7), True),
        (RunCheck(Side.SOURCE, 9, 7), (9, 8), False),
        (RunCheck(Side.SOURCE, 9, 7), (10, 7), False),
        (RunCheck(Side.SOURCE, 9, -1), (9, 8), True),
        (RunCheck(Side.SOURCE, 9, 7), None, False),
    ],
)
def test_a_record_bears_a_run_out_by_its_place_and_time(
    check: RunCheck, record: tuple[int, int] | None, true: bool
) -> None:
    records = [Row(*record, None, None)] if record else []
    assert check.confirms(Window(5, 20, records)) is true


@pytest.mark.parametrize("position", [601, 2**60])
def test_a_position_beyond_the_log_skips_nothing_of_it(position: int) -> None:
    """Nothing was copied of what lies behind the run's records, or the log is another one there."""
    result = resumed(wrong(300, position=position), *LOGS)
    assert result.offset == 310
    (gap,) = result.gaps
    assert (gap.kind, gap.upstream_from, gap.upstream_to) == (GapKind.CUT_BACK, 600, position)


def test_what_was_passed_over_is_in_the_ledger() -> None:
    gap = contradicted(copied(), [wrong(2**61), wrong(2**60)], "both logs end before it", 310, NOW)
    assert (gap.kind, gap.upstream_from, gap.upstream_to) == (GapKind.RUN_CONTRADICTED, 310, -1)
    for words in ("2 offset run(s)", str(2**61 + 10), "both logs end before it", "may be duplicated"):
        assert words in gap.detail
    assert read_ledger(*ledger_entry(gap, "mirror")) == replace(gap, connector="mirror")


def test_with_a_run_copying_goes_on_at_its_position_whatever_it_is_told() -> None:
    assert resumed(run(), WHOLE, of=copied(start=7), latest=True) == Resume(500)


@pytest.mark.parametrize("source", [Bounds(0, 500), Bounds(500, 500), Bounds(500, 900)])
def test_a_log_that_has_the_position_as_its_start_or_end_has_no_gap(source: Bounds) -> None:
    assert resumed(run(), source) == Resume(500)


@pytest.mark.parametrize(
    ("last", "of"), [(run(), copied()), (None, copied(start=500))], ids=["our own", "taken over from stock"]
)
def test_what_retention_took_before_it_was_copied_is_a_gap(last: OffsetRun | None, of: Copied) -> None:
    result = resumed(last, Bounds(620, 1000), of=of)
    assert result.offset == 620
    (gap,) = result.gaps
    assert (gap.kind, gap.upstream_from, gap.upstream_to) == (GapKind.TRUNCATED, 500, 620)


@pytest.mark.parametrize("handed_back", [False, True], ids=["never ours", "ours before"])
def test_a_log_that_ends_before_stocks_position_is_copied_from_its_start(handed_back: bool) -> None:
    """Nobody knows whether the topic was made again; stock keeps no topic ids."""
    last = run()._replace(handed_back=True) if handed_back else None
    result = resumed(last, Bounds(3, 620), of=copied(start=700))
    assert result.offset == 3
    (gap,) = result.gaps
    assert (gap.kind, gap.upstream_from, gap.upstream_to) == (GapKind.CUT_BACK, 620, 700)


@pytest.mark.parametrize("start", [400, 500, 800])
def test_what_was_handed_back_goes_on_where_stock_has_come_to(start: int) -> None:
    last = run()._replace(handed_back=True)
    assert resumed(last, WHOLE, of=copied(start=start)) == Resume(start)
    assert resumed(run(), WHOLE, of=copied(start=start)) == Resume(500)


def test_what_was_handed_back_and_never_begun_by_stock_goes_on_as_it_was() -> None:
    assert resumed(run()._replace(handed_back=True), WHOLE, latest=True) == Resume(500)


def test_a_source_made_again_while_stock_copied_is_told_of() -> None:
    last = run(ids=("older-id", "target-id"))._replace(handed_back=True)
    result = resumed(last, WHOLE, of=copied(start=20))
    assert result.offset == 20
    assert [gap.kind for gap in result.gaps] == [GapKind.SOURCE_RECREATED]


def test_a_source_that_was_cut_back_is_copied_again_from_there() -> None:
    result = resumed(run(), Bounds(0, 450))
    assert result.offset == 450
    (gap,) = result.gaps
    assert (gap.kind, gap.upstream_from, gap.upstream_to) == (GapKind.CUT_BACK, 450, 500)


@pytest.mark.parametrize("end", [10, 500, 5000], ids=["shorter", "as long", "overtaken"])
def test_a_source_topic_that_was_made_again_is_copied_from_its_start(end: int) -> None:
    result = resumed(run(ids=("older-id", "target-id")), Bounds(3, end))
    assert result.offset == 3
    (gap,) = result.gaps
    assert (gap.kind, gap.topic_id, gap.upstream_from, gap.upstream_to) == (
        GapKind.SOURCE_RECREATED,
        "older-id",
        500,
        -1,
    )


@pytest.mark.parametrize(
    ("last", "target"),
    [
        (run(ids=("source-id", "older-id")), Bounds(0, 0)),
        (run(ids=("source-id", "older-id")), Bounds(0, 9000)),
        (run(), Bounds(0, 499)),
    ],
    ids=["made again", "made again and filled", "cut back"],
)
def test_a_target_that_lost_copies_is_told_of_and_copying_goes_on(last: OffsetRun, target: Bounds) -> None:
    result = resumed(last, WHOLE, target)
    assert result.offset == 500
    (gap,) = result.gaps
    assert (gap.kind, gap.upstream_to) == (GapKind.TARGET_RECREATED, 500)


OLDER = run(ids=("source-id", "older-id"))
NEW = Bounds(0, 0)


def told(result: Resume) -> list[tuple[str, int, int]]:
    return [(gap.kind.value, gap.upstream_from, gap.upstream_to) for gap in result.gaps]


def test_a_target_topic_that_was_made_again_is_copied_again_from_the_sources_start() -> None:
    result = resumed(OLDER, WHOLE, NEW, not_again=None)
    assert (result.offset, told(result)) == (0, [("target_recreated", 0, 0)])
    assert "copied again from upstream offset 0" in result.gaps[0].sentence
    assert "bridge.target.recreated" in refusal(result.gaps)


def test_what_the_source_no_longer_has_is_counted() -> None:
    result = resumed(OLDER, Bounds(300, 1000), NEW, not_again=None)
    expected = [("target_recreated", 300, 300), ("truncated", 0, 300)]
    assert (result.offset, told(result)) == (300, expected)


def test_what_was_never_on_the_target_is_not_counted() -> None:
    began = OLDER._replace(covered_from=200, upstream_start=200, upstream_count=300)
    result = resumed(began, Bounds(300, 1000), NEW, not_again=None)
    assert told(result) == [("target_recreated", 300, 300), ("truncated", 200, 300)]
    assert told(resumed(began, Bounds(100, 1000), NEW, not_again=None)) == [("target_recreated", 100, 100)]


@pytest.mark.parametrize(
    ("start", "expected"), [(None, ("target_recreated", 200, 200)), (200, ("target_recreated", -1, 200))]
)
def test_with_latest_it_begins_where_the_copy_had_begun(
    start: int | None, expected: tuple[str, int, int]
) -> None:
    """What a stock mirror had copied before that is not copied again."""
    began = OLDER._replace(covered_from=200, upstream_start=200, upstream_count=300)
    result = resumed(began, WHOLE, NEW, latest=True, of=copied(start=start), not_again=None)
    assert (result.offset, told(result)) == (200, [expected])
    result = resumed(began, Bounds(300, 1000), NEW, latest=True, not_again=None)
    assert result.offset == 300


@pytest.mark.parametrize("handed_back", [True, False])
def test_what_stock_had_copied_is_copied_again_too(handed_back: bool) -> None:
    began = OLDER._replace(covered_from=200, upstream_start=200, upstream_count=300, handed_back=handed_back)
    result = resumed(began, Bounds(50, 1000), NEW, of=copied(start=600), not_again=None)
    assert (result.offset, told(result)) == (50, [("target_recreated", 50, 50), ("truncated", 0, 50)])


def test_a_source_that_was_cut_back_meanwhile_is_told_of_too() -> None:
    result = resumed(OLDER, Bounds(0, 450), NEW, not_again=None)
    assert (result.offset, told(result)) == (0, [("target_recreated", 0, 0), ("cut_back", 450, 500)])


def test_where_both_topics_were_made_again_the_sources_rule_holds() -> None:
    result = resumed(run(ids=("older-id", "older-id")), Bounds(3, 900), NEW, not_again=None)
    assert (result.offset, told(result)) == (
        3,
        [("target_recreated", -1, 500), ("source_recreated", 500, -1)],
    )


def test_copying_goes_on_where_copies_may_be_there_and_says_so() -> None:
    result = resumed(OLDER, WHOLE, Bounds(0, 7), not_again="A.orders-0 is not empty")
    assert (result.offset, told(result)) == (500, [("target_recreated", -1, 500)])
    assert "not copied again: A.orders-0 is not empty" in result.gaps[0].detail


def test_a_position_behind_which_nothing_was_copied_stands() -> None:
    """An operator may have chosen it, since the topic is gone."""
    bare = OLDER._replace(covered_from=300, upstream_start=300, upstream_count=0, position=300)
    result = resumed(bare, WHOLE, NEW, not_again=None)
    assert (result.offset, told(result)) == (300, [("target_recreated", -1, 300)])


@pytest.mark.parametrize(
    ("runs", "target", "none"),
    [
        ([OLDER], NEW, True),
        ([OLDER], Bounds(7, 7), True),
        ([OLDER], Bounds(0, 1), False),
        ([], NEW, True),
        ([run()], NEW, False),
        ([run(ids=("source-id", ""))], NEW, False),
        ([run()._replace(upstream_count=0)], NEW, True),
    ],
    ids=[
        "new",
        "nothing left",
        "not empty",
        "never copied",
        "the same topic",
        "an unknown topic",
        "a position",
    ],
)
def test_whether_a_topic_holds_none_of_our_copies(runs: list[OffsetRun], target: Bounds, none: bool) -> None:
    assert holds_none(copied(), runs, target) is none


def test_both_sides_may_have_lost_something() -> None:
    result = resumed(run(), Bounds(700, 1000), Bounds(0, 20))
    assert result.offset == 700
    assert [gap.kind for gap in result.gaps] == [GapKind.TARGET_RECREATED, GapKind.TRUNCATED]


def test_brokers_without_topic_ids_are_judged_by_offsets_alone() -> None:
    of = copied(ids=("", ""))
    assert resumed(run(ids=("", "")), WHOLE, of=of) == Resume(500)
    assert resumed(run(), WHOLE, of=of) == Resume(500)


def test_the_ledger_reads_back() -> None:
    for kind in GapKind:
        gap = Gap(TopicPartition("orders", 2), kind, "source-id", -1, 77, NOW, "why")
        assert read_ledger(*ledger_entry(gap, "mirror")) == replace(gap, connector="mirror")


KEY = {
    "version": 1,
    "topic": "orders",
    "partition": 2,
    "targetTopic": "A.orders",
    "topicId": "id",
    "kind": "truncated",
    "from": 5,
}
VALUE = {"version": 1, "connector": "mirror", "to": 9, "seenAtMs": NOW, "detail": "why"}


def entry(**changed: object) -> tuple[bytes, bytes]:
    """A sound one with these fields changed; of both where both have them."""
    key = {name: changed.get(name, value) for name, value in KEY.items()}
    value = {name: changed.get(name, value) for name, value in VALUE.items()}
    return json.dumps(key).encode(), json.dumps(value).encode()


def test_an_entry_that_is_taken_back_is_none() -> None:
    assert read_ledger(entry()[0], None) is None


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"seenAtMs": "never"}, "seenAtMs is 'never'"),
        ({"seenAtMs": -1}, "seenAtMs is -1"),
        ({"seenAtMs": 1e18}, "seenAtMs is 1e"),
        ({"seenAtMs": 10**15}, "seenAtMs is 1000000000000000"),
        ({"to": "9"}, "to is '9'"),
        ({"to": -2}, "to is -2"),
        ({"to": 2**63 - 1}, "to is 9223372036854775807"),
        ({"from": None}, "from is None"),
        ({"from": True}, "from is True"),
        ({"from": 2**64}, "from is 1844"),
        ({"partition": -1}, "partition is -1"),
        ({"partition": 2**31}, "partition is 2147483648"),
        ({"partition": [0]}, "partition is a list"),
        ({"topic": 7}, "topic is 7"),
        ({"topic": ""}, "topic is ''"),
        ({"topicId": None}, "topicId is None"),
        ({"kind": "no such"}, "kind is 'no such': none that this version knows"),
        ({"kind": ["truncated"]}, "kind is a list"),
        ({"detail": {"a": 1}}, "detail is a dict"),
        ({"detail": "\ud800"}, "detail is "),
        ({"version": 9}, "version is 9"),
        ({"version": "0"}, "version is '0'"),
    ],
    ids=str,
)
def test_each_field_of_an_entry_is_checked(changed: dict[str, object], why: str) -> None:
    with pytest.raises(SchemaError) as caught:
        read_ledger(*entry(**changed))
    assert str(caught.value).startswith(why)


@pytest.mark.parametrize("junk", [b"", b"{}", b"[" * 100_000, b'{"version": ' + b"[" * 100_000, b"\xff"])
def test_what_is_no_entry_is_named(junk: bytes) -> None:
    key, value = entry()
    for each in ((junk, value), (key, junk), (None, value)):
        with pytest.raises(SchemaError):
            read_ledger(*each)


@given(
    st.dictionaries(st.sampled_from([*KEY, *VALUE]), st.none() | st.integers() | st.text() | st.booleans())
)
def test_whatever_stands_in_the_ledger_is_read_or_refused(changed: dict[str, object]) -> None:
    with suppress(SchemaError):
        gap = read_ledger(*entry(**changed))
        assert gap is not None
        assert read_ledger(*ledger_entry(gap, gap.connector)) == gap
        assert gap.sentence


@pytest.mark.parametrize(
    ("epoch", "end", "agreed"),
    [(3, 150, 150), (4, 250, 200), (2, 90, 90), (2, 150, 100), (-1, -1, 0), (7, 290, 290)],
)
def test_up_to_where_a_log_of_another_way_is_what_was_copied(epoch: int, end: int, agreed: int) -> None:
    """Copied: 0 to 100 of epoch 2, to 200 of epoch 3, to 300 of epoch 5. A log may be longer than that by now, and all
    of it older epochs: its end alone tells nothing."""
    runs = [
        run(100)._replace(upstream_start=start, upstream_count=100, position=start + 100, leader_epoch=of)
        for start, of in ((0, 2), (100, 3), (200, 5))
    ]
    assert agreement(runs, epoch, end) == agreed
