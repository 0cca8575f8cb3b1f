"""What is missing on the target, by looks at the source's end and how far it is copied."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bridge.model.values import TopicPartition
from bridge.service.ipc.messages import pack_backlog, unpack_backlog
from connectors.base import Missing
from connectors.group_translation.translating.proof import Backlog

PLACE, OTHER = TopicPartition("orders", 0), TopicPartition("orders", 1)


def test_what_is_missing_was_appended_after_the_last_look_that_is_copied_whole() -> None:
    backlog = Backlog()
    assert backlog.after(1_000, {PLACE: (10, 10)}) == {PLACE: Missing(0)}
    assert backlog.after(2_000, {PLACE: (10, 10)}) == {}, "nothing has changed"
    assert backlog.after(3_000, {PLACE: (15, 10)}) == {PLACE: Missing(5, 2_000)}
    assert backlog.after(4_000, {PLACE: (18, 10)}) == {PLACE: Missing(8, 2_000, 3_000)}
    assert backlog.after(5_000, {PLACE: (20, 15)}) == {PLACE: Missing(5, 3_000)}
    assert backlog.after(6_000, {PLACE: (20, 20)}) == {PLACE: Missing(0)}


def test_records_that_wait_while_none_is_copied_are_stuck_since_they_were_seen_first() -> None:
    backlog = Backlog()
    assert backlog.after(1_000, {PLACE: (15, 10)}) == {PLACE: Missing(5)}
    assert backlog.after(2_000, {PLACE: (15, 10)}) == {PLACE: Missing(5, -1, 1_000)}
    assert backlog.after(3_000, {PLACE: (19, 10)}) == {PLACE: Missing(9, -1, 1_000)}
    assert backlog.after(4_000, {PLACE: (19, 11)}) == {PLACE: Missing(8)}
    assert backlog.after(5_000, {PLACE: (19, 19)}) == {PLACE: Missing(0)}
    assert backlog.after(9_000, {PLACE: (20, 19)}) == {PLACE: Missing(1, 5_000)}
    assert backlog.after(9_500, {PLACE: (20, None)}) == {PLACE: Missing()}
    assert backlog.after(9_600, {PLACE: (20, 19)}) == {PLACE: Missing(1)}


def test_for_how_long_they_are_stuck_does_not_depend_on_a_clock_that_is_set() -> None:
    backlog = Backlog()
    backlog.after(50_000, {PLACE: (10, 10)}, 1_000)
    backlog.after(51_000, {PLACE: (15, 10)}, 2_000)
    assert backlog.after(52_000, {PLACE: (15, 10)}, 3_000)[PLACE] == Missing(5, 50_000, 51_000)
    assert backlog.after(41_000, {PLACE: (15, 10)}, 4_000)[PLACE] == Missing(5, -1, 39_000)
    assert backlog.after(42_000, {PLACE: (15, 10)}, 5_000) == {}
    assert backlog.after(93_000, {PLACE: (16, 10)}, 6_000)[PLACE] == Missing(6, -1, 89_000)
    assert backlog.after(94_000, {PLACE: (16, 11)}, 7_000)[PLACE] == Missing(5)


def test_without_a_look_that_is_copied_whole_the_time_is_not_known() -> None:
    backlog = Backlog()
    assert backlog.after(1_000, {PLACE: (15, 10)}) == {PLACE: Missing(5, -1)}
    assert backlog.after(2_000, {PLACE: (20, 16)}) == {PLACE: Missing(4, 1_000)}


def test_how_far_a_partition_is_copied_may_not_be_known_and_then_neither_is_what_is_missing() -> None:
    backlog = Backlog()
    assert backlog.after(1_000, {PLACE: (10, 10), OTHER: (3, None)}) == {PLACE: Missing(0), OTHER: Missing()}
    assert backlog.after(2_000, {PLACE: (10, None), OTHER: (3, 3)}) == {PLACE: Missing(), OTHER: Missing(0)}
    assert backlog.after(3_000, {PLACE: (15, 10)}) == {PLACE: Missing(5, -1), OTHER: None}


def test_a_source_that_was_cut_back_has_no_looks() -> None:
    backlog = Backlog()
    backlog.after(1_000, {PLACE: (10, 10)})
    assert backlog.after(2_000, {PLACE: (8, 2)}) == {PLACE: Missing(6, -1)}


@given(st.lists(st.tuples(st.integers(0, 9), st.floats(0, 1)), min_size=1, max_size=300))
def test_no_record_that_is_missing_was_appended_before_the_time_and_none_is_left_out(
    steps: list[tuple[int, float]],
) -> None:
    """Of each look: so many records are appended before it, and such a part of those that are missing is copied."""
    backlog, missing = Backlog(), Missing()
    appended: list[int] = []
    copied = 0
    for number, (more, part) in enumerate(steps):
        at_ms = 1_000 * number
        appended += [at_ms - 500] * more
        copied += int(part * (len(appended) - copied))
        missing = backlog.after(at_ms, {PLACE: (len(appended), copied)}).get(PLACE) or missing
        left = appended[copied:]
        assert missing.records == len(left)
        if left and missing.since_ms >= 0:
            assert missing.since_ms <= left[0]
        assert backlog.observations(PLACE) <= 65


def test_it_crosses_to_the_http_process_unchanged() -> None:
    changed = {PLACE: Missing(5, 1_000, 2_000), OTHER: None, TopicPartition("é", 7): Missing()}
    assert unpack_backlog(pack_backlog("c", 3, changed)) == ("c", 3, changed)
