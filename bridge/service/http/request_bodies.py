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

from bridge.errors import BodyErrors, ConfigError, TooLarge
from bridge.protocol.messages import Message

M = TypeVar("M", bound=Message)


MOST_TEXTS = 20_000
"""Names and texts in JSON, of a body that holds no long list. Others wait while it is parsed: about as many are parsed
in 3 ms."""
MOST_LISTED = 200_000
"""Of one with a list."""
MOST_ERRORS = 200
"""Errors that are listed; pydantic has no way to list the first ones only."""


def read(model: type[M], most_texts: int = MOST_TEXTS) -> Callable[[Request], Awaitable[M]]:
    """A dependency that gives the body as `model`, or raises BodyErrors with every error, and TooLarge."""

    async def body(request: Request) -> M:
        content_type = request.headers.get("content-type", "application/json").split(";")[0].strip().lower()
        if content_type != "application/json":
            raise BodyErrors(
                [ConfigError("Content-Type", f"must be application/json, not {content_type or 'empty'}")]
            )
        data = await request.body()
        if data.count(b'"') > 2 * most_texts:
            raise TooLarge(f"The request body has more than {most_texts} names and texts")
        try:
            return model.model_validate_json(data, strict=True)
        except ValidationError as error:
            raise BodyErrors(_errors(error)) from None

    return body


def accepts(model: type[Message]) -> dict[str, Any]:
    """`openapi_extra=` of a route whose body is read by `read(model)`; openapi.py adds the schemas."""
    schema = {"$ref": f"#/components/schemas/{model.__name__}"}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def _errors(error: ValidationError) -> list[ConfigError]:
    if (count := error.error_count()) > MOST_ERRORS:
        return [ConfigError("body", f"{count} fields are not of the contract's form")]
    return [
        ConfigError(".".join(["body", *(str(part) for part in item["loc"])]), item["msg"])
        for item in error.errors(include_input=False, include_url=False, include_context=False)
    ]
