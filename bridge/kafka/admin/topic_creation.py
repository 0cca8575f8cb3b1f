"""Making topics; internal ones as MirrorUtils.createCompactedTopic does (stock §1.8, §2)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.errors import of_code
from bridge.kafka.network.client import NetworkClient
from bridge.kafka.protocol import topic_requests
from bridge.kafka.protocol.error_codes import Errors
from bridge.kafka.protocol.wire import Call
from bridge.model.topics import NewTopic

_MAY_NOT_OR_NEED_NOT = {
    Errors.TOPIC_AUTHORIZATION_FAILED,
    Errors.CLUSTER_AUTHORIZATION_FAILED,
    Errors.UNSUPPORTED_VERSION,
    Errors.TOPIC_ALREADY_EXISTS,
}
"""Stock swallows them."""
_CONTROLLER_PAUSES = (0.0, 0.3, 0.6)
"""Seconds before the controller is looked for (again)."""
_AWAY = {KafkaFault.UNREACHABLE, KafkaFault.TIMEOUT}


async def ask_controller(
    client: NetworkClient, make: Callable[[], Call], doing: str
) -> dict[str, tuple[int, str]]:
    """Error code and the broker's words by topic, of a request that only the controller answers. Raises
    KafkaFailure."""
    done: dict[str, tuple[int, str]] = {}
    for pause in _CONTROLLER_PAUSES:
        await asyncio.sleep(pause)
        node = await client.controller(doing)
        done = topic_requests.read_done_topics(await client.send(node, make(), doing))
        if all(code != Errors.NOT_CONTROLLER for code, _ in done.values()):
            break
    return done


async def create_compacted(
    client: NetworkClient, name: str, replication_factor: int, timeout_ms: int
) -> KafkaFailure | None:
    """One partition, cleanup.policy=compact, nothing else. Never raises KafkaFailure.

    None: it was made, exists, or somebody else has to make it. Else the message is that of stock's ConnectException;
    the last of the three kinds adds the broker's own words, which stock has in the cause.
    """
    doing = f"create topic {name}"
    topic = NewTopic(name, 1, replication_factor, {"cleanup.policy": "compact"})
    try:
        created = await ask_controller(
            client, lambda: topic_requests.create_topics([topic], timeout_ms), doing
        )
    except KafkaFailure as error:
        return None if error.fault is KafkaFault.UNSUPPORTED else _failed(name, error, str(error))
    code, said = created.get(name, (Errors.UNKNOWN_SERVER_ERROR, ""))
    failed = None if code in _MAY_NOT_OR_NEED_NOT else of_code(code, doing)
    if failed is None:
        return None
    if code == Errors.INVALID_CONFIG:
        return KafkaFailure(failed.fault, f"Unable to create topic '{name}': {said}", retriable=False)
    return _failed(name, failed, said or str(failed))


def _failed(name: str, cause: KafkaFailure, said: str) -> KafkaFailure:
    if cause.fault in _AWAY:
        text = (
            f"Timed out while checking for or creating topic '{name}'. This could indicate a connectivity issue, "
            "unavailable topic partitions, or if this is your first use of the topic it may have taken too long to "
            "create."
        )
    else:
        text = f"Error while attempting to create/find topic '{name}': {said}"
    return KafkaFailure(cause.fault, text, retriable=cause.retriable)
