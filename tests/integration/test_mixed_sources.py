"""Two source aliases that copy to one target topic, as IdentityReplicationPolicy names them: one owns it, or both are
meant to."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from bridge.local import Cluster, GivenCluster
from bridge.model.copying import PipelineState, PipelineStatus
from bridge.model.values import TopicPartition
from tests.integration.copy_flow import CopyFlow
from tests.integration.group_flow import GroupFlow
from tests.support import Record, bounds, create_topic, eventually, produce, unique
from tests.support.forms import mostly_long
from tests.support.groups import commit, committed
from tests.support.waits import WAIT


@dataclass
class Merged(CopyFlow):
    """A flow whose copies have one name, whatever the alias."""

    to: str = ""

    def remote(self, topic: str) -> str:
        return self.to


@pytest.fixture
def flows(source: Cluster, target: Cluster) -> tuple[Merged, Merged]:
    """Two aliases, with a topic each, and one copy."""
    to = create_topic(target.bootstrap, unique("merged"), 1)
    one, two = Merged(source, target, to=to), Merged(source, target, to=to)
    for flow in (one, two):
        flow.topics.append(create_topic(source.bootstrap, unique("copied"), 1))
        produce(source.bootstrap, flow.topics[0], records(flow))
    return one, two


def records(flow: CopyFlow, start: int = 0) -> list[Record]:
    """A hundred, of which no other flow has any."""
    return [Record(f"{flow.alias}-{number}".encode()) for number in range(start, start + 100)]


def place(flow: CopyFlow) -> TopicPartition:
    return TopicPartition(flow.topics[0], 0)


def refused(status: PipelineStatus, owner: Merged) -> None:
    assert status.state is PipelineState.FAILED, status
    assert status.failure_code == "copy_taken"
    assert status.failure is not None
    assert f"connector {owner.spec.name} copies another source to {owner.to} already" in status.failure
    assert f"its claim is in {owner.spec.layout_topic}" in status.failure
    assert f"bridge.merge.with={owner.spec.name}" in status.failure


def test_the_second_source_is_refused_and_names_the_owner(flows: tuple[Merged, Merged]) -> None:
    one, two = flows
    one.copy()
    refused(two.copy(), one)
    one.assert_copied()
    one.assert_runs_true()
    assert two.runs() == {}
    # Its claim is not in the way of the first one.
    produce(one.source.bootstrap, one.topics[0], records(one, 100))
    assert one.copy().state is PipelineState.CAUGHT_UP
    one.assert_copied()


@pytest.mark.parametrize("attempt", mostly_long(range(6)))
def test_of_two_that_start_at_once_exactly_one_copies(flows: tuple[Merged, Merged], attempt: int) -> None:
    # By alias and in the opposite order: the order of their starts is not what decides.
    one, two = sorted(flows, key=lambda each: each.alias, reverse=attempt % 2 == 1)
    with one.pipeline() as first, two.pipeline() as second:
        both = ((one, first, two), (two, second, one))

        def settled() -> None:
            states = [each.status.state for each in (first, second)]
            assert PipelineState.FAILED in states, (first.status, second.status)

        eventually(settled, WAIT, what="one of the two is refused")
        copying = [each for each in both if each[1].status.state is not PipelineState.FAILED]
        assert len(copying) == 1, (first.status, second.status)
        ((owner, running, other),) = copying
        running.wait_position({place(owner): 100})
        loser = second if running is first else first
        refused(loser.status, owner)
    owner.assert_copied()
    assert other.runs() == {}


@pytest.mark.long
def test_a_later_topic_of_another_source_is_left_out_and_said(flows: tuple[Merged, Merged]) -> None:
    one, two = flows
    one.copy()
    apart = create_topic(two.target.bootstrap, unique("apart"), 1)
    merged, two.to = two.to, apart
    with two.pipeline() as running:
        running.wait_position({place(two): 100})
        partitions = two.partitions()
        two.topics.append(create_topic(two.source.bootstrap, unique("copied"), 1))
        two.to = merged
        running.assign([*partitions, *two.partitions()[1:]])
        error = eventually(lambda: running.status.errors[0], WAIT, what="the topic is refused")
        assert f"connector {one.spec.name} copies another source to {merged} already" in error
    one.assert_copied()


def test_records_of_both_are_copied_where_that_is_meant(flows: tuple[Merged, Merged]) -> None:
    one, two = flows
    two.settings = {"merge_with": (one.spec.name,)}
    one.settings = {"merge_with": (two.spec.name,)}
    with one.pipeline() as first, two.pipeline() as second:
        for start in (100, 200, 300):
            for flow, running in ((one, first), (two, second)):
                produce(flow.source.bootstrap, flow.topics[0], records(flow, start))
                running.wait_position({place(flow): start + 100})
    # Each source in its own order, and the runs of each know where its records are.
    _, log_end = bounds(one.target.bootstrap, one.to)[0]
    for flow in flows:
        here, there = flow.original(flow.topics[0]), flow.copies(flow.topics[0])
        assert len(there) == 800
        ours = {each.value for each in here}
        copies = [each for each in there if each.value in ours]
        assert [each.content for each in copies] == [each.content for each in here]
        known = flow.known(place(flow))
        answers = [known.answer(each.offset, log_end) for each in here]
        assert all(answer <= copy.offset for answer, copy in zip(answers, copies, strict=True))
        assert answers[-1] > copies[-3].offset
        flow.assert_answers_safe()


# -- groups of both ----------------------------------------------------------------------------------------------------


def groups_of(flow: Merged) -> GroupFlow:
    names = {
        "replication_policy_class": "python:bridge.policies.TopicMap",
        "replication_policy_topic_map": f"{flow.topics[0]}={flow.to}",
    }
    source = GivenCluster(flow.alias, flow.source.bootstrap)
    return GroupFlow(source, flow.target, {"topics": flow.topics[0], **names})


def test_a_group_of_both_skips_no_record_of_either(flows: tuple[Merged, Merged]) -> None:
    one, two = flows
    two.settings = {"merge_with": (one.spec.name,)}
    one.copy()
    two.copy()
    produce(one.source.bootstrap, one.topics[0], records(one, 100))
    one.copy()
    group = unique("group")
    # Where they share a source cluster the group has both topics there.
    commit(one.source.bootstrap, group, {(one.topics[0], 0): 150, (two.topics[0], 0): 30})
    ours, theirs = map(groups_of, flows)
    alone = ours.first_report(group)
    assert (alone.ready, alone.reason) == (False, "other_source_unknown")
    assert (one.to, 0) not in committed(one.target.bootstrap, group)
    reports = [flow.ready_report(group, beside=other) for flow, other in ((ours, theirs), (theirs, ours))]
    at = committed(one.target.bootstrap, group)[one.to, 0]
    behind = {record.value for record in two.copies(two.topics[0]) if record.offset >= at}
    assert {record.value for record in records(two)[30:]} <= behind
    assert {record.value for record in [*records(one), *records(one, 100)][150:]} <= behind
    again = {
        record.value for record in [*records(two)[:30], *[*records(one), *records(one, 100)][:150]]
    } & behind
    for report in reports:
        (row,) = report.partitions
        assert (row.target_offset, row.written, row.verdict) == (at, at, "bounded")
        assert row.bound is not None
        assert len(again) <= row.bound
