"""Checks connector configurations, in bounded pools, and keeps their secrets out of every answer."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from bridge.errors import ConfigError, ConfigRejected, ErrorCode, NotAnswered, NotFound, Overloaded
from bridge.mm2.java_regex import PatternTooSlow
from bridge.model.values import Side
from bridge.protocol.messages import PluginInfo, ValidateResponse
from bridge.protocol.operators import ConfigWarning, IgnoredSetting
from bridge.service.checks.config_sizes import too_large
from bridge.service.checks.context import CheckContext
from bridge.service.checks.plugin_process import conflicts, validated
from bridge.service.checks.reachability import ERROR, Reachability, mode_of, servers_key
from bridge.service.ipc.desired_state import Config
from bridge.service.pool import CHECKING, BoundedPool, Pools
from connectors.base import COPYING_KINDS, CopiedTopics, Kind
from connectors.config.cluster_options import REACHABILITY
from connectors.config.configdef import Type, ValidatedConfig
from connectors.config.secret_names import looks_secret
from connectors.config.validated import describe
from connectors.config.validators import invalid

log = logging.getLogger(__name__)

_Checked = tuple[str, frozenset[tuple[str, str | None]]]
"""Kind and configuration of a check."""
LEAST_SECRET = 4
"""Shorter values are not hidden in error texts: `a` would hide every a."""
LATE_SECONDS = 60.0
"""How long the result of a check that took too long waits for the next attempt."""
MOST_LATE = 32


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
        self._plugins: list[PluginInfo] = []
        self._pools = pools
        self._open = set[_Checked]()
        self._hanging = set[_Checked]()
        self._late: dict[_Checked, tuple[float, ValidatedConfig]] = {}
        """Results that nobody waited for any more, and until when they hold."""
        self._copied = copied
        self._sizes = sizes
        self.reachability = Reachability(context.probe)
        self.doctor = context.doctor

    @property
    def kinds(self) -> Mapping[str, Kind]:
        return self._context.kinds

    def plugins(self, version: str) -> list[PluginInfo]:
        self._plugins = self._plugins or [
            PluginInfo(
                kind=kind.kind,
                connector_class=kind.connector_class,
                version=version,
                config=[describe(key) for key in kind.definition.keys.values()],
            )
            for kind in self._context.kinds.values()
        ]
        return self._plugins

    def kind(self, name: str) -> Kind:
        kind = self._context.kinds.get(name)
        if kind is None:
            there = ", ".join(sorted(self._context.kinds)) or "none"
            raise NotFound(
                f"There is no kind of connector {name}; known kinds: {there}", code=ErrorCode.UNKNOWN_PLUGIN
            )
        return kind

    async def validate(self, name: str, config: Config) -> ValidateResponse:
        kind = self.kind(name)
        if (error := too_large(config)) is not None:  # and nothing else is worth the time
            return ValidatedConfig(()).with_errors([error]).response(kind.connector_class)
        judged = await self._judged(self._pools.validations, kind, config)
        judged = judged.with_errors(self._sizes(config))
        others = () if judged.errors or name not in COPYING_KINDS else self._copied()
        if others:
            judged = judged.with_errors(await self._conflicts(kind, config, others))
        judged, warnings = await self._reached(kind, config, judged)
        # A thread yields to other requests where the event loop would not.
        return await asyncio.to_thread(_answer, kind, config, judged, warnings)

    async def _conflicts(
        self, kind: Kind, config: Config, others: Sequence[CopiedTopics]
    ) -> Sequence[ConfigError]:
        try:
            return await self._pools.validations.run(
                lambda: conflicts(kind, config, others, self._context.plugin_process)
            )
        except PatternTooSlow as problem:
            return [ConfigError(problem.key, str(problem))]

    async def _reached(
        self, kind: Kind, config: Config, judged: ValidatedConfig
    ) -> tuple[ValidatedConfig, list[ConfigError]]:
        """Clusters that can't be reached are errors or warnings, as `bridge.validate.reachability` says."""
        if judged.errors:
            return judged, []
        try:
            errors = await self.reachability.errors(kind, config)
        except Overloaded as busy:
            return judged, [
                ConfigError(REACHABILITY, f"could not check whether the clusters can be reached: {busy}")
            ]
        unreachable = [
            ConfigError(servers_key(side), _invalid(side, config, text)) for side, text in errors.items()
        ]
        for error in unreachable:
            log.warning("validation: %s", _without(_secrets(kind, config), error.message))
        if mode_of(config) == ERROR:
            return judged.with_errors(unreachable), []
        return judged, unreachable

    async def check(self, name: str, config: Config) -> Sequence[IgnoredSetting]:
        """Returns the settings that have no effect. Raises ConfigRejected with all errors."""
        kind = self.kind(name)
        judged = await self._judged(self._pools.starts, kind, config)
        if judged.errors:
            raise rejected(kind, config, judged.errors)
        return judged.ignored

    async def _judged(self, pool: BoundedPool, kind: Kind, config: Config) -> ValidatedConfig:
        """Validates a configuration in a thread. Raises Overloaded, and NotAnswered on a timeout: at once while a check
        of the same configuration still hangs, so that a connector that restarts again and again takes one thread.

        The next attempt gets the result of a check that has ended too late. Otherwise a connector would never start on
        a machine so busy that each check takes too long.
        """
        key = kind.kind, frozenset(config.items())
        until, late = self._late.pop(key, (0.0, ValidatedConfig(())))
        if time.monotonic() < until:
            return late
        if key in self._hanging:
            raise NotAnswered(f"{CHECKING} has not ended since it was tried before")
        given_up = threading.Event()

        def judge() -> ValidatedConfig:
            self._open.add(key)
            try:
                try:
                    judged = validated(kind, config, self._context.clients, self._context.plugin_process)
                except ConfigRejected as rejected:
                    judged = ValidatedConfig(()).with_errors(rejected.errors)
                if given_up.is_set():
                    self._keep(key, judged)
                return judged
            finally:
                self._open.discard(key)
                self._hanging.discard(key)

        try:
            return await pool.run(judge)
        except NotAnswered:
            given_up.set()
            self._hanging.add(key)
            if key not in self._open:  # it has ended in the meantime
                self._hanging.discard(key)
            raise

    def _keep(self, key: _Checked, judged: ValidatedConfig) -> None:
        self._late[key] = time.monotonic() + LATE_SECONDS, judged
        while len(self._late) > MOST_LATE:
            with suppress(KeyError, RuntimeError):  # the event loop takes entries out
                del self._late[next(iter(self._late))]


