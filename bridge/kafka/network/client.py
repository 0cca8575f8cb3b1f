"""Connections to one cluster's brokers, over the library's client: opened when first used, errors as KafkaFailure."""

from __future__ import annotations

import asyncio
import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from aiokafka.client import AIOKafkaClient, ConnectionGroup
from aiokafka.errors import KafkaConnectionError, KafkaError, NodeNotReadyError

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.config.oauth import MskIam
from bridge.kafka.config.settings import RawSettings
from bridge.kafka.config.token_provider import verify
from bridge.kafka.expiring_cache import ExpiringCache
from bridge.kafka.network.connection import BulkConnection, connection_to
from bridge.kafka.network.in_flight import UNKNOWN, quickest
from bridge.kafka.network.library_client import LibraryClient
from bridge.kafka.protocol import group_requests, log_requests
from bridge.kafka.protocol.error_codes import Errors
from bridge.kafka.protocol.errors import failure, of_code, of_exception
from bridge.kafka.protocol.log_requests import TopicMetadata
from bridge.kafka.protocol.wire import Call, Reader
from bridge.model.values import TopicPartition

T = TypeVar("T")
_COORDINATORS_A_CALL = 500
_METADATA_MS = 300_000
_NOT_DESCRIBED = TopicMetadata(Errors.UNKNOWN_SERVER_ERROR, "", {})
"""Of a topic that the response leaves out."""
_REMEMBERED = 3600.0
"""Seconds before leaders and coordinators expire that nobody asks for: a slice, which looks the leaders up
once, may be idle for as long as its lease (supervisor.LEASE)."""


