"""Tells which Connect cluster a connector's name belongs to, where several share a service. Pure.

A name belongs to the Connect cluster that runs the connector, until nothing has been heard of it for HELD_MS: what is
stopped may be deleted, or move to another worker, and Connect tells nobody which (decision 0068)."""

from __future__ import annotations

from bridge.errors import ErrorCode, NameTaken
from bridge.service.state.connector_entry import Connector

HELD_MS = 600_000
"""Twice as long as Connect may wait, by default, for a worker that has left (scheduled.rebalance.max.delay.ms)."""
_RUNS_MS = 5_000
"""A task that runs is polled once a second."""


def differs(connector: Connector, connect_group_id: str | None) -> bool:
    """Whether both Connect clusters are known, and are not the same."""
    return None not in (connector.connect_group_id, connect_group_id) and (
        connector.connect_group_id != connect_group_id
    )


def taken(connector: Connector, connect_group_id: str | None, now: float) -> NameTaken | None:
    """Why a Connect cluster may not use the name of a connector. None where it may."""
    if not differs(connector, connect_group_id) or now - connector.heard >= HELD_MS:
        return None
    which = f"a connector of this name at this service: its group.id is {connector.connect_group_id}"
    invalid = f"Invalid value {connector.name} for configuration name:"
    if any(not task.stopped and now - task.last_arrival < _RUNS_MS for task in connector.current_tasks):
        return NameTaken(
            f"{invalid} Another Connect cluster runs {which}. It goes on undisturbed. Connect clusters that share a "
            "service need connectors of different names: choose another one, or another bridge.url"
        )
    return NameTaken(
        f"{invalid} Another Connect cluster ran {which}, and it was last heard of "
        f"{int(now - connector.heard) // 1000} s ago. If the connector was deleted there, or that Connect cluster is "
        f"gone for good: mirror-bridge forget {connector.name}. Else the name is free "
        f"{HELD_MS // 60_000} minutes after it was last heard of",
        code=ErrorCode.NAME_HELD,
    )
