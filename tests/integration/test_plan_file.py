"""The CSV of `mirror-bridge plan` is what Kafka's own kafka-consumer-groups takes."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from bridge.commands.failover import as_csv
from bridge.local import Cluster
from bridge.protocol.messages import MovedGroup, PlannedOffset
from tests.support import commit, create_topic, numbered, produce, unique
from tests.support.forms import mostly_long
from tests.support.groups import committed
from tests.support.java import kafka_class

TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"


@pytest.mark.parametrize("count", mostly_long([1, 2]))
def test_kafkas_tool_takes_the_plan_of_one_group_and_of_several(
    target: Cluster, tmp_path: Path, count: int
) -> None:
    topic = create_topic(target.bootstrap, unique("A.orders"), 2)
    for number in range(2):
        produce(target.bootstrap, topic, numbered(10, partition=number))
    names = [unique("one"), f'{unique("with, comma and")} "quotes"'][:count]
    groups = []
    for at, name in enumerate(names):
        commit(target.bootstrap, name, {(topic, 0): 1, (topic, 1): 1})
        rows = [
            PlannedOffset(
                topic="orders",
                partition=n,
                committed=9,
                target_topic=topic,
                offset=4 + n + at,
                verdict="exact",
            )
            for n in range(2)
        ]
        groups.append(MovedGroup(group=name, connector="c", moved_at_ms=None, as_of_ms=1, partitions=rows))
    file = tmp_path / "offsets.csv"
    file.write_text(as_csv(groups))
    chosen = [part for name in names for part in ("--group", name)]
    command = [*kafka_class(TOOL), "--bootstrap-server", target.bootstrap, *chosen]
    ran = subprocess.run(
        [*command, "--reset-offsets", "--from-file", str(file), "--execute"],
        capture_output=True,
        text=True,
        check=True,
    )
    for at, name in enumerate(names):
        assert committed(target.bootstrap, name) == {(topic, 0): 4 + at, (topic, 1): 5 + at}, (
            ran.stdout + ran.stderr
        )
