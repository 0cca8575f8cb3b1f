"""The FastAPI application over a Service. Making one starts nothing; its lifespan does.

The OpenAPI document: FastAPI's, plus the request bodies (read by request_bodies.py) and the bearer scheme.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import cache
from importlib.resources import files
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from starlette.exceptions import HTTPException

from bridge import VERSION
from bridge.errors import BridgeError
from bridge.protocol.messages import (
    AckRequest,
    AlterOffsets,
    BeginSession,
    ErrorBody,
    IdleTask,
    MoveGroups,
    PollRequest,
    SkipOffsets,
    StartConnector,
    StartTask,
    StopConnector,
    StopTask,
    ValidateRequest,
)
from bridge.service.http.access import ROLES, Access, Role
from bridge.service.http.errors import DESCRIPTIONS, on_bridge_error, on_http_error, on_request_error
from bridge.service.http.middleware import RequestMiddleware
from bridge.service.http.routes import (
    connectors,
    doctor,
    failover,
    groups,
    health,
    metrics,
    mirror,
    plugins,
    readiness,
    sessions,
    tasks,
)
from bridge.service.metrics.metrics import CopyCollector, FlowCollector, Metrics, ServiceCollector
from bridge.service.service import Service

REQUESTS = (
    ValidateRequest,
    SkipOffsets,
    StartConnector,
    StopConnector,
    AlterOffsets,
    MoveGroups,
    StartTask,
    StopTask,
    BeginSession,
    IdleTask,
    PollRequest,
    AckRequest,
)
_REF = "#/components/schemas/{model}"
_ROUTES = (
    *(sessions, tasks, health, connectors, doctor),
    *(failover, groups, readiness, plugins, mirror, metrics),
)
OPENAPI = "/v1/openapi.json"


def document(app: FastAPI) -> dict[str, Any]:
    if app.openapi_schema is not None:
        return app.openapi_schema
    made = get_openapi(title=app.title, version=app.version, routes=app.routes, description=_description())
    schemas: dict[str, Any] = made.setdefault("components", {}).setdefault("schemas", {})
    for model in REQUESTS:
        schema = model.model_json_schema(ref_template=_REF)
        schemas.update(schema.pop("$defs", {}))
        schemas[model.__name__] = schema
    schemas.pop("HTTPValidationError", None)
    made["components"]["securitySchemes"] = {
        "bearer": {"type": "http", "scheme": "bearer", "description": "auth_token"},
        "readBearer": {"type": "http", "scheme": "bearer", "description": "read_token, for what only reads"},
    }
    for path, operations in made["paths"].items():
        for method, operation in operations.items():
            _add_access(operation, ROLES[method.upper(), path], asks=path.startswith("/v1"))
    app.openapi_schema = made
    return made


def _add_access(operation: dict[str, Any], role: Role, *, asks: bool) -> None:
    """Adds which tokens an operation accepts, and the responses of access control."""
    reading = role is Role.READ
    if asks:
        operation["security"] = [{}, {"bearer": []}, *([{"readBearer": []}] if reading else [])]
    responses: dict[str, Any] = operation["responses"]
    for status in (421,) if reading else (403, 421):
        schema = {"$ref": _REF.format(model=ErrorBody.__name__)}
        responses[str(status)] = {
            "description": DESCRIPTIONS[status],
            "content": {"application/json": {"schema": schema}},
        }


def text(app: FastAPI) -> str:
    """As checked in: sorted, so that a diff shows what changed."""
    return json.dumps(document(app), indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _description() -> str:
    return (
        "HTTP contract between the Connect shim, operators and the Mirror Bridge service. "
        "Every status from 400 up has an ErrorBody, except /health/ready, which gives its reasons. "
        "Names in paths are percent-encoded; a slash inside a name is %2F. "
        "A bearer token is required only where the service has one."
    )


async def _contract(_: Request) -> Response:
    """The document as it is checked in: making it takes longer than other requests may wait."""
    return Response(_document(), media_type="application/json")


@cache
def _document() -> bytes:
    return files("bridge.protocol").joinpath("openapi.json").read_bytes()


def create_app(
    service: Service,
    *,
    access: Access | None = None,
    insecure: Sequence[str] = (),
    max_body: int = 1 << 20,
) -> FastAPI:
    """Everything that the application uses is given. `insecure`: settings that let everybody in, for health to name."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await service.start()
        try:
            yield
        finally:
            await service.close()

    app = FastAPI(
        title="Mirror Bridge",
        version=VERSION,
        lifespan=lifespan,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    counted = Metrics()
    counted.registry.register(
        ServiceCollector(
            service.table,
            service.snapshots,
            service.deliveries,
            service.pools,
            lambda: (service.rounds.state, service.rounds.restarts),
            service.views,
        )
    )
    counted.registry.register(CopyCollector(service.table, service.snapshots))
    counted.registry.register(FlowCollector(lambda: service.flows))
    app.state.service = service
    app.state.metrics = counted
    app.state.insecure = tuple(insecure)
    for module in _ROUTES:
        app.include_router(module.router)
    app.add_exception_handler(BridgeError, on_bridge_error)
    app.add_exception_handler(RequestValidationError, on_request_error)
    app.add_exception_handler(HTTPException, on_http_error)
    app.add_middleware(RequestMiddleware, access=access or Access(), max_body=max_body, metrics=counted)
    _document()  # read now, not while others wait
    app.add_route(OPENAPI, _contract, include_in_schema=False)
    app.openapi = lambda: document(app)  # type: ignore[method-assign]
    return app


def build_routes(app: FastAPI) -> None:
    """Builds the models of all routes now. FastAPI does so for a router when a request first comes to it, and then
    everybody waits, for 0.1 s in all."""
    nowhere = {"type": "http", "method": "GET", "path": "/", "root_path": "", "headers": []}
    for route in app.routes:
        route.matches(nowhere)
