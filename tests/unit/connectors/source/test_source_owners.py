"""What an operator is told before a second connector copies to the same topics."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from bridge.model.copying import Progress
from bridge.protocol.messages import CopyTotals
from bridge.service.state.snapshots import Snapshots, copied_topics
from bridge.service.state.task_table import TaskTable
from connectors.base import CopiedTopics, CopyReport
from connectors.registry import KINDS
from tests.support.messages import message
from tests.unit.connectors.configs import CLIENTS, SOURCE

ONE = CopiedTopics(
    "one", {**SOURCE, "name": "one"}, {("orders", "source1.orders"), ("bills", "source1.bills")}
)


def refused(changes: Mapping[str, str], *others: CopiedTopics) -> list[tuple[str, str]]:
    config = {**SOURCE, "name": "two", **changes}
    assert not KINDS["source"].validate(config, CLIENTS).errors
    return [(error.key, error.message) for error in KINDS["source"].conflicts(config, others)]


def test_the_same_copy_is_an_error_of_topics_that_names_the_owner() -> None:
    ((key, why),) = refused({}, ONE)
    assert key == "topics"
    copies = "bills to source1.bills, orders to source1.orders"
    assert why == message("owners.twice", owner="one", copies=copies, connector="two")


def test_where_transforms_may_send_records_to_counts_too() -> None:
    split = {
        "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
        "bridge.transforms": "split",
        "bridge.transforms.split.type": "python:tests.own_transforms.even",
        "bridge.transforms.split.topics": "orders",
        "bridge.transforms.split.to": "source1.orders,source1.bills",
    }
    ((key, why),) = refused(split, ONE)
    assert key == "topics"
    assert why == message("owners.twice", owner="one", copies="orders to source1.orders", connector="two")


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "one"},
        {"topics": "payments"},
        {"topics.exclude": "orders,bills"},
        {"replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"},
        {"bridge.take.over.from": "one"},
        {"source.cluster.alias": "source2"},
        {"target.cluster.bootstrap.servers": "c:9092"},
    ],
)
def test_another_copy_is_none(changes: Mapping[str, str]) -> None:
    assert refused(changes, ONE) == []


def test_only_connectors_with_a_task_that_runs_count() -> None:
    table, snapshots = TaskTable(lambda: 0.0), Snapshots()
    table.start_task("one", 0, "1-a", "source", 1, dict(ONE.config))
    table.start_task("groups", 0, "1-a", "group_offset", 1, {})
    row = Progress("orders", 0, "source1.orders", 5, 5, 5, 50)
    totals = CopyTotals(source="A", target="B", state="copying", layout=1, restarts=0, partitions=1)
    generation = table.connector("one").generation
    snapshots.progress("one", generation, CopyReport(totals, [row], [], None, True))
    assert copied_topics(table, snapshots) == [
        CopiedTopics("one", table.connector("one").config, {("orders", "source1.orders")})
    ]
    table.stop_task("one", 0, "1-a")
    assert copied_topics(table, snapshots) == []


LEGACY = {"replication.policy.class": "org.apache.kafka.connect.mirror.LegacyReplicationPolicy"}
BACK = CopiedTopics(
    "back",
    {
        **SOURCE,
        **LEGACY,
        "name": "back",
        "source.cluster.alias": "target2",
        "target.cluster.alias": "source1",
    },
    {("orders", "orders")},
)


def test_the_opposite_direction_is_refused_where_no_name_tells_of_a_cycle() -> None:
    ((key, why),) = refused(LEGACY, BACK)
    assert key == "replication.policy.class"
    assert why == message("owners.opposite", owner="back", copies="orders to orders", connector="two")
    assert refused(LEGACY | {"topics.exclude": "orders"}, BACK) == []
    assert refused({}, BACK) == []
    assert refused(LEGACY | {"target.cluster.alias": "other"}, BACK) == []
