"""The rules of group offset sync by name, on real clusters."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

from tests.e2e.flow import SHIFT, Flow, exactly, stays
from tests.support import (
    active_member,
    admin,
    commit,
    eventually,
    resume,
    unique,
)
from tests.support.forms import mostly_long
from tests.support.waiting import wait_equal, wait_true
from tests.support.waits import WAIT

INTERVALS = 3.0
ODD = {
    "commas": "rules,with,commas",
    "quotes": "rules \"double\" and 'single' `back`",
    "slashes": "rules/with/../slashes\\and%2Fpercent",
    "unicode": "rules-grüße-消費者-🚚",
    "spaces": " rules with  spaces ",
    "question": "rules?group=x&y=#z",
    "regex": "rules.*(a|b)[c]+$",
    "long": "rules-" + "x" * 240,
}


@pytest.fixture(scope="module")
def rules(flow: Flow) -> Iterator[str]:
    """One connector with default rules for all tests here whose groups begin with `rules`."""
    with flow.connector(r"\s?rules.*", tasks_max=2) as name:
        yield name


def _group() -> str:
    return unique("rules")


# -- never backward ------------------------------------------------------------------------------------------------


def test_an_offset_on_the_target_never_moves_back(flow: Flow, rules: str) -> None:
    topic, group = flow.topic(), _group()
    commit(flow.source.bootstrap, group, {(topic, 0): 60})
    flow.wait_there(group, {(topic, 0): 60 + SHIFT})
    commit(flow.source.bootstrap, group, {(topic, 0): 20})
    row = flow.wait_reason(group, topic, "target_ahead")
    assert (row["written"], row["detail"]["target_ahead_by"]) == (60 + SHIFT, 40)
    wait_equal(lambda: flow.service.report(group)["ready"], False, watched=flow.watched)
    flow.wait_rounds(rules)
    assert flow.there(group) == {(flow.remote(topic), 0): 60 + SHIFT}
    commit(flow.source.bootstrap, group, {(topic, 0): 61})
    flow.wait_there(group, {(topic, 0): 61 + SHIFT})
    flow.wait_ready(group)


def test_what_somebody_else_wrote_on_the_target_is_not_moved_back(flow: Flow, rules: str) -> None:
    topic, group = flow.topic(), _group()
    commit(flow.target.bootstrap, group, {(flow.remote(topic), 0): 90})
    commit(flow.source.bootstrap, group, {(topic, 0): 20})
    flow.wait_reason(group, topic, "target_ahead")
    assert flow.there(group) == {(flow.remote(topic), 0): 90}


def test_one_partition_that_is_ahead_does_not_hold_up_the_others(flow: Flow, rules: str) -> None:
    topic, group = flow.topic(partitions=2), _group()
    commit(flow.target.bootstrap, group, {(flow.remote(topic), 0): 90})
    commit(flow.source.bootstrap, group, {(topic, 0): 20, (topic, 1): 20})
    flow.wait_there(group, {(topic, 0): 90, (topic, 1): 20 + SHIFT})
    flow.wait_reason(group, topic, "target_ahead")
    wait_equal(lambda: flow.service.partition(group, topic, 1)["verdict"], "exact", watched=flow.watched)


# -- active groups -------------------------------------------------------------------------------------------------


def test_a_group_that_becomes_active_on_the_target_is_left_alone_and_says_so(flow: Flow, rules: str) -> None:
    topic, group = flow.topic(), _group()
    commit(flow.source.bootstrap, group, {(topic, 0): 20})
    flow.wait_there(group, {(topic, 0): 20 + SHIFT})
    flow.wait_ready(group)
    with active_member(flow.target.bootstrap, group, [flow.remote(topic)]):
        commit(flow.source.bootstrap, group, {(topic, 0): 50})

        def reported() -> None:
            report = flow.service.report(group)
            assert (report["reason"], report["target_state"]) == ("group_active_on_target", "ACTIVE"), report
            assert not report["ready"]
            (row,) = report["partitions"]
            assert (row["committed"], row["written"]) == (50, 20 + SHIFT)
            assert row["detail"]["answer"] == 50 + SHIFT

        eventually(reported, WAIT, what=f"{group} says that it is active", watched=flow.watched)
        wait_true(
            lambda: flow.service.status(rules)["reasons"]["group_active_on_target"] >= 1, watched=flow.watched
        )
        explained = " ".join(flow.service.get(f"/v1/groups/{group}/explain")["lines"])
        assert "group_active_on_target" in explained
        stays(
            lambda: set(flow.there(group).values()) == {20 + SHIFT},
            INTERVALS,
            what=f"{group} is left alone",
        )
    flow.wait_there(group, {(topic, 0): 50 + SHIFT})


def test_a_consumer_resumes_at_the_exact_record(flow: Flow, rules: str) -> None:
    topic, group = flow.topic(), _group()
    commit(flow.source.bootstrap, group, {(topic, 0): 42})
    flow.wait_there(group, {(topic, 0): 42 + SHIFT})
    (on_source,) = resume(flow.source.bootstrap, group, [topic])
    (on_target,) = resume(flow.target.bootstrap, group, [flow.remote(topic)])
    assert on_target.content == on_source.content
    assert on_target.value == b"value-42"


# -- what is written, and when -------------------------------------------------------------------------------------


def test_a_dry_run_writes_nothing_and_shows_the_plan(flow: Flow) -> None:
    topic, fresh, there = flow.topic(), unique("dry"), unique("dry")
    commit(flow.target.bootstrap, there, {(flow.remote(topic), 0): 3})
    for group in (fresh, there):
        commit(flow.source.bootstrap, group, {(topic, 0): 30})
    with flow.connector(f"{exactly(fresh)}|{exactly(there)}", dry_run="true") as name:

        def planned() -> None:
            for group, written in ((fresh, None), (there, 3)):
                report = flow.service.report(group)
                (row,) = report["partitions"]
                assert (report["reason"], report["ready"]) == ("dry_run", False), report
                assert (row["target_offset"], row["written"], row["verdict"]) == (
                    30 + SHIFT,
                    written,
                    "exact",
                )

        eventually(planned, WAIT, what="both groups show what would be written", watched=flow.watched)
        flow.wait_rounds(name)
        assert (flow.there(fresh), flow.there(there)) == ({}, {(flow.remote(topic), 0): 3})


def test_rewind_moves_back_only_what_is_still_ours(flow: Flow) -> None:
    topic, ours, theirs = flow.topic(), unique("rewind"), unique("rewind")
    groups = f"{exactly(ours)}|{exactly(theirs)}"
    with flow.connector(groups, sync_group_offsets_rewind="empty-groups") as name:
        for group in (ours, theirs):
            commit(flow.source.bootstrap, group, {(topic, 0): 60})
            flow.wait_there(group, {(topic, 0): 60 + SHIFT})
        # Somebody has worked on with the second group on the target.
        commit(flow.target.bootstrap, theirs, {(flow.remote(topic), 0): 80})
        for group in (ours, theirs):
            commit(flow.source.bootstrap, group, {(topic, 0): 20})
        flow.wait_there(ours, {(topic, 0): 20 + SHIFT})
        flow.wait_reason(theirs, topic, "target_ahead")
        flow.wait_rounds(name)
        assert flow.there(theirs) == {(flow.remote(topic), 0): 80}
        flow.wait_ready(ours)
        # Also not while somebody works with it.
        with active_member(flow.target.bootstrap, ours, [flow.remote(topic)]):
            commit(flow.source.bootstrap, ours, {(topic, 0): 10})
            eventually(
                lambda: flow.service.report(ours)["reason"] == "group_active_on_target",
                WAIT,
                what="ours is active",
            )
            assert flow.there(ours) == {(flow.remote(topic), 0): 20 + SHIFT}
        flow.wait_there(ours, {(topic, 0): 10 + SHIFT})


@pytest.mark.parametrize(
    "metadata", mostly_long(["", "plain", 'a "quoted" ü 消費 🚚, {json: 1}', "x" * 3000])
)
def test_metadata_is_copied_byte_for_byte(flow: Flow, rules: str, metadata: str) -> None:
    topic, group = flow.topic(10), _group()
    commit(flow.source.bootstrap, group, {(topic, 0): 5}, metadata=metadata)
    flow.wait_there(group, {(topic, 0): 5 + SHIFT})
    client = admin(flow.target.bootstrap)
    (future,) = client.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
    (result,) = future.result(WAIT).topic_partitions
    assert isinstance(result, TopicPartition)
    assert (result.metadata or "") == metadata


@pytest.mark.parametrize("group", mostly_long(ODD.values()), ids=ODD)
def test_group_ids_of_any_kind(flow: Flow, rules: str, group: str) -> None:
    topic = flow.topic(10)
    commit(flow.source.bootstrap, group, {(topic, 0): 5})
    flow.wait_there(group, {(topic, 0): 5 + SHIFT})

    def reported() -> None:
        report = flow.service.report(group)
        assert (report["group"], report["connector"], report["verdict"]) == (group, rules, "exact")

    eventually(reported, WAIT, what=f"{group!r} is reported")
    wait_true(lambda: group in flow.service.groups(rules), watched=flow.watched)


@pytest.mark.long
def test_a_group_id_with_a_comma_is_two_where_a_list_is_given(flow: Flow) -> None:
    """task.assigned.groups is a list, as stock's: an id with a comma can't be in it, and takes nobody else with it."""
    topic, mark = flow.topic(10), unique("assigned")
    groups = [f"{mark}-a", f"{mark}-b", f"{mark}-c", f"{mark}-a,{mark}-b"]
    for group in groups:
        commit(flow.source.bootstrap, group, {(topic, 0): 5})
    with flow.connector(f"{mark}.*", task_assigned_groups=f"{mark}-a,{mark}-b") as name:
        for group in groups[:2]:
            flow.wait_there(group, {(topic, 0): 5 + SHIFT})
        flow.wait_rounds(name)
        wait_equal(lambda: sorted(flow.service.groups(name)), groups[:2], watched=flow.watched)
        assert (flow.there(groups[2]), flow.there(groups[3])) == ({}, {})
