"""What a cluster says of itself: its id, its brokers, and what the logged-in user may do with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bridge.kafka.errors import of_code
from bridge.kafka.link import Link
from bridge.kafka.wire import Call, Reader, Writer

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


async def describe(link: Link) -> Description:
    """Raises KafkaFailure."""
    doing = "describe the cluster"
    return _read(await link.send(None, describe_cluster(), doing), doing)


def describe_cluster() -> Call:
    """DescribeCluster v0 (Kafka 2.8), with authorized operations."""

    def write(writer: Writer, _version: int) -> None:
        writer.int8(1)
        writer.tags()

    return Call(60, range(1), 0, write)


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
