"""Assigns groups to tasks by rendezvous hashing, so that a group moves only when its own task appears or goes.

Connect's task configurations stay the same whatever groups come and go (docs/architecture.md); the service spreads
the groups.
"""

from __future__ import annotations

import hashlib


def task_of(group: str, task_count: int) -> int:
    """Returns the task, below `task_count`, with the greatest weight for this group. The same on every machine."""
    if task_count == 1:
        return 0
    return max(range(task_count), key=lambda task: _weight(group, task))


def _weight(group: str, task: int) -> bytes:
    return hashlib.blake2b(f"{task}\0{group}".encode(), digest_size=8).digest()
