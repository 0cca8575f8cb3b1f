"""What librdkafka's admin client does for a round: states of groups asked now, and topic configs.

Not commits: it sends the metadata of an offset with a NUL byte at its end, and that would not be a copy.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._resource import ResourceType

from bridge.translation.model import GroupState

_GROUPS_A_CALL = 200


class Admin:
    """One AdminClient. Its calls return futures at once; the client's own threads do the waiting."""

    def __init__(self, settings: Mapping[str, str | int | float], timeout: float) -> None:
        # Its log lines about brokers that are away go to stderr, one per attempt; rounds report that themselves.
        self._client = AdminClient({**settings, "log_level": 2})
        self._timeout = timeout

    async def group_states(self, groups: Sequence[str]) -> dict[str, GroupState]:
        states: dict[str, GroupState] = {}
        for at in range(0, len(groups), _GROUPS_A_CALL):
            part = list(groups[at : at + _GROUPS_A_CALL])
            futures = self._client.describe_consumer_groups(part, request_timeout=self._timeout)
            waits = [asyncio.wrap_future(futures[group]) for group in part]
            for group, found in zip(part, await asyncio.gather(*waits, return_exceptions=True), strict=True):
                states[group] = _state(found)
        return states

    async def log_append_time(self, topics: Sequence[str]) -> dict[str, bool]:
        """Whether a topic's broker overwrites timestamps; a topic whose configs can't be read counts as not."""
        resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
        if not resources:
            return {}
        futures = self._client.describe_configs(resources, request_timeout=self._timeout)
        waits = [asyncio.wrap_future(future) for future in futures.values()]
        found = await asyncio.gather(*waits, return_exceptions=True)
        return {
            resource.name: not isinstance(configs, BaseException)
            and configs["message.timestamp.type"].value == "LogAppendTime"
            for resource, configs in zip(futures, found, strict=True)
        }


def _state(found: object) -> GroupState:
    if isinstance(found, KafkaException):
        error = found.args[0]
        missing = isinstance(error, KafkaError) and error.code() == KafkaError.GROUP_ID_NOT_FOUND
        return GroupState.NOT_FOUND if missing else GroupState.UNKNOWN
    if isinstance(found, BaseException):
        return GroupState.UNKNOWN
    name = found.state.name  # type: ignore[attr-defined]
    # Brokers before 4.0 describe a group that does not exist as DEAD.
    if name == "DEAD":
        return GroupState.NOT_FOUND
    return GroupState(name) if name in GroupState.__members__ else GroupState.UNKNOWN
