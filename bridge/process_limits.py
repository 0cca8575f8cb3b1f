"""Limits of the processes that work on what a configuration brings."""

from __future__ import annotations

MEMORY = 4 << 30
"""Bytes of data, for a process that loads modules of ours or of users."""


def limit(cpu_seconds: int | None = None, memory: int = MEMORY) -> None:
    """Limits memory, and processor time if given, should the parent die and not end the process; allows no core files:
    they would hold passwords."""
    try:
        import resource

        limits = [(resource.RLIMIT_CORE, 0), (resource.RLIMIT_DATA, memory)]
        if cpu_seconds is not None:
            limits.append((resource.RLIMIT_CPU, cpu_seconds))
        for which, most in limits:
            _, hard = resource.getrlimit(which)
            resource.setrlimit(which, (most if hard < 0 else min(most, hard), hard))
    except (ImportError, OSError, ValueError):
        return
