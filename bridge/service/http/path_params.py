"""Names in paths, and the service behind the routes, as dependencies.

All of them are coroutines: FastAPI runs a plain function in a thread, and a poll takes 1.2 ms instead of 0.3.
"""

from __future__ import annotations

from typing import Annotated
from urllib.parse import unquote

from fastapi import Depends, Path, Request

from bridge.service.service import Service

_SLASH = "Percent-encoded; a slash in it is %2F."


async def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


async def _connector(
    name: Annotated[str, Path(description=f"Name of the connector. {_SLASH}", min_length=1)],
) -> str:
    return unquote(name)


async def _group(group: Annotated[str, Path(description=f"Group id. {_SLASH}", min_length=1)]) -> str:
    return unquote(group)


async def _kind(
    kind: Annotated[str, Path(description="Kind of connector, as listed by /v1/plugins.", min_length=1)],
) -> str:
    return unquote(kind)


TheService = Annotated[Service, Depends(_service)]
ConnectorName = Annotated[str, Depends(_connector)]
GroupId = Annotated[str, Depends(_group)]
KindName = Annotated[str, Depends(_kind)]
TaskIndex = Annotated[int, Path(ge=0, le=9_999, description="Index of the task.")]
