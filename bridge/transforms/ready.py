"""Provides ready transforms, to be named in `bridge.transforms`: mask_fields and drop_where.

Reads and changes values in JSON texts by path: `customer.email`, with dots into objects, through lists on the way.

A part of a path that has a dot of its own stands in backticks, as in Connect (KIP-821). All else stays as it was
written, numbers included: values are taken as raw text (msgspec.Raw).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Protocol

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bridge.mm2.java_regex import compile_java
from bridge.model.java_values import split_list
from bridge.transforms.contract import SCHEMA

Tree = Mapping[str, "Tree | None"]
"""Paths by their first parts; None where one ends."""

_Object, _List = dict[str, msgspec.Raw], list[msgspec.Raw]
_OBJECT, _LIST = msgspec.json.Decoder(_Object), msgspec.json.Decoder(_List)
_STRING = msgspec.json.Decoder(str)
_encode = msgspec.json.Encoder().encode
_NOTHING = {b'"': b'""', b"{": b"{}", b"[": b"[]", b"t": b"false", b"f": b"false", b"n": b"null"}
"""What stock's MaskField leaves of a value, by the first character of its text; of a number 0."""
_KINDS = {b"{": "an object", b"[": "a list", b"t": "a boolean", b"f": "a boolean"}
_JSON_COLUMNS = ("value", "key")


def parts(path: str) -> list[str]:
    """Splits a path into its names. Raises ValueError for an invalid path."""
    names, rest = [], path
    while True:
        if rest.startswith("`"):
            part, closed, rest = rest[1:].partition("`")
            if not closed:
                raise ValueError(f"{path} is no path: a backtick is not closed")
            if rest and not rest.startswith("."):
                raise ValueError(f"{path} is no path: a dot must follow the closing backtick")
            rest, more = rest[1:], bool(rest)
        else:
            part, dot, rest = rest.partition(".")
            more = bool(dot)
        if not part:
            raise ValueError(
                f"{path or 'an empty text'} is no path: it must be names with dots between them, none of them empty"
            )
        names.append(part)
        if not more:
            return names


def tree(paths: Sequence[str]) -> Tree:
    """Returns the tree of paths. Raises ValueError for an invalid path. Where one path ends, longer ones that begin
    with it are left out: it covers them."""
    root: dict[str, object] = {}
    for path in paths:
        at: dict[str, object] | None = root
        *inner, last = parts(path)
        for part in inner:
            deeper = at.setdefault(part, {}) if at is not None else None
            at = deeper if isinstance(deeper, dict) else None
        if at is not None:
            at[last] = None
    return root  # type: ignore[return-value]


def changed(text: bytes, paths: Tree, change: Callable[[bytes, str], bytes]) -> bytes:
    """Returns the text with `change` applied to the values of the paths: it is called with a value's own text and the
    name of its field. The same bytes where nothing changes. Raises ValueError for what is not JSON, or no object or
    list."""
    opening = text.lstrip()[:1]
    if opening == b"{":
        fields = _OBJECT.decode(text)
        touched = False
        for name, deeper in paths.items():
            raw = fields.get(name)
            if raw is None:
                continue
            old = bytes(raw)
            new = change(old, name) if deeper is None else _inside(old, deeper, change)
            if new != old:
                fields[name], touched = msgspec.Raw(new), True
        return _encode(fields) if touched else text
    if opening == b"[":
        items = [bytes(raw) for raw in _LIST.decode(text)]
        new_items = [_inside(item, paths, change) for item in items]
        if new_items == items:
            return text
        return _encode([msgspec.Raw(item) for item in new_items])
    raise ValueError(_no_object(text))


