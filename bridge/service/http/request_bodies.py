"""Reads request bodies straight into the contract's messages.

Not FastAPI's own way: that goes through `json.loads`, which lets unpaired surrogates, NaN and endless
nesting into the service. pydantic's parser rejects them, wants the contract's exact types, and is several
times quicker.

Reads a JSON object with one long list in parts, so that everybody else waits for one part only.

A part is cut by brackets and strings alone. Whether the JSON is valid is left to pydantic's parser, which gets every
character of it, but for the commas between parts.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

from fastapi import Request
from pydantic import TypeAdapter, ValidationError

from bridge.errors import BodyErrors, ConfigError, TooLarge
from bridge.protocol.messages import Message

PART = 4_096
"""Characters of a part, and the rest of its last item."""
_TOKENS = 1_000
"""Strings and brackets after which others have their turn, whether a part is complete or not."""
STRETCH = 1 << 15
"""Characters that are searched for the next string, or for its end, before others have their turn; 2 at least."""
_BEGIN = re.compile(r'["\[\]{}]')
_IN_STRING = re.compile(r'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
_COMMA = re.compile(r"[ \t\n\r]*+,")
_LIST = re.compile(r"[ \t\n\r]*+:[ \t\n\r]*+\[")
M = TypeVar("M", bound=Message)
MOST_TEXTS = 20_000
"""Names and texts in JSON that are parsed in one go, in about 3 ms: others wait meanwhile."""
MOST_VALUES = 40_000
"""Numbers, lists and objects, counted by commas and brackets. A megabyte of empty lists takes 0.1 s."""
MOST_OUTSIDE = 1 << 18
"""Bytes outside of texts. Numbers of many digits and spaces are what a message has few of."""
SMALL = 1 << 14
"""Bytes that are parsed at once, as they come: most requests have less."""
MOST_ERRORS = 200
"""Errors that are listed; pydantic has no way to list the first ones only."""
_ITEMS = TypeAdapter(list[Any])
_TURNS: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock] = WeakKeyDictionary()
"""By event loop: held by the one body, or part of a body, that is parsed in this turn of the loop."""


class NotJson(Exception):
    """The list is no valid JSON."""


@dataclass(slots=True)
class LongList:
    """The list under one key of the object `text`. Once `parts` is used up, `rest` is the object with an empty list in
    its place. Pure."""

    text: str
    key: str
    rest: str = field(default="", init=False)

    def parts(self) -> Iterator[str]:
        """The items, in order, as JSON lists; "" after each stretch without one. Raises NotJson."""
        text, name = self.text, f'"{self.key}"'
        kept: list[str] = []
        depth = begin = 0
        opens = -1
        """Where the bracket of the list is, once its key is read; the list's items are at depth 2."""
        inside = cut = False
        for number, token in enumerate(_tokens(text), 1):
            if token is None or number % _TOKENS == 0:
                yield ""
            if token is None:
                continue
            start, end = token
            match text[start]:
                case "[" | "{":
                    depth += 1
                    if start == opens and depth == 2:
                        kept.append(text[begin:end])
                        begin, inside, cut = end, True, False
                    continue
                case "]" | "}":
                    depth -= 1
                case _ if depth == 1 and text[start:end] == name and (found := _LIST.match(text, end)):
                    if opens >= 0:
                        raise NotJson(f"{self.key} is there twice")
                    opens = found.end() - 1
            if inside and depth < 2:
                left = text[begin:start]
                if cut and not left.strip():
                    raise NotJson("the list ends with a comma")
                yield f"[{left}]"
                begin, inside = start, False
            elif inside and depth == 2 and end - begin >= PART and (comma := _COMMA.match(text, end)):
                yield f"[{text[begin:end]}]"
                begin, cut = comma.end(), True
        kept.append(text[begin:])
        self.rest = "".join(kept)


def _tokens(text: str) -> Iterator[tuple[int, int] | None]:
    """Yields where strings and brackets begin and end; None after each stretch in which none begins or ends. A string
    without an end reaches to the end of the text: a search from each of its quotes would be quadratic."""
    position = 0
    while position < len(text):
        begin = _BEGIN.search(text, position, position + STRETCH)
        if begin is None:
            position += STRETCH
            yield None
            continue
        start, position = begin.span()
        if text[start] == '"':
            while True:
                inside = _IN_STRING.match(text, position, position + STRETCH)
                assert inside is not None  # it matches the empty text too
                position = inside.end()
                if text.startswith('"', position):
                    position += 1
                    break
                if len(text) - position < 2:  # nothing is left, or a backslash
                    position = len(text)
                    break
                yield None
        yield start, position


