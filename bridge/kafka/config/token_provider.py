"""A token provider for aiokafka's OAUTHBEARER. Apart, so that checking a configuration does not load the client."""

from __future__ import annotations

import asyncio
import time

from aiokafka.abc import AbstractTokenProvider

from bridge.kafka.config.oauth import Login, fetch

_REFRESH_AT = 0.8
"""A token is used for this part of its life, as Java's login does (sasl.login.refresh.window.factor)."""


class TokenProvider(AbstractTokenProvider):
    """Fetches a token and keeps it for most of its life; one fetch at a time."""

    def __init__(self, login: Login) -> None:
        self._login = login
        self._token = ""
        self._until = 0.0
        self._fetching = asyncio.Lock()

    async def token(self) -> str:
        async with self._fetching:
            if time.monotonic() >= self._until:
                self._token, life = await fetch(self._login)
                self._until = time.monotonic() + life * _REFRESH_AT
            return self._token

    def extensions(self) -> dict[str, str]:
        return dict(self._login.extensions)
