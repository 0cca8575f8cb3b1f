"""Decides who may use the service: by the Host header of a request, the token and the certificate that it shows, and
what it asks for. Who shows wrong tokens again and again waits.

Maps each endpoint to the token that it requires: for access control, the OpenAPI document and docs/security.md.
"""

from __future__ import annotations

import hmac
import ipaddress
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from starlette.routing import compile_path
from starlette.types import Scope

from bridge.errors import Forbidden, Misdirected, TooManyFailedLogins, Unauthorized
from bridge.model.addresses import network_of
from bridge.service.http.connections import LOGIN, Login
from bridge.tokens import Tokens

_CONNECTOR = "/v1/connectors/{name}"
_TASK = f"{_CONNECTOR}/tasks/{{n}}"
_CLUSTER = f"{_CONNECTOR}/clusters/{{side}}"
OPEN_PATHS = ("/health", "/metrics")
CERTIFICATE = "client_certificate"
"""Key of a request's state: the subject of the certificate that the client has shown, as RFC 4514 writes it."""
MOST_FAILED = 100
"""Different wrong tokens of one address in a minute."""
_MINUTE = 60.0
_MOST_ADDRESSES = 1_000
"""Whose wrong tokens are counted in a minute."""
_SHOWN = 255
"""The longest host name."""


class Role(StrEnum):
    READ = "read"
    """The read token is enough."""
    CHANGE = "change"
    """Changes something, or shows a connector's configuration: the read token is not enough."""


ROLES = {
    ("GET", "/health"): Role.READ,
    ("GET", "/health/live"): Role.READ,
    ("GET", "/health/ready"): Role.READ,
    ("GET", "/metrics"): Role.READ,
    ("GET", "/v1/openapi.json"): Role.READ,
    ("GET", "/v1/version"): Role.READ,
    ("GET", "/v1/plugins"): Role.READ,
    ("PUT", "/v1/plugins/{kind}/validate"): Role.CHANGE,
    ("GET", "/v1/readiness"): Role.READ,
    ("GET", "/v1/groups"): Role.READ,
    ("GET", "/v1/groups/"): Role.READ,
    ("GET", "/v1/groups//explain"): Role.READ,
    ("GET", "/v1/groups/{group}"): Role.READ,
    ("GET", "/v1/groups/{group}/explain"): Role.READ,
    ("GET", "/v1/connectors"): Role.READ,
    ("PUT", _CONNECTOR): Role.CHANGE,
    ("DELETE", _CONNECTOR): Role.CHANGE,
    ("PUT", f"{_CONNECTOR}/stop"): Role.CHANGE,
    ("POST", f"{_CONNECTOR}/refresh"): Role.CHANGE,
    ("POST", f"{_CONNECTOR}/skip"): Role.CHANGE,
    ("POST", f"{_CONNECTOR}/offsets"): Role.CHANGE,
    ("GET", f"{_CONNECTOR}/status"): Role.READ,
    ("GET", f"{_CONNECTOR}/progress"): Role.READ,
    ("GET", f"{_CONNECTOR}/gaps"): Role.READ,
    ("GET", f"{_CONNECTOR}/doctor"): Role.CHANGE,
    ("GET", f"{_CLUSTER}/replication-hops"): Role.READ,
    ("GET", f"{_CLUSTER}/heartbeat-topics"): Role.READ,
    ("GET", f"{_CLUSTER}/checkpoint-topics"): Role.READ,
    ("GET", f"{_CLUSTER}/upstream-clusters"): Role.READ,
    ("GET", f"{_CLUSTER}/remote-topics"): Role.READ,
    ("GET", f"{_CLUSTER}/consumer-offsets"): Role.READ,
    ("POST", "/v1/sessions"): Role.CHANGE,
    ("PUT", _TASK): Role.CHANGE,
    ("DELETE", _TASK): Role.CHANGE,
    ("POST", f"{_TASK}/poll"): Role.CHANGE,
    ("POST", f"{_TASK}/idle"): Role.CHANGE,
    ("POST", f"{_TASK}/ack"): Role.CHANGE,
    ("POST", "/v1/failover"): Role.CHANGE,
    ("POST", "/v1/failover/rollback"): Role.CHANGE,
    ("POST", "/v1/failover/back"): Role.CHANGE,
    ("GET", "/v1/failover/plan"): Role.READ,
}


_READING = tuple(compile_path(path)[0] for (_, path), role in ROLES.items() if role is Role.READ)


def role_of(method: str, path: str) -> Role:
    """The role that a request needs; CHANGE for what the table does not have."""
    reads = method in ("GET", "HEAD") and any(pattern.match(path) for pattern in _READING)
    return Role.READ if reads else Role.CHANGE


class Credential(StrEnum):
    """What a request shows where it has to show a token."""

    AUTH = "auth_token"
    READ = "read_token"
    WRONG = "wrong token"
    NONE = "no token"


@dataclass(frozen=True, slots=True)
class Caller:
    """Whose request it is. `shown`: None where nobody has to show a token; `login`: of the connection."""

    shown: Credential | None
    certificate: str | None
    address: str | None
    login: Login | None

    @property
    def is_stranger(self) -> bool:
        """Whether a token is asked for, and not shown, as on open paths."""
        return self.shown in (Credential.WRONG, Credential.NONE)


