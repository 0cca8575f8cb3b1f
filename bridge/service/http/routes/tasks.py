"""/v1/connectors/{name}/tasks/{n}: the calls of the shim's tasks."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response

from bridge.protocol.messages import (
    Accepted,
    AckRequest,
    IdleTask,
    PollRequest,
    PollResponse,
    StartTask,
    StopTask,
)
from bridge.service.http.errors import declares
from bridge.service.http.middleware import HELD
from bridge.service.http.path_params import ConnectorName, TaskIndex, TheService
from bridge.service.http.request_bodies import accepts, read

router = APIRouter(prefix="/v1/connectors/{name}/tasks/{n}", tags=["tasks"])


@router.put("", responses=declares(400, 404, 409, 413, 503), openapi_extra=accepts(StartTask))
async def start(
    name: ConnectorName,
    n: TaskIndex,
    service: TheService,
    body: Annotated[StartTask, Depends(read(StartTask))],
) -> Accepted:
    """Starts a task, with the whole configuration: a service that has just started needs nothing else."""
    return await service.start_task(name, n, body)


@router.delete("", responses=declares(404, 409, 413), openapi_extra=accepts(StopTask))
async def stop(
    name: ConnectorName, n: TaskIndex, service: TheService, body: Annotated[StopTask, Depends(read(StopTask))]
) -> Accepted:
    """Stops a task; its groups go to the remaining tasks."""
    return service.stop_task(name, n, body.session, body.connect_group_id)


@router.post(
    "/poll",
    response_model=PollResponse,
    responses=declares(404, 409, 413),
    openapi_extra=accepts(PollRequest),
)
async def poll(
    request: Request,
    name: ConnectorName,
    n: TaskIndex,
    service: TheService,
    body: Annotated[PollRequest, Depends(read(PollRequest))],
) -> Response:
    """Renews the lease and delivers records; held for `wait_ms` at most while there are none."""
    response = await service.poll(name, n, body)
    request.scope[HELD] = response.held_ms
    return Response(response.body, media_type="application/json")


@router.post("/idle", responses=declares(404, 409, 413), openapi_extra=accepts(IdleTask))
async def idle(
    name: ConnectorName, n: TaskIndex, service: TheService, body: Annotated[IdleTask, Depends(read(IdleTask))]
) -> Accepted:
    """Reports that Connect does not poll the task: it is inactive until it polls again. Does not renew the lease."""
    return service.idle_task(name, n, body.session, body.idle_ms)


@router.post("/ack", responses=declares(404, 409, 413), openapi_extra=accepts(AckRequest))
async def ack(
    name: ConnectorName,
    n: TaskIndex,
    service: TheService,
    body: Annotated[AckRequest, Depends(read(AckRequest))],
) -> Accepted:
    """Acknowledges records that Connect has written. Renews the lease."""
    return await service.ack(name, n, body.session, body.acked)
