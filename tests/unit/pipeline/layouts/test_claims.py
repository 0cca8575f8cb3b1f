"""Which connector owns a copy, and what the other one is told."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

import bridge.pipeline.layouts.ownership as layout_ownership
from bridge.errors import KafkaFailure, KafkaFault
from bridge.model.copy_owners import OtherCopy, mixture_refusals, opposite_refusals, refusals
from bridge.model.copying import PipelineSpec
from bridge.model.state_records.claims import Claim
from bridge.model.values import CopyId, LogRecord, TopicPartition
from bridge.pipeline.layouts.ownership import (
    before,
    claims,
    is_layout_topic,
    loops,
    lost_runs,
    mixtures,
    ownership,
    withdrawn,
)
from bridge.pipeline.layouts.records import LayoutRecord, LayoutTopic, layout_key, read_claims, read_layouts
from tests.support.messages import message
from tests.unit.pipeline.values import spec

T, U, V = ("t", "A.t"), ("u", "A.u"), ("v", "A.v")


def topic(*changes: list[tuple[bytes, bytes | None]]) -> LayoutTopic:
    records = [pair for some in changes for pair in some]
    return read_layouts([LogRecord(offset, 0, *pair) for offset, pair in enumerate(records)], spec())


def test_copies_are_owned_free_or_taken() -> None:
    result = ownership(topic(claims([T], "one"), claims([U], "two")), [T, U, V], "one")
    assert (result.owned, result.free, result.taken) == ([T], [V], {U: "two"})


def test_of_two_that_claim_at_once_both_see_the_same_owner() -> None:
    there = topic(claims([T], "two"), claims([T], "one"))
    assert ownership(there, [T], "one").taken == {T: "two"}
    assert ownership(there, [T], "two").owned == [T]


def test_a_claim_that_is_not_settled_is_free_for_its_connector_and_taken_for_others() -> None:
    there = topic(claims([T], "one", settled=False), claims([T], "two", settled=False))
    assert ownership(there, [T], "one").free == [T]
    assert ownership(there, [T], "two").taken == {T: "one"}


def test_a_claim_that_is_settled_stays_before_those_that_came_after_it() -> None:
    there = topic(*(claims([T], name, settled=False) for name in ("one", "two")), claims([T], "one"))
    assert ownership(there, [T], "one").owned == [T]
    assert ownership(there, [T], "two").taken == {T: "one"}


def test_the_same_topic_under_another_name_is_another_copy() -> None:
    assert ownership(topic(claims([T], "one")), [("t", "t")], "two").free == [("t", "t")]


def test_a_take_over_leaves_one_owner() -> None:
    there = topic(claims([T], "one"), [*claims([T], "two"), *withdrawn([T], "one")])
    assert ownership(there, [T], "one").taken == {T: "two"}
    assert ownership(there, [T], "two").owned == [T]


def runs(*pairs: tuple[str, str]) -> dict[CopyId, list[str]]:
    """Of two partitions each."""
    return {CopyId(TopicPartition(pair[0], number), pair[1]): [] for pair in pairs for number in range(2)}


def layout(*, copied: bool) -> list[tuple[bytes, bytes | None]]:
    return [(layout_key(spec()), LayoutRecord(3, 1, copied=copied).value())]


def test_topics_without_any_run_have_lost_them_where_the_connector_has_copied_them() -> None:
    name = spec().name
    there = topic(layout(copied=True), claims([T, U], name), claims([V], "two"))
    result = runs(T, U, V, ("new", "A.new"))
    result[CopyId(TopicPartition("u", 1), "A.u")] = ["a run"]
    # A new partition, a topic of another one and a new one have not lost any.
    assert lost_runs(there, result, name) == {T}
    assert not lost_runs(topic(layout(copied=False), claims([T], name)), runs(T), name), "it came to nothing"


def test_a_refusal_names_the_owner_and_what_to_do() -> None:
    (text,) = refusals({T: "one"}, "two")
    assert text == message("owners.twice", owner="one", copies="t to A.t", connector="two")


def test_of_heartbeats_topics_it_names_the_key_that_leaves_them_out() -> None:
    """No filter does: whoever excludes them gets the same refusal again."""
    heartbeats = {("heartbeats", "A.heartbeats"): "one", ("B.heartbeats", "A.B.heartbeats"): "one"}
    (text,) = refusals(heartbeats, "two")
    assert "Set heartbeats.replication.enabled=false in two" in text
    assert "topics.exclude" not in text
    (text,) = refusals({**heartbeats, T: "one"}, "two")
    assert all(part in text for part in ("topics.exclude", "and set heartbeats.replication.enabled=false"))


def others(name: str, *pairs: tuple[str, str]) -> list[LogRecord]:
    return [LogRecord(offset, 0, *pair) for offset, pair in enumerate(claims(pairs, name))]


def found(
    this: PipelineSpec, topics: Mapping[str, Sequence[LogRecord]], pairs: Sequence[tuple[str, str]]
) -> dict[tuple[str, str], OtherCopy]:
    return mixtures(this, {name: read_claims(records) for name, records in topics.items()}, pairs)


def test_a_topic_that_another_source_is_copied_to_is_found() -> None:
    ownership = {
        "mm2-layout.B.internal": others("two", ("t", "A.t"), ("x", "y")),
        "mm2-layout.C.internal": others("three", ("u", "A.u")),
    }
    copies = found(spec(), ownership, [T, U, V])
    assert copies == {
        T: OtherCopy("two", "t", "mm2-layout.B.internal"),
        U: OtherCopy("three", "u", "mm2-layout.C.internal"),
    }
    assert found(spec(merge_with=("two",)), ownership, [T, U, V]).keys() == {U}
    ended = {"mm2-layout.B.internal": [*others("two", T), LogRecord(9, 0, *withdrawn([T], "two")[0])]}
    assert found(spec(), ended, [T]) == {}


def test_of_several_that_copy_to_a_topic_the_first_is_named() -> None:
    open_claim = LogRecord(0, 0, *claims([T], "two", settled=False)[0])
    ownership = {
        "mm2-layout.D.internal": others("four", T),
        "mm2-layout.B.internal": [open_claim],
        "mm2-layout.C.internal": others("three", T),
    }
    assert found(spec(), ownership, [T])[T] == OtherCopy("three", "t", "mm2-layout.C.internal")
    last = found(spec(merge_with=("three", "four")), ownership, [T])[T]
    assert last == OtherCopy("two", "t", "mm2-layout.B.internal", settled=False)
    assert not before(spec(layout_topic="mm2-layout.A.internal"), last)
    assert before(spec(layout_topic="mm2-layout.C.internal"), last)


def test_a_claim_in_a_transaction_that_stays_open_is_one_that_is_not_settled() -> None:
    """Settled or not, as its record says: nobody knows whether that counts."""
    name = "mm2-layout.B.internal"
    topics = {name: read_claims(others("two", U), others("two", T))}
    assert mixtures(spec(), topics, [T, U, V]) == {
        T: OtherCopy("two", "t", name, settled=False),
        U: OtherCopy("two", "u", name),
    }
    this = spec(opposite_layouts=name)
    there = others("back", ("A.t", "t"))
    undecided = {T: OtherCopy("back", "A.t", name, settled=False)}
    assert loops(this, [], [T, U], there) == undecided
    stopped = [*there, opposite_layout("back", stop=True)]
    again = [LogRecord(60, 0, *claims([("A.t", "t")], "back")[0])]
    assert loops(this, stopped, [T, U], again) == undecided, "it may be starting again"


@pytest.mark.parametrize(
    ("records", "undecided", "settled"),
    [
        ([], [True], False),
        ([True], [False], True),
        ([True], [None], True),
        ([False], [True], False),
        ([True, None], [True], False),
        ([True, None], [None], None),
    ],
)
def test_what_is_undecided_makes_a_claim_and_ends_none(
    records: Sequence[bool | None], undecided: Sequence[bool | None], settled: bool | None
) -> None:
    """Of claims that are settled or not, and such that end it."""

    def log(states: Sequence[bool | None]) -> list[LogRecord]:
        pairs = [
            withdrawn([T], "two")[0] if state is None else claims([T], "two", settled=state)[0]
            for state in states
        ]
        return [LogRecord(offset, 0, *pair) for offset, pair in enumerate(pairs)]

    held = read_claims(log(records), log(undecided))
    assert held == ({} if settled is None else {T: [Claim(*T, "two", settled)]})


def test_layout_topics_of_all_aliases_are_known_by_name() -> None:
    assert all(map(is_layout_topic, ("mm2-layout.A.internal", "mm2-layout-us.west-internal")))
    assert not any(map(is_layout_topic, ("mm2-offset-runs.A.internal", "layout.A.internal", "mm2-layout.A")))


def test_a_refusal_to_mix_names_the_owner_and_what_to_do() -> None:
    (text,) = mixture_refusals({T: OtherCopy("one", "t", "mm2-layout.B.internal")}, "two")
    topic = "mm2-layout.B.internal"
    assert text == message("owners.mixed", owner="one", copies="A.t", topic=topic, connector="two")


def opposite_layout(name: str, *, stop: bool) -> LogRecord:
    return LogRecord(50, 0, layout_key(spec(name=name)), LayoutRecord(3, 1, stop=stop).value())


def test_a_running_connector_in_the_opposite_direction_is_found() -> None:
    there = others("back", ("A.t", "t"), ("u", "A.u"))
    this = spec(opposite_layouts="mm2-layout.B.internal")
    back = {T: OtherCopy("back", "A.t", "mm2-layout.B.internal")}
    assert loops(this, there, [T, U, V]) == back
    assert loops(this, [*there, opposite_layout("back", stop=False)], [T, U]) == back
    assert loops(this, [*there, opposite_layout("back", stop=True)], [T, U]) == {}
    assert loops(this, [*there, opposite_layout("another", stop=True)], [T]) == back


def test_claims_of_the_opposite_direction_that_may_not_be_read_are_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    this = spec(opposite_layouts="mm2-layout.B.internal")

    async def denied(*_: object) -> Sequence[LogRecord]:
        raise KafkaFailure(KafkaFault.NOT_AUTHORIZED, "grant READ on it")

    async def names() -> list[str]:
        return [this.opposite_layouts]

    monkeypatch.setattr(layout_ownership, "read_beside_open", denied)
    source: Any = SimpleNamespace(topic_names=names)
    with pytest.raises(KafkaFailure, match="grant READ on it"):
        asyncio.run(layout_ownership.opposite(this, source, [T]))


def test_a_refusal_of_the_opposite_direction_says_what_to_do() -> None:
    (text,) = opposite_refusals({("t", "t"): "back"}, "there")
    assert text == message("owners.opposite", owner="back", copies="t to t", connector="there")


def test_there_is_a_refusal_for_each_owner_and_it_names_a_few_topics() -> None:
    many = {(f"t{number}", f"A.t{number}"): "one" for number in range(5)}
    copies = "t0 to A.t0, t1 to A.t1, t2 to A.t2 and 2 more"
    assert refusals({**many, U: "three"}, "two") == [
        message("owners.twice", owner="one", copies=copies, connector="two"),
        message("owners.twice", owner="three", copies="u to A.u", connector="two"),
    ]
