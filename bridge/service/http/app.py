"""The FastAPI application over a Service. Making one starts nothing; its lifespan does."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import cache
from importlib.resources import files

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from bridge import VERSION
from bridge.errors import BridgeError
from bridge.service.http.access import Access
from bridge.service.http.errors import on_bridge_error, on_http_error, on_request_error
from bridge.service.http.middleware import RequestMiddleware
from bridge.service.http.openapi import document
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
from bridge.service.metrics.copy_metrics import CopyCollector
from bridge.service.metrics.flow_metrics import FlowCollector
from bridge.service.metrics.metrics import Metrics, ServiceCollector
from bridge.service.service import Service

_ROUTES = (
    *(sessions, tasks, health, connectors, doctor),
    *(failover, groups, readiness, plugins, mirror, metrics),
)


OPENAPI = "/v1/openapi.json"


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
