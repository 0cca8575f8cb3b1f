"""The audit log: who has changed something by the API, or was refused, from where, what it was before and after, and
with what result.

A JSON line for each request, by a logger of its own, and in a file of its own where `audit_log_file` names one. What
workers do all the time, polls and acknowledgements, is in it only where it is refused. No value of a secret key is ever
in it: such a key is named, with the values `[hidden]`.
"""

from __future__ import annotations

import contextvars
import json
import logging
import os
import sys
import time
from collections.abc import Mapping
from logging.handlers import WatchedFileHandler
from pathlib import Path
from typing import Any

from starlette.types import Scope

from bridge.logs.lines import iso
from bridge.service.http.access import ROLES, Caller, Role

log = logging.getLogger("bridge.audit_log")
service_log = logging.getLogger(__name__)

REFUSED = frozenset({401, 403, 421, 429})
"""Statuses of requests that are not allowed."""
MOST_REFUSED = 20
"""Lines about refused requests in a second: of more, the next line says how many there were."""
_HIDDEN, _LONGEST = "[hidden]", 500
"""What stands for the value of a secret key; and characters of another value."""
_WITHOUT_LINE = frozenset(
    {
        ("POST", "/v1/sessions"),
        ("PUT", "/v1/plugins/{kind}/validate"),
        ("GET", "/v1/connectors/{name}/doctor"),
        *((method, path) for method, path in ROLES if "/tasks/" in path),
    }
)
"""Requests that change nothing that lasts, or that workers send all the time."""
_details: contextvars.ContextVar[dict[str, Any] | None] = contextvars.ContextVar("audit_log", default=None)


def add_details(**details: Any) -> None:
    """Adds to the line of the request that is answered now: what it changes, before and after."""
    added = _details.get()
    if added is not None:
        added.update(details)


def changed(
    before: Mapping[str, str | None], after: Mapping[str, str | None], unlogged: frozenset[str]
) -> dict[str, dict[str, str | None]]:
    """Returns the keys that differ, with their values before and after. `unlogged`: keys whose values are hidden."""

    keys = [key for key in sorted({*before, *after}) if before.get(key) != after.get(key)]

    def shown(values: Mapping[str, str | None]) -> dict[str, str | None]:
        return {key: _HIDDEN if key in unlogged else _short(values[key]) for key in keys if key in values}

    return {"before": shown(before), "after": shown(after)}


def _short(value: str | None) -> str | None:
    """A value may be a list of a megabyte."""
    if value is None or len(value) <= _LONGEST:
        return value
    return f"{value[:_LONGEST]}… ({len(value):,} characters)"


def set_up_audit_log(path: Path | None) -> None:
    """Has lines go to a file, which only its owner may read and which is opened anew when it was moved away. Without
    one they go to the log. Raises OSError."""
    if path is None:
        return
    os.close(os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600))
    handler = _AuditFile(path, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(message)s"))
    log.handlers[:] = [handler]
    log.setLevel(logging.INFO)
    log.propagate = False


class _AuditFile(WatchedFileHandler):
    """The file. A line that can't be written to it, on a full disk, is in the log of the service."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            super().emit(record)
        except OSError:  # from opening it anew
            self.handleError(record)

    def handleError(self, record: logging.LogRecord) -> None:
        service_log.error(
            "audit_log_file %s can't be written (%s): the audit log goes on here: %s",
            self.baseFilename,
            sys.exc_info()[1],
            record.getMessage(),
        )


class AuditLog:
    """Writes the lines. For use in one thread."""

    def __init__(self) -> None:
        self._second, self._refused, self._left_out = 0, 0, 0

    def begin(self) -> Mapping[str, Any]:
        """Returns what is going to be added to the line of the request that is answered from now on."""
        details: dict[str, Any] = {}
        _details.set(details)
        return details

    def end(self, scope: Scope, status: int, caller: Caller, details: Mapping[str, Any]) -> None:
        """Writes the line of a request, if it has one."""
        route = getattr(scope.get("route"), "path", "")
        refused = status in REFUSED
        asked = scope["method"], route
        if not refused and (asked in _WITHOUT_LINE or ROLES.get(asked) is not Role.CHANGE):
            return
        if refused and not self._has_room():
            return
        line: dict[str, Any] = {
            "time": iso(time.time()),
            "who": {
                "shown": caller.shown,
                **({"certificate": caller.certificate} if caller.certificate else {}),
            },
            "address": caller.address,
            "request_id": scope["mirror_bridge.request_id"],
            "request": f"{scope['method']} {_short(scope['path'])}",
            "status": status,
            "result": "refused" if refused else "done" if 200 <= status < 300 else "failed",
            **details,
        }
        if self._left_out:
            line["refused_without_a_line"], self._left_out = self._left_out, 0
        log.info("%s", json.dumps(line))

    def _has_room(self) -> bool:
        second = int(time.monotonic())
        if second != self._second:
            self._second, self._refused = second, 0
        self._refused += 1
        if self._refused <= MOST_REFUSED:
            return True
        self._left_out += 1
        return False
