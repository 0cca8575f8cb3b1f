"""Keeps one Spark for connectors that have `spark.shared=true` and are alike in their other `spark.*` keys.

A process of its own (shared_spark_main) holds the JVM. Each connector keeps a driver process, which runs its jobs
there.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping

from bridge.backoff import Backoff
from bridge.child_process import Callbacks, ChildProcess, Program, python_command
from bridge.logs.setup import DRIVER
from bridge.pipeline.driver.frames import (
    LONGEST,
    Gateway,
    pack_cancel,
    pack_settings,
    pack_stop,
    read_line,
    unpack_gateway,
)
from bridge.pipeline.driver.spark_settings import for_sharing

log = logging.getLogger(__name__)

MODULE = "bridge.pipeline.driver.shared_spark_main"
FIRST_BACKOFF, _MOST_BACKOFF = 1.0, 60.0
_STEADY_SECONDS = 300.0
_STOP_SECONDS = 5.0


class SharedSparks:
    """Keeps a shared Spark for each set of equal settings. For use in one event loop."""

    def __init__(self) -> None:
        self._running: dict[frozenset[tuple[str, str]], SharedSpark] = {}

    def join(self, connector: str, props: Mapping[str, str]) -> SharedSpark:
        """Returns the Spark of connectors with these settings; starts it for the first of them. Each `join` needs one
        `leave`."""
        settings = for_sharing(props)
        key = frozenset(settings.items())
        spark = self._running.get(key)
        if spark is None:
            spark = self._running[key] = SharedSpark(settings)
        spark.users.append(connector)
        return spark

    async def leave(self, connector: str, spark: SharedSpark) -> None:
        """Ends what the connector's driver has left behind, and Spark with its last connector."""
        spark.users.remove(connector)
        spark.cancel(connector)
        if not spark.users:
            self._running = {
                key: shared_spark for key, shared_spark in self._running.items() if shared_spark is not spark
            }
            await spark.stop()


class SharedSpark:
    """A Spark that is started again when it ends."""

    def __init__(self, settings: Mapping[str, str], module: str = MODULE) -> None:
        """`module`: what has the JVM, or takes its place in tests."""
        self.users: list[str] = []
        self.problem = ""
        """Why it does not run; "" while it does, or is started for the first time."""
        self._settings = settings
        self._gateway: Gateway | None = None
        self._ready = asyncio.Event()
        program = Program(
            "the shared Spark",
            python_command(module, logging.getLevelName(log.getEffectiveLevel())),
            process=DRIVER,
            steady_seconds=_STEADY_SECONDS,
            limit=LONGEST,
            own_group=True,
        )
        callbacks = Callbacks(self._started, self._read, self._ended)
        self._process = ChildProcess(program, callbacks, Backoff(FIRST_BACKOFF, _MOST_BACKOFF))
        self._process.start()

    @property
    def pid(self) -> int | None:
        return self._process.pid

    async def gateway(self) -> Gateway:
        """Returns where the JVM listens, once it does."""
        await self._ready.wait()
        assert self._gateway is not None
        return self._gateway

    def cancel(self, connector: str) -> None:
        """Ends the jobs of a driver that has ended: without this its slices would copy until their lease is over."""
        self._process.send(pack_cancel(connector))

    async def stop(self) -> None:
        await self._process.stop(pack_stop(), _STOP_SECONDS)

    def _started(self) -> None:
        self._process.send(pack_settings(self._settings))

    async def _read(self, output: asyncio.StreamReader) -> None:
        while line := await output.readline():
            with contextlib.suppress(ValueError):
                gateway = unpack_gateway(read_line(line))
                if gateway is not None:
                    self._gateway, self.problem = gateway, ""
                    self._ready.set()

    def _ended(self, how: str, pause: float) -> bool:
        self._ready.clear()
        names = ", ".join(sorted(self.users))
        self.problem = f"the Spark that {names} share ended ({how}) and is started again; see the log"
        log.error("the Spark that %s share ended (%s); next start in %.0f s", names, how, pause)
        return True
