"""The two forms of a log line, text and a JSON object, with process, connector, task and request id where known."""

from __future__ import annotations

import contextvars
import json
import logging
import time
from datetime import UTC, datetime

request_id: contextvars.ContextVar[str | None] = contextvars.ContextVar("request_id", default=None)

FIELDS = ("connector", "task", "request_id", "since")


def iso(seconds: float) -> str:
    """Seconds since the epoch as an ISO 8601 time in UTC, to the millisecond."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{int(seconds * 1000) % 1000:03d}Z"


def fields(record: logging.LogRecord) -> dict[str, object]:
    return {name: value for name in FIELDS if (value := getattr(record, name, None)) is not None}


class Lines(logging.Formatter):
    """Base of both. `process`: the process of lines that do not name another one."""

    converter = staticmethod(time.gmtime)

    def __init__(self, process: str) -> None:
        super().__init__()
        self._process = process

    def process(self, record: logging.LogRecord) -> str:
        return str(getattr(record, "process_name", self._process))

    def traceback(self, record: logging.LogRecord) -> str:
        if record.exc_info:
            return self.formatException(record.exc_info)
        return str(getattr(record, "traceback", ""))


class JsonLines(Lines):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": iso(record.created),
            "level": record.levelname,
            "process": self.process(record),
            "logger": record.name,
            "message": record.getMessage(),
            **fields(record),
        }
        if traceback := self.traceback(record):
            line["traceback"] = traceback
        return json.dumps(line)


class TextLines(Lines):
    def format(self, record: logging.LogRecord) -> str:
        shown = " ".join(f"{name}={_one_line(str(value))}" for name, value in fields(record).items())
        line = (
            f"{iso(record.created)} {record.levelname:<7} {self.process(record)} {record.name} "
            f"{_one_line(record.getMessage())}"
        )
        if shown:
            line += f" [{shown}]"
        if traceback := self.traceback(record):
            line += " | " + _one_line(traceback)
        return line


def _one_line(text: str) -> str:
    """Escapes what is not printable: names come from outside, and a line break in one must not look like a log line."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
