"""Tokens for OAUTHBEARER, fetched for aiokafka; librdkafka gets its own by the same settings."""

from __future__ import annotations

import base64
import json
import time
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode

from bridge.errors import KafkaFailure, KafkaFault

_TIMEOUT = 10.0
_LIMIT = 1 << 20


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


Login = ClientCredentials | Unsecured


def fetch(login: Login) -> tuple[str, float]:
    """A token and its life in seconds; blocks."""
    if isinstance(login, Unsecured):
        return _unsecured(login.subject, time.time()), 3600.0
    form = {"grant_type": "client_credentials"} | ({"scope": login.scope} if login.scope else {})
    credentials = base64.b64encode(f"{login.client_id}:{login.secret}".encode()).decode()
    request = urllib.request.Request(  # noqa: S310 (the scheme was checked with the configuration)
        login.url,
        data=urlencode(form).encode(),
        headers={"Authorization": f"Basic {credentials}", "Accept": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT) as response:  # noqa: S310
            answer = json.loads(response.read(_LIMIT))
        return str(answer["access_token"]), float(answer.get("expires_in", 300))
    except (URLError, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, HTTPError):
            error.close()
        why = f"{type(error).__name__}: {error}".replace(login.secret, "[hidden]")
        raise KafkaFailure(KafkaFault.CREDENTIALS, f"no token from {login.url}: {why}") from error


def _unsecured(subject: str, now: float) -> str:
    parts = ({"alg": "none"}, {"sub": subject, "iat": now, "exp": now + 3600})
    encoded = (base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts)
    return ".".join(encoded) + "."
