"""/v1/connectors/{name}/clusters/{side}: what MirrorClient says of a cluster of a connector.

Only these requests wait for Kafka: in a bounded pool, so that probes never wait.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, TypeVar

from fastapi import APIRouter, Path, Query

from bridge.errors import BodyErrors, ConfigError
from bridge.mm2.java_regex import (
    JavaPattern,
    PatternProblem,
    PatternTooSlow,
    compile_java,
    exactly,
)
from bridge.model.values import Side
from bridge.protocol.messages import Names, RemoteGroup, RemoteOffset, RemoteOffsets, ReplicationHops
from bridge.service.checks.context import MirrorQueries, Props
from bridge.service.http.errors import declares
from bridge.service.http.path_params import ConnectorName, TheService
from bridge.service.service import Service
from connectors.config.configdef import given

router = APIRouter(prefix="/v1/connectors/{name}/clusters/{side}", tags=["mirror client"])

T = TypeVar("T")

WhichSide = Annotated[Side, Path(description="Which cluster of the connector is queried.")]
Alias = Annotated[str, Query(description="Alias of the cluster that is mirrored from.", min_length=1)]


@router.get("/replication-hops", responses=declares(400, 404, 503))
async def replication_hops(
    name: ConnectorName, side: WhichSide, service: TheService, alias: Alias
) -> ReplicationHops:
    """The smallest number of hops from a cluster to this one; -1 when no heartbeat of it arrives."""
    hops = await _query(service, name, lambda queries, props: queries.replication_hops(props, alias, side))
    return ReplicationHops(alias=alias, hops=hops)


@router.get("/heartbeat-topics", responses=declares(400, 404, 503))
async def heartbeat_topics(name: ConnectorName, side: WhichSide, service: TheService) -> Names:
    """Heartbeat topics of this cluster, mirrored ones included."""
    return _names(await _query(service, name, lambda queries, props: queries.heartbeat_topics(props, side)))


@router.get("/checkpoint-topics", responses=declares(400, 404, 503))
async def checkpoint_topics(name: ConnectorName, side: WhichSide, service: TheService) -> Names:
    """Checkpoint topics of this cluster."""
    return _names(await _query(service, name, lambda queries, props: queries.checkpoint_topics(props, side)))


@router.get("/upstream-clusters", responses=declares(400, 404, 503))
async def upstream_clusters(name: ConnectorName, side: WhichSide, service: TheService) -> Names:
    """Aliases of the clusters whose heartbeats arrive here, however many hops away."""
    return _names(await _query(service, name, lambda queries, props: queries.upstream_clusters(props, side)))


@router.get("/remote-topics", responses=declares(400, 404, 503))
async def remote_topics(
    name: ConnectorName,
    side: WhichSide,
    service: TheService,
    source: Annotated[str | None, Query(description="Only topics directly from this cluster.")] = None,
) -> Names:
    """Topics that are mirrored to here."""
    return _names(
        await _query(service, name, lambda queries, props: queries.remote_topics(props, source, side))
    )


@router.get("/consumer-offsets", responses=declares(400, 404, 503))
async def consumer_offsets(
    name: ConnectorName,
    side: WhichSide,
    service: TheService,
    alias: Alias,
    group: Annotated[str | None, Query(description="This group id.")] = None,
    pattern: Annotated[
        str | None, Query(description="Group ids that match this Java regex whole.", max_length=10_000)
    ] = None,
    timeout_ms: Annotated[int, Query(ge=1, le=60_000, description="Time to read checkpoints for.")] = 10_000,
) -> RemoteOffsets:
    """Returns where groups of another cluster resume on this one, by the checkpoints that can be read within
    `timeout_ms`."""
    groups = _groups(group, pattern)
    try:
        by_group = await _query(
            service,
            name,
            lambda queries, props: queries.translate_offsets(props, alias, groups(), timeout_ms / 1000, side),
        )
    except PatternTooSlow as problem:
        raise BodyErrors([ConfigError("query.pattern", str(problem))]) from None
    except PatternProblem as problem:
        raise BodyErrors([ConfigError("query.pattern", f"is no Java regex: {problem}")]) from None
    return RemoteOffsets(
        groups=[
            RemoteGroup(
                group=text,
                offsets=[
                    RemoteOffset(topic=topic, partition=partition, offset=at.offset, metadata=at.metadata)
                    for (topic, partition), at in sorted(offsets.items())
                ],
            )
            for text, offsets in sorted(by_group.items())
        ]
    )


async def _query(service: Service, name: str, query: Callable[[MirrorQueries, Props], T]) -> T:
    props = given(service.table.connector(name).config)
    return await service.pools.queries.run(lambda: query(service.queries(), props))


def _names(names: set[str]) -> Names:
    return Names(names=sorted(names))


def _groups(group: str | None, pattern: str | None) -> Callable[[], JavaPattern]:
    """Returns what compiles the pattern of groups, to be called in a thread: a large one takes its time."""
    if (group is None) == (pattern is None):
        raise BodyErrors([ConfigError("query.group", "give either group or pattern")])
    if group is not None:
        return lambda: exactly(group)
    assert pattern is not None
    return lambda: compile_java(pattern)
