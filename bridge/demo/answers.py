"""What each way of translating says: the plain timestamp rule, stock's checkpoints, and ours as it stands on B."""

from __future__ import annotations

import struct
from collections.abc import Mapping

import httpx
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec

from bridge.demo.cluster import WAIT, admin, committed
from bridge.demo.groups import Groups
from bridge.demo.logs import Place, as_bytes, ended, first_from, reader
from bridge.protocol.messages import ConnectorStatus, GroupReports, PartitionReport

Answers = dict[tuple[str, Place], int]
"""Target offsets by group and source partition; no entry where there is no answer."""


def by_timestamp(source: str, target: str, alias: str, groups: Groups) -> Answers:
    """The earliest target offset whose timestamp is that of the record at the committed offset, or later.

    Nothing where that record is gone (a hole, a marker, the end of the log) or not mirrored: those are deferred.
    """
    wanted: dict[Place, dict[int, int]] = {}
    answers: Answers = {}
    client = admin(target)
    with reader(source, committed_only=False) as consumer:
        for group, offsets in groups.items():
            for place, offset in offsets.items():
                known = wanted.setdefault(place, {})
                if offset not in known:
                    known[offset] = -1
                    found = first_from(consumer, place, offset)
                    if found is not None and found[0] == offset:
                        known[offset] = _earliest(client, alias, place, found[1].timestamp)
                if known[offset] >= 0:
                    answers[group, place] = known[offset]
    return answers


def checkpoints(target: str, alias: str) -> Answers:
    """The last checkpoint of every group and partition in stock's own topic."""
    topic = f"{alias}.checkpoints.internal"
    answers: Answers = {}
    with reader(target, committed_only=False) as consumer:
        if topic not in consumer.list_topics(timeout=WAIT).topics:
            return answers
        for key, value in _records(consumer, topic):
            group, place, downstream = decode_checkpoint(key, value)
            answers[group, (place[0].removeprefix(f"{alias}."), place[1])] = downstream
    return answers


def on_target(target: str, alias: str, groups: Groups) -> Answers:
    """What a consumer of the group would resume at on the target cluster."""
    client = admin(target)
    return {
        (group, (topic.removeprefix(f"{alias}."), partition)): offset
        for group in groups
        for (topic, partition), offset in committed(client, group).items()
    }


def verdicts(service: str, connector: str, group: str) -> Mapping[Place, PartitionReport]:
    """What the service says of a group, by source partition; nothing while it does not know the group."""
    response = httpx.get(f"{service}/v1/groups/{group}", timeout=WAIT)
    if response.status_code == httpx.codes.NOT_FOUND:
        return {}
    reports = GroupReports.model_validate_json(response.raise_for_status().content).reports
    mine = [report for report in reports if report.connector == connector]
    return {(row.topic, row.partition): row for report in mine for row in report.partitions}


def complaints(service: str, connector: str) -> list[str]:
    """What the service says is wrong with the connector as a whole."""
    response = httpx.get(f"{service}/v1/connectors/{connector}/status", timeout=WAIT)
    if response.is_error:
        return [f"the service answers {response.status_code} when asked for {connector}"]
    status = ConnectorStatus.model_validate_json(response.content)
    return [*status.errors, *([status.failure] if status.failure else [])]


def decode_checkpoint(key: bytes, value: bytes) -> tuple[str, Place, int]:
    """Group, target partition and downstream offset of a record of stock's checkpoints topic.

    Key: group STRING, topic STRING, partition INT32. Value: version INT16, upstream INT64, downstream INT64, and
    metadata, which nobody needs here. Numbers are big-endian; a STRING has its length in two bytes before it.
    """
    group, at = _text(key, 0)
    topic, at = _text(key, at)
    (partition,) = struct.unpack_from(">i", key, at)
    _, _, downstream = struct.unpack_from(">hqq", value)
    return group, (topic, int(partition)), int(downstream)


def _text(data: bytes, at: int) -> tuple[str, int]:
    (length,) = struct.unpack_from(">h", data, at)
    return data[at + 2 : at + 2 + length].decode(), at + 2 + int(length)


def _earliest(client: AdminClient, alias: str, place: Place, timestamp: int) -> int:
    copy = TopicPartition(f"{alias}.{place[0]}", place[1])
    (future,) = client.list_offsets({copy: OffsetSpec.for_timestamp(timestamp)}).values()
    return int(future.result(WAIT).offset)


def _records(consumer: Consumer, topic: str) -> list[tuple[bytes, bytes]]:
    """Everything in partition 0, the only one that stock's internal topics have."""
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    found: list[tuple[bytes, bytes]] = []
    while True:
        message = consumer.poll(WAIT)
        if message is None or ended(message):
            return found
        key, value = as_bytes(message.key()), as_bytes(message.value())
        if key is not None and value is not None:
            found.append((key, value))
