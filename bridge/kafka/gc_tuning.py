"""How often a process that decodes records looks for cyclic garbage."""

from __future__ import annotations

import gc


def collect_seldom() -> None:
    """Rarely: records are decoded by the hundred thousand and hold no cycles, yet each pass walks all that are alive.
    With Python's defaults decoding a batch takes six times as long (docs/decisions/0008, 0014)."""
    gc.set_threshold(200_000, 50, 100)
