"""Tokens for OAUTHBEARER, fetched for aiokafka; librdkafka gets its own by the same settings."""

from __future__ import annotations

import asyncio
import base64
import ipaddress
import json
import os
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import SplitResult, urlsplit

from bridge.errors import KafkaFailure, KafkaFault

HTTP_HOSTS = "MIRROR_BRIDGE_OAUTH_HTTP_HOSTS"
"""Variable of the environment: hosts whose token endpoints may be asked over http, with commas between them."""
SECONDS = 10.0
"""For a whole response."""
_LIMIT = 1 << 20
"""Of a response: tokens have some thousands."""


@dataclass(frozen=True, slots=True)
class ClientCredentials:
    """What the identity provider wants to see."""

    url: str
    client_id: str
    secret: str = field(repr=False)
    scope: str = ""
    extensions: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Unsecured:
    """A token that nobody has signed; for tests and closed networks, as in Java."""

    subject: str
    extensions: Mapping[str, str] = field(default_factory=dict, hash=False)


class BadResponse(ValueError):
    """What is wrong with the response of an identity provider."""


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


async def fetch(login: ClientCredentials | Unsecured, seconds: float = SECONDS) -> tuple[str, float]:
    """A token and its life in seconds, within so many seconds. Raises KafkaFailure."""
    if isinstance(login, Unsecured):
        return _unsecured(login.subject, time.time()), 3600.0
    import httpx  # most configurations have no token to fetch

    try:
        if (problem := endpoint_problem(login.url)) is not None:
            raise BadResponse(problem)
        async with asyncio.timeout(seconds):
            response = json.loads(await _ask(login, seconds))
        return str(response["access_token"]), float(response.get("expires_in", 300))
    except TimeoutError:
        why = f"no whole answer within {seconds:g} s"
    except BadResponse as error:
        why = str(error)
    except (httpx.HTTPError, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        why = f"{type(error).__name__}: {error}"
    # Outside of the handlers: a traceback of what happened there could show the response.
    text = f"no token from {login.url}: {why}".replace(login.secret, "[hidden]")
    raise KafkaFailure(KafkaFault.CREDENTIALS, text)


async def _ask(login: ClientCredentials, seconds: float) -> bytes:
    """The body of the response. Raises BadResponse, and what httpx raises."""
    import httpx

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
    async with (
        httpx.AsyncClient(verify=trusted, timeout=seconds, follow_redirects=False) as client,
        client.stream("POST", login.url, data=form, headers=headers) as response,
    ):
        if response.is_redirect:
            raise BadResponse(_redirects(response.status_code, response.headers.get("Location", "")))
        if not response.is_success:
            raise BadResponse(f"HTTP {response.status_code} {response.reason_phrase}".strip())
        body = bytearray()
        async for part in response.aiter_raw():
            body += part
            if len(body) > _LIMIT:
                raise BadResponse(f"the answer has more than {_LIMIT} bytes")
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
    parts = ({"alg": "none"}, {"sub": subject, "iat": now, "exp": now + 3600})
    encoded = (base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts)
    return ".".join(encoded) + "."
