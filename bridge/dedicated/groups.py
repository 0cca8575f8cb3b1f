"""Asks a target cluster for the members of its flows' groups, and makes topics there."""

from __future__ import annotations

import asyncio

from bridge.dedicated.sharing import Members
from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.admin.admin_client import AsyncAdminClient
from bridge.kafka.admin.topic_creation import create_compacted
from bridge.kafka.config.settings import ClientSettings
from bridge.kafka.network.client import NetworkClient
from bridge.kafka.protocol.error_codes import COORDINATOR_MOVED, Errors
from bridge.kafka.protocol.errors import failure, of_code
from bridge.kafka.protocol.group_requests import (
    CONSUMERS,
    DescribedGroup,
    describe_groups,
    read_described_groups,
)
from bridge.model.values import GroupState

TIMEOUT_SECONDS = 20.0


class TargetGroups:
    """One target cluster, with the login of its admin client."""

    def __init__(self, settings: ClientSettings) -> None:
        self._network = NetworkClient(settings.raw_admin)
        self._admin = AsyncAdminClient(settings.admin, self._network, TIMEOUT_SECONDS)

    async def close(self) -> None:
        await self._admin.close()
        await self._network.close()

    async def create_topic(self, topic: str, replication_factor: int, partitions: int = 1) -> None:
        """Creates a compacted topic where there is none. Raises KafkaFailure, but not where somebody else has to create
        it: whether it is there shows when the group is joined."""
        failed = await create_compacted(self._admin, topic, replication_factor, partitions)
        if failed is not None:
            raise failed

    async def members(self, group: str) -> Members:
        """Returns the nodes in a group. Raises KafkaFailure. A group that does not exist has none, nor has that of a
        connect-mirror-maker.sh: its members are workers of Connect, and their assignments no consumers'."""
        doing = f"describe group {group}"
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                described = await self._described(group, doing)
                if described.error in COORDINATOR_MOVED:
                    self._network.forget_coordinators([group])
                    described = await self._described(group, doing)
        except TimeoutError:
            raise failure(KafkaFault.TIMEOUT, doing, f"no answer within {TIMEOUT_SECONDS:g} s") from None
        failed = of_code(described.error, doing, f"DESCRIBE on group {group}")
        if failed is not None:
            raise failed
        if described.protocol_type != CONSUMERS:
            return Members(None, frozenset())
        owners = [each.client_id for each in described.members if each.has_partitions]
        nodes = frozenset(each.client_id for each in described.members)
        return Members(owners[0] if owners else None, nodes)

    async def _described(self, group: str, doing: str) -> DescribedGroup:
        nodes, errors = await self._network.coordinators([group])
        if group in errors:
            return DescribedGroup(errors[group], GroupState.UNKNOWN, (), 0)
        (coordinator,) = nodes
        try:
            response = await self._network.send(coordinator, describe_groups([group]), doing)
        except KafkaFailure:
            self._network.forget_coordinators([group])
            raise
        missing = DescribedGroup(Errors.UNKNOWN_SERVER_ERROR, GroupState.UNKNOWN, (), 0)
        return read_described_groups(response).get(group, missing)
