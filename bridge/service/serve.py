"""`mirror-bridge serve`: builds the service, listens, and shuts down on SIGTERM or SIGINT.

When the HTTP process looks for cyclic garbage: a look at all objects holds up every answer, however it began.

Python looks by itself whenever the objects that are alive have grown by a quarter. While a thread of the pools parses a
configuration of a megabyte that happened again and again, for up to 120 ms. So only young objects are looked at by
themselves, and all of them when no call is under way: then there are few.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import uvicorn
from fastapi import FastAPI

from bridge import VERSION
from bridge.environment import forget_secrets, keep_folders, refuse_near_endpoints
from bridge.logs.setup import HTTP, set_up_logs
from bridge.service.checks.context import CheckContext
from bridge.service.checks.validation import Checker, size_errors
from bridge.service.http.access import Access
from bridge.service.http.app import build_routes, create_app
from bridge.service.http.audit_log import set_up_audit_log
from bridge.service.http.connections import ConnectionLimits, Listener
from bridge.service.http.tls import CurrentContext, Rotating, lists_problem, watch
from bridge.service.http.uvicorn_protocol import limited
from bridge.service.pool import pools
from bridge.service.rounds.rounds_process import RoundsProcess
from bridge.service.service import Service
from bridge.service.state.delivery import Deliveries, LongPolls
from bridge.service.state.sessions import Sessions, running_clock
from bridge.service.state.snapshots import Snapshots, copied_topics
from bridge.service.state.source_offsets import OpenOffsetRequests
from bridge.service.state.task_table import TaskTable
from bridge.service.wiring import ROUNDS_FACTORY, alter_offsets, check_context, mirror_queries
from bridge.settings import ServerContext, Settings, misspelt

log = logging.getLogger(__name__)


LOOK_SECONDS = 5.0
MOST_SECONDS = 120.0
"""From one look to the next, however busy the pools are."""
_NEVER = 1_000_000_000
SWITCH_SECONDS = 0.0005
"""Threads of the pools yield to the event loop after this time, not after Python's 5 ms."""
RESERVED_FILES = 256
"""Open files for everything but clients' connections."""
MOST_FILES = 65_536
HTTP_SHARE = 0.3
"""Share of the shutdown grace for open requests; the rest is for the rounds process."""


def keep_what_exists() -> None:
    """Excludes all that exists now from garbage collection. From here on `collect` looks at all the rest."""
    gc.collect()
    gc.freeze()
    young, middle, _ = gc.get_threshold()
    gc.set_threshold(young, middle, _NEVER)


def due(idle_for: float, since: float) -> bool:
    """Whether to look now. `idle_for`: for how long no call is under way, `since`: since the last look; in seconds.
    Pure."""
    return (idle_for > 0 and since >= LOOK_SECONDS) or since >= MOST_SECONDS


async def collect(in_use: Callable[[], int]) -> None:
    """Collects when it is due, until cancelled. `in_use`: how many calls are under way."""
    loop = asyncio.get_running_loop()
    last = busy = loop.time()
    while True:
        await asyncio.sleep(LOOK_SECONDS / 10)
        now = loop.time()
        busy = now if in_use() else busy
        if due(now - busy, now - last):
            gc.collect()
            last = loop.time()


class Beside(Protocol):
    """Something that runs beside the service in its process, for as long as it does."""

    async def start(self) -> None: ...

    async def close(self) -> None: ...


class CannotListen(Exception):
    """The service can't listen on its address; the text is one line."""


def build_service(settings: Settings, checks: CheckContext, factory: str = ROUNDS_FACTORY) -> Service:
    sessions = Sessions(running_clock())
    snapshots, long_polls = Snapshots(), LongPolls()
    table = TaskTable(lambda: time.monotonic() * 1000, sessions.foreign)
    deliveries, offset_requests = (
        Deliveries(table, long_polls, snapshots),
        OpenOffsetRequests(long_polls.wake),
    )
    waiting = pools(settings.pool_size, settings.pool_queue, _check_seconds(settings))
    return Service(
        table=table,
        sessions=sessions,
        snapshots=snapshots,
        rounds=RoundsProcess(
            factory,
            snapshots,
            long_polls.wake,
            deliveries.accept,
            offset_requests.put,
            settings.log_level,
        ),
        checker=Checker(
            checks,
            waiting,
            lambda: copied_topics(table, snapshots),
            lambda config: size_errors(table, config),
        ),
        pools=waiting,
        long_polls=long_polls,
        deliveries=deliveries,
        offset_requests=offset_requests,
        queries=mirror_queries,
        altering=alter_offsets,
        grace=settings.shutdown_grace_seconds * (1 - HTTP_SHARE) - 0.5,
    )


def _check_seconds(settings: Settings) -> float:
    """Longer than the import of users' modules, which has a timeout and an error of its own."""
    return max(settings.check_seconds, settings.import_seconds + 1)


