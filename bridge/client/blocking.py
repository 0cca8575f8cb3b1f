"""Functions for code without an event loop: those of RemoteClusterUtils, and `remote_topics`, which stock lacks there.
Each connects, calls one method of MirrorClient, and closes the connections; arguments, results and errors are those of
that method. The consumers are generators: they connect at the first record, and close the connections when they end or
are closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from contextlib import aclosing
from typing import TypeVar, overload

from bridge.client.consumers import ConsumerRecord, Offsets
from bridge.client.mirror_client import MirrorClient, Pattern
from bridge.mm2.records import Checkpoint, Heartbeat
from bridge.model.values import Committed, Side, TopicPartition

T = TypeVar("T")


def replication_hops(props: Mapping[str, str], alias: str, side: Side | None = None) -> int:
    return _once(props, side, lambda client: client.replication_hops(alias))


def heartbeat_topics(props: Mapping[str, str], side: Side | None = None) -> set[str]:
    return _once(props, side, lambda client: client.heartbeat_topics())


def checkpoint_topics(props: Mapping[str, str], side: Side | None = None) -> set[str]:
    return _once(props, side, lambda client: client.checkpoint_topics())


def upstream_clusters(props: Mapping[str, str], side: Side | None = None) -> set[str]:
    return _once(props, side, lambda client: client.upstream_clusters())


def remote_topics(props: Mapping[str, str], source: str | None = None, side: Side | None = None) -> set[str]:
    return _once(props, side, lambda client: client.remote_topics(source))


@overload
def translate_offsets(
    props: Mapping[str, str], alias: str, group: str, timeout_s: float, side: Side | None = None
) -> dict[TopicPartition, Committed]: ...


@overload
def translate_offsets(
    props: Mapping[str, str], alias: str, group: Pattern, timeout_s: float, side: Side | None = None
) -> Offsets: ...


def translate_offsets(
    props: Mapping[str, str],
    alias: str,
    group: str | Pattern,
    timeout_s: float,
    side: Side | None = None,
) -> dict[TopicPartition, Committed] | Offsets:
    """MirrorClient.remote_consumer_offsets, with its arguments in the order of RemoteClusterUtils."""
    if not isinstance(group, str):
        pattern = group
        return _once(props, side, lambda client: client.remote_consumer_offsets(pattern, alias, timeout_s))
    name = group
    return _once(props, side, lambda client: client.remote_consumer_offsets(name, alias, timeout_s))


def heartbeat_consumer(
    props: Mapping[str, str],
    side: Side | None = None,
    *,
    from_beginning: bool = True,
    idle_s: float | None = None,
) -> Generator[ConsumerRecord[Heartbeat], None, None]:
    return _iterated(
        props, side, lambda client: client.heartbeat_consumer(from_beginning=from_beginning, idle_s=idle_s)
    )


def checkpoint_consumer(
    props: Mapping[str, str],
    side: Side | None = None,
    *,
    from_beginning: bool = True,
    idle_s: float | None = None,
) -> Generator[ConsumerRecord[Checkpoint], None, None]:
    return _iterated(
        props, side, lambda client: client.checkpoint_consumer(from_beginning=from_beginning, idle_s=idle_s)
    )


def _iterated(
    props: Mapping[str, str], side: Side | None, consumer: Callable[[MirrorClient], AsyncGenerator[T, None]]
) -> Generator[T, None, None]:
    async def records() -> AsyncGenerator[T, None]:
        async with MirrorClient(props, side) as client, aclosing(consumer(client)) as messages:
            async for record in messages:
                yield record

    async def following(iterator: AsyncGenerator[T, None]) -> T | None:
        return await anext(iterator, None)

    with asyncio.Runner() as runner:
        iterator = records()
        try:
            while (record := runner.run(following(iterator))) is not None:
                yield record
        finally:
            runner.run(iterator.aclose())


def _once(props: Mapping[str, str], side: Side | None, call: Callable[[MirrorClient], Awaitable[T]]) -> T:
    async def run() -> T:
        async with MirrorClient(props, side) as client:
            return await call(client)

    return asyncio.run(run())
