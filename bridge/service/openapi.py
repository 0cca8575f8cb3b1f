"""The OpenAPI document: FastAPI's, plus the request bodies (read by bodies.py) and the bearer scheme."""

from __future__ import annotations

import json
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from bridge.protocol.messages import (
    AckRequest,
    AlterOffsets,
    BeginSession,
    IdleTask,
    MoveGroups,
    PollRequest,
    StartConnector,
    StartTask,
    StopConnector,
    StopTask,
    ValidateRequest,
)

REQUESTS = (
    ValidateRequest,
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
    made["components"]["securitySchemes"] = {"bearer": {"type": "http", "scheme": "bearer"}}
    for path, operations in made["paths"].items():
        if path.startswith("/v1"):
            for operation in operations.values():
                operation["security"] = [{}, {"bearer": []}]
    app.openapi_schema = made
    return made


def text(app: FastAPI) -> str:
    """As checked in: sorted, so that a diff shows what changed."""
    return json.dumps(document(app), indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _description() -> str:
    return (
        "HTTP contract between the Connect shim, operators and the Mirror Bridge service. "
        "Every status from 400 up has an ErrorBody, except /health/ready, which gives its reasons. "
        "Names in paths are percent-encoded; a slash inside a name is %2F. "
        "The bearer token is wanted only where the service was given one."
    )
