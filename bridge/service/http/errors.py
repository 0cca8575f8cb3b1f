"""Builds the one error body of all failed requests, and declares it for the routes."""

from __future__ import annotations

import http
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.routing import Match

from bridge.errors import (
    BodyErrors,
    BridgeError,
    ConfigError,
    ConfigRejected,
    ErrorCode,
    GroupsRefused,
    Overloaded,
    Unauthorized,
)
from bridge.protocol.messages import ErrorBody, Refusal, ValidationError

INTERNAL = "internal"
_LATER = frozenset({429, 503})
"""Statuses with Retry-After."""


def error_response(
    status: int,
    code: str,
    message: str,
    errors: Sequence[ConfigError] = (),
    *,
    retriable: bool = False,
    headers: Mapping[str, str] | None = None,
    refusal: Refusal | None = None,
) -> Response:
    body = ErrorBody(
        error_code=code,
        message=message,
        validation_errors=[ValidationError(key=error.key, message=error.message) for error in errors],
        retriable=retriable,
        refusal=refusal,
    )
    return Response(body.model_dump_json(), status, headers, "application/json")


def bridge_error(error: BridgeError) -> Response:
    headers: dict[str, str] = {}
    if error.status in _LATER:
        headers["Retry-After"] = str(error.retry_after if isinstance(error, Overloaded) else 1)
    if isinstance(error, Unauthorized):
        headers["WWW-Authenticate"] = 'Bearer realm="mirror-bridge"'
    errors = error.errors if isinstance(error, ConfigRejected | BodyErrors | GroupsRefused) else ()
    refusal = Refusal.model_validate(error.facts) if isinstance(error, GroupsRefused) else None
    return error_response(
        error.status,
        error.code,
        str(error),
        errors,
        retriable=error.retriable,
        headers=headers,
        refusal=refusal,
    )


def internal_error(request_id: str) -> Response:
    return error_response(
        500,
        INTERNAL,
        f"Internal error; the log of the service has it under request id {request_id}",
        retriable=True,
    )


async def on_bridge_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, BridgeError)
    return bridge_error(error)


async def on_request_error(_: Request, error: Exception) -> Response:
    """Reports wrong path and query values (`request_bodies.read` reads bodies). Never echoes what was sent."""
    assert isinstance(error, RequestValidationError)
    return bridge_error(
        BodyErrors(
            [ConfigError(".".join(str(part) for part in item["loc"]), item["msg"]) for item in error.errors()]
        )
    )


async def on_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    path = request.scope["path"]
    if error.status_code == 405:
        allowed = ", ".join(sorted(_methods(request)))
        message = f"{request.method} is not allowed at {path}; allowed: {allowed}"
        return error_response(405, ErrorCode.METHOD_NOT_ALLOWED, message, headers={"Allow": allowed})
    if error.status_code == 404:
        return error_response(404, ErrorCode.NO_SUCH_ROUTE, f"There is no route {path}")
    phrase = http.HTTPStatus(error.status_code).phrase
    return error_response(error.status_code, ErrorCode.BODY_REJECTED, phrase, headers=error.headers)


def _methods(request: Request) -> set[str]:
    """The methods of all routes at this path: each route knows only its own."""
    methods: set[str] = set()
    for method in ("GET", "PUT", "POST", "DELETE"):
        scope = dict(request.scope) | {"method": method}
        if any(route.matches(scope)[0] is Match.FULL for route in request.app.router.routes):
            methods.add(method)
    return methods


DESCRIPTIONS = {
    400: "The configuration, or the protocol version, is rejected",
    401: "No bearer token, or a wrong one",
    403: "The token may only read, or the request comes from a web page",
    404: "No such connector, task, plugin or group",
    409: "Fenced by a newer session, or refused because it would lose or repeat records",
    413: "The request body, or the answer of the connector, is too large",
    421: "The Host header names a host that this service is not (allowed_hosts)",
    422: "The request is malformed; every error is listed",
    429: "Too many different tokens of this address were wrong; retry after Retry-After seconds",
    503: "The bounded pool is full, or a cluster or connector does not answer; retry after Retry-After seconds",
}


def declares(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Builds `responses=` of a route; 401 and 422 are possible on every route with input, and
    429 wherever 401 is."""
    declared: dict[int | str, dict[str, Any]] = {}
    for status in sorted({401, 422, 429, *statuses}):
        declared[status] = {"model": ErrorBody, "description": DESCRIPTIONS[status]}
        if status in _LATER:
            declared[status]["headers"] = {
                "Retry-After": {"description": "Seconds", "required": True, "schema": {"type": "integer"}}
            }
        if status == 401:
            declared[status]["headers"] = {
                "WWW-Authenticate": {"required": True, "schema": {"type": "string"}}
            }
    return declared