def read(model: type[M], long_list: str | None = None) -> Callable[[Request], Awaitable[M]]:
    """A dependency that gives the body as `model`, or raises BodyErrors with every error, and TooLarge. `long_list`: a
    field that may have any number of items; it is parsed in parts."""
    in_parts = None if long_list is None else _InParts(model, long_list)

    async def body(request: Request) -> M:
        content_type = request.headers.get("content-type", "application/json").split(";")[0].strip().lower()
        if content_type != "application/json":
            raise BodyErrors(
                [ConfigError("Content-Type", f"must be application/json, not {content_type or 'empty'}")]
            )
        data = await request.body()
        if in_parts is not None:
            return await in_parts.read(data)
        async with _turn(len(data)):
            check_parsed(data)
            try:
                return model.model_validate_json(data, strict=True)
            except ValidationError as error:
                raise BodyErrors(_listed(error.error_count(), _errors(error, ["body"]))) from None

    return body


@asynccontextmanager
async def _turn(size: int) -> AsyncIterator[None]:
    """Lets one large body, or part of one, be parsed in each turn of the event loop: several clients that send them at
    once would hold it up for all of them together."""
    if size <= SMALL:
        yield
        return
    async with _TURNS.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
        await asyncio.sleep(0)
        yield


class _InParts(Generic[M]):
    """Reads bodies of one model whose list `key` may be long."""

    def __init__(self, model: type[M], key: str) -> None:
        self._model, self._key = model, key
        field = model.model_fields[key]
        self._items: TypeAdapter[list[Any]] = TypeAdapter(field.rebuild_annotation())
        lengths = (getattr(constraint, "max_length", None) for constraint in field.metadata)
        self._most: int | None = next((length for length in lengths if length is not None), None)

    async def read(self, data: bytes) -> M:
        """Lets others have their turn after each part. Raises BodyErrors and TooLarge."""
        items: list[Any] = []
        errors: list[ConfigError] = []
        failed = 0
        try:
            body = LongList(data.decode(), self._key)
            for part in body.parts():
                async with _turn(len(data)):
                    check_parsed(part.encode())
                    try:
                        items += self._items.validate_json(part or "[]", strict=True)
                    except ValidationError as error:
                        failed += error.error_count()
                        few = failed <= MOST_ERRORS
                        errors += _errors(error, ["body", self._key], len(items)) if few else []
                        items += self._items_as_they_are(part, len(items))
            rest = body.rest.encode()
            async with _turn(len(rest)):
                check_parsed(rest)
                message = self._model.model_validate_json(rest, strict=True)
        except ValidationError as error:
            failed += error.error_count()
            errors += _errors(error, ["body"])
        except (NotJson, UnicodeDecodeError) as error:
            raise BodyErrors([ConfigError("body", f"Invalid JSON: {error}")]) from None
        if self._most is not None and len(items) > self._most:
            failed += 1
            errors.append(ConfigError(f"body.{self._key}", f"List should have at most {self._most} items"))
        if failed:
            raise BodyErrors(_listed(failed, errors))
        return message.model_copy(update={self._key: items}) if items else message

    def _items_as_they_are(self, part: str, begin: int) -> list[Any]:
        """The items of a part that does not follow the contract. Raises NotJson."""
        try:
            return _ITEMS.validate_json(part)
        except ValidationError as error:
            raise NotJson(f"{self._key}, item {begin} or later: {error.errors()[0]['msg']}") from None


def accepts(model: type[Message]) -> dict[str, Any]:
    """Returns `openapi_extra=` for a route whose body is read by `read(model)`; openapi.py adds the schemas."""
    schema = {"$ref": f"#/components/schemas/{model.__name__}"}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def check_parsed(data: bytes) -> None:
    """Checks what is parsed in one go. Raises TooLarge."""
    if len(data) <= MOST_TEXTS:
        return
    if data.count(b'"') > 2 * MOST_TEXTS:
        raise TooLarge(f"The request body has more than {MOST_TEXTS} names and texts")
    if b"\\" in data:  # a quote behind one ends no text
        data = data.replace(rb"\\", b"").replace(rb"\"", b"")
    outside = b"".join(data.split(b'"')[::2])
    if len(outside) > MOST_OUTSIDE:
        raise TooLarge(f"The request body has more than {MOST_OUTSIDE} bytes outside of names and texts")
    if outside.count(b",") + outside.count(b"[") + outside.count(b"{") > MOST_VALUES:
        raise TooLarge(f"The request body has more than {MOST_VALUES} values")


def _listed(count: int, errors: list[ConfigError]) -> list[ConfigError]:
    if count > MOST_ERRORS:
        return [ConfigError("body", f"{count} fields are not of the contract's form")]
    return errors


def _errors(error: ValidationError, at: list[str], begin: int = 0) -> list[ConfigError]:
    """The errors as those of the field `at`; `begin`: how many of its items come before the parsed ones."""
    if error.error_count() > MOST_ERRORS:
        return []
    return [
        ConfigError(".".join([*at, *_path(item["loc"], begin)]), item["msg"])
        for item in error.errors(include_input=False, include_url=False, include_context=False)
    ]


def _path(loc: tuple[int | str, ...], begin: int) -> list[str]:
    first, rest = loc[:1], loc[1:]
    return [
        *(str(part + begin if isinstance(part, int) else part) for part in first),
        *(str(part) for part in rest),
    ]
