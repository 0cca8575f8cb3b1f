"""Tries to reach the clusters of a configuration, in threads of their own and for a bounded time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar

from bridge.errors import Overloaded
from bridge.model.java_values import trimmed
from bridge.model.values import Side
from bridge.service.checks.context import Probe
from bridge.service.ipc.desired_state import Config
from bridge.service.pool import BoundedPool
from bridge.service.state.task_table import Connector
from connectors.base import Kind
from connectors.config.cluster_options import REACHABILITY, allows_same_cluster, same_cluster
from connectors.config.configdef import given
from connectors.config.token_functions import token_functions

T = TypeVar("T")
log = logging.getLogger(__name__)

SECONDS = 5.0
"""For both clusters at once."""
_SLACK = 0.5
"""Additional seconds for DNS lookups of the operating system, which have no limit of their own."""
_PROCESS_SLACK = 10.0
"""Additional seconds where a process has to be started for users' code that gets tokens."""
_AT_ONCE = 4
"""Threads. No request waits for one: when all are busy it is refused."""
_LOST_AFTER = 5.0
"""Additional seconds until a thread that still waits for DNS counts as hanging."""
_DOCTORS, _DOCTOR_SECONDS = 2, 120.0
"""Apart from the threads above: doctor takes as long as the slower cluster."""
WARN, ERROR, OFF = "warn", "error", "off"


def mode_of(config: Config) -> str:
    return trimmed(config.get(REACHABILITY) or "") or WARN


def servers_key(side: Side) -> str:
    return f"{side}.cluster.bootstrap.servers"


class Found(NamedTuple):
    """`away`: by side why the cluster can't be reached; `same_id`: the id of the cluster that is source and target,
    None where there are two, or the configuration allows one."""

    away: Mapping[Side, str]
    same_id: str | None

    @property
    def same(self) -> str | None:
        """Why the target can't be that cluster."""
        return same_cluster(self.same_id) if self.same_id else None


class Reachability:
    """Runs `probe` in a few threads of its own, so that no other check waits for a cluster. For one event loop."""

    def __init__(self, probe: Probe | None, seconds: float = SECONDS) -> None:
        self._probe = probe
        self._seconds = seconds
        self._pool = BoundedPool(_AT_ONCE, 0, seconds + _LOST_AFTER, "connecting to the clusters")
        self._doctors = BoundedPool(_DOCTORS, 0, _DOCTOR_SECONDS, "examining the connector")
        self._looking = set[asyncio.Task[None]]()

    async def find(self, kind: Kind, config: Config) -> Found:
        """Looks at the clusters of a configuration without errors. Raises Overloaded when all threads are busy."""
        probe = self._probe
        if probe is None or mode_of(config) == OFF:
            return Found({}, None)
        sides = [side for side in Side if servers_key(side) in kind.definition.keys]
        props = given(config)
        try:
            async with asyncio.timeout(
                self._seconds + (_PROCESS_SLACK if token_functions(props) else _SLACK)
            ):
                failures, ids = await self._pool.run(lambda: probe(props, sides, self._seconds))
        except TimeoutError:
            why = f"no broker has answered within {self._seconds:g} s, nor has DNS"
            failures, ids = dict.fromkeys(sides, why), {}
        away = {side: f"the {side} cluster can't be reached: {why}" for side, why in failures.items()}
        one, other = ids.get(Side.SOURCE), ids.get(Side.TARGET)
        return Found(away, None if one != other or allows_same_cluster(config) else one)

    async def run(self, call: Callable[[], T]) -> T:
        """Runs doctor, as `call`, in one of its threads. Raises Overloaded and NotAnswered."""
        return await self._doctors.run(call)

    def started(self, connector: Connector, kind: Kind) -> None:
        """Checks the clusters of a new configuration in the background, for the log and the status. Never refuses the
        connector: a worker that restarts while a cluster is away must be able to go on."""
        task = asyncio.create_task(self._look(connector, kind, connector.generation), name="reachability")
        self._looking.add(task)
        task.add_done_callback(self._looking.discard)

    async def _look(self, connector: Connector, kind: Kind, generation: int) -> None:
        try:
            found = await self.find(kind, connector.config)
        except Overloaded:
            return  # the connector's next round reports the same
        except Exception as error:
            log.warning(
                "could not check whether the clusters can be reached: %s",
                error,
                extra={"connector": connector.name},
            )
            return
        if connector.generation != generation:
            return
        connector.unreachable = {str(side): text for side, text in found.away.items()}
        connector.same_cluster = found.same or ""
        for text in (*found.away.values(), *([found.same] if found.same else [])):
            log.warning("%s", text, extra={"connector": connector.name})

    def close(self) -> None:
        for task in self._looking:
            task.cancel()
        self._pool.close()
        self._doctors.close()
