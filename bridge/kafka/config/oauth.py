"""Tokens for OAUTHBEARER: by client credentials from an identity provider, and those that nobody has signed."""

from __future__ import annotations

import asyncio
import base64
import ipaddress
import json
import os
import socket
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import SplitResult, urlsplit

from bridge.environment import near_endpoints_refused
from bridge.kafka.config.tokens import NoToken, Token
from bridge.model.addresses import is_near, parse_address

HTTP_HOSTS = "MIRROR_BRIDGE_OAUTH_HTTP_HOSTS"
"""Variable of the environment: hosts whose token endpoints may be asked over http, with commas between them."""
SECONDS = 9.5
"""For a whole response: less than what the keeper of tokens waits, so that the reason is ours."""
_LIFE = 300.0
"""Seconds, where the provider does not say how long a token lives."""
_LONGEST_LIFE = 10 * 365 * 86_400.0
_UNSECURED_LIFE = 3600.0
_LIMIT = 64 << 10
"""Of a response: tokens have some thousands."""


@dataclass(frozen=True, slots=True)
class ClientCredentials:
    """A Source: what the identity provider wants to see."""

    url: str
    client_id: str
    secret: str = field(repr=False)
    scope: str = ""
    extensions: Mapping[str, str] = field(default_factory=dict, hash=False)

    def obtain(self) -> Token:
        asked = time.time()
        value, life = asyncio.run(fetch(self))
        return Token(value, asked + life, self.client_id, self.extensions)

    @property
    def name(self) -> str:
        return self.url

    @property
    def keeps(self) -> bool:
        return True

    def identity(self) -> object:
        return ["client", self.url, self.client_id, self.secret, self.scope, dict(self.extensions)]


@dataclass(frozen=True, slots=True)
class Unsecured:
    """A Source of tokens that nobody has signed; for tests and closed networks, as in Java."""

    subject: str
    extensions: Mapping[str, str] = field(default_factory=dict, hash=False)

    def obtain(self) -> Token:
        now = time.time()
        return Token(_unsecured(self.subject, now), now + _UNSECURED_LIFE, self.subject, self.extensions)

    @property
    def name(self) -> str:
        return f"the subject {self.subject}"

    @property
    def keeps(self) -> bool:
        return True

    def identity(self) -> object:
        return ["unsecured", self.subject, dict(self.extensions)]


def endpoint_problem(url: str) -> str | None:
    """Why no client secret is sent to a token endpoint; None when it may be."""
    try:
        parts = urlsplit(url)
        has_host = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        has_host = False
    if not has_host or parts.scheme not in ("http", "https"):
        return "it must be https://HOST[:PORT]/PATH"
    if parts.username is not None or parts.password is not None:
        return "it must not carry credentials; they have keys of their own"
    if parts.scheme == "http" and not _may_be_http(parts):
        return (
            "over http everybody on the way can read the client secret; use https, or name the host in "
            f"{HTTP_HOSTS} of the service"
        )
    return None


def _may_be_http(parts: SplitResult) -> bool:
    host = parts.hostname or ""
    allowed = {each.strip().lower() for each in os.environ.get(HTTP_HOSTS, "").split(",")}
    if host == "localhost" or host in allowed:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


async def _verify_far(url: str) -> None:
    """Raises NoToken where the name of an endpoint is one of this machine, or of one that answers only those beside it,
    as a cloud's metadata service, and the service may not ask there. The policy looks at addresses and at well-known
    names, before anything is asked."""
    if not near_endpoints_refused():
        return
    host = urlsplit(url).hostname or ""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return  # a proxy may know it, and nobody is asked here otherwise
    for address in {parse_address(str(sockaddr[0])) for *_, sockaddr in found}:
        if is_near(address):
            raise NoToken(
                f"{host} is {address}, an address of the service's own machine or beside it: there it asks for tokens "
                "only where MIRROR_BRIDGE_ALLOWED_TOKEN_ENDPOINTS names the host, and that is empty now"
            )


async def fetch(login: ClientCredentials, seconds: float = SECONDS) -> tuple[str, float]:
    """A token and its life in seconds, within so many seconds. Raises NoToken."""
    import httpx  # most configurations have no token to fetch

    passing = False
    try:
        if (problem := endpoint_problem(login.url)) is not None:
            raise NoToken(problem)
        async with asyncio.timeout(seconds):
            await _verify_far(login.url)
            response = json.loads(await _ask(login, seconds))
        life = float(response.get("expires_in", _LIFE))
        if not 0 < life < _LONGEST_LIFE:
            raise NoToken(f"expires_in of the answer is {life:g}: it must be a number of seconds above 0")
        return str(response["access_token"]), life
    except TimeoutError:
        why, passing = f"no whole answer within {seconds:g} s", True
    except NoToken as problem:
        why, passing = str(problem), problem.passing
    except (httpx.HTTPError, OSError) as error:
        why, passing = f"{type(error).__name__}: {error}", True
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        why = f"{type(error).__name__}: {error}"
    # Outside of the handlers: a traceback of what happened there could show the response.
    raise NoToken(why.replace(login.secret, "[hidden]"), passing=passing)


async def _ask(login: ClientCredentials, seconds: float) -> bytes:
    """The body of the response. Raises NoToken, and what httpx raises."""
    import httpx
    from httpx import codes

    form = {"grant_type": "client_credentials"} | ({"scope": login.scope} if login.scope else {})
    credentials = base64.b64encode(f"{login.client_id}:{login.secret}".encode()).decode()
    headers = {
        "Authorization": f"Basic {credentials}",
        "Accept": "application/json",
        # What is not compressed can't become larger than the limit while it is unpacked.
        "Accept-Encoding": "identity",
    }
    # The CAs of the system, which an operator may have added one to; loading them takes a moment.
    trusted = await asyncio.to_thread(ssl.create_default_context)
    # A proxy of the environment (HTTP_PROXY) would read the secret where there is no TLS through it.
    proxied = urlsplit(login.url).scheme == "https"
    async with (
        httpx.AsyncClient(
            verify=trusted, timeout=seconds, follow_redirects=False, trust_env=proxied
        ) as client,
        client.stream("POST", login.url, data=form, headers=headers) as response,
    ):
        if response.is_redirect:
            raise NoToken(_redirects(response.status_code, response.headers.get("Location", "")))
        if not response.is_success:
            status = response.status_code
            # A provider that is overloaded or broken comes back; one that refuses has to be told something else.
            passing = response.is_server_error or status == httpx.codes.TOO_MANY_REQUESTS
            # Not the answer's own words: whoever writes the configuration would read what stands at any address.
            raise NoToken(f"HTTP {status} {codes.get_reason_phrase(status)}".strip(), passing=passing)
        body = bytearray()
        async for part in response.aiter_raw():
            body += part
            if len(body) > _LIMIT:
                raise NoToken(f"the answer has more than {_LIMIT} bytes")
        return bytes(body)


def _redirects(status: int, location: str) -> str:
    try:
        to = urlsplit(location)
        where = f"{to.scheme}://{to.netloc.rpartition('@')[2]}" if to.netloc else "another path"
    except ValueError:
        where = "what is no address"
    return (
        f"it redirects to {where} (HTTP {status}), and the client secret is not sent on; give the address of the "
        "token endpoint itself"
    )


def _unsecured(subject: str, now: float) -> str:
    parts = ({"alg": "none"}, {"sub": subject, "iat": now, "exp": now + _UNSECURED_LIFE})
    encoded = (base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts)
    return ".".join(encoded) + "."
