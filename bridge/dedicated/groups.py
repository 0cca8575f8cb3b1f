"""Asks a target cluster for the groups of its flows, and makes the topic that they share. Blocking calls of the
library's admin client, each in a thread."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._group import ConsumerGroupDescription
from confluent_kafka.cimpl import NewTopic

from bridge.dedicated.sharing import Members
from bridge.errors import KafkaFault
from bridge.kafka.config.sasl import Setting
from bridge.kafka.config.tokens import obtain_first
from bridge.kafka.protocol.errors import failure, of_exception

_LIBRARY = logging.getLogger("librdkafka")
_SECONDS = 20.0
_LATE_SECONDS = 2.0
"""After which the library has not kept to its own timeout, as after a restart of the group's coordinator."""
_MEANWHILE = frozenset(
    {
        KafkaError.TOPIC_ALREADY_EXISTS,
        # Somebody else has to make it; whether it is there shows when the group is joined.
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    }
)
Value = TypeVar("Value")


class TargetGroups:
    """One target cluster."""

    def __init__(self, settings: Mapping[str, Setting]) -> None:
        self._settings: dict[str, Any] = {
            "reconnect.backoff.ms": 50,
            "reconnect.backoff.max.ms": 1000,
            **settings,
            "log_level": 2,
        }
        self._client: AdminClient | None = None
        self._making = asyncio.Lock()

    async def make_topic(self, topic: str, replication_factor: int, partitions: int = 1) -> None:
        """Makes a compacted topic where there is none. Raises KafkaFailure."""
        new = NewTopic(
            topic,
            num_partitions=partitions,
            replication_factor=replication_factor,
            config={"cleanup.policy": "compact"},
        )
        await self._ask(
            f"create topic {topic}",
            lambda client: client.create_topics([new], request_timeout=_SECONDS)[topic],
            _MEANWHILE,
        )

    async def members(self, group: str) -> Members:
        """Raises KafkaFailure."""
        description: ConsumerGroupDescription | None = await self._ask(
            f"describe group {group}",
            lambda client: client.describe_consumer_groups([group], request_timeout=_SECONDS)[group],
            frozenset({KafkaError.GROUP_ID_NOT_FOUND}),
        )
        members = [] if description is None else description.members
        owners = [each.client_id for each in members if each.assignment.topic_partitions]
        return Members(owners[0] if owners else None, frozenset(each.client_id for each in members))

    async def close(self) -> None:
        await self._drop(self._client)

    async def _drop(self, client: AdminClient | None) -> None:
        """The next call makes a new one. A client that has asked for a group while its only broker was killed and
        started again was seen to answer no such question any more, and not to keep to its timeout."""
        if client is not None and self._client is client:
            self._client = None
            await asyncio.to_thread(client.__exit__, None, None, None)

    async def _made(self) -> AdminClient:
        async with self._making:
            if self._client is None:
                # In a thread, as it may wait for a token.
                self._client = await asyncio.to_thread(self._make)
            return self._client

    def _make(self) -> AdminClient:
        obtain_first(self._settings)
        return AdminClient(self._settings, logger=_LIBRARY)

    async def _ask(
        self, doing: str, call: Callable[[AdminClient], Future[Value]], well: Collection[int]
    ) -> Value | None:
        """None where the cluster answers with one of the errors that are `well`."""
        client = None
        try:
            client = await self._made()
            async with asyncio.timeout(_SECONDS + _LATE_SECONDS):
                return await asyncio.wrap_future(call(client))
        except TimeoutError:
            await self._drop(client)
            raise failure(KafkaFault.TIMEOUT, doing, f"no answer within {_SECONDS:g} s") from None
        except KafkaException as error:
            cause = error.args[0]
            if isinstance(cause, KafkaError):
                if cause.code() in well:
                    return None
                if cause.code() < 0:  # no broker has answered
                    await self._drop(client)
            raise of_exception(error, doing) from None
