"""Topics that change between two rounds, and a group on each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.ground import SHIFT, Ground, exactly
from tests.support import (
    add_partitions,
    commit,
    create_topic,
    delete_topic,
    read,
    unique,
)


@pytest.fixture(scope="module")
def changing(ground: Ground) -> Iterator[str]:
    with ground.connector("changing.*", tasks_max=2) as name:
        yield name


def test_a_source_topic_recreated_between_two_rounds(ground: Ground, changing: str) -> None:
    topic, group = ground.topic(), unique("changing")
    commit(ground.source.bootstrap, group, {(topic, 0): 60})
    ground.wait_there(group, {(topic, 0): 60 + SHIFT})
    delete_topic(ground.source.bootstrap, topic)
    create_topic(ground.source.bootstrap, topic)
    records = ground.fill(topic, 100, start=1000, copy=False)
    commit(ground.source.bootstrap, group, {(topic, 0): 60})
    # The same offset of another log: what was true of the old one must not be said of the new one.
    ground.wait_rounds(changing)
    row = ground.service.partition(group, topic)
    assert (row["verdict"], row["written"]) == ("pending", 60 + SHIFT), row
    assert not ground.service.report(group)["ready"]
    ground.copy(topic, records)
    ground.wait_there(group, {(topic, 0): SHIFT + 100 + 60})
    assert ground.service.partition(group, topic)["verdict"] == "exact"


def test_a_target_topic_recreated_between_two_rounds(ground: Ground, changing: str) -> None:
    topic, group = ground.topic(), unique("changing")
    commit(ground.source.bootstrap, group, {(topic, 0): 60})
    ground.wait_there(group, {(topic, 0): 60 + SHIFT})
    delete_topic(ground.target.bootstrap, ground.remote(topic))
    # A group without offsets is gone with its topic; until there is a copy again there is nothing to write.
    ground.wait_reason(group, topic, "target_topic_missing")
    create_topic(ground.target.bootstrap, ground.remote(topic))
    ground.copy(topic, read(ground.source.bootstrap, topic)[40:])
    ground.wait_there(group, {(topic, 0): 20})
    assert ground.service.partition(group, topic)["verdict"] == "exact"


def test_a_partition_added_between_two_rounds(ground: Ground, changing: str) -> None:
    topic, group = ground.topic(), unique("changing")
    commit(ground.source.bootstrap, group, {(topic, 0): 60})
    ground.wait_there(group, {(topic, 0): 60 + SHIFT})
    add_partitions(ground.source.bootstrap, topic, 2)
    records = ground.fill(topic, 50, partition=1, copy=False)
    commit(ground.source.bootstrap, group, {(topic, 1): 25})
    ground.wait_reason(group, topic, "target_partition_missing", partition=1)
    assert ground.service.partition(group, topic, 0)["verdict"] == "exact"
    add_partitions(ground.target.bootstrap, ground.remote(topic), 2)
    ground.copy(topic, records)
    ground.wait_there(group, {(topic, 0): 60 + SHIFT, (topic, 1): 25})


def test_a_topic_whose_broker_stamps_records_says_so(ground: Ground, changing: str) -> None:
    topic, group = create_topic(ground.source.bootstrap, unique("late")), unique("changing")
    plain = unique("plain")
    create_topic(
        ground.target.bootstrap, ground.remote(topic), configs={"message.timestamp.type": "LogAppendTime"}
    )
    ground.fill(topic, 50)
    for each in (group, plain):
        commit(ground.source.bootstrap, each, {(topic, 0): 25})
    ground.wait_reason(group, topic, "target_timestamp_type")
    with ground.connector(exactly(plain), translation_verify="false"):
        ground.wait_reason(plain, topic, "target_timestamp_type")
    assert (ground.there(group), ground.there(plain)) == ({}, {})
