"""Sets up the log of a process: everything goes to standard error, also lines of libraries, warnings and uncaught
errors."""

from __future__ import annotations

import logging
import sys
import threading
from types import TracebackType
from typing import Any, TextIO

from bridge.logs.lines import JsonLines, Lines, TextLines, request_id

log = logging.getLogger("bridge")

HTTP, ROUNDS, DRIVER, JVM, WORKER, COMMAND = "http", "rounds", "driver", "jvm", "worker", "command"
"""The values of the field `process`."""

_QUIET = {
    **dict.fromkeys(("uvicorn.error", "py4j", "httpx", "httpcore"), logging.WARNING),
    "aiokafka": logging.CRITICAL,
}
"""Loggers of libraries that write a line for each connection or attempt, and the least level that is logged of them;
our own lines say what changed."""


def set_up_logs(process: str, level: str, style: str, output: TextIO | None = None) -> logging.Handler:
    """Sets up the logs of this process. `style` is `text` or `json`; `output` is standard error if not given."""
    handler = logging.StreamHandler(output or sys.stderr)
    lines: Lines = JsonLines(process) if style == "json" else TextLines(process)
    handler.setFormatter(lines)
    handler.addFilter(_with_request_id)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logger = logging.getLogger(name)
        logger.handlers[:] = []
        logger.propagate = True
    for name, least in _QUIET.items():
        logging.getLogger(name).setLevel(max(least, root.level))
    logging.captureWarnings(True)
    sys.excepthook = _uncaught
    threading.excepthook = _uncaught_in_thread
    sys.unraisablehook = _unraisable
    return handler


def _uncaught(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        return
    log.critical("the process ends on an unexpected error: %s", error, exc_info=(kind, error, traceback))


def _uncaught_in_thread(args: threading.ExceptHookArgs) -> None:
    if args.exc_value is None or isinstance(args.exc_value, SystemExit):
        return
    name = args.thread.name if args.thread is not None else "unknown"
    error = (args.exc_type, args.exc_value, args.exc_traceback)
    log.error("thread %s ended on an unexpected error: %s", name, args.exc_value, exc_info=error)


def _unraisable(args: Any) -> None:
    error = args.exc_value
    exc_info = (type(error), error, args.exc_traceback) if error is not None else None
    log.error("%s: %r", args.err_msg or "exception ignored in", args.object, exc_info=exc_info)


def _with_request_id(record: logging.LogRecord) -> bool:
    if not hasattr(record, "request_id"):
        record.request_id = request_id.get()
    return True
