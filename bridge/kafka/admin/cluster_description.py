"""What a cluster says of itself: its id, its brokers, and what the logged-in user may do with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from bridge.kafka.network.client import NetworkClient
from bridge.kafka.protocol.api_keys import ApiKeys
from bridge.kafka.protocol.error_codes import Errors
from bridge.kafka.protocol.errors import of_code
from bridge.kafka.protocol.log_requests import read_controller
from bridge.kafka.protocol.wire import Call, Reader, Writer

_UNKNOWN = -(1 << 31)
OPERATIONS: Mapping[int, str] = {
    3: "READ",
    4: "WRITE",
    5: "CREATE",
    6: "DELETE",
    7: "ALTER",
    8: "DESCRIBE",
    9: "CLUSTER_ACTION",
    10: "DESCRIBE_CONFIGS",
    11: "ALTER_CONFIGS",
    12: "IDEMPOTENT_WRITE",
}
"""Names of the operations that ACLs are about, by their codes (AclOperation)."""


def operations(bits: int) -> frozenset[str] | None:
    """Of authorized operations as brokers send them; None where the broker does not say."""
    if bits == _UNKNOWN:
        return None
    return frozenset(name for code, name in OPERATIONS.items() if bits & (1 << code))


@dataclass(frozen=True, slots=True)
class Description:
    cluster_id: str
    brokers: Mapping[int, str]
    """host:port by id."""
    allowed: frozenset[str] | None
    """Operations on the cluster; None for not known."""


async def describe(client: NetworkClient) -> Description:
    """Raises KafkaFailure."""
    doing = "describe the cluster"
    return _read(await client.send(None, describe_cluster(), doing), doing)


def describe_cluster() -> Call:
    """DescribeCluster v0 (Kafka 2.8), with authorized operations."""

    def write(writer: Writer, _version: int) -> None:
        writer.int8(1)
        writer.tags()

    return Call(ApiKeys.DESCRIBE_CLUSTER, versions=range(1), flexible_from=0, write=write)


def _read(answer: Reader, doing: str) -> Description:
    answer.skip(4)
    code = answer.int16()
    answer.nullable_string()
    failed = of_code(code, doing)
    if failed is not None:
        raise failed
    cluster_id = answer.string()
    answer.skip(4)
    brokers = {}
    for _ in answer.array():
        node, host, port = answer.int32(), answer.string(), answer.int32()
        answer.nullable_string()
        answer.tags()
        brokers[node] = f"{host}:{port}"
    return Description(cluster_id, brokers, operations(answer.int32()))


def describe_topics(topics: Sequence[str]) -> Call:
    """Metadata v9 to v10, with authorized operations. Creates no topic."""

    def write(writer: Writer, version: int) -> None:
        writer.array(len(topics))
        for topic in topics:
            if version >= 10:
                writer.uuid("00000000-0000-0000-0000-000000000000")
            writer.string(topic)
            writer.tags()
        writer.int8(0)
        writer.int8(0)
        writer.int8(1)
        writer.tags()

    return Call(ApiKeys.METADATA, versions=range(9, 11), flexible_from=9, write=write)


class DescribedTopic(NamedTuple):
    """`error`: a protocol code; `allowed`: operations on it, None for not said."""

    error: int
    partitions: int
    allowed: frozenset[str] | None

    @property
    def denied(self) -> bool:
        """We may not describe it; whether it is there nobody tells us."""
        return self.error == Errors.TOPIC_AUTHORIZATION_FAILED


def read_topics(answer: Reader, version: int) -> dict[str, DescribedTopic]:
    read_controller(answer)
    found = {}
    for _ in answer.array():
        error, name = answer.int16(), answer.string()
        if version >= 10:
            answer.uuid()
        answer.skip(1)
        partitions = answer.array()
        for _ in partitions:
            answer.skip(2 + 4 + 4 + 4)
            for _ in range(3):
                answer.skip(4 * len(answer.array()))
            answer.tags()
        allowed = operations(answer.int32())
        answer.tags()
        found[name] = DescribedTopic(error, len(partitions), allowed)
    return found


def describe_groups(groups: Sequence[str]) -> Call:
    """DescribeGroups v5, with authorized operations, which are told of groups that do not exist too."""

    def write(writer: Writer, _version: int) -> None:
        writer.array(len(groups))
        for group in groups:
            writer.string(group)
        writer.int8(1)
        writer.tags()

    return Call(ApiKeys.DESCRIBE_GROUPS, versions=range(5, 6), flexible_from=5, write=write)


def read_groups(answer: Reader) -> dict[str, tuple[int, frozenset[str] | None]]:
    """By group an error code, and the operations on it."""
    answer.skip(4)
    found = {}
    for _ in answer.array():
        error, group = answer.int16(), answer.string()
        for _ in range(3):
            answer.string()
        for _ in answer.array():  # members
            for _ in range(4):
                answer.string()
            answer.blob()
            answer.blob()
            answer.tags()
        allowed = operations(answer.int32())
        answer.tags()
        found[group] = (error, allowed)
    return found


def api_versions() -> Call:
    """ApiVersions v0: what a broker speaks."""
    return Call(ApiKeys.API_VERSIONS, versions=range(1), flexible_from=3, write=lambda *_: None)


def read_api_versions(answer: Reader) -> dict[int, int]:
    """The highest version by API."""
    answer.skip(2)
    found = {}
    for _ in answer.array():
        key, _lowest, highest = answer.int16(), answer.int16(), answer.int16()
        found[key] = highest
    return found
