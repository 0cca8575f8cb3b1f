"""Two sources that share a topic on the target, and a group of both, by four connectors of one service."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace

import httpx
import pytest

from tests.e2e.control import aliased
from tests.e2e.copying import copying, fill
from tests.e2e.flow import Flow, Json, exactly
from tests.support import create_topic, eventually, read, unique
from tests.support.groups import commit, committed
from tests.support.waits import WAIT

pytestmark = pytest.mark.long

COUNT = 40
POLICY = "python:bridge.policies.TopicMap"


def flow_of(known: list[Json], flow: Flow) -> Json:
    (found,) = [each for each in known if each["source"] == flow.source.name]
    return found


def wait_records(flow: Flow, topic: str, count: int) -> None:
    def there() -> None:
        assert len(read(flow.target.bootstrap, topic)) == count

    eventually(there, WAIT, what=f"{topic} has {count} records", watched=flow.watched)


def test_a_group_of_both_is_ready_in_both_flows_where_neither_skips_a_record(flow: Flow) -> None:
    one = aliased(flow)
    two = replace(aliased(flow), target=one.target)
    to, group = create_topic(flow.target.bootstrap, unique("merged"), 1), unique("group")
    topics = [create_topic(flow.source.bootstrap, unique("merged"), 1) for _ in (one, two)]
    named = [
        {"replication_policy_class": POLICY, "replication_policy_topic_map": f"{topic}={to}"}
        for topic in topics
    ]
    for topic in topics:
        fill(flow, topic, 0, COUNT, 1)
    commit(flow.source.bootstrap, group, {(topics[0], 0): 30, (topics[1], 0): 6})
    with ExitStack() as running:
        first = running.enter_context(copying(one, topics[0], **named[0]))
        wait_records(flow, to, COUNT)  # it owns the topic, and the second one may come
        running.enter_context(copying(two, topics[1], bridge_merge_with=first, **named[1]))
        wait_records(flow, to, 2 * COUNT)
        ours = running.enter_context(one.connector(exactly(group), topics=topics[0], **named[0]))

        def waits() -> None:
            report = one.service.report(group, ours)
            assert (report["readiness"], report["reason"]) == ("cannot_tell", "other_source_unknown")

        eventually(waits, WAIT, what="the other flow is waited for", watched=flow.watched)
        assert (to, 0) not in committed(flow.target.bootstrap, group)
        theirs = running.enter_context(two.connector(exactly(group), topics=topics[1], **named[1]))

        def ready() -> None:
            known = one.service.readiness()["flows"]
            assert [flow_of(known, each)["readiness"] for each in (one, two)] == ["ready", "ready"], known

        eventually(ready, WAIT, what="both flows are ready", watched=flow.watched)
        at = committed(flow.target.bootstrap, group)[to, 0]
        log = read(flow.target.bootstrap, to)
        for name in (ours, theirs):
            (row,) = one.service.report(group, name)["partitions"]
            assert (row["verdict"], row["target_offset"], row["written"]) == ("bounded", at, at)
        behind = [record.content for record in log if record.offset >= at]
        for topic, unread in zip(topics, (30, 6), strict=True):
            for record in read(flow.source.bootstrap, topic)[unread:]:
                assert record.content in behind
        asked = {"flow": f"{one.source.name}-to-{one.target.name}", "all": True, "dry_run": True}
        answer = (
            httpx.post(f"{flow.process.url}/v1/failover", json=asked, timeout=WAIT).raise_for_status().json()
        )
        assert [each["partitions"][0]["offset"] for each in answer["groups"]] == [at]
        assert any(
            f"failover --flow {two.source.name}-to-{one.target.name}" in line for line in answer["next"]
        )
