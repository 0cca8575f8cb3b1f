"""/health: for probes and people. Answers from snapshots, in milliseconds, whatever the clusters do."""

from __future__ import annotations

import time

from fastapi import APIRouter, Request, Response

from bridge import VERSION
from bridge.protocol.messages import ErrorBody, Health, Live, Ready
from bridge.service.answers.status import can_take_work, overall
from bridge.service.http.path_params import TheService
from bridge.service.http.routes.connectors import statuses

router = APIRouter(prefix="/health", tags=["health"])
_TOKEN = {"model": ErrorBody, "description": "Only if open_paths does not include /health"}


@router.get("/live", responses={401: _TOKEN})
async def live() -> Live:
    """The event loop of the process runs."""
    return Live(status="ok")


@router.get(
    "/ready",
    responses={401: _TOKEN, 503: {"model": Ready, "description": "Not ready, and why"}},
)
async def ready(service: TheService, response: Response) -> Ready:
    """The service can accept a connector and run it: the rounds process runs, a thread is free to check a
    configuration, and the service is not shutting down. /health and /v1/connectors have what connectors wait for."""
    answer = can_take_work(
        service.rounds.state, draining=service.long_polls.draining, overload=service.pools.starts.overload
    )
    if answer.reasons:
        response.status_code = 503
    return answer


@router.get("", responses={401: _TOKEN})
async def health(request: Request, service: TheService) -> Health:
    """The state of everything: per connector and task the last success, the verdicts, what it waits for, its
    conditions. Of `mirror-bridge mirror`, the flows that run on this node, and those that run on another one."""
    connectors = statuses(service)
    return Health(
        status=overall(connectors, service.rounds.state, service.flows),
        version=VERSION,
        uptime_seconds=round(time.monotonic() - service.began, 1),
        rounds_process=service.rounds.state,
        insecure=list(request.app.state.insecure),
        connectors=connectors,
        flows=list(service.flows),
    )
