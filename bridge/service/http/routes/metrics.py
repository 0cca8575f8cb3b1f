"""/metrics for Prometheus."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST

from bridge.protocol.messages import ErrorBody

router = APIRouter(tags=["health"])


@router.get(
    "/metrics",
    response_class=Response,
    responses={
        200: {
            "content": {"text/plain": {"schema": {"type": "string"}}},
            "description": "Prometheus text format",
        },
        401: {
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/ErrorBody"}}},
            "description": ErrorBody.__doc__ or "",
        },
    },
)
async def metrics(request: Request) -> Response:
    """Numbers per connector, and per copied partition of the first 1,000; no series per group."""
    return Response(await request.app.state.metrics.text(), media_type=CONTENT_TYPE_LATEST)
