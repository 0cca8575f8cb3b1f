"""Checks connector configurations, in bounded pools, and keeps their secrets out of every answer.

Limits the size of configurations: all of them go to the rounds process in one frame, and a frame over its limit
would end that process again and again.

Tries to reach the clusters of a configuration, in threads of their own and for a bounded time.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

from bridge import PROTOCOL, VERSION
from bridge.errors import ConfigError, ConfigRejected, ErrorCode, NotAnswered, NotFound, Overloaded
from bridge.mm2.java_regex import PatternTooSlow
from bridge.model.java_values import trimmed
from bridge.model.values import Side
from bridge.protocol.messages import PluginInfo, Plugins
from bridge.protocol.operators import IgnoredSetting
from bridge.service.checks.answer import answer_of, as_json, rejected, scrubbed
from bridge.service.checks.context import CheckContext, Probe
from bridge.service.checks.large_configs import LargeConfigs, is_large
from bridge.service.checks.plugin_process import conflicts, validated
from bridge.service.ipc.messages import Config, characters
from bridge.service.pool import CHECKING, BoundedPool, Pools
from bridge.service.state.task_table import Connector, TaskTable
from connectors.base import COPYING_KINDS, CopiedTopics, Kind
from connectors.config.cluster_options import REACHABILITY, allows_same_cluster, same_cluster
from connectors.config.configdef import ValidatedConfig, describe, given, invalid
from connectors.config.plugins import token_functions

log = logging.getLogger(__name__)


MOST_CHARACTERS = 8 << 20
"""Limit for all names and configurations; see ipc.desired_state."""
MOST_OF_ONE = 1 << 20
MOST_SETTINGS = 2_000
MOST_TASKS = 20_000
_SHOWN = 80
"""Characters of a name that an error shows."""
T = TypeVar("T")
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
_Checked = tuple[str, str, frozenset[tuple[str, str | None]]]
"""What was asked of a kind and a configuration: to judge it, or for the whole answer."""
LATE_SECONDS = 60.0
"""How long the result of a check that took too long waits for the next attempt."""
MOST_LATE = 32


def too_large(config: Config) -> ConfigError | None:
    """The error of a configuration that is too large by itself, of its largest key."""
    if len(config) > MOST_SETTINGS:
        why = (
            f"the configuration has {len(config)} settings; the limit of one configuration is {MOST_SETTINGS}"
        )
        return ConfigError(_largest(config)[0], why)
    size = characters(config)
    if size <= MOST_OF_ONE:
        return None
    key, length = _largest(config)
    why = (
        f"the configuration has {size} characters, {length} of them in {key[:_SHOWN]}; the limit of one configuration "
        f"is {MOST_OF_ONE}: name topics and groups by patterns, or spread them over several connectors"
    )
    return ConfigError(key, why)


def no_room(table: TaskTable, name: str, config: Config) -> str | None:
    """Why the service has no room for the configuration of a connector beside those of all others."""
    others = sum(len(connector.name) + connector.size for connector in table if connector.name != name)
    size = len(name) + characters(config)
    total = size + others
    if total <= MOST_CHARACTERS:
        return None
    return (
        f"the configuration of {name[:_SHOWN]} has {size} characters, and those of all connectors would have {total}; "
        f"the limit of one service is {MOST_CHARACTERS}: delete connectors, or run another service"
    )


def size_errors(table: TaskTable, config: Config) -> list[ConfigError]:
    """The errors of a configuration that would be refused for its size; its connector is the one that it names."""
    if (error := too_large(config)) is not None:
        return [error]
    why = no_room(table, config.get("name") or "", config)
    return [] if why is None else [ConfigError(_largest(config)[0], why)]


def check_room(table: TaskTable, name: str, config: Config) -> None:
    """Raises ConfigRejected for a configuration that is too large, and Overloaded when all together would be."""
    if (error := too_large(config)) is not None:
        raise ConfigRejected([error])
    if (why := no_room(table, name, config)) is not None:
        raise Overloaded(why, retry_after=60)


def check_tasks(table: TaskTable, name: str, index: int) -> None:
    """Raises Overloaded for a task that is new where the service has its most tasks."""
    connector = table.get(name)
    if connector is not None and index in connector.tasks:
        return
    tasks = sum(len(connector.tasks) for connector in table)
    if tasks >= MOST_TASKS:
        raise Overloaded(f"this service has {tasks} tasks, and its limit is {MOST_TASKS}", retry_after=60)


def _largest(config: Config) -> tuple[str, int]:
    """The largest key, and how many characters its value has."""
    key = max(config, key=lambda each: len(config[each] or ""), default="name")
    return key, len(config.get(key) or "")


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


class Checker:
    """Validates the configurations of all kinds of connector."""

    def __init__(
        self,
        context: CheckContext,
        pools: Pools,
        copied: Callable[[], Sequence[CopiedTopics]] = tuple,
        sizes: Callable[[Config], Sequence[ConfigError]] = lambda config: (),
    ) -> None:
        """`copied` returns what the connectors copy now, `sizes` why a start would refuse a configuration for
        its size."""
        self._context = context
        self._plugins = b""
        self._pools = pools
        self._open = set[_Checked]()
        self._hanging = set[_Checked]()
        self._late: dict[_Checked, tuple[float, Any]] = {}
        """Results that nobody waited for any more, and until when they hold."""
        self._copied = copied
        self._sizes = sizes
        self._answering = asyncio.Semaphore(1)
        """Threads that build answers take turns with the event loop: four of them made it wait four times as long."""
        self.reachability = Reachability(context.probe)
        self.doctor = context.doctor

    @property
    def kinds(self) -> Mapping[str, Kind]:
        return self._context.kinds

    def plugins(self) -> bytes:
        """Returns every kind of connector with its keys, as JSON. It is made once: that takes longer than others may
        wait."""
        if not self._plugins:
            infos = [
                PluginInfo(
                    kind=kind.kind,
                    connector_class=kind.connector_class,
                    version=VERSION,
                    config=[describe(key) for key in kind.definition.keys.values()],
                )
                for kind in self._context.kinds.values()
            ]
            answer = Plugins(version=VERSION, protocol=PROTOCOL, plugins=infos)
            self._plugins = answer.model_dump_json().encode()
        return self._plugins

    def kind(self, name: str) -> Kind:
        kind = self._context.kinds.get(name)
        if kind is None:
            kinds = ", ".join(sorted(self._context.kinds)) or "none"
            raise NotFound(
                f"There is no kind of connector {name}; known kinds: {kinds}", code=ErrorCode.UNKNOWN_PLUGIN
            )
        return kind

    async def validate(self, name: str, config: Config, found: Sequence[ConfigError] = ()) -> bytes:
        """Returns a ValidateResponse as JSON. `found`: errors beside those of the configuration itself."""
        kind = self.kind(name)
        if (error := too_large(config)) is not None:  # and nothing else is worth the time
            return as_json(ValidatedConfig(()).with_errors([error]).response(kind.connector_class))
        if (large := self._elsewhere(config)) is not None:
            return await self._validated_elsewhere(large, kind, config, found)
        judged = await self._judged(self._pools.validations, kind, config)
        judged = judged.with_errors([*self._sizes(config), *found])
        errors, warnings = ([], []) if judged.errors else await self._beyond(kind, config)
        judged = judged.with_errors(errors)
        # A thread yields to other requests where the event loop would not.
        async with self._answering:
            return await asyncio.to_thread(lambda: as_json(answer_of(kind, config, judged, warnings)))

    async def _validated_elsewhere(
        self, large: LargeConfigs, kind: Kind, config: Config, found: Sequence[ConfigError]
    ) -> bytes:
        """The same for a large configuration: here nothing is done of what depends on its size."""
        pool, sizes, number = self._pools.large_validations, self._sizes(config), next(large.numbers)
        answer = await self._once(
            pool, ("answer", kind, config), lambda: large.answer(kind, config, sizes, (), number)
        )
        errors, warnings = await self._beyond(kind, config) if answer.good and not found else ([], [])
        errors = [*found, *errors]
        if errors or warnings:
            answer = await pool.run(lambda: large.answer(kind, config, errors, warnings, number))
        return answer.json

    def _elsewhere(self, config: Config) -> LargeConfigs | None:
        return self._context.large if is_large(config) else None

    async def _beyond(self, kind: Kind, config: Config) -> tuple[list[ConfigError], list[ConfigError]]:
        """Errors and warnings of a configuration that is good by itself."""
        others = self._copied() if kind.kind in COPYING_KINDS else ()
        if others and (errors := await self._conflicts(kind, config, others)):
            return list(errors), []
        return await self._reached(kind, config)

    async def _conflicts(
        self, kind: Kind, config: Config, others: Sequence[CopiedTopics]
    ) -> Sequence[ConfigError]:
        if (large := self._elsewhere(config)) is not None:
            return await self._pools.large_validations.run(lambda: large.conflicts(kind, config, others))
        try:
            return await self._pools.validations.run(
                lambda: conflicts(kind, config, others, self._context.plugin_process)
            )
        except PatternTooSlow as problem:
            return [ConfigError(problem.key, str(problem))]

    def close(self) -> None:
        self.reachability.close()
        if self._context.large is not None:
            self._context.large.close()

    async def _reached(self, kind: Kind, config: Config) -> tuple[list[ConfigError], list[ConfigError]]:
        """Clusters that can't be reached are errors or warnings, as `bridge.validate.reachability` says."""
        try:
            found = await self.reachability.find(kind, config)
        except Overloaded as busy:
            return [], [
                ConfigError(REACHABILITY, f"could not check whether the clusters can be reached: {busy}")
            ]
        unreachable = [
            ConfigError(servers_key(side), _invalid(side, config, text)) for side, text in found.away.items()
        ]
        for error in unreachable:
            log.warning("validation: %s", scrubbed(kind, config, error.message))
        target = servers_key(Side.TARGET)
        same = [ConfigError(target, _invalid(Side.TARGET, config, found.same))] if found.same else []
        return ([*same, *unreachable], []) if mode_of(config) == ERROR else (same, unreachable)

    async def check(self, name: str, config: Config) -> Sequence[IgnoredSetting]:
        """Returns the settings that have no effect. Raises ConfigRejected with all errors."""
        kind = self.kind(name)
        if (large := self._elsewhere(config)) is not None:
            judged = await self._once(
                self._pools.large_starts, ("judge", kind, config), lambda: large.judged(kind, config)
            )
        else:
            judged = await self._judged(self._pools.starts, kind, config)
        if judged.errors:
            raise rejected(kind, config, judged.errors)
        return judged.ignored

    async def _judged(self, pool: BoundedPool, kind: Kind, config: Config) -> ValidatedConfig:
        """Validates a configuration in a thread."""

        def judge() -> ValidatedConfig:
            try:
                return validated(kind, config, self._context.clients, self._context.plugin_process)
            except ConfigRejected as rejected:
                return ValidatedConfig(()).with_errors(rejected.errors)

        return await self._once(pool, ("judge", kind, config), judge)

    async def _once(self, pool: BoundedPool, what: tuple[str, Kind, Config], call: Callable[[], T]) -> T:
        """Checks a configuration in a thread, by `call`. Raises Overloaded, and NotAnswered on a timeout: at once while
        a check of the same configuration still hangs, so that a connector that restarts again and again takes one
        thread.

        The next attempt gets the result of a check that has ended too late. Otherwise a connector would never start on
        a machine so busy that each check takes too long.
        """
        question, kind, config = what
        key = question, kind.kind, frozenset(config.items())
        until, late = self._late.pop(key, (0.0, None))
        if time.monotonic() < until:
            found: T = late
            return found
        if key in self._hanging:
            raise NotAnswered(f"{CHECKING} has not ended since it was tried before")
        given_up = threading.Event()

        def checked() -> T:
            self._open.add(key)
            try:
                result = call()
                if given_up.is_set():
                    self._keep(key, result)
                return result
            finally:
                self._open.discard(key)
                self._hanging.discard(key)

        try:
            return await pool.run(checked)
        except NotAnswered:
            given_up.set()
            self._hanging.add(key)
            if key not in self._open:  # it has ended in the meantime
                self._hanging.discard(key)
            raise

    def _keep(self, key: _Checked, result: object) -> None:
        self._late[key] = time.monotonic() + LATE_SECONDS, result
        while len(self._late) > MOST_LATE:
            with suppress(KeyError, RuntimeError):  # the event loop takes entries out
                del self._late[next(iter(self._late))]


def _invalid(side: Side, config: Config, why: str) -> str:
    return invalid(servers_key(side), config.get(servers_key(side)), why)
