"""The OpenAPI document: FastAPI's, plus the request bodies (read by request_bodies.py) and the bearer scheme."""

from __future__ import annotations

import json
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

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
from bridge.service.http.errors import DESCRIPTIONS
from bridge.service.http.roles import ROLES, Role

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
