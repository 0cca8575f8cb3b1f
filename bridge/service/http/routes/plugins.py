"""/v1/version, /v1/plugins: the kinds of connector with their keys, and validation."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Response

from bridge import PROTOCOL, VERSION
from bridge.protocol.messages import Plugins, ValidateRequest, ValidateResponse, Version
from bridge.service.http.errors import declares
from bridge.service.http.path_params import KindName, TheService
from bridge.service.http.request_bodies import accepts, read

router = APIRouter(prefix="/v1", tags=["plugins"])


@router.get("/version", responses=declares())
async def version() -> Version:
    """Version of the service and of its contract."""
    return Version(version=VERSION, protocol=PROTOCOL)


@router.get("/plugins", response_model=Plugins, responses=declares())
async def plugins(service: TheService) -> Response:
    """Every kind of connector with every configuration key."""
    return Response(service.checker.plugins(), media_type="application/json")


@router.put(
    "/plugins/{kind}/validate",
    response_model=ValidateResponse,
    responses=declares(404, 413, 503),
    openapi_extra=accepts(ValidateRequest),
)
async def validate(
    kind: KindName, service: TheService, body: Annotated[ValidateRequest, Depends(read(ValidateRequest))]
) -> Response:
    """Connect's own answer: every key with its value and all of its errors. Tries to reach the clusters of a
    configuration without errors, for 5 s at most, unless `bridge.validate.reachability` is off."""
    return Response(
        await service.validate(kind, body.config, body.connect_group_id), media_type="application/json"
    )
