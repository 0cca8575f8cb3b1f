"""Serves TLS with a certificate, key, client CA and revocation lists that may be replaced while the service runs.

Reloads tokens and certificates when their files change, without a restart.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Generic, NamedTuple, Self, TypeVar

from bridge.logs.lines import iso
from bridge.settings import ServerContext

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
T = TypeVar("T")
_Look = tuple[tuple[int, ...] | str, ...]


class CurrentContext(ssl.SSLContext):
    """Uses the current context for each new connection. Each set of files has a context of its own, so that TLS
    sessions of an older one are not resumed: a client whose CA was removed could continue with them."""

    _current: Callable[[], ServerContext]

    def __new__(cls, current: Callable[[], ServerContext]) -> Self:
        made = super().__new__(cls, ssl.PROTOCOL_TLS_SERVER)
        made._current = current
        return made

    @property
    def current(self) -> ServerContext:
        return self._current()

    def wrap_bio(self, *args: Any, **kwargs: Any) -> ssl.SSLObject:
        return self._current().wrap_bio(*args, **kwargs)


def lists_problem(context: ServerContext) -> str | None:
    """Says that a revocation list has ended; None while none has."""
    if time.time() < context.lists_end:
        return None
    return (
        f"a list of tls_client_crl has ended at {iso(context.lists_end)}, and no client is accepted until the file has "
        "current ones"
    )


class ClientCertificate(NamedTuple):
    """What a client has shown: its subject, as RFC 4514 writes it, and for how many seconds it counts yet."""

    subject: str
    seconds: float


def client_certificate(connection: ssl.SSLObject, context: CurrentContext) -> ClientCertificate | None:
    """Returns what the client has shown; None without a certificate. It counts no longer than its own time, and that of
    the revocation lists, which a resumed session does not look at; and not at all once files were replaced that the
    handshake began with."""
    shown = connection.getpeercert(binary_form=True)
    if shown is None:
        return None
    from cryptography import x509

    certificate = x509.load_der_x509_certificate(shown)
    ends = min(certificate.not_valid_after_utc.timestamp(), context.current.lists_end)
    seconds = ends - time.time() if connection.context is context.current else 0.0
    return ClientCertificate(certificate.subject.rfc4514_string(), seconds)


class Rotating(Generic[T]):
    """A value that `make` builds from files. When that fails it is logged once, and the last value stays in use."""

    def __init__(
        self,
        what: str,
        files: Sequence[Path],
        make: Callable[[], T],
        problem: Callable[[T], str | None] = lambda _: None,
    ) -> None:
        """`problem`: what is wrong with a value by now, though its files are as they were."""
        self._what = what
        self._files = tuple(files)
        self._make = make
        self._problem = problem
        self._told: str | None = None
        self.replaced: Callable[[], None] = lambda: None
        """Called in the event loop."""
        self._made_of = self._last = self._look()
        self.value = make()

    def look(self) -> bool:
        """Rebuilds the value when the files have changed, and not again since the last look: a certificate and its key
        are replaced one after the other. True for a new value."""
        before, self._last = self._last, self._look()
        if self._last == self._made_of or self._last != before:
            return False
        self._made_of = self._last
        try:
            self.value = self._make()
        except (OSError, ValueError) as error:
            log.error("%s changed and can't be used: %s. The previous one stays in use", self._what, error)
            return False
        log.info("%s changed and is in use", self._what)
        return True

    def tell(self) -> None:
        """Logs what is wrong with the value, once."""
        problem = self._problem(self.value)
        if problem is not None and problem != self._told:
            log.error("%s: %s", self._what, problem)
        self._told = problem

    def _look(self) -> _Look:
        return tuple(_signature(path) for path in self._files)


async def watch(rotating: Sequence[Rotating[object]]) -> None:
    """Looks at the files once a second until cancelled."""
    for files in rotating:
        files.tell()
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        for files in rotating:
            if await asyncio.to_thread(files.look):
                files.replaced()
            files.tell()


def _signature(path: Path) -> tuple[int, ...] | str:
    try:
        status = path.stat()
    except OSError as error:
        return error.strerror or "?"
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
