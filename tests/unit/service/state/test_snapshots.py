"""What crosses the pipe and how it is kept: nothing is lost, little is stored, a restart shows old verdicts
first."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.model.values import TopicPartition
from bridge.protocol.messages import GroupReport
from bridge.service.answers.missing_records import summed
from bridge.service.answers.readiness import Answers, ConnectorView
from bridge.service.ipc.messages import (
    Desired,
    Frame,
    InstanceStatus,
    frame,
    pack_desired,
    pack_groups,
    pack_instance_status,
    pack_report,
    pack_summary,
    read_frame,
    unpack_desired,
    unpack_groups,
    unpack_instance_status,
    unpack_report,
    unpack_summary,
)
from bridge.service.state.snapshots import Snapshots
from connectors.base import Assignment, Missing, Summary
from tests.support.forms import mostly_long
from tests.unit.service.service_fakes import partition, report

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(
    TEXT,
    st.lists(st.tuples(TEXT, st.booleans(), st.integers(0, 4)), max_size=8, unique_by=lambda item: item[0]),
)
def test_groups_cross_the_pipe_unchanged(name: str, groups: list[tuple[str, bool, int]]) -> None:
    reports = {group: report(group, name, parts) if there else None for group, there, parts in groups}
    packed = [pack_report(group, report_) for group, report_ in reports.items()]
    got_name, generation, got = unpack_groups(pack_groups(name, 7, packed))
    assert (got_name, generation) == (name, 7)
    assert {item.group: None if item.blob is None else unpack_report(item.blob) for item in got} == reports


def test_the_other_messages_cross_unchanged() -> None:
    desired = (Desired("ñ", "fake", {"a": None, "b": "\x00"}, 3, Assignment(4, frozenset({1, 3}))),)
    assert unpack_desired(pack_desired(desired)) == desired
    summary = Summary(
        groups=1, reasons={"x": 2}, clusters_seen=frozenset({"source"}), errors=("e",), failure="f"
    )
    assert unpack_summary(pack_summary("c", 2, summary)) == ("c", 2, summary)
    note = InstanceStatus("c", 1, "broke", 2.0, 3)
    assert unpack_instance_status(pack_instance_status(note)) == note


def test_frames_are_read_whole_or_not_at_all() -> None:
    async def go() -> None:
        reader = asyncio.StreamReader()
        reader.feed_data(
            frame(Frame.HEARTBEAT) + frame(Frame.SUMMARY, b"abc") + frame(Frame.SUMMARY, b"abc")[:-1]
        )
        reader.feed_eof()
        assert await read_frame(reader) == (Frame.HEARTBEAT, b"")
        assert await read_frame(reader) == (Frame.SUMMARY, b"abc")
        assert await read_frame(reader) is None
        for garbage in (b"\xff\xff\xff\xff\x04", b"\x00\x00\x00\x00\x63"):
            reader = asyncio.StreamReader()
            reader.feed_data(garbage)
            with pytest.raises(ValueError, match=r"(?i)frame"):
                await read_frame(reader)

    asyncio.run(go())


def listed(known: Snapshots, name: str = "c") -> list[str]:
    return [group.group for group in known.after(name, "")]


def say(known: Snapshots, generation: int, *groups: str, gone: tuple[str, ...] = ()) -> None:
    packed = [pack_report(group, report(group)) for group in groups] + [
        pack_report(group, None) for group in gone
    ]
    known.groups("c", generation, packed)


@given(st.lists(st.tuples(st.lists(TEXT, max_size=12), st.lists(TEXT, max_size=12)), max_size=6))
def test_listing_is_in_order_whatever_came_and_went(changes: list[tuple[list[str], list[str]]]) -> None:
    known, there = Snapshots(), set[str]()
    for come, go in changes:
        say(known, 1, *come)
        say(known, 1, gone=tuple(go))
        there = (there | set(come)) - set(go)
        assert listed(known) == sorted(there)


def test_old_verdicts_stay_until_the_new_instance_has_ended_a_round() -> None:
    known = Snapshots()
    say(known, 1, "a", "b", "c")
    known.summary("c", 1, Summary(rounds=5, failure="f"))
    say(known, 2, "b", "d")
    assert listed(known) == ["a", "b", "c", "d"]
    known.summary("c", 2, Summary(rounds=0))
    assert listed(known) == ["a", "b", "c", "d"]
    known.summary("c", 2, Summary(rounds=1))
    assert listed(known) == ["b", "d"]
    say(known, 1, "late")
    known.summary("c", 1, Summary(rounds=9))
    assert listed(known) == ["b", "d"]
    assert known.connector("c").summary.rounds == 1


def test_a_restarted_process_drops_what_it_does_not_report_again() -> None:
    known = Snapshots()
    say(known, 1, "a", "b")
    known.instance_status(InstanceStatus("c", 1, "broke"))
    known.restarted()
    assert known.connector("c").instance is None
    say(known, 1, "b")
    assert listed(known) == ["a", "b"]
    known.summary("c", 1, Summary(rounds=1))
    assert listed(known) == ["b"]
    known.forget("c")
    assert known.names() == []


def test_a_failure_is_new_once() -> None:
    known = Snapshots()
    assert known.summary("c", 1, Summary(failure="f"))
    assert not known.summary("c", 1, Summary(failure="f"))
    known.renew("c")
    assert known.connector("c").summary.failure is None
    assert known.summary("c", 1, Summary(failure="f"))


@pytest.mark.parametrize(
    ("groups", "partitions", "most_mb"),
    mostly_long([(500, 10, 1.5), (5_000, 1, 5), (2_000, 10, 6), (20_000, 1, 20)], 2),
)
def test_reports_are_kept_small(groups: int, partitions: int, most_mb: float) -> None:
    """5,000 group-partitions, or 20,000; 100,000 take twenty, or five, times that, of 300 MB for all processes."""
    known = Snapshots()
    frames = [
        pack_groups("c", 1, [pack_report(f"group-{n}", varied(n, partitions)) for n in range(at, at + 100)])
        for at in range(0, groups, 100)
    ]
    gc.collect()
    tracemalloc.start()
    for payload in frames:
        known.groups(*unpack_groups(payload))
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert used / 1e6 < most_mb


def varied(number: int, partitions: int) -> GroupReport:
    return report(f"group-{number}", "a-connector").model_copy(
        update={
            "partitions": [
                partition(
                    part,
                    topic=f"topic-{number % 50}",
                    target_topic=f"A.topic-{number % 50}",
                    committed=number * 7919 + part * 104729,
                    target_offset=number * 6151 + part * 50021,
                    written=number * 6151 + part * 50021,
                )
                for part in range(partitions)
            ]
        }
    )


_CHANGES = st.lists(
    st.tuples(
        st.sampled_from("abcdef"),
        st.sampled_from(["ready", "behind", "moved", "gone", "another task"]),
        st.integers(-1, 3),
    ),
    max_size=40,
)


@given(_CHANGES, st.booleans())
def test_sums_that_are_kept_are_those_over_all_groups_and_partitions(
    changes: list[tuple[str, str, int]], restarted: bool
) -> None:
    """Answers are counted, and records that are missing added up, as reports come, not when somebody asks."""
    kept = Snapshots()
    for number, (group, what, missing) in enumerate(changes):
        result = report(
            group,
            ready=what != "behind",
            reason="target_ahead" if what == "behind" else None,
            task=int(what == "another task"),
            moved_at_ms=5 if what == "moved" else None,
        )
        kept.groups("c", 1, [pack_report(group, None if what == "gone" else result)])
        row = None if what == "gone" else Missing(missing, 1_000 + number)
        kept.missing("c", 1, {TopicPartition(group, 0): row})
        if restarted and number == 20:
            kept.restarted()
    known = kept.connector("c")
    view = ConnectorView(own_ms=1, running=frozenset({0}), checked=frozenset({0}))
    answers = Answers(view, known)
    assert answers.all() == Counter(answers.answer(each).readiness for each in kept.after("c", ""))
    assert all(known.answer_counts.values())
    assert set(known.incomplete) == {place for place, (records, _) in known.missing.items() if records}
    nothing = [(0, -1)] if known.missing else []
    assert summed(known.incomplete.values() or nothing) == summed(known.missing.values())
