"""/v1/sessions: sessions, ordered by the start of connectors and tasks."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends

from bridge.protocol.messages import BeginSession, Begun
from bridge.service.http.errors import declares
from bridge.service.http.path_params import TheService
from bridge.service.http.request_bodies import accepts, read

router = APIRouter(prefix="/v1/sessions", tags=["tasks"])


@router.post("", responses=declares(413), openapi_extra=accepts(BeginSession))
async def begin(service: TheService, body: Annotated[BeginSession, Depends(read(BeginSession))]) -> Begun:
    """Issues a session for a connector or a task that starts. The service does not store it: each request gets a new
    one."""
    return Begun(session=service.sessions.begin(body.age_us))
