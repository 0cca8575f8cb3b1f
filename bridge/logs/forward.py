"""Standard error of a child process as lines of our log. JSON lines of ours keep their level, time and fields; anything
else (a JVM's last words, a library's print) becomes a line of the logger `stderr`."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import re
import time
from datetime import datetime

from bridge.logs.lines import FIELDS
from bridge.logs.repeats import Repeats

LONGEST = 1 << 16
"""Bytes of a line; the rest is cut off."""
_END_SECONDS = 1.0
"""How long the pipe is read after the child has ended: children of its own may keep it open."""
_LEVELS = {"WARN": "WARNING", "FATAL": "CRITICAL", "TRACE": "DEBUG"}
_WORD = re.compile(r"\b(DEBUG|INFO|WARN|WARNING|ERROR|FATAL|CRITICAL)\b")


def of_line(line: str, process: str, now: float) -> logging.LogRecord:
    """The log record of a line that a child has written. Pure."""
    with contextlib.suppress(ValueError, KeyError, TypeError):
        fields = json.loads(line)
        if isinstance(fields, dict):
            created = datetime.fromisoformat(fields["time"]).timestamp()
            record = _record(str(fields["logger"]), str(fields["level"]), str(fields["message"]), created)
            record.process_name = str(fields.get("process", process))
            record.traceback = str(fields.get("traceback", ""))
            for name in FIELDS:
                setattr(record, name, fields.get(name))
            return record
    word = _WORD.search(line[:200])
    record = _record("stderr", word[1] if word else "WARNING", line, now)
    record.process_name = process
    return record


def _record(name: str, level: str, message: str, created: float) -> logging.LogRecord:
    level = _LEVELS.get(level, level)
    number = logging.getLevelNamesMapping().get(level, logging.WARNING)
    record = logging.LogRecord(name, number, "", 0, message, (), None)
    record.created, record.msecs = created, (created % 1) * 1000
    return record


class Forward:
    """Forwards the standard error of one child. The child gets `fileno` as its standard error; call `started` when it
    runs, and `ended` when it has ended or could not be started."""

    def __init__(self, process: str, connector: str | None = None) -> None:
        self._process, self._connector = process, connector
        self._repeats = Repeats()
        self._read, self.fileno = os.pipe()
        self._task: asyncio.Task[None] | None = None

    def started(self) -> None:
        os.close(self.fileno)
        self._task = asyncio.create_task(self._forward(), name=f"log of the {self._process}")

    async def ended(self) -> None:
        if self._task is None:  # never started
            os.close(self.fileno)
            os.close(self._read)
            return
        try:
            await asyncio.wait({self._task}, timeout=_END_SECONDS)
        finally:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _forward(self) -> None:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=LONGEST)
        pipe = os.fdopen(self._read, "rb", 0)
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
        rest = b""
        try:
            while chunk := await reader.read(LONGEST):
                *lines, rest = (rest + chunk).split(b"\n")
                rest = rest[:LONGEST]
                self._log_lines(lines)
        finally:
            self._log_lines([rest])
            transport.close()

    def _log_lines(self, lines: list[bytes]) -> None:
        """Logs each line of ours as it is, and whatever stands between two of them as one: a traceback is one line."""
        now, foreign = time.time(), list[str]()
        for text_line in lines:
            line = text_line.decode("utf-8", "replace").rstrip()
            if not line:
                continue
            record = of_line(line, self._process, now)
            if record.name == "stderr":
                foreign.append(line)
                continue
            self._log_foreign(foreign, now)
            self._log(record)
        self._log_foreign(foreign, now)

    def _log_foreign(self, lines: list[str], now: float) -> None:
        if lines:
            record = of_line(lines[0], self._process, now)
            record.traceback = "\n".join(lines[1:])
            self._log(record)
            lines.clear()

    def _log(self, record: logging.LogRecord) -> None:
        if self._connector is not None:
            record.connector = self._connector
        logger = logging.getLogger(record.name)
        if logger.isEnabledFor(record.levelno) and self._repeats.passes(record):
            logger.handle(record)
