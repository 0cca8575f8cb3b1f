"""Which connector owns a copy, and what the other one is told."""

from __future__ import annotations

from bridge.model.copy_owners import refusals
from bridge.model.values import CopyId, LogRecord, TopicPartition
from bridge.pipeline.claims import claims, lost_runs, ownership, withdrawn
from bridge.pipeline.layout_records import LayoutRecord, LayoutTopic, layout_key, read_layouts
from tests.unit.pipeline.values import spec

T, U, V = ("t", "A.t"), ("u", "A.u"), ("v", "A.v")


def topic(*changes: list[tuple[bytes, bytes | None]]) -> LayoutTopic:
    records = [pair for some in changes for pair in some]
    return read_layouts([LogRecord(offset, 0, *pair) for offset, pair in enumerate(records)], spec())


def test_copies_are_owned_free_or_taken() -> None:
    found = ownership(topic(claims([T], "one"), claims([U], "two")), [T, U, V], "one")
    assert (found.owned, found.free, found.taken) == ([T], [V], {U: "two"})


def test_of_two_that_claim_at_once_both_see_the_same_owner() -> None:
    there = topic(claims([T], "two"), claims([T], "one"))
    assert ownership(there, [T], "one").taken == {T: "two"}
    assert ownership(there, [T], "two").owned == [T]


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
    found = runs(T, U, V, ("new", "A.new"))
    found[CopyId(TopicPartition("u", 1), "A.u")] = ["a run"]
    assert lost_runs(there, found, name) == {T}, (
        "a new partition, a topic of another one and a new one have not"
    )
    assert not lost_runs(topic(layout(copied=False), claims([T], name)), runs(T), name), "it came to nothing"


def test_a_refusal_names_the_owner_and_what_to_do() -> None:
    (said,) = refusals({T: "one"}, "two")
    assert said == (
        "connector one copies t to A.t already, and two would write each record a second time. Exclude what it copies "
        "with topics.exclude, or go on under the name one, or stop one and hand its copies back (mirror-bridge "
        "hand-back one), or set bridge.take.over.from=one, which shuts one out"
    )


def test_there_is_a_refusal_for_each_owner_and_it_names_a_few_topics() -> None:
    many = {(f"t{number}", f"A.t{number}"): "one" for number in range(5)}
    said = refusals({**many, U: "three"}, "two")
    assert len(said) == 2
    assert "connector one copies t0 to A.t0, t1 to A.t1, t2 to A.t2 and 2 more already" in said[0]
    assert "connector three copies u to A.u already" in said[1]
