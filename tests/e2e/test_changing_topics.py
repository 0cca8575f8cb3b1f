"""Topics that change between two rounds, and a group on each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.flow import SHIFT, Flow, exactly
from tests.support import (
    add_partitions,
    commit,
    create_topic,
    delete_topic,
    read,
    unique,
)
from tests.support.waiting import wait_equal


@pytest.fixture(scope="module")
def changing(flow: Flow) -> Iterator[str]:
    with flow.connector("changing.*", tasks_max=2) as name:
        yield name


def test_a_source_topic_recreated_between_two_rounds(flow: Flow, changing: str) -> None:
    topic, group = flow.topic(), unique("changing")
    commit(flow.source.bootstrap, group, {(topic, 0): 60})
    flow.wait_there(group, {(topic, 0): 60 + SHIFT})
    delete_topic(flow.source.bootstrap, topic)
    create_topic(flow.source.bootstrap, topic)
    records = flow.fill(topic, 100, start=1000, copy=False)
    commit(flow.source.bootstrap, group, {(topic, 0): 60})
    # The same offset of another log: what was true of the old one must not be said of the new one.
    report = flow.wait_newer_report(changing, group)
    (row,) = report["partitions"]
    assert (row["verdict"], row["written"], report["ready"]) == ("pending", 60 + SHIFT, False), report
    flow.copy(topic, records)
    flow.wait_there(group, {(topic, 0): SHIFT + 100 + 60})
    flow.wait_verdict(group, topic)


def test_a_target_topic_recreated_between_two_rounds(flow: Flow, changing: str) -> None:
    topic, group = flow.topic(), unique("changing")
    commit(flow.source.bootstrap, group, {(topic, 0): 60})
    flow.wait_there(group, {(topic, 0): 60 + SHIFT})
    delete_topic(flow.target.bootstrap, flow.remote(topic))
    # A group without offsets is gone with its topic; until there is a copy again there is nothing to write.
    flow.wait_reason(group, topic, "target_topic_missing")
    create_topic(flow.target.bootstrap, flow.remote(topic))
    flow.copy(topic, read(flow.source.bootstrap, topic)[40:])
    flow.wait_there(group, {(topic, 0): 20})
    flow.wait_verdict(group, topic)


def test_a_partition_added_between_two_rounds(flow: Flow, changing: str) -> None:
    topic, group = flow.topic(), unique("changing")
    commit(flow.source.bootstrap, group, {(topic, 0): 60})
    flow.wait_there(group, {(topic, 0): 60 + SHIFT})
    add_partitions(flow.source.bootstrap, topic, 2)
    records = flow.fill(topic, 50, partition=1, copy=False)
    commit(flow.source.bootstrap, group, {(topic, 1): 25})
    flow.wait_reason(group, topic, "target_partition_missing", partition=1)
    wait_equal(lambda: flow.service.partition(group, topic, 0)["verdict"], "exact", watched=flow.watched)
    add_partitions(flow.target.bootstrap, flow.remote(topic), 2)
    flow.copy(topic, records)
    flow.wait_there(group, {(topic, 0): 60 + SHIFT, (topic, 1): 25})


def test_a_topic_whose_broker_stamps_records_says_so(flow: Flow, changing: str) -> None:
    topic, group = create_topic(flow.source.bootstrap, unique("late")), unique("changing")
    plain = unique("plain")
    create_topic(
        flow.target.bootstrap, flow.remote(topic), configs={"message.timestamp.type": "LogAppendTime"}
    )
    flow.fill(topic, 50)
    for each in (group, plain):
        commit(flow.source.bootstrap, each, {(topic, 0): 25})
    flow.wait_reason(group, topic, "target_timestamp_type")
    with flow.connector(exactly(plain), translation_verify="false"):
        flow.wait_reason(plain, topic, "target_timestamp_type")
    assert (flow.there(group), flow.there(plain)) == ({}, {})
