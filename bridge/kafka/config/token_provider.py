"""Token providers for aiokafka's OAUTHBEARER. Apart, so that checking a configuration does not load the client."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from aiokafka.abc import AbstractTokenProvider

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.config.oauth import Login, MskIam
from bridge.kafka.config.tokens import Source, TokenKeeper, keeper


def provider(login: Login) -> AbstractTokenProvider:
    """The one for this login; for one event loop."""
    return SharedTokens(login)


def verify(source: object, host: str) -> None:
    """Raises KafkaFailure where what the source gives may not go to a broker of that name."""
    why = source.refused(host) if isinstance(source, MskIam) else None
    if why is not None:
        raise KafkaFailure(KafkaFault.CREDENTIALS, why, retriable=False)


class SharedTokens(AbstractTokenProvider):
    """Hands out the tokens that all clients of this process share."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._keeper: TokenKeeper = keeper(source)
        self._extensions: Mapping[str, str] = {}

    def verify(self, host: str) -> None:
        """Raises KafkaFailure where a broker of that name may not be logged in to."""
        verify(self._source, host)

    async def token(self) -> str:
        token = self._keeper.ready()
        if token is None:
            token = await asyncio.to_thread(self._keeper.token)
        self._extensions = token.extensions
        return token.value

    def extensions(self) -> dict[str, str]:
        """Returns the extensions of the last token: the client asks for both without a pause in between."""
        return dict(self._extensions)
