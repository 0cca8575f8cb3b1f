"""Incremental fetch sessions: what a request names, and when it names all partitions again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.kafka.consumer import broker_fetcher
from bridge.kafka.consumer.broker_fetcher import FetchSession
from bridge.kafka.protocol.log_requests import FetchPartition
from bridge.model.values import TopicPartition

A, B, C = (TopicPartition("orders", number) for number in range(3))


def at(offset: int, topic_id: str = "id") -> FetchPartition:
    return FetchPartition(topic_id, offset, 1024)


def opened(session: FetchSession, number: int = 7) -> FetchSession:
    session.plan()
    assert session.answered(0, number)
    return session


def test_the_first_fetch_tells_all_and_the_next_only_what_changed() -> None:
    session = FetchSession()
    for tp in (A, B, C):
        session.add(tp, at(0))
    first = session.plan()
    assert (first.session, first.epoch, dict(first.parts)) == (0, 0, {A: at(0), B: at(0), C: at(0)})
    assert session.answered(0, 7)
    assert session.plan() == (7, 1, {}, ())
    assert session.answered(0, 7)
    session.add(B, at(5))
    session.drop(C)
    assert session.plan() == (7, 2, {B: at(5)}, (("id", C),))
    assert session.answered(0, 7)
    assert session.plan() == (7, 3, {}, ())


def test_what_is_dropped_and_added_again_between_two_fetches_only_moves() -> None:
    session = FetchSession()
    session.add(A, at(0))
    opened(session)
    session.drop(A)
    session.add(A, at(3))
    assert session.plan() == (7, 1, {A: at(3)}, ())


def test_another_topic_of_the_same_name_replaces_the_old_one() -> None:
    session = FetchSession()
    session.add(A, at(9, "old"))
    opened(session)
    session.add(A, at(0, "new"))
    assert session.plan() == (7, 1, {A: at(0, "new")}, (("old", A),))


@pytest.mark.parametrize("error", [70, 71, 106])
def test_a_lost_session_is_begun_anew(error: int) -> None:
    session = FetchSession()
    session.add(A, at(0))
    opened(session)
    session.add(B, at(1))
    session.plan()
    assert not session.answered(error, 0)
    assert session.plan() == (0, 0, {A: at(0), B: at(1)}, ())


def test_a_broker_without_room_for_a_session_is_told_all_each_time() -> None:
    session = FetchSession()
    session.add(A, at(0))
    session.add(B, at(0))
    opened(session, 0)
    session.add(A, at(8))
    plan = session.plan()
    assert (plan.session, plan.epoch) == (0, 0)
    assert list(plan.parts) == [B, A]  # the one that was just served comes last


def test_the_epoch_begins_again_at_one(monkeypatch: pytest.MonkeyPatch) -> None:
    assert broker_fetcher.LAST_EPOCH == (1 << 31) - 1
    monkeypatch.setattr(broker_fetcher, "LAST_EPOCH", 3)
    session = FetchSession()
    session.add(A, at(0))
    opened(session)
    for epoch in (1, 2, 3, 1):
        assert session.plan().epoch == epoch
        assert session.answered(0, 7)


ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["add", "drop", "fetch", "lose"]),
        st.sampled_from([A, B, C]),
        st.integers(0, 3),
        st.sampled_from(["x", "y"]),
    ),
    max_size=30,
)


@given(ACTIONS)
def test_a_broker_that_follows_the_changes_knows_all_partitions(
    actions: list[tuple[str, TopicPartition, int, str]],
) -> None:
    session = FetchSession()
    expected: dict[TopicPartition, FetchPartition] = {}
    broker: dict[tuple[str, TopicPartition], FetchPartition] = {}
    for action, tp, offset, topic_id in [*actions, ("fetch", A, 0, "x")]:
        if action == "add":
            expected[tp] = at(offset, topic_id)
            session.add(tp, expected[tp])
        elif action == "drop":
            expected.pop(tp, None)
            session.drop(tp)
        else:
            plan = session.plan()
            if action == "lose":
                assert not session.answered(70, 0)
                continue
            broker = {} if plan.epoch == 0 else broker
            for key in plan.forgotten:
                del broker[key]
            broker |= {(part.topic_id, name): part for name, part in plan.parts.items()}
            assert session.answered(0, 7)
            assert {name: part for (_, name), part in broker.items()} == expected
            assert len(broker) == len(expected)
            assert {name: session.sent(name) for name in expected} == expected


def test_a_partition_that_left_and_came_back_as_it_was_is_what_answers_are_about() -> None:
    """It was the broker's only one, so that nothing was asked meanwhile: the broker goes on with it untold."""
    session, tp = FetchSession(), TopicPartition("orders", 0)
    session.add(tp, FetchPartition("id", 5, 100))
    session.plan()
    session.answered(0, 77)
    session.drop(tp)
    session.add(tp, FetchPartition("id", 5, 100))
    plan = session.plan()
    assert (plan.parts, plan.forgotten) == ({}, ())
    assert session.sent(tp) is session.partition(tp)
