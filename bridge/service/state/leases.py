"""Sets how long a task may go without a poll before it counts as lapsed, or as paused."""

from __future__ import annotations

from bridge.model.java_values import integer
from bridge.service.ipc.desired_state import Config

LEASE_KEY = "bridge.task.lease.ms"
LEASE_MS = 30_000
LEAST_LEASE_MS = 2_000  # twice the longest hold of a poll
MOST_LEASE_MS = 3_600_000
PAUSED_MS = 1_500
"""A task that is not polled for so long after Connect has stopped its connector is paused: a poll is held for a second
at most. When a connector moves to another worker its tasks continue to poll."""

IDLE_SLACK_MS = 500
"""Between a task's clock and ours, and for the way, when it says for how long it was not polled."""


def lease_of(config: Config) -> int:
    """The lease of a configuration; a value that `validate` would reject counts as the default."""
    lease = integer(config.get(LEASE_KEY) or "") or LEASE_MS
    return min(max(lease, LEAST_LEASE_MS), MOST_LEASE_MS)
