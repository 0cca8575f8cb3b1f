"""Asks a cluster for its id, its brokers, and what the logged-in user may do with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from bridge.kafka.network.client import NetworkClient
from bridge.kafka.protocol.api_keys import ApiKeys
from bridge.kafka.protocol.error_codes import Errors
from bridge.kafka.protocol.errors import of_code
from bridge.kafka.protocol.log_requests import NO_OPERATIONS, metadata, read_metadata
from bridge.kafka.protocol.wire import Call, Reader, Writer

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
    """Decodes authorized operations from the bits that brokers send; None where the broker does not say."""
    if bits == NO_OPERATIONS:
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
    return read_description(await client.send(None, describe_cluster(), doing), doing)


def describe_cluster() -> Call:
    """DescribeCluster v0 (Kafka 2.8), with authorized operations."""

    def write(writer: Writer, _version: int) -> None:
        writer.int8(1)
        writer.tags()

    return Call(ApiKeys.DESCRIBE_CLUSTER, versions=range(1), flexible_from=0, write=write)


def read_description(response: Reader, doing: str) -> Description:
    """Reads the response to `describe_cluster`. Raises KafkaFailure."""
    response.skip(4)
    code = response.int16()
    response.nullable_string()
    failed = of_code(code, doing)
    if failed is not None:
        raise failed
    cluster_id = response.string()
    response.skip(4)
    brokers = {}
    for _ in response.array():
        node, host, port = response.int32(), response.string(), response.int32()
        response.nullable_string()
        response.tags()
        brokers[node] = f"{host}:{port}"
    return Description(cluster_id, brokers, operations(response.int32()))


def describe_topics(topics: Sequence[str]) -> Call:
    """Metadata with authorized operations. Creates no topic."""
    return metadata(topics, operations=True)


class DescribedTopic(NamedTuple):
    """A topic, as a broker describes it. `error`: a protocol code; `allowed`: operations on it, None where the broker
    does not say."""

    error: int
    partitions: int
    allowed: frozenset[str] | None

    @property
    def denied(self) -> bool:
        """We may not describe it; whether it is there nobody tells us."""
        return self.error == Errors.TOPIC_AUTHORIZATION_FAILED


def read_topics(response: Reader, version: int) -> dict[str, DescribedTopic]:
    return {
        name: DescribedTopic(each.error, len(each.partitions), operations(each.operations))
        for name, each in read_metadata(response, version).items()
    }
