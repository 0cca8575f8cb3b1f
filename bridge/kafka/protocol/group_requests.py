"""Requests about groups, encoding only: ListGroups, DescribeGroups, FindCoordinator, OffsetFetch, OffsetCommit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from bridge.kafka.protocol.error_codes import Errors
from bridge.kafka.protocol.wire import ApiKeys, Call, Reader, Writer
from bridge.model.values import Committed, GroupListing, GroupState, TopicPartition


def list_groups() -> Call:
    """ListGroups v4 to v5: the groups that one broker keeps, with state (v4) and type (v5, KIP-848)."""

    def write(writer: Writer, version: int) -> None:
        writer.array(0)
        if version >= 5:
            writer.array(0)
        writer.tags()

    return Call(ApiKeys.LIST_GROUPS, versions=range(4, 6), flexible_from=3, write=write)


def read_groups(response: Reader, version: int) -> tuple[int, list[GroupListing]]:
    """The error code, and the groups; before v5 all are of type `classic`."""
    response.skip(4)
    error = response.int16()
    listed = []
    for _ in response.array():
        group, protocol_type, state = response.string(), response.string(), response.string()
        kind = response.string() if version >= 5 else "classic"
        response.tags()
        listed.append(GroupListing(group, group_state(state), kind.lower(), protocol_type))
    return error, listed


def group_state(name: str) -> GroupState:
    """Converts a state as on the wire (`PreparingRebalance` to PREPARING_REBALANCE); UNKNOWN for one that is newer than
    this code."""
    upper = "".join(
        f"_{char}" if char.isupper() and index else char for index, char in enumerate(name)
    ).upper()
    return GroupState(upper) if upper in GroupState.__members__ else GroupState.UNKNOWN


CONSUMERS = "consumer"
"""The protocol type of a group of consumers."""


class GroupMember(NamedTuple):
    client_id: str
    assignment: bytes
    """As the group's leader has sent it; a consumer's is a ConsumerProtocolAssignment."""

    @property
    def has_partitions(self) -> bool:
        """Whether a consumer's assignment names a topic: its version (two bytes) precedes their number."""
        return int.from_bytes(self.assignment[2:6]) > 0


class DescribedGroup(NamedTuple):
    error: int
    state: GroupState
    members: Sequence[GroupMember]
    operations: int
    """Bits of the operations on the group that are allowed, as brokers send them."""
    protocol_type: str = CONSUMERS
    """What its members are: consumers, workers of Connect (`connect`), or others; "" where there are none."""


def describe_groups(groups: Sequence[str], *, operations: bool = False) -> Call:
    """DescribeGroups v5: groups as they are now. One that does not exist, or is of a newer type, is `Dead`.
    `operations`: ask for those that are allowed on each; brokers send them also for groups that do not exist."""

    def write(writer: Writer, _version: int) -> None:
        writer.array(len(groups))
        for group in groups:
            writer.string(group)
        writer.int8(operations)
        writer.tags()

    return Call(ApiKeys.DESCRIBE_GROUPS, versions=range(5, 6), flexible_from=5, write=write)


def read_described_groups(response: Reader) -> dict[str, DescribedGroup]:
    response.skip(4)
    groups = {}
    for _ in response.array():
        error, group, state = response.int16(), response.string(), response.string()
        protocol_type = response.string()
        response.string()
        members = [_read_member(response) for _ in response.array()]
        operations = response.int32()
        response.tags()
        groups[group] = DescribedGroup(error, group_state(state), members, operations, protocol_type)
    return groups


def _read_member(response: Reader) -> GroupMember:
    response.string()
    response.string()
    client_id = response.string()
    response.string()
    response.blob()
    assignment = response.blob()
    response.tags()
    return GroupMember(client_id, assignment)


def find_coordinators(groups: Sequence[str]) -> Call:
    """FindCoordinator v4: the brokers that keep these groups, many in one request (KIP-699)."""

    def write(writer: Writer, _version: int) -> None:
        writer.int8(0)
        writer.array(len(groups))
        for group in groups:
            writer.string(group)
        writer.tags()

    return Call(ApiKeys.FIND_COORDINATOR, versions=range(4, 5), flexible_from=3, write=write)


def read_coordinators(response: Reader) -> dict[str, tuple[int, int]]:
    """Group → (error, node)."""
    response.skip(4)
    coordinators = {}
    for _ in response.array():
        group, node = response.string(), response.int32()
        response.string()
        response.skip(4)
        coordinators[group] = (response.int16(), node)
        response.string()
        response.tags()
    return coordinators


def fetch_offsets(groups: Sequence[str]) -> Call:
    """OffsetFetch v8: every committed offset of many groups in one request (KIP-709)."""

    def write(writer: Writer, _version: int) -> None:
        writer.array(len(groups))
        for group in groups:
            writer.string(group)
            writer.array(None)
            writer.tags()
        writer.int8(0)
        writer.tags()

    return Call(ApiKeys.OFFSET_FETCH, versions=range(8, 9), flexible_from=6, write=write)


def read_fetched_offsets(response: Reader) -> dict[str, tuple[int, dict[TopicPartition, Committed]]]:
    """Group → (error, offsets). Partitions with an error of their own, or without an offset (-1), are left out."""
    response.skip(4)
    groups = {}
    for _ in response.array():
        group = response.string()
        offsets = {}
        for _ in response.array():
            topic = response.string()
            for _ in response.array():
                partition, offset, epoch = response.int32(), response.int64(), response.int32()
                text, error = response.string(), response.int16()
                response.tags()
                if error == Errors.NONE and offset >= 0:
                    offsets[TopicPartition(topic, partition)] = Committed(offset, text, epoch)
            response.tags()
        groups[group] = (response.int16(), offsets)
        response.tags()
    return groups


def commit_offsets(group: str, offsets: Mapping[TopicPartition, Committed]) -> Call:
    """OffsetCommit v6 to v7 as an admin: no generation, no member; the broker refuses it for a group with members."""
    topics: dict[str, list[tuple[int, Committed]]] = {}
    for (topic, partition), committed in offsets.items():
        topics.setdefault(topic, []).append((partition, committed))

    def write(writer: Writer, version: int) -> None:
        writer.string(group)
        writer.int32(-1)
        writer.string("")
        if version >= 7:
            writer.string(None)
        writer.array(len(topics))
        for topic, partitions in topics.items():
            writer.string(topic)
            writer.array(len(partitions))
            for partition, committed in partitions:
                writer.int32(partition)
                writer.int64(committed.offset)
                writer.int32(committed.leader_epoch)
                writer.string(committed.metadata)

    return Call(ApiKeys.OFFSET_COMMIT, versions=range(6, 8), flexible_from=8, write=write)


def read_committed_offsets(response: Reader) -> dict[TopicPartition, int]:
    """The error code of each partition."""
    response.skip(4)
    codes = {}
    for _ in response.array():
        topic = response.string()
        for _ in response.array():
            partition = TopicPartition(topic, response.int32())
            codes[partition] = response.int16()
    return codes
