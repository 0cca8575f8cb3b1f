"""Decides who may use the service: by the Host header of a request, its token, and what it asks for."""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Callable, Iterable, Mapping, Sequence

from bridge.errors import Forbidden, Misdirected, Unauthorized
from bridge.service.http.audit_log import Caller
from bridge.service.http.roles import Role, role_of
from bridge.tokens import Tokens

OPEN_PATHS = ("/health", "/metrics")
_SHOWN = 255
"""The longest host name."""


class Access:
    """Access control. `tokens` returns the current ones; `hosts`: Host headers that are accepted, None for any;
    `open_paths`: paths that may be read, with all below them, without a token."""

    def __init__(
        self,
        tokens: Callable[[], Tokens] = Tokens,
        *,
        open_paths: Sequence[str] = OPEN_PATHS,
        hosts: frozenset[str] | None = None,
    ) -> None:
        self._tokens = tokens
        self._open = tuple(open_paths)
        self._hosts = hosts

    def check(self, method: str, path: str, headers: Mapping[bytes, bytes]) -> None:
        """Raises Misdirected, Unauthorized or Forbidden where a request is not allowed."""
        self._check_host(headers)
        tokens = self._tokens()
        if not tokens.changing:
            _check_page(method, headers)
            return
        given = headers.get(b"authorization")
        if given is not None and _is_one(given, tokens.changing):
            return
        if role_of(method, path) is Role.READ:
            if not self._is_open(path) and (given is None or not _is_one(given, tokens.reading)):
                raise _unauthorized(given)
            return
        if given is not None and _is_one(given, tokens.reading):
            raise Forbidden(
                f"The read token does not allow {method} here: use the token of auth_token or auth_token_file"
            )
        raise _unauthorized(given)

    def caller(self, headers: Mapping[bytes, bytes]) -> Caller | None:
        """Returns what a request has shown; None where nobody has to show a token."""
        tokens, given = self._tokens(), headers.get(b"authorization")
        if not tokens.changing:
            return None
        if given is None:
            return Caller.NOTHING
        if _is_one(given, tokens.changing):
            return Caller.CHANGING
        return Caller.READING if _is_one(given, tokens.reading) else Caller.WRONG

    def _is_open(self, path: str) -> bool:
        return any(path == open_ or path.startswith(f"{open_}/") for open_ in self._open)

    def _check_host(self, headers: Mapping[bytes, bytes]) -> None:
        """Refuses a Host that is not one of ours. A web page whose host name points at our address (DNS rebinding)
        sends that name. It can't send an IP address: one is always accepted, as Kubernetes' probes need it."""
        if self._hosts is None:
            return
        given = headers.get(b"host", b"")[:_SHOWN].decode("latin-1")
        name = _host(given)
        if name not in self._hosts and not _is_address(name):
            raise Misdirected(
                f"The Host header {given!r} is not a name of this service: use its IP address, or add it "
                "to allowed_hosts (MIRROR_BRIDGE_ALLOWED_HOSTS)"
            )


def _check_page(method: str, headers: Mapping[bytes, bytes]) -> None:
    """Refuses writes of web pages. Browsers send a page's POST without a preflight, and add the page's Origin; API
    clients don't."""
    if method not in ("GET", "HEAD") and b"origin" in headers:
        origin = headers[b"origin"][:_SHOWN].decode("latin-1")
        raise Forbidden(
            f"The web page {origin!r} may only read: without a token, pages must not change anything"
        )


def _unauthorized(given: bytes | None) -> Unauthorized:
    if given is None:
        return Unauthorized("This service requires a bearer token (Authorization: Bearer …)")
    return Unauthorized("The bearer token is not valid for this service")


def _is_one(given: bytes, tokens: Iterable[str]) -> bool:
    """Compares in constant time, so that the time reveals nothing of a token."""
    scheme, _, token = given.partition(b" ")
    shown = scheme.capitalize() + b" " + token.strip()
    return any(hmac.compare_digest(shown, f"Bearer {each}".encode()) for each in tokens)


def _host(given: str) -> str:
    """The name in a Host header, without port, brackets and trailing dot."""
    if given.startswith("["):
        return given[1:].partition("]")[0]
    return given.partition(":")[0].rstrip(".").lower()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
