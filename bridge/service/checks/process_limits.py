"""Limits of the processes that check configurations."""

from __future__ import annotations

_MEMORY = 4 << 30


def limit(cpu_seconds: int | None = None) -> None:
    """Limits memory, and processor time if given, should the parent die and not end the process; allows no core files:
    they would hold passwords."""
    try:
        import resource

        limits = [(resource.RLIMIT_CORE, 0), (resource.RLIMIT_DATA, _MEMORY)]
        if cpu_seconds is not None:
            limits.append((resource.RLIMIT_CPU, cpu_seconds))
        for which, most in limits:
            _, hard = resource.getrlimit(which)
            resource.setrlimit(which, (most if hard < 0 else min(most, hard), hard))
    except (ImportError, OSError, ValueError):
        return
