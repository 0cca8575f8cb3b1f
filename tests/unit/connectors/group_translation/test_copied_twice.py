"""Another mirror beside ours: `exact` is never said of an offset behind which its copies stand too."""

from __future__ import annotations

import pytest

from bridge.errors import KafkaFailure, KafkaFault
from tests.unit.connectors.copied_orders import RUNS
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
    assert "another mirror has copied orders-0 too" in error
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
    flow.answer("g")
    assert flow.answer("g").detail["copied_twice"] == flow.copies.end - 1


def test_a_service_that_begins_knows_at_once_what_another_has_copied_behind_ours(flow: Flow) -> None:
    flow.produce(100)
    flow.copy(80)
    flow.another_copies(0, 30)
    flow.commit("g", 50)
    flow.meanwhile = lambda: flow.copy(20)
    assert flow.answer("g").verdict == "bounded"
    flow.commit("g", 90)
    flow.begin_service()
    assert flow.answer("g").verdict == "exact"


def test_ours_that_comes_between_the_look_at_runs_and_the_look_at_logs_is_no_others(flow: Flow) -> None:
    """Also after the mirror was idle for a while."""
    flow.produce(100)
    flow.copy(50)
    flow.commit("g", 20)
    for _ in range(3):
        flow.answer("g")
    flow.meanwhile = lambda: flow.copy(5)
    for _ in range(4):
        assert (flow.answer("g").verdict, flow.errors) == ("exact", [])


def test_what_an_application_writes_into_the_copy_hides_no_mirror(flow: Flow) -> None:
    flow.produce(40)
    flow.commit("g", 0)
    for begin in range(0, 20, 2):
        flow.copy(2)
        flow.others_send(20)
        flow.another_copies(begin, begin + 2)
        flow.others_send(30)
    flow.copy(20)
    for _ in range(16):
        row = flow.answer("g")
    assert (row.verdict, flow.read_twice("g")) == ("bounded", 20)
    assert flow.errors
    flow.commit("g", 20)
    assert flow.answer("g").verdict == "exact"


def test_that_an_application_writes_on_and_on_hides_no_mirror(flow: Flow) -> None:
    """What is newest is another one in each round."""
    flow.produce(500)
    flow.commit("g", 0)
    rows = []
    for begin in range(0, 200, 5):
        flow.copy(5)
        flow.another_copies(begin, begin + 1)
        flow.others_send(40)
        rows.append(flow.answer("g"))
    assert rows[-1].verdict == "bounded"


@pytest.mark.parametrize("described", [True, False], ids=["described", "seen"])
@pytest.mark.parametrize(("sent", "verdict"), [(0, "exact"), (3, "bounded")])
def test_where_the_target_overwrites_timestamps_nobody_knows_whose_a_record_is(
    flow: Flow, sent: int, verdict: str, *, described: bool
) -> None:
    (flow.b.append_time if described else flow.b.stamped).add("A.orders")
    flow.produce(100)
    flow.copy(50)
    flow.copies.end += 1  # a marker of ours that ended nothing
    flow.others_send(sent)
    flow.copy(50)
    flow.commit("g", 20)
    for _ in range(2):
        row = flow.answer("g")
        assert (row.verdict, flow.errors) == (verdict, [])
    if sent:
        assert row.detail["others_unknown"] == 50 + 1 + sent
        assert (row.bound or 0) >= sent
    flow.commit("g", 70)
    assert flow.answer("g").verdict == "exact"


def test_what_may_be_a_copy_of_what_the_source_has_deleted_is_not_known(flow: Flow) -> None:
    flow.produce(100)
    flow.copy(80)
    flow.another_copies(10, 30)
    flow.copy(20)
    flow.expire(flow.origin, 60)
    flow.commit("g", 70)
    row = flow.answer("g")
    assert (row.verdict, row.detail["others_unknown"]) == ("bounded", 80 + 20)
    assert not flow.errors
    flow.commit("g", 90)
    assert flow.answer("g").verdict == "exact"


def test_what_a_mirror_before_us_copied_stays_its_own_where_the_source_is_compacted(flow: Flow) -> None:
    flow.ours = False
    flow.produce(100)
    flow.copy(60)
    flow.ours = True
    flow.begin_at(60)
    flow.copy(40)
    flow.origin.rows = [row for row in flow.origin.rows if row.offset >= 40]
    flow.commit("g", 30)
    for _ in range(4):
        row = flow.answer("g")
        assert row.bound == 40, row
        assert "others_unknown" not in row.detail


def test_what_an_application_sends_is_known_where_the_source_has_deleted_older_records(flow: Flow) -> None:
    flow.produce(100)
    flow.copy(50)
    flow.others_send(10)
    flow.copy(50)
    flow.expire(flow.origin, 40)
    flow.commit("g", 45)
    assert flow.answer("g").verdict == "exact"


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


@pytest.mark.parametrize("count", [10, 50])
def test_another_copies_what_the_group_had_read_and_ours_never_copied(flow: Flow, count: int) -> None:
    flow.produce(100)
    flow.begin_at(100)
    flow.produce(20)
    flow.copy(20)
    flow.another_copies(0, count)
    flow.commit("g", 100)
    flow.answer("g")
    row = flow.answer("g")
    assert (row.verdict, flow.read_twice("g")) == ("bounded", count)
    assert (row.bound or 0) >= count


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


def test_our_copies_of_a_time_when_runs_could_not_be_read_are_no_other_mirrors(flow: Flow) -> None:
    flow.produce(40)
    flow.copy(20)
    flow.commit("g", 10)
    assert flow.answer("g").verdict == "exact"
    flow.b.topic_trouble[RUNS] = KafkaFailure(KafkaFault.NOT_AUTHORIZED, "not allowed")
    flow.copy(20)
    for _ in range(3):
        flow.answer("g")
        assert list(flow.errors) == []
    del flow.b.topic_trouble[RUNS]
    assert (flow.answer("g").verdict, list(flow.errors)) == ("exact", [])
