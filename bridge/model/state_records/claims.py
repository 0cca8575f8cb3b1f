"""Defines the record of a claim in a layout topic: which connector copies a topic to which one. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

CLAIM_VERSION: Final = 1


class Claim(NamedTuple):
    """A connector's claim to copy a topic to another one. Of several claims to one copy the first in the log holds.

    `settled`: nothing is copied before. Until then the connector looks for claims of other source aliases to the target
    topic, which are in other topics. `starting`: the connector owned the copy and had stopped, and now looks for one in
    the opposite direction that has begun meanwhile; for everybody else the claim is settled.
    """

    source_topic: str
    target_topic: str
    connector: str
    settled: bool = True
    starting: bool = False

    def key(self) -> bytes:
        return json_key(source=self.source_topic, target=self.target_topic, connector=self.connector)

    def value(self) -> bytes:
        fields: dict[str, int | bool] = {"version": CLAIM_VERSION}
        if not self.settled:
            fields["settled"] = False
        if self.starting:
            fields["starting"] = True
        return json.dumps(fields).encode()

    @classmethod
    def decode(cls, key: bytes | None, value: bytes | None = b"") -> Claim | None:
        """Decodes a claim; None for another kind of record. Whatever can't be read in the value, the claim is settled
        then: nobody copies beside it."""
        fields = json_object(key)
        names = [fields.get(name) for name in ("source", "target", "connector")]
        if len(fields) != len(names) or not all(isinstance(name, str) for name in names):
            return None
        source, target, connector = map(str, names)
        values = json_object(value)
        return cls(
            source, target, connector, values.get("settled") is not False, values.get("starting") is True
        )


def json_key(**names: str | int) -> bytes:
    return json.dumps(names, separators=(",", ":")).encode()


def json_object(value: bytes | None) -> Mapping[str, Any]:
    """Reads a JSON object; empty for anything else."""
    try:
        fields = json.loads(value or b"null")
    except (ValueError, RecursionError):
        return {}
    return fields if isinstance(fields, dict) else {}
