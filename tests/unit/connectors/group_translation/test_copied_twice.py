"""Another mirror beside ours: `exact` is never said of an offset behind which its copies stand too."""

from __future__ import annotations

import pytest

from tests.unit.connectors.group_translation.mirrored_topic import Flow


@pytest.fixture
def flow() -> Flow:
    return Flow()


def test_both_copy_at_the_same_time(flow: Flow) -> None:
    flow.produce(100)
    for begin in range(0, 100, 20):
        flow.copy(20)
        flow.another_copies(begin, begin + 20)
    flow.produce(1)
    flow.copy(1)
    flow.commit("g", 50)
    row = flow.answer("g")
    assert (row.verdict, row.detail["copied_twice"]) == ("bounded", flow.copies.end - 3)
    assert flow.read_twice("g") <= (row.bound or 0) <= flow.read_twice("g") + 6, "six markers"
    (error,) = flow.errors
    assert "another mirror copies orders-0 too" in error
    flow.commit("g", 100)
    assert flow.answer("g").verdict == "exact", "what is behind it was copied once"


def test_it_is_still_known_by_a_service_that_begins_anew_and_without_the_source(flow: Flow) -> None:
    flow.produce(100)
    flow.copy(50)
    flow.another_copies(0, 50)
    flow.copy(50)
    flow.commit("g", 20)
    assert flow.answer("g").verdict == "bounded"
    assert flow.answer("g", source_away=True).verdict == "bounded"
    flow.begin_service()
    assert flow.answer("g").verdict == "bounded"


def test_another_has_copied_behind_our_newest_record(flow: Flow) -> None:
    """It may be a copy of ours that came after the runs were read, until a round later they are the same."""
    flow.produce(100)
    flow.copy(100)
    flow.another_copies(0, 30)
    flow.commit("g", 50)
    flow.answer("g")
    row = flow.answer("g")
    assert (row.verdict, row.detail["copied_twice"]) == ("bounded", flow.copies.end - 1)
    flow.another_copies(30, 40)
    assert flow.answer("g").detail["copied_twice"] == flow.copies.end - 1


def test_records_of_others_are_no_copies(flow: Flow) -> None:
    flow.produce(100)
    flow.copy(50)
    flow.others_send(10)
    flow.copy(50)
    flow.others_send(10)
    flow.commit("g", 20)
    for _ in range(3):
        assert (flow.answer("g").verdict, flow.errors) == ("exact", [])


def test_another_had_copied_before_us_and_was_stopped(flow: Flow) -> None:
    flow.produce(100)
    flow.another_copies(0, 60)
    flow.copy(100)
    flow.commit("g", 20)
    for _ in range(2):
        assert flow.answer("g").verdict == "exact"


def test_another_is_ahead_of_us(flow: Flow) -> None:
    """What it had copied alone is there twice once ours has come to it, though nobody looks at it again."""
    flow.produce(100)
    flow.copy(10)
    flow.another_copies(60, 80)
    flow.copy(10)
    flow.commit("g", 0)
    assert flow.answer("g").verdict == "exact"
    flow.copy(80)
    row = flow.answer("g")
    assert (row.verdict, flow.read_twice("g")) == ("bounded", 20)


def test_another_had_copied_before_us_and_goes_on(flow: Flow) -> None:
    flow.produce(100)
    flow.another_copies(0, 60)
    flow.copy(50)
    flow.another_copies(60, 100)
    flow.copy(50)
    flow.commit("g", 20)
    assert flow.answer("g").verdict == "bounded"


def test_another_copies_what_the_group_had_read_and_ours_never_copied(flow: Flow) -> None:
    flow.produce(100)
    flow.begin_at(100)
    flow.produce(20)
    flow.copy(20)
    flow.another_copies(0, 50)
    flow.commit("g", 100)
    flow.answer("g")
    row = flow.answer("g")
    assert (row.verdict, flow.read_twice("g")) == ("bounded", 50)
    assert (row.bound or 0) >= 50


def test_a_mirror_that_copied_what_ours_left_out_has_copied_it_once(flow: Flow) -> None:
    flow.produce(100)
    flow.copy(40)
    flow.another_copies(40, 60)
    flow.begin_at(60)
    flow.copy(40)
    flow.commit("g", 20)
    for _ in range(2):
        assert flow.answer("g").verdict == "exact"


def test_what_an_operator_had_copied_again_is_read_twice_by_who_stands_before_it(flow: Flow) -> None:
    flow.produce(100)
    flow.copy(100)
    flow.reset(50)
    flow.copy(50)
    flow.commit("g", 20)
    row = flow.answer("g")
    assert (row.verdict, flow.read_twice("g")) == ("bounded", 50)
    assert (row.bound or 0) >= 50
    assert not flow.errors
    flow.commit("g", 60)
    assert flow.answer("g").verdict == "exact"


def test_the_target_has_deleted_what_was_copied_twice(flow: Flow) -> None:
    flow.produce(100)
    flow.copy(50)
    flow.another_copies(0, 50)
    flow.copy(50)
    flow.expire(flow.origin, 85)
    flow.expire(flow.copies, flow.copies.end - 20)
    flow.commit("g", 90)
    assert flow.answer("g").verdict == "exact"