def values(text: bytes, path: Sequence[str]) -> Iterator[bytes]:
    """Yields the texts of the values at a path. Raises ValueError as `changed` does."""
    opening = text.lstrip()[:1]
    if opening == b"{":
        raw = _OBJECT.decode(text).get(path[0])
        if raw is None:
            return
        if len(path) == 1:
            yield bytes(raw)
        else:
            yield from _values_inside(bytes(raw), path[1:])
    elif opening == b"[":
        for item in _LIST.decode(text):
            yield from _values_inside(bytes(item), path)
    else:
        raise ValueError(_no_object(text))


def as_text(value: bytes) -> str:
    """Returns a JSON value as text: of a string its content, of anything else its JSON."""
    return _STRING.decode(value) if value.startswith(b'"') else value.decode()


def _inside(text: bytes, paths: Tree, change: Callable[[bytes, str], bytes]) -> bytes:
    """Changes what is inside a value; nothing in one that is no object or list."""
    return changed(text, paths, change) if text[:1] in (b"{", b"[") else text


def _values_inside(text: bytes, path: Sequence[str]) -> Iterator[bytes]:
    return values(text, path) if text[:1] in (b"{", b"[") else iter(())


def _no_object(text: bytes) -> str:
    return "it is neither a JSON object nor a list" if text.strip() else "it is empty"


def mask_fields(
    batch: pa.RecordBatch, *, fields: str, replacement: str | None = None, column: str = "value"
) -> pa.RecordBatch:
    """Masks fields of JSON values, or with `column=key` of JSON keys, as stock's MaskField does: text becomes empty,
    numbers 0, booleans false, lists and objects empty, and with a `replacement` texts and numbers become that. A record
    whose value is null or lacks the fields stays as it is; one whose value is no JSON object is an error."""
    paths = _tree(fields)
    change = _empty if replacement is None else _replacing(replacement)
    if column not in _JSON_COLUMNS:
        raise ValueError(f"column is {column}; it must be value or key")
    at = SCHEMA.get_field_index(column)
    masked = _masked_plain(batch.column(at), fields, replacement) if batch.num_rows else None
    rows, odd = (batch.column(at), range(batch.num_rows)) if masked is None else masked
    if len(odd):
        texts, original = rows.to_pylist(), batch.column(at)
        for row in odd:
            text = original[row].as_py()
            texts[row] = None if text is None else changed(text, paths, change)
        rows = pa.array(texts, pa.binary())
    return batch.set_column(at, SCHEMA.field(at), rows)


def drop_where(
    batch: pa.RecordBatch,
    *,
    field: str | None = None,
    header: str | None = None,
    column: str | None = None,
    equals: str | None = None,
    matches: str | None = None,
    negate: str = "false",
) -> pa.RecordBatch:
    """Drops records by what a field of their JSON value, a header, or their whole key or value is: one of a list
    (`equals`), or what a Java regex `matches` as a whole; without either, those that have one at all. `negate`: those
    for which that does not hold."""
    holds = _condition(equals, matches)
    subjects = [name for name in (field, header, column) if name is not None]
    if len(subjects) != 1:
        raise ValueError("give one of field, header and column: what is looked at")
    if negate not in ("true", "false"):
        raise ValueError(f"negate is {negate}; it must be true or false")
    if field is not None:
        result = _by_field(batch, field, holds)
    elif header is not None:
        result = _by_header(batch, header, holds)
    elif column in _JSON_COLUMNS:
        texts = batch.column(column).to_pylist()
        result = [text is not None and holds(text.decode(errors="replace")) for text in texts]
    else:
        raise ValueError(f"column is {column}; it must be key or value")
    dropped = pa.array(result, pa.bool_())
    return batch.filter(dropped if negate == "true" else pc.invert(dropped))


class Compiled(Protocol):
    """The compiled form of a transform: bridge.transforms.masks.masking.Masks."""

    def apply(
        self, validity: np.ndarray, offsets: np.ndarray, data: np.ndarray, rows: int, /
    ) -> tuple[np.ndarray, np.ndarray, list[int]] | None: ...


