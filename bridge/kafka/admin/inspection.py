"""Asks for what doctor needs to know of a cluster: its brokers' versions, and what the user may do with topics and
groups."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from bridge.backoff import pauses
from bridge.kafka.admin import cluster_description
from bridge.kafka.admin.cluster_description import DescribedTopic, operations
from bridge.kafka.config.settings import RawSettings
from bridge.kafka.network.client import NetworkClient
from bridge.kafka.protocol import group_requests, produce_requests
from bridge.kafka.protocol.api_keys import ApiKeys
from bridge.kafka.protocol.error_codes import Errors
from bridge.kafka.protocol.errors import of_code
from bridge.kafka.protocol.produce_requests import ProducerIdAndEpoch
from bridge.kafka.protocol.version_requests import api_versions, read_api_versions

_A_CALL = 500
_NO_TIME = -1
"""A transaction.timeout.ms that every broker refuses, after it has looked at the right, and before it does anything."""
_PAUSES = (0.3, 2.4, 4)
"""Seconds before coordinators are looked for again, before the first retry and at most, and how many retries: a cluster
without groups has to make the offsets topic first."""


class Inspection:
    """Over a client of its own; every call raises KafkaFailure. For use in one event loop."""

    def __init__(self, settings: RawSettings) -> None:
        self._client = NetworkClient(settings)

    async def close(self) -> None:
        await self._client.close()

    async def versions(self) -> tuple[int, int]:
        """The highest of Fetch and of OffsetFetch that every broker speaks."""
        by_broker = []
        for node in await self._client.nodes():
            response = await self._client.send(node, api_versions(), "ask for versions")
            by_broker.append(read_api_versions(response))
        fetch, offset_fetch = (
            min(each[key][1] for each in by_broker) for key in (ApiKeys.FETCH, ApiKeys.OFFSET_FETCH)
        )
        return fetch, offset_fetch

    async def topics(self, names: Sequence[str]) -> dict[str, DescribedTopic]:
        """A topic that does not exist has no partitions; one that we may not describe allows nothing."""
        described: dict[str, DescribedTopic] = {}
        for at in range(0, len(names), _A_CALL):
            call = cluster_description.describe_topics(names[at : at + _A_CALL])
            response = await self._client.send(None, call, "describe topics")
            described |= cluster_description.read_topics(response, call.API_VERSION)
        nothing = frozenset[str]()
        return {
            name: topic._replace(allowed=nothing) if topic.denied else topic
            for name, topic in described.items()
        }

    async def groups(self, names: Sequence[str]) -> dict[str, frozenset[str] | None]:
        """The operations on each group; groups that can't be described now are left out."""
        nodes, errors = await self._client.coordinators(names)
        for pause in pauses(*_PAUSES):
            if not set(errors.values()) - {Errors.GROUP_AUTHORIZATION_FAILED}:
                break
            await asyncio.sleep(pause)
            nodes, errors = await self._client.coordinators(names)
        allowed: dict[str, frozenset[str] | None] = {
            name: frozenset() for name, code in errors.items() if code == Errors.GROUP_AUTHORIZATION_FAILED
        }
        for node, kept in nodes.items():
            for at in range(0, len(kept), _A_CALL):
                call = group_requests.describe_groups(kept[at : at + _A_CALL], operations=True)
                response = await self._client.send(node, call, "describe groups")
                for name, group in group_requests.read_described_groups(response).items():
                    if group.error == Errors.GROUP_AUTHORIZATION_FAILED:
                        allowed[name] = frozenset()
                    elif of_code(group.error, "describe groups") is None:
                        allowed[name] = operations(group.operations)
        return allowed

    async def ids(self, names: Sequence[str]) -> dict[str, frozenset[str]]:
        """Whether each transactional id may be written. Brokers don't tell that of themselves: each is asked for a
        producer id with a timeout that none takes, so that none is handed out and no transaction is ended."""
        allowed = {}
        for name in names:
            call = produce_requests.init_producer_id(name, _NO_TIME, ProducerIdAndEpoch())
            response = await self._client.send(None, call, f"ask for the rights on transactional id {name}")
            code, _ = produce_requests.read_producer_id(response)
            denied = code == Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            allowed[name] = frozenset() if denied else frozenset({"DESCRIBE", "WRITE"})
        return allowed
