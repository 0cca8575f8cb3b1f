"""Repeated lines of libraries: the first one is logged, the others are counted until AGAIN_SECONDS have passed."""

from __future__ import annotations

import logging
import re

AGAIN_SECONDS = 600.0
MOST = 1000
"""Different lines that are remembered."""
OURS = ("bridge", "connectors", "asyncio", "py.warnings")
_VARIES = re.compile(r"0x[0-9a-f]+|\d+", re.IGNORECASE)
_COMPARED = 120
"""Characters of a message that are compared; details and tracebacks stand behind them."""


class Repeats:
    """The lines of one process. Our own lines always pass: each says what has changed."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str], tuple[float, int]] = {}

    def passes(self, record: logging.LogRecord) -> bool:
        """Whether the line is to be logged. If so, its message says how many like it were left out."""
        if record.name.partition(".")[0] in OURS or record.name in OURS:
            return True
        message = record.getMessage()
        key = (record.name, _VARIES.sub("#", message)[:_COMPARED])
        last, left_out = self._seen.get(key, (None, 0))
        if last is not None and record.created - last < AGAIN_SECONDS:
            self._seen[key] = (last, left_out + 1)
            return False
        if key not in self._seen and len(self._seen) >= MOST:
            self._seen.clear()
        self._seen[key] = (record.created, 0)
        if left_out:
            record.msg, record.args = (
                f"{message} ({left_out} more like it were left out since the last one)",
                (),
            )
        return True
