"""Reads and changes values in JSON texts by path: `customer.email`, with dots into objects, through lists on the way.

A part of a path that has a dot of its own stands in backticks, as in Connect (KIP-821). All else stays as it was
written, numbers included: values are taken as raw text (msgspec.Raw).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

Tree = Mapping[str, "Tree | None"]
"""Paths by their first parts; None where one ends."""

_Object, _List = dict[str, msgspec.Raw], list[msgspec.Raw]
_OBJECT, _LIST = msgspec.json.Decoder(_Object), msgspec.json.Decoder(_List)
_STRING = msgspec.json.Decoder(str)
_encode = msgspec.json.Encoder().encode


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
        for each in _LIST.decode(text):
            yield from _values_inside(bytes(each), path)
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
