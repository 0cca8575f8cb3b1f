"""Token providers for aiokafka's OAUTHBEARER. Apart, so that checking a configuration does not load the client."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

from aiokafka.abc import AbstractTokenProvider

from bridge.kafka.config.oauth import ClientCredentials, Unsecured, fetch
from bridge.kafka.config.oauth_login import Login
from bridge.kafka.config.tokens import REFRESH_AT, Source, TokenKeeper, keeper


def provider(login: Login) -> AbstractTokenProvider:
    """The one for this login; for one event loop."""
    return TokenProvider(login) if isinstance(login, ClientCredentials | Unsecured) else SharedTokens(login)


class TokenProvider(AbstractTokenProvider):
    """Fetches a token and keeps it for most of its life; one fetch at a time."""

    def __init__(self, login: ClientCredentials | Unsecured) -> None:
        self._login = login
        self._token = ""
        self._until = 0.0
        self._fetching = asyncio.Lock()

    async def token(self) -> str:
        async with self._fetching:
            if time.monotonic() >= self._until:
                self._token, life = await fetch(self._login)
                self._until = time.monotonic() + life * REFRESH_AT
            return self._token

    def extensions(self) -> dict[str, str]:
        return dict(self._login.extensions)


class SharedTokens(AbstractTokenProvider):
    """Hands out the tokens that all clients of this process share."""

    def __init__(self, source: Source) -> None:
        self._keeper: TokenKeeper = keeper(source)
        self._extensions: Mapping[str, str] = {}

    async def token(self) -> str:
        token = self._keeper.ready()
        if token is None:
            token = await asyncio.to_thread(self._keeper.token)
        self._extensions = token.extensions
        return token.value

    def extensions(self) -> dict[str, str]:
        """Of the last token: the client asks for both without a pause in between."""
        return dict(self._extensions)
