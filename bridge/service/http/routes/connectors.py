"""/v1/connectors: start, stop (which deletes nothing), status, and the progress of copying."""

from __future__ import annotations

import time
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Response

from bridge.model.partition_states import PartitionState
from bridge.protocol.messages import (
    Accepted,
    AlteredOffsets,
    AlterOffsets,
    Connectors,
    ConnectorStatus,
    CopyProgress,
    Gaps,
    Refreshed,
    SkipOffsets,
    SkippedOffsets,
    StartConnector,
    StopConnector,
)
from bridge.service.answers.status import connector_status
from bridge.service.checks.answer import unlogged_keys
from bridge.service.failover.failover import operate
from bridge.service.http.audit_log import add_details, changed
from bridge.service.http.errors import declares
from bridge.service.http.path_params import ConnectorName, TheService
from bridge.service.http.request_bodies import accepts, read
from bridge.service.service import Service, runs_in
from bridge.service.state.copy_progress import CopySnapshot, ProgressFilter, gaps, page
from bridge.service.state.task_table import Connector
from connectors.base import Operation

_NOTED = 20
"""Offsets that the audit log names."""
router = APIRouter(prefix="/v1/connectors", tags=["connectors"])


@router.get("", responses=declares())
async def connectors(service: TheService) -> Connectors:
    """Every connector that this service knows: its state and what it waits for."""
    return Connectors(connectors=statuses(service))


@router.put("/{name}", responses=declares(400, 404, 409, 413, 503), openapi_extra=accepts(StartConnector))
async def start(
    name: ConnectorName, service: TheService, body: Annotated[StartConnector, Depends(read(StartConnector))]
) -> Accepted:
    """Registers a connector that has started in a worker. Idempotent; the newest session is current."""
    before = service.table.get(name)
    config = {} if before is None else before.config
    # Also of one that is refused: somebody has tried it.
    unlogged = unlogged_keys(service.checker.kind(body.kind), {*config, *body.config})
    add_details(**changed(config, body.config, unlogged))
    return await service.start_connector(name, body)


@router.put("/{name}/stop", responses=declares(404, 409, 413), openapi_extra=accepts(StopConnector))
async def stop(
    name: ConnectorName, service: TheService, body: Annotated[StopConnector, Depends(read(StopConnector))]
) -> Accepted:
    """Stops a connector, for pause, stop and shutdown alike: nothing is deleted, and tasks that still poll stay
    active."""
    return service.stop_connector(name, body.session, runs_in(body))


@router.delete("/{name}", status_code=204, responses=declares(404, 409))
async def forget(name: ConnectorName, service: TheService) -> None:
    """Removes a connector that was deleted in Connect, with its groups and metrics. Refused while it runs."""
    service.forget_connector(name)


@router.post("/{name}/refresh", responses=declares(404, 409, 413, 503))
async def refresh(
    name: ConnectorName,
    service: TheService,
    timeout_ms: Annotated[
        int, Query(ge=100, le=300_000, description="Time that the round may take.")
    ] = 60_000,
) -> Refreshed:
    """Runs a round of a running connector now, which looks for groups or topics, and answers when it has ended."""
    began, connector = time.monotonic(), service.table.connector(name)
    result = await operate(service, name, Operation.REFRESH, {}, timeout_ms / 1000)
    return Refreshed(name=name, kind=connector.kind, seconds=round(time.monotonic() - began, 3), **result)


@router.post("/{name}/skip", responses=declares(404, 409, 413, 503), openapi_extra=accepts(SkipOffsets))
async def skip(
    name: ConnectorName, service: TheService, body: Annotated[SkipOffsets, Depends(read(SkipOffsets))]
) -> SkippedOffsets:
    """Has a running connector leave out offsets of a partition that can't be copied, and answers when it is done."""
    arguments = body.model_dump(exclude={"timeout_ms"})
    skipped = SkippedOffsets(
        **await operate(service, name, Operation.SKIP, arguments, body.timeout_ms / 1000)
    )
    add_details(before=body.model_dump(include={"topic", "partition", "dry_run"}), after=skipped.model_dump())
    return skipped


@router.post(
    "/{name}/offsets",
    response_model=AlteredOffsets,
    responses=declares(400, 409, 413, 503),
    openapi_extra=accepts(AlterOffsets),
)
async def alter_offsets(
    name: ConnectorName,
    service: TheService,
    body: Annotated[AlterOffsets, Depends(read(AlterOffsets, long_list="offsets"))],
) -> Response:
    """Alters where a stopped source connector copies from, by its source offsets. Waits for the clusters."""
    first = [[offset.source_partition, offset.source_offset] for offset in body.offsets[:_NOTED]]
    add_details(after={"offsets": len(body.offsets), "first": first})
    return Response(await service.alter_offsets(name, body), media_type="application/json")


@router.get("/{name}/status", responses=declares(404))
async def status(name: ConnectorName, service: TheService) -> ConnectorStatus:
    """The state of a connector: what it waits for, its tasks, verdicts by number, conditions and errors."""
    return _status(service, service.table.connector(name))


@router.get("/{name}/progress", responses=declares(404))
async def progress(
    name: ConnectorName,
    service: TheService,
    topic: Annotated[str | None, Query(description="Partitions of this source topic only.")] = None,
    min_lag: Annotated[int | None, Query(ge=0, description="Partitions with at least so much lag.")] = None,
    state: Annotated[PartitionState | None, Query(description="Partitions in this state.")] = None,
    limit: Annotated[int, Query(ge=1, le=1000, description="Partitions a page.")] = 100,
    next_: Annotated[str | None, Query(alias="next", description="`next` of the page before.")] = None,
) -> CopyProgress:
    """The progress of copying: totals of the connector, then a page of partitions in order."""
    return await page(name, _copying(service, name), ProgressFilter(topic, min_lag, state), limit, next_)


@router.get("/{name}/gaps", responses=declares(404))
async def gap_ledger(
    name: ConnectorName,
    service: TheService,
    limit: Annotated[int, Query(ge=1, le=100, description="Gaps to be listed.")] = 100,
) -> Gaps:
    """Records that could not be copied, newest first; the whole ledger is the topic mm2-gaps.<source>.internal."""
    return gaps(name, _copying(service, name), limit)


def _copying(service: Service, name: str) -> CopySnapshot:
    return service.snapshots.connector(service.table.connector(name).name).copying


def statuses(service: Service) -> list[ConnectorStatus]:
    return [_status(service, connector) for connector in service.table]


def _status(service: Service, connector: Connector) -> ConnectorStatus:
    snapshot, traffic = (
        service.snapshots.connector(connector.name),
        service.deliveries.traffic(connector.name),
    )
    table = service.table
    ages = table.age_ms, table.begun_ms(connector), int(time.time() * 1000), table.now_ms
    return connector_status(connector, snapshot, traffic, service.rounds.state, *ages)
