"""Two flows that both bring groups home, from the first moment on: a group goes to and fro between two clusters."""

from __future__ import annotations

from bridge.local import Cluster, GivenCluster
from tests.integration.failover import JUNK, copy, topics
from tests.integration.group_flow import GroupFlow
from tests.support import numbered, produce, unique
from tests.support.groups import commit, committed

RECORDS = 40


def test_a_group_goes_there_and_back_by_flows_that_began_without_a_trace(
    source: Cluster, target: Cluster
) -> None:
    a, b = GivenCluster(unique("a"), source.bootstrap), GivenCluster(unique("b"), target.bootstrap)
    topic = topics(a, b)
    records = numbered(RECORDS, timestamp=1_700_000_000_000)
    produce(a.bootstrap, topic, records)
    copy(a, b, topic, records)
    remote, group = f"{a.name}.{topic}", unique("group")
    settings = {"reverse_checkpointing_enabled": "true", "groups": group, "topics": f"{topic},{remote}"}
    there, back = GroupFlow(a, b, settings), GroupFlow(b, a, settings)
    commit(a.bootstrap, group, {(topic, 0): 12})
    there.ready_report(group, beside=back)
    assert committed(b.bootstrap, group) == {(remote, 0): 12 + JUNK}
    commit(b.bootstrap, group, {(remote, 0): 20 + JUNK})
    back.ready_report(group, beside=there)
    assert committed(a.bootstrap, group) == {(topic, 0): 20}
    commit(a.bootstrap, group, {(topic, 0): 31})
    there.ready_report(group, beside=back)
    assert committed(b.bootstrap, group) == {(remote, 0): 31 + JUNK}
