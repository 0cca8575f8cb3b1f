"""Creates an internal topic, and checks that it exists and is compacted."""

from __future__ import annotations

import asyncio
import logging

from bridge.backoff import pauses
from bridge.errors import KafkaFailure, KafkaFault
from bridge.model.topics import not_only_compacted
from bridge.model.values import Side, TopicInfo
from connectors.cluster_away import ask
from connectors.ports import Cluster

log = logging.getLogger(__name__)

PAUSES = (0.1, 0.6, 3)
"""Seconds between checks, the first pause and the longest, and how many follow the first check: a broker may learn a
moment later of what the controller has created."""


async def make(
    cluster: Cluster,
    topic: str,
    replication_factor: int,
    timeout_ms: int,
    side: Side = Side.TARGET,
    *,
    holds: str = "",
    key: str,
) -> KafkaFailure | None:
    """Creates the topic as stock does where it is missing, or hidden from us; then checks that it exists. Stock takes
    for created what it may not create (stock §1.8): Connect's producer then lets the broker make one that is not
    compacted, or, where brokers don't, holds its task up for ever.

    `key`: that of the replication factor. `holds`: what would be lost if the topic were not compacted; "" where each
    record is soon followed by another one. None: it is there and compacted, or we may not describe it, so that nobody
    can tell, and the log says so. Raises ClusterAway.
    """
    info = await _described(cluster, topic, timeout_ms, side)
    if _missing(info) or _hidden(info):
        making = cluster.create_compacted_topic(topic, replication_factor)
        failed = await ask(side, making, timeout_ms)
        if failed is not None:
            return naming_factor(failed, key, replication_factor)
    for pause in (0.0, *pauses(*PAUSES)):
        await asyncio.sleep(pause)
        info = await _described(cluster, topic, timeout_ms, side)
        if _missing(info):
            continue
        if _hidden(info):
            log.info("can't verify that topic %s exists: %s", topic, info)
        if isinstance(info, KafkaFailure) or not holds:
            return None
        refused = await _compacted(cluster, topic, timeout_ms, side, holds)
        if not _missing(refused):
            return refused
    return KafkaFailure(
        KafkaFault.UNKNOWN_TOPIC,
        f"Topic {topic} does not exist, and we are not allowed to create it: grant CREATE on it, or create it with one "
        "partition and cleanup.policy=compact; until then nothing is written to it",
    )


def naming_factor(failed: KafkaFailure, key: str, replication_factor: int) -> KafkaFailure:
    """The failure, with the key to set where the target has too few brokers for a replication factor."""
    if failed.fault is not KafkaFault.REPLICATION_FACTOR:
        return failed
    text = (
        f"{str(failed).rstrip('.')}. {key} is {replication_factor}: set it to the number of brokers at "
        "most, or to -1 for their default"
    )
    return KafkaFailure(failed.fault, text, retriable=failed.retriable)


async def _described(cluster: Cluster, topic: str, timeout_ms: int, side: Side) -> TopicInfo | KafkaFailure:
    return (await ask(side, cluster.topics([topic], right="DESCRIBE"), timeout_ms))[topic]


def _hidden(info: TopicInfo | KafkaFailure) -> bool:
    """Whether we may not describe it, be it there or not."""
    return isinstance(info, KafkaFailure) and info.fault is KafkaFault.NOT_AUTHORIZED


def _missing(info: TopicInfo | KafkaFailure | None) -> bool:
    return isinstance(info, KafkaFailure) and info.fault is KafkaFault.UNKNOWN_TOPIC


async def _compacted(
    cluster: Cluster, topic: str, timeout_ms: int, side: Side, holds: str
) -> KafkaFailure | None:
    configs = (await ask(side, cluster.topic_admin.configs([topic]), timeout_ms))[topic]
    if not isinstance(configs, KafkaFailure):
        refused = not_only_compacted(topic, configs, holds)
        return None if refused is None else KafkaFailure(KafkaFault.TOPIC_CONFIG, refused, retriable=False)
    if configs.fault not in (KafkaFault.NOT_AUTHORIZED, KafkaFault.UNSUPPORTED):
        return configs
    log.info(
        "can't verify that the cleanup.policy of topic %s is compact; grant DESCRIBE_CONFIGS on it: %s",
        topic,
        configs,
    )
    return None