def _invalid(side: Side, config: Config, why: str) -> str:
    return invalid(servers_key(side), config.get(servers_key(side)), why)


def _answer(
    kind: Kind, config: Config, judged: ValidatedConfig, warnings: Sequence[ConfigError]
) -> ValidateResponse:
    """The answer without secrets."""
    secrets = _secrets(kind, config)
    answer = judged.response(kind.connector_class, [_warning(each, secrets) for each in warnings])
    if not secrets or not answer.error_count:
        return answer
    entries = [
        entry.model_copy(
            update={
                "value": entry.value.model_copy(
                    update={"errors": [_without(secrets, text) for text in entry.value.errors]}
                )
            }
        )
        for entry in answer.configs
    ]
    return answer.model_copy(update={"configs": entries})


def _warning(error: ConfigError, secrets: list[str]) -> ConfigWarning:
    return ConfigWarning(key=error.key, message=_without(secrets, error.message))


def rejected(kind: Kind, config: Config, errors: Sequence[ConfigError]) -> ConfigRejected:
    """Builds the error with all errors of the configuration, and none of its secrets."""
    secrets = _secrets(kind, config)
    return ConfigRejected([replace(error, message=_without(secrets, error.message)) for error in errors])


def scrubbed(kind: Kind, config: Mapping[str, str | None], text: str) -> str:
    """The text without the configuration's secrets."""
    return _without(_secrets(kind, config), text)


def _secrets(kind: Kind, config: Mapping[str, str | None]) -> list[str]:
    """Values that must not be shown: of PASSWORD keys, and of keys that are named like secrets."""
    hidden = {key.name for key in kind.definition.keys.values() if key.type is Type.PASSWORD}
    secrets = {
        value
        for name, value in config.items()
        if value and len(value) >= LEAST_SECRET and (name in hidden or looks_secret(name))
    }
    return sorted(secrets, key=len, reverse=True)


def _without(secrets: list[str], text: str) -> str:
    for secret in secrets:
        text = text.replace(secret, "[hidden]")
    return text
