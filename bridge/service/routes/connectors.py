"""/v1/connectors: start, stop (which deletes nothing), status."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends

from bridge.protocol.messages import Accepted, Connectors, ConnectorStatus, StartConnector, StopConnector
from bridge.service.bodies import accepts, read
from bridge.service.failures import declares
from bridge.service.names import ConnectorName, TheService
from bridge.service.service import Service
from bridge.service.status import connector_status
from bridge.service.tasks import Connector

router = APIRouter(prefix="/v1/connectors", tags=["connectors"])


@router.get("", responses=declares())
async def connectors(service: TheService) -> Connectors:
    """Every connector that this service knows."""
    return Connectors(connectors=statuses(service))


@router.put("/{name}", responses=declares(400, 404, 409, 413, 503), openapi_extra=accepts(StartConnector))
async def start(
    name: ConnectorName, service: TheService, body: Annotated[StartConnector, Depends(read(StartConnector))]
) -> Accepted:
    """The connector has started in a worker. Idempotent; the newest session rules."""
    return await service.start_connector(name, body)


@router.put("/{name}/stop", responses=declares(404, 409, 413), openapi_extra=accepts(StopConnector))
async def stop(
    name: ConnectorName, service: TheService, body: Annotated[StopConnector, Depends(read(StopConnector))]
) -> Accepted:
    """Pause, stop and shutdown alike: nothing is deleted, and tasks that go on polling go on."""
    return service.stop_connector(name, body.session)


@router.get("/{name}/status", responses=declares(404))
async def status(name: ConnectorName, service: TheService) -> ConnectorStatus:
    """State, tasks, verdicts by number, errors that last."""
    return _status(service, service.table.connector(name))


def statuses(service: Service) -> list[ConnectorStatus]:
    return [_status(service, known) for known in service.table]


def _status(service: Service, known: Connector) -> ConnectorStatus:
    snapshot, traffic = service.snapshots.connector(known.name), service.deliveries.traffic(known.name)
    return connector_status(known, snapshot, traffic, service.table.age_ms)
