"""Reports show a group's partitions in the order in which people look for them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bridge.model.values import Committed, Evidence, Judgement, Reason, TopicPartition, Verdict
from bridge.translation.plan import GroupPlan, PartitionPlan
from connectors.group_translation.records import record_of, report_of
from connectors.group_translation.report import report

PLACES = [("orders", 0), ("orders", 2), ("orders", 10), ("payments", 0)]


def row(topic: str, partition: int) -> PartitionPlan:
    source, target = TopicPartition(topic, partition), TopicPartition(f"A.{topic}", partition)
    verdict = Verdict(Judgement.EXACT, 5, 0, Evidence.RUN)
    return PartitionPlan(source, target, Committed(5), verdict, 5, None)


def test_partitions_come_by_topic_and_number_however_the_broker_has_listed_them() -> None:
    plan = GroupPlan("g", tuple(row(*place) for place in reversed(PLACES)))
    named: dict[str, Any] = {"connector": "c", "source": "A", "target": "B", "task": 0}
    made = report(plan, state="EMPTY", synced_at_ms=None, **named)
    record = record_of(plan, 1, 0, 1, "EMPTY")
    # A record of a version before this one has its rows in any order.
    older = replace(record, rows=tuple(reversed(record.rows)))
    recalled = report_of(older, "g", reason=Reason.SOURCE_UNREACHABLE, **named)
    for partitions in (made.partitions, record.rows, recalled.partitions):
        assert [(part.topic, part.partition) for part in partitions] == PLACES
