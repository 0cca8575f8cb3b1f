"""Reads request bodies straight into the contract's messages.

Not FastAPI's own way: that goes through `json.loads`, which lets unpaired surrogates, NaN and endless
nesting into the service. pydantic's parser rejects them, wants the contract's exact types, and is several
times quicker.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from fastapi import Request
from pydantic import ValidationError

from bridge.errors import BodyErrors, ConfigError
from bridge.protocol.messages import Message

M = TypeVar("M", bound=Message)


def read(model: type[M]) -> Callable[[Request], Awaitable[M]]:
    """A dependency that gives the body as `model`, or raises BodyErrors with every error."""

    async def body(request: Request) -> M:
        content_type = request.headers.get("content-type", "application/json").split(";")[0].strip().lower()
        if content_type != "application/json":
            raise BodyErrors(
                [ConfigError("Content-Type", f"must be application/json, not {content_type or 'empty'}")]
            )
        try:
            return model.model_validate_json(await request.body(), strict=True)
        except ValidationError as error:
            raise BodyErrors(_errors(error)) from None

    return body


def accepts(model: type[Message]) -> dict[str, Any]:
    """`openapi_extra=` of a route whose body is read by `read(model)`; openapi.py adds the schemas."""
    schema = {"$ref": f"#/components/schemas/{model.__name__}"}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def _errors(error: ValidationError) -> list[ConfigError]:
    return [
        ConfigError(".".join(["body", *(str(part) for part in item["loc"])]), item["msg"])
        for item in error.errors(include_input=False, include_url=False, include_context=False)
    ]