def run(
    settings: Settings,
    checks: CheckContext | None = None,
    factory: str = ROUNDS_FACTORY,
    beside: Callable[[Service, str], Beside] | None = None,
) -> None:
    """Serves until a signal ends it. Raises CannotListen before anything is started. `beside` makes what is started
    once the service serves, and closed before it ends; it gets the service and its URL."""
    set_up_logs(HTTP, settings.log_level, settings.log_format)
    for sentence in misspelt(os.environ):
        log.warning("%s", sentence)
    try:
        set_up_audit_log(settings.audit_log_file)
    except OSError as error:
        raise CannotListen(
            f"audit_log_file {settings.audit_log_file} can't be written: {error.strerror}"
        ) from None
    forget_secrets(os.environ)
    # Files are read again later, by other processes: a link may lead elsewhere then.
    keep_folders(settings.policy().folders)
    if not settings.policy().token_endpoints:
        refuse_near_endpoints()
    limits = _limits(settings)
    listener = _listen(settings, limits)
    tokens = Rotating("the token file", settings.token_files(), settings.tokens)
    certificate = _certificate(settings)
    service = build_service(settings, checks or check_context(settings.policy()), factory)
    app = create_app(
        service,
        access=Access(
            lambda: tokens.value,
            open_paths=settings.open_paths,
            hosts=settings.hosts(),
            changing=settings.changing_subjects(),
            most_failed=settings.max_failed_logins,
        ),
        insecure=settings.insecure(),
        max_body=settings.max_body_bytes,
    )
    build_routes(app)
    sys.setswitchinterval(SWITCH_SECONDS)
    server = DrainingServer(_config(app, settings, limits), service)
    server.watch(tokens)
    if certificate is not None:
        server.serve_tls(certificate)
    host, port = listener.getsockname()[:2]
    scheme = "http" if settings.tls_cert is None else "https"
    shown = f"[{host}]" if ":" in host else host
    url = f"{scheme}://{shown}:{port}"
    log.info("Mirror Bridge %s listens on %s", VERSION, url)
    if beside is not None:
        server.run_beside(beside(service, url))
    if (exposed := settings.exposed()) is not None:
        log.warning("%s", exposed)
    for remark in settings.token_remarks():
        log.warning("%s", remark)
    asyncio.run(server.serve([listener]))
    log.info("shutdown complete")


class DrainingServer(uvicorn.Server):
    """A uvicorn server that answers held polls before it waits for open requests, and exits with code 0."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service
        self._rotating: list[Rotating[Any]] = []
        self._collecting: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._beside: Beside | None = None

    def run_beside(self, beside: Beside) -> None:
        self._beside = beside

    def watch(self, rotating: Rotating[Any]) -> None:
        self._rotating.append(rotating)

    def serve_tls(self, certificate: Rotating[ServerContext]) -> None:
        self.config.ssl = CurrentContext(lambda: certificate.value)
        certificate.replaced = self._end_connections
        self.watch(certificate)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        keep_what_exists()
        self._collecting = asyncio.create_task(collect(lambda: self._service.pools.in_use), name="garbage")
        self._watching = asyncio.create_task(watch(self._rotating), name="files that may change")
        if self._beside is not None:
            await self._beside.start()

    def _end_connections(self) -> None:
        """Closes each connection after its answer: clients reconnect, with a certificate that is valid now."""
        for connection in list(self.server_state.connections):
            connection.shutdown()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for task in (self._collecting, self._watching):
            if task is not None:
                task.cancel()
        if self._beside is not None:
            await self._beside.close()
        log.info("shutting down, answering %d held poll(s)", self._service.long_polls.count)
        self._service.long_polls.drain()
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """uvicorn raises the signal again after its shutdown, which makes an orderly end look like a
        crash."""
        loop = asyncio.get_running_loop()
        for which in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(which, self.handle_exit, which, None)
        yield


def _certificate(settings: Settings) -> Rotating[ServerContext] | None:
    if settings.tls_cert is None:
        return None
    return Rotating("the TLS certificate", settings.tls_files(), settings.tls, lists_problem)


def _config(app: FastAPI, settings: Settings, limits: ConnectionLimits) -> uvicorn.Config:
    config = uvicorn.Config(
        app,
        http=limited(limits),
        ws="none",
        loop="asyncio",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=75,
        h11_max_incomplete_event_size=settings.max_header_bytes,
        timeout_graceful_shutdown=max(1, int(settings.shutdown_grace_seconds * HTTP_SHARE)),
    )
    config.load()
    return config


def _limits(settings: Settings) -> ConnectionLimits:
    """Limits connections to the number of files that this process may open."""
    most = min(settings.max_connections, _open_files() - RESERVED_FILES)
    if most < settings.max_connections:
        log.warning(
            "max_connections is %d instead of %d: the limit on open files (ulimit -n) is too low",
            most,
            settings.max_connections,
        )
    return ConnectionLimits(
        connections=most,
        connections_per_address=min(settings.max_connections_per_address, max(1, most * 3 // 4)),
        head_seconds=settings.head_seconds,
        body_seconds=settings.body_seconds,
    )


def _open_files() -> int:
    """Raises the limit on open files as far as the system allows."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = hard if hard != resource.RLIM_INFINITY else MOST_FILES
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(limit, MOST_FILES), hard))
    return min(limit, MOST_FILES)


def _listen(settings: Settings, limits: ConnectionLimits) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = Listener(family, kind, protocol, limits=limits, tls=settings.tls_cert is not None)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        # Listens now: a port in use is reported here, not by a stack trace later.
        listener.listen(2048)
        listener.setblocking(False)
    except OSError as error:
        raise CannotListen(
            f"can't listen on {settings.host}:{settings.port}: {error.strerror or error}"
        ) from None
    return listener