@lru_cache
def compiled_masks(fields: str, replacement: str | None) -> Compiled | None:
    """Returns compiled masks; None where a path is nested (`a.b`). Raises ValueError."""
    # Compiled, with what it takes to import: not before there is a record.
    from bridge.transforms.masks.masking import Masks

    paths = _tree(fields)
    if any(deeper is not None for deeper in paths.values()):
        return None
    if replacement is None:
        return Masks(list(paths), [b'""', b"0", b"false", b"null", b"{}", b"[]"])
    text = msgspec.json.encode(replacement)
    return Masks(list(paths), [text, _as_number(replacement), None, b"null", None, None])


def _masked_plain(
    column: pa.Array, fields: str, replacement: str | None
) -> tuple[pa.Array, Sequence[int]] | None:
    """Returns a column with its fields masked, and the rows that are yet to be masked; None where all rows are."""
    masks, rows = compiled_masks(fields, replacement), len(column)
    validity, offsets, data = column.buffers()
    if masks is None or column.offset or data is None:
        return None
    result = masks.apply(
        np.frombuffer(validity, np.uint8) if column.null_count else np.empty(0, np.uint8),
        np.frombuffer(offsets, np.int32, rows + 1),
        np.frombuffer(data, np.uint8),
        rows,
    )
    if result is None:
        return None
    out_offsets, out, odd = result
    buffers = [validity if column.null_count else None, pa.py_buffer(out_offsets), pa.py_buffer(out)]
    return pa.Array.from_buffers(pa.binary(), rows, buffers), odd


@lru_cache
def _tree(fields: str) -> Tree:
    paths = split_list(fields)
    if not paths:
        raise ValueError("fields is empty; it must name what is masked")
    return tree(paths)


def _empty(value: bytes, _name: str) -> bytes:
    return _NOTHING.get(value[:1], b"0")


def _replacing(replacement: str) -> Callable[[bytes, str], bytes]:
    text = msgspec.json.encode(replacement)
    number = _as_number(replacement)

    def replace(value: bytes, name: str) -> bytes:
        first = value[:1]
        if first == b'"':
            return text
        if first == b"n":
            return value
        if first in _KINDS:
            raise ValueError(
                f"the field {name} is {_KINDS[first]}, and only texts and numbers can be replaced"
            )
        if number is None:
            raise ValueError(
                f"the field {name} is a number, and the replacement {replacement} is not a number"
            )
        return number

    return replace


@lru_cache
def _as_number(text: str) -> bytes | None:
    try:
        decoded = msgspec.json.decode(text)
    except ValueError:
        return None
    return text.encode() if isinstance(decoded, int | float) and not isinstance(decoded, bool) else None


def _condition(equals: str | None, matches: str | None) -> Callable[[str], bool]:
    if equals is not None and matches is not None:
        raise ValueError("give equals or matches, not both")
    if equals is not None:
        return frozenset(split_list(equals)).__contains__
    if matches is not None:
        return compile_java(matches, "matches").fullmatch
    return lambda _: True


def _by_field(batch: pa.RecordBatch, field: str, holds: Callable[[str], bool]) -> list[bool]:
    path = parts(field)

    def texts(value: bytes) -> Iterator[str]:
        return map(as_text, values(value, path))

    return [
        value is not None and any(map(holds, texts(value))) for value in batch.column("value").to_pylist()
    ]


def _by_header(batch: pa.RecordBatch, header: str, holds: Callable[[str], bool]) -> list[bool]:
    lists = batch.column("headers")
    headers = lists.flatten()
    named = pc.equal(headers.field("key"), header)
    rows: Iterable[int] = pc.list_parent_indices(lists).filter(named).to_pylist()
    contents = headers.field("value").filter(named).to_pylist()
    result = [False] * batch.num_rows
    for row, content in zip(rows, contents, strict=True):
        result[row] = result[row] or holds((content or b"").decode(errors="replace"))
    return result
