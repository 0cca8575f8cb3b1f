"""Serves TLS with a certificate, key, client CA and revocation lists that may be replaced while the service runs."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable
from typing import Any, NamedTuple, Self

from bridge.logs.lines import iso
from bridge.settings import ServerContext


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