class NetworkClient:
    """Sends requests to nodes; caches leaders and coordinators. For use in one event loop."""

    def __init__(self, settings: RawSettings, library: AIOKafkaClient | None = None) -> None:
        """`library`: an open client of the library to send with; without it one is opened when it is needed."""
        self.settings = settings
        """What connections that are opened from now on log in with."""
        self._client = library
        self._bulk: dict[int, BulkConnection] = {}
        self._opening_bulk: defaultdict[int, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._opening = asyncio.Lock()
        self._coordinators: ExpiringCache[str, int] = ExpiringCache(_REMEMBERED)
        self._topics: ExpiringCache[str, TopicMetadata] = ExpiringCache(_REMEMBERED)
        self._dropped = 0
        self.round_trip = UNKNOWN
        """Seconds that the quickest response to a small request took."""

    @property
    def rack(self) -> str:
        """The property client.rack; "" for none."""
        return self.settings.rack

    @property
    def most_decompressed(self) -> int:
        """Bytes that a batch may have when it is decompressed."""
        return self.settings.most_decompressed

    @property
    def connections_dropped(self) -> int:
        """Connections that broke so far, but for those that were not used for long."""
        library = self._client.dropped if isinstance(self._client, LibraryClient) else 0
        return library + self._dropped + sum(connection.dropped for connection in self._bulk.values())

    @property
    def metadata_seconds(self) -> float:
        """The property metadata.max.age.ms, in seconds."""
        return (self.settings.numbers.get("metadata_max_age_ms") or _METADATA_MS) / 1000

    async def close(self) -> None:
        client, self._client = self._client, None
        bulk, self._bulk = list(self._bulk.values()), {}
        for connection in bulk:
            await connection.close()
        if client is not None:
            await client.close()

    async def send(self, node: int | None, call: Call, doing: str, *, apart: bool = False) -> Reader:
        """The response of a node, None for the first that can be reached. Raises KafkaFailure.

        A broker answers a connection's requests one after the other; `apart` takes the second one to the node, for
        requests that may wait, or that must not wait behind others.
        """
        try:
            client = await self._open()
            if node is None:
                return await self._send_any(client, call)
            return await self._send_to(client, node, call, apart=apart)
        except Exception as error:
            raise of_exception(error, doing) from error

    async def send_bulk(self, node: int, call: Call, read: Callable[[Reader], T], doing: str) -> T:
        """Returns what `read` makes of a node's response, over a connection of its own for large ones: the response's
        bytes are overwritten when `read` returns. Raises KafkaFailure."""
        try:
            connection = await self._bulk_to(await self._open(), node)
            return await connection.send(call, read)
        except Exception as error:
            raise of_exception(error, doing) from error

    async def connect_bulk(self, node: int, doing: str) -> None:
        """Opens the connection for large requests and responses, if it is not open. Raises KafkaFailure."""
        try:
            await self._bulk_to(await self._open(), node)
        except Exception as error:
            raise of_exception(error, doing) from error

    async def verify_logins(self, doing: str) -> None:
        """Raises KafkaFailure where the cluster names a broker that a login by IAM may not be sent to: for clients that
        don't ask before they log in."""
        login = self.settings.sasl.login if self.settings.sasl is not None else None
        if not isinstance(login, MskIam):
            return
        try:
            client = await self._open()
        except Exception as error:
            raise of_exception(error, doing) from error
        for broker in client.cluster.brokers():
            verify(login, broker.host)

    async def _bulk_to(self, client: AIOKafkaClient, node: int) -> BulkConnection:
        async with self._opening_bulk[node]:
            connection = self._bulk.get(node)
            if connection is not None and connection.usable:
                return connection
            if connection is not None:
                self._dropped += connection.dropped
                del self._bulk[node]
                connection.close()
            broker = client.cluster.broker_metadata(node)
            try:
                if broker is None:
                    raise NodeNotReadyError(f"The cluster's metadata has no broker {node}")
                opened = await BulkConnection.open(broker.host, broker.port, self.settings.arguments())
            except Exception:
                client.force_metadata_update()  # it may have another address now
                raise
            self._bulk[node] = opened
            return opened

    async def _send_any(self, client: AIOKafkaClient, call: Call) -> Reader:
        nodes = [broker.nodeId for broker in client.cluster.brokers()]
        random.shuffle(nodes)
        for node in nodes[:-1]:
            try:
                return await self._send_to(client, node, call)
            except (KafkaError, OSError):
                continue
        return await self._send_to(client, nodes[-1], call)

    async def _send_to(self, client: AIOKafkaClient, node: int, call: Call, *, apart: bool = False) -> Reader:
        group = ConnectionGroup.COORDINATION if apart else ConnectionGroup.DEFAULT
        try:
            await client.ready(node, group=group)  # connecting takes round trips of its own
            began = time.monotonic()
            response = await client.send(node, call, group=group)
        except NodeNotReadyError:
            # The client says only that it could not connect; wrong credentials are permanent, the rest is not.
            broker = client.cluster.broker_metadata(node)
            if broker is not None:
                await self._probe(broker.host, broker.port)
            raise
        self.round_trip = quickest(self.round_trip, time.monotonic() - began)
        assert isinstance(response, Reader)
        return response

    async def _open(self) -> AIOKafkaClient:
        async with self._opening:
            if self._client is None:
                client: AIOKafkaClient = LibraryClient(**self.settings.arguments())
                # Without a topic the client's own refresh asks for all topics of the cluster every five minutes.
                client._topics.add("__consumer_offsets")
                try:
                    await client.bootstrap()
                except KafkaConnectionError:
                    for host, port, _ in client.hosts:
                        await self._probe(host, port)
                    raise
                if not client.cluster.brokers():
                    # A broker that is about to join its cluster names none. This client would not ask again for five
                    # minutes, and until then there would be no node, and no group on any.
                    await client.close()
                    raise KafkaConnectionError("The cluster named no brokers")
                self._client = client
            return self._client

    async def _probe(self, host: str, port: int) -> None:
        """Connects once more, to raise the reason that the library hides; returns when it succeeds now."""
        connection = connection_to(host, port, self.settings.arguments())
        await connection.connect()
        connection.close()

    async def nodes(self) -> list[int]:
        """All brokers of the cluster."""
        try:
            client = await self._open()
        except Exception as error:
            raise of_exception(error, "connect") from error
        return sorted(broker.nodeId for broker in client.cluster.brokers())

    async def metadata(self, topics: Sequence[str]) -> dict[str, TopicMetadata]:
        """Ids, partitions and leaders of topics, asked now; also cached for `by_leader` and `topic_id`."""
        if not topics:
            return {}
        doing = f"describe topics {', '.join(sorted(topics)[:5])}{' …' if len(topics) > 5 else ''}"
        call = log_requests.metadata(topics)
        described = log_requests.read_metadata(await self.send(None, call, doing), call.API_VERSION)
        described = {name: described.get(name, _NOT_DESCRIBED) for name in topics}
        for name, meta in described.items():
            failed = of_code(meta.error, doing)
            if failed is None:
                self._topics.put(name, meta)
            elif failed.fault is KafkaFault.UNKNOWN_TOPIC:
                self._topics.drop(name)
        return described

    async def topic_names(self) -> list[str]:
        """All topics that we may describe."""
        call = log_requests.metadata(None)
        return list(log_requests.read_metadata(await self.send(None, call, "list topics"), call.API_VERSION))

    async def cluster_id(self) -> str:
        """The id that the cluster has for good."""
        answer = await self.send(None, log_requests.metadata(()), "ask for the cluster's id")
        return log_requests.read_cluster_id(answer)

    async def controller(self, doing: str) -> int:
        """The node to ask for new topics: the controller, or under KRaft a broker that passes the request on."""
        node = log_requests.read_controller(await self.send(None, log_requests.metadata(()), doing))
        if node < 0:
            raise failure(KafkaFault.LEADER_MOVED, doing, "Controller not available")
        return node

    def topic_id(self, topic: str) -> str:
        meta = self._topics.get(topic)
        return "" if meta is None else meta.topic_id

    @property
    def remembered(self) -> int:
        """Topics and groups whose brokers are cached."""
        return len(self._topics) + len(self._coordinators)

    def by_leader(
        self, partitions: Iterable[TopicPartition]
    ) -> tuple[dict[int, list[TopicPartition]], dict[TopicPartition, KafkaFailure]]:
        """Partitions by the node that leads them, as last described; and why the others have none."""
        nodes: dict[int, list[TopicPartition]] = {}
        failed: dict[TopicPartition, KafkaFailure] = {}
        for partition in partitions:
            topic = self._topics.get(partition.topic)
            meta = None if topic is None else topic.partitions.get(partition.partition)
            if meta is None or meta.leader < 0:
                fault = KafkaFault.UNKNOWN_TOPIC if meta is None else KafkaFault.LEADER_MOVED
                text = "Unknown partition" if meta is None else "Leader not available"
                failed[partition] = failure(fault, f"read {partition.topic}-{partition.partition}", text)
            else:
                nodes.setdefault(meta.leader, []).append(partition)
        return nodes, failed

    async def coordinators(self, groups: Sequence[str]) -> tuple[dict[int, list[str]], dict[str, int]]:
        """Groups by the node that is their coordinator, and the error codes of the others."""
        unknown = [group for group in groups if self._coordinators.get(group) is None]
        errors: dict[str, int] = {}
        for start in range(0, len(unknown), _COORDINATORS_A_CALL):
            part = unknown[start : start + _COORDINATORS_A_CALL]
            response = await self.send(
                None, group_requests.find_coordinators(part), "find group coordinators"
            )
            for group, (error, node) in group_requests.read_coordinators(response).items():
                if error:
                    errors[group] = error
                else:
                    self._coordinators.put(group, node)
        nodes: dict[int, list[str]] = {}
        for group in groups:
            if (node_of := self._coordinators.get(group)) is not None:
                nodes.setdefault(node_of, []).append(group)
        return nodes, errors

    def forget_coordinators(self, groups: Iterable[str]) -> None:
        for group in groups:
            self._coordinators.drop(group)
