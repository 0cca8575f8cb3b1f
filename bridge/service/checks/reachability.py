"""Whether the clusters of a configuration can be reached: tried in threads of their own, for a bounded time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import TypeVar

from bridge.errors import Overloaded
from bridge.model.values import Side
from bridge.service.checks.context import Probe
from bridge.service.ipc.desired_state import Config
from bridge.service.pool import BoundedPool
from bridge.service.state.task_table import Connector
from connectors.base import Kind
from connectors.config.cluster_options import REACHABILITY
from connectors.config.configdef import given

T = TypeVar("T")
log = logging.getLogger(__name__)

SECONDS = 5.0
"""For both clusters at once."""
_SLACK = 0.5
"""Seconds more for what has no limit of its own: names are looked up in DNS by the operating system."""
_AT_ONCE = 4
"""Threads. Nobody waits for one: whoever finds them busy is told so."""
_LOST_AFTER = 5.0
"""Seconds more until a thread that still waits for DNS counts as one that hangs."""
_DOCTORS, _DOCTOR_SECONDS = 2, 120.0
"""Apart from those that try clusters: an examination takes as long as the slower cluster."""
WARN, ERROR, OFF = "warn", "error", "off"


def mode_of(config: Config) -> str:
    return (config.get(REACHABILITY) or "").strip() or WARN


def servers_key(side: Side) -> str:
    return f"{side}.cluster.bootstrap.servers"


class Reachability:
    """`probe` runs in its own few threads, so that no other check ever waits for a cluster. For one event loop."""

    def __init__(self, probe: Probe | None, seconds: float = SECONDS) -> None:
        self._probe = probe
        self._seconds = seconds
        self._pool = BoundedPool(_AT_ONCE, 0, seconds + _LOST_AFTER, "trying the clusters")
        self._doctors = BoundedPool(_DOCTORS, 0, _DOCTOR_SECONDS, "examining the connector")
        self._looking = set[asyncio.Task[None]]()

    async def troubles(self, kind: Kind, config: Config) -> Mapping[Side, str]:
        """By side what is in the way, in a sentence; of a configuration without errors. Raises Overloaded when too
        many are tried."""
        probe = self._probe
        if probe is None or mode_of(config) == OFF:
            return {}
        sides = [side for side in Side if servers_key(side) in kind.definition.keys]
        props = given(config)
        try:
            async with asyncio.timeout(self._seconds + _SLACK):
                found = await self._pool.run(lambda: probe(props, sides, self._seconds))
        except TimeoutError:
            found = dict.fromkeys(sides, f"nothing has answered in {self._seconds:g} s, DNS neither")
        return {side: f"the {side} cluster can't be reached: {why}" for side, why in found.items()}

    async def run(self, call: Callable[[], T]) -> T:
        """What `call` answers, which examines a connector, in a thread of those here. Raises Overloaded and
        NotAnswered."""
        return await self._doctors.run(call)

    def started(self, known: Connector, kind: Kind) -> None:
        """Of a connector whose configuration is new: the log and its status say what can't be reached. It is never
        refused: a worker that starts again while a cluster is away must go on."""
        task = asyncio.create_task(self._look(known, kind, known.generation), name="reachability")
        self._looking.add(task)
        task.add_done_callback(self._looking.discard)

    async def _look(self, known: Connector, kind: Kind, generation: int) -> None:
        try:
            found = await self.troubles(kind, known.config)
        except Overloaded:
            return  # its own round tells, a little later
        except Exception as error:
            log.warning("the clusters were not tried: %s", error, extra={"connector": known.name})
            return
        if known.generation != generation:
            return
        known.unreachable = {str(side): text for side, text in found.items()}
        for text in found.values():
            log.warning("%s", text, extra={"connector": known.name})

    def close(self) -> None:
        for task in self._looking:
            task.cancel()
        self._pool.close()
        self._doctors.close()