class Access:
    """Access control.

    - `tokens`: returns the current ones.
    - `hosts`: Host headers that are accepted, None for any.
    - `open_paths`: paths that may be read, with all below them, without a token.
    - `changing`: subjects of the client certificates that may change things, None for all.
    - `most_failed`: different wrong tokens of one address in a minute.
    """

    def __init__(
        self,
        tokens: Callable[[], Tokens] = Tokens,
        *,
        open_paths: Sequence[str] = OPEN_PATHS,
        hosts: frozenset[str] | None = None,
        changing: frozenset[str] | None = None,
        most_failed: int = MOST_FAILED,
    ) -> None:
        self._tokens = tokens
        self._open = tuple(open_paths)
        self._hosts, self._changing = hosts, changing
        self._failed = FailedLogins(most_failed)

    def caller(self, scope: Scope, headers: Mapping[bytes, bytes]) -> Caller:
        state: Mapping[str, Any] = scope.get("state") or {}
        client = scope.get("client")
        address = None if client is None else client[0]
        return Caller(self._shown(headers), state.get(CERTIFICATE), address, state.get(LOGIN))

    def check(self, method: str, path: str, headers: Mapping[bytes, bytes], caller: Caller) -> None:
        """Raises Misdirected, Unauthorized, Forbidden or TooManyFailedLogins where a request is not allowed."""
        self._check_host(headers)
        role = role_of(method, path)
        if caller.shown is None:
            _check_page(method, headers)
        else:
            if caller.shown is not Credential.NONE:
                self._failed.check(caller, headers[b"authorization"])
            self._check_token(method, path, role, caller.shown)
        if role is Role.CHANGE and self._changing is not None and caller.certificate not in self._changing:
            raise Forbidden(
                f"The certificate of {caller.certificate} does not allow {method} here: tls_changing_subjects does not "
                "name it"
            )

    def _shown(self, headers: Mapping[bytes, bytes]) -> Credential | None:
        tokens, header = self._tokens(), headers.get(b"authorization")
        if not tokens.changing:
            return None
        if header is None:
            return Credential.NONE
        if _is_one(header, tokens.changing):
            return Credential.AUTH
        return Credential.READ if _is_one(header, tokens.reading) else Credential.WRONG

    def _check_token(self, method: str, path: str, role: Role, shown: Credential) -> None:
        if shown is Credential.AUTH:
            return
        if role is Role.READ and (shown is Credential.READ or self._is_open(path)):
            return
        if shown is Credential.READ:
            raise Forbidden(
                f"The read token does not allow {method} here: use the token of auth_token or auth_token_file"
            )
        if shown is Credential.NONE:
            raise Unauthorized("This service requires a bearer token (Authorization: Bearer …)")
        raise Unauthorized("The bearer token is not valid for this service")

    def _is_open(self, path: str) -> bool:
        return any(path == open_ or path.startswith(f"{open_}/") for open_ in self._open)

    def _check_host(self, headers: Mapping[bytes, bytes]) -> None:
        """Refuses a Host that is not one of ours. A web page whose host name points at our address (DNS rebinding)
        sends that name. It can't send an IP address: one is always accepted, as Kubernetes' probes need it."""
        if self._hosts is None:
            return
        host = headers.get(b"host", b"")[:_SHOWN].decode("latin-1")
        name = _host(host)
        if name not in self._hosts and not _is_address(name):
            raise Misdirected(
                f"The Host header {host!r} is not a name of this service: use its IP address, or add it "
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


class FailedLogins:
    """Counts different wrong tokens by address and minute; of IPv6 by network, as connections are. Who tries tokens has
    to wait for the next minute, with a right one too, or else trying would go on; connections that have logged in
    before go on, with what they have logged in by. A worker that shows an old token again and again shows one, and
    keeps nobody beside it out."""

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._clock = most, clock
        self._until = 0.0
        self._failed: dict[str, set[int]] = {}
        """Hashes of tokens."""

    def check(self, caller: Caller, token: bytes) -> None:
        """Counts a wrong token. Raises TooManyFailedLogins where its address, or that of a right one, has had too
        many."""
        if caller.login is not None and caller.login.shown == caller.shown:
            return
        now = self._clock()
        if now >= self._until:
            self._failed.clear()
            self._until = now + _MINUTE
        network = network_of(caller.address or "")
        failed = self._failed.get(network, set())
        if len(failed) >= self._most:
            raise TooManyFailedLogins(network, self._most, self._until - now)
        if caller.shown is Credential.WRONG:
            self._failed.setdefault(network, failed).add(hash(token))
            if len(self._failed) > _MOST_ADDRESSES:
                del self._failed[next(iter(self._failed))]


def _is_one(sent: bytes, tokens: Iterable[str]) -> bool:
    """Compares in constant time, so that the time reveals nothing of a token."""
    scheme, _, token = sent.partition(b" ")
    shown = scheme.capitalize() + b" " + token.strip()
    return any(hmac.compare_digest(shown, f"Bearer {token}".encode()) for token in tokens)


def _host(header: str) -> str:
    """The name in a Host header, without port, brackets and trailing dot."""
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.partition(":")[0].rstrip(".").lower()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
