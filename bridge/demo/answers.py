"""Offsets on the target by each way of translating: the timestamp rule, stock's checkpoints, and ours as committed."""

from __future__ import annotations

import re
from collections.abc import Mapping

import httpx
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec

from bridge.client import translate_offsets
from bridge.demo.cluster import WAIT, admin, committed
from bridge.demo.groups import Groups
from bridge.demo.logs import Tp, first_from, reader
from bridge.errors import KafkaFailure, KafkaFault
from bridge.local.plain_http import NO_AUTHORITIES
from bridge.protocol.messages import ConnectorStatus, GroupReports, PartitionReport

Answers = dict[tuple[str, Tp], int]
"""Target offsets by group and source partition; without an entry where a way of translating has none."""


def by_timestamp(source: str, target: str, alias: str, groups: Groups) -> Answers:
    """The earliest target offset whose timestamp is that of the record at the committed offset, or later.

    No offset where there is no such record (a hole, a control record, the end of the log), or no copy of it.
    """
    seen: dict[Tp, dict[int, int]] = {}
    answers: Answers = {}
    client = admin(target)
    with reader(source, committed_only=True) as consumer:
        for group, offsets in groups.items():
            for tp, offset in offsets.items():
                by_offset = seen.setdefault(tp, {})
                if offset not in by_offset:
                    by_offset[offset] = -1
                    record = first_from(consumer, tp, offset)
                    if record is not None and record[0] == offset:
                        by_offset[offset] = _earliest(client, alias, tp, record[1].timestamp)
                if by_offset[offset] >= 0:
                    answers[group, tp] = by_offset[offset]
    return answers


def checkpoints(target: str, alias: str) -> Answers:
    """The last checkpoint of every group and partition in stock's topic."""
    try:
        groups = translate_offsets({"bootstrap.servers": target}, alias, re.compile(".*"), WAIT)
    except KafkaFailure as error:
        if error.fault is KafkaFault.UNKNOWN_TOPIC:
            return {}
        raise
    return {
        (group, (topic.removeprefix(f"{alias}."), partition)): position.offset
        for group, offsets in groups.items()
        for (topic, partition), position in offsets.items()
    }


def on_target(target: str, alias: str, groups: Groups) -> Answers:
    """The offsets that groups have on the target, at which their consumers would resume."""
    client = admin(target)
    return {
        (group, (topic.removeprefix(f"{alias}."), partition)): offset
        for group in groups
        for (topic, partition), offset in committed(client, group).items()
    }


def verdicts(service: str, connector: str, group: str) -> Mapping[Tp, PartitionReport]:
    """The service's report of a group, by source partition; empty while it does not know the group."""
    response = httpx.get(f"{service}/v1/groups/{group}", timeout=WAIT, verify=NO_AUTHORITIES)
    if response.status_code == httpx.codes.NOT_FOUND:
        return {}
    reports = GroupReports.model_validate_json(response.raise_for_status().content).reports
    mine = [report for report in reports if report.connector == connector]
    return {(row.topic, row.partition): row for report in mine for row in report.partitions}


def connector_errors(service: str, connector: str) -> list[str]:
    """The errors that the service reports of the connector."""
    response = httpx.get(f"{service}/v1/connectors/{connector}/status", timeout=WAIT, verify=NO_AUTHORITIES)
    if response.is_error:
        return [f"the service answers {response.status_code} when asked for {connector}"]
    status = ConnectorStatus.model_validate_json(response.content)
    return [*status.errors, *([status.failure] if status.failure else [])]


def _earliest(client: AdminClient, alias: str, tp: Tp, timestamp: int) -> int:
    copy = TopicPartition(f"{alias}.{tp[0]}", tp[1])
    (future,) = client.list_offsets({copy: OffsetSpec.for_timestamp(timestamp)}).values()
    return int(future.result(WAIT).offset)
