"""What librdkafka's admin client does for a round: topic configs.

Not commits: it sends the metadata of an offset with a NUL byte at its end, and that would not be a copy. Nor states of
groups: a broker that goes away meanwhile ends the whole process (an assertion in rdkafka_queue.h, 2.16).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._resource import ResourceType

from bridge.kafka.protocol.error_codes import Errors

log = logging.getLogger("librdkafka")

_PATIENCE = 5.0
"""Seconds that a round waits for topic configs, which only add a reason to what it finds."""


class Admin:
    """One AdminClient. Its calls return futures at once; the client's own threads do the waiting."""

    def __init__(self, settings: Mapping[str, str | int | float], timeout: float) -> None:
        # Below the level of its lines about brokers that are away, one per attempt: rounds log that themselves.
        self._client = AdminClient({**settings, "log_level": 2}, logger=log)
        self._timeout = timeout

    async def log_append_time(self, topics: Sequence[str]) -> dict[str, bool]:
        """Whether a topic's broker overwrites timestamps. Topics whose configs can't be read now are left out; those
        whose configs we may not read are taken for others."""
        resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
        if not resources:
            return {}
        futures = self._client.describe_configs(resources, request_timeout=min(self._timeout, _PATIENCE))
        self._client.poll(0)  # hands its log lines over
        waits = [asyncio.wrap_future(future) for future in futures.values()]
        found = await asyncio.gather(*waits, return_exceptions=True)
        return {
            resource.name: not isinstance(configs, BaseException)
            and configs["message.timestamp.type"].value == "LogAppendTime"
            for resource, configs in zip(futures, found, strict=True)
            if not isinstance(configs, BaseException) or _denied(configs)
        }


def _denied(failed: BaseException) -> bool:
    """Brokers log what they refuse: it is not asked for in each round."""
    return isinstance(failed, KafkaException) and failed.args[0].code() == Errors.TOPIC_AUTHORIZATION_FAILED
