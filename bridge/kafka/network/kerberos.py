"""A login by Kerberos (GSSAPI) with a ticket of the configuration's own keytab.

The library takes the ticket of the user's cache, and nobody else asks for one: kinit is run by librdkafka, which most
processes never load.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Generator
from typing import Any

from aiokafka.conn import SaslGSSAPIAuthenticator
from aiokafka.errors import KafkaConnectionError

from bridge.errors import KafkaFailure, KafkaFault

_REFUSED = (-1765328378, -1765328366, -1765328360, -1765328353, -1765328203)
"""By MIT's codes: a principal that the KDC does not know or has locked, a wrong key (two), no key in the keytab."""
_NO_CACHE = -1765328189
"""With a keytab: it has no key of the principal, so that nothing was put into the cache."""
_FAILURE_BITS = 1 << 32


class KerberosAuthenticator(SaslGSSAPIAuthenticator):
    """Logs in by GSSAPI. `service`: as `kafka@HOST`; `principal`, `keytab`: of the client, None for what the user's
    cache has. Tickets of a keytab are kept in memory, one cache for each, and renewed by MIT's library."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, service: str, principal: str | None, keytab: str | None
    ) -> None:
        self._client, self._keytab = principal, keytab
        SaslGSSAPIAuthenticator.__init__(self, loop=loop, principal=service)

    async def step(self, payload: bytes | None) -> tuple[bytes, bool] | None:
        """Raises KafkaFailure for what somebody has to correct, and KafkaConnectionError for the rest."""
        gssapi = _gssapi()
        try:
            said: tuple[bytes, bool] | None = await SaslGSSAPIAuthenticator.step(self, payload)
        except gssapi.exceptions.GSSError as error:
            text = f"Kerberos: {' '.join(str(error).split())}"
            code = error.min_code - _FAILURE_BITS if error.min_code > 0 else error.min_code
            if code == _NO_CACHE and self._keytab:
                text = f"Kerberos: the keytab has no key of {self._client or 'any principal'}"
            elif code not in _REFUSED:
                raise KafkaConnectionError(text) from None
            raise KafkaFailure(KafkaFault.CREDENTIALS, text, retriable=False) from None
        return said

    def authenticator_gssapi(self) -> Generator[tuple[bytes, bool], bytes, None]:
        """The library's, with credentials: it has no way to be given some."""
        gssapi = _gssapi()
        name = gssapi.Name(self._principal, name_type=gssapi.NameType.hostbased_service)
        context = gssapi.SecurityContext(
            name=name.canonicalize(gssapi.MechType.kerberos),
            creds=self._credentials(),
            mech=gssapi.MechType.kerberos,
            usage="initiate",
        )
        token = None
        while not context.complete:
            token = yield context.step(token) or b"", True
        # One octet for authentication without a layer, three for the size of messages, then whom it is for (RFC 4752).
        layers = context.unwrap(token).message
        yield (
            context.wrap(bytes([layers[0] & 1]) + layers[1:] + self._principal.encode(), False).message,
            False,
        )

    def _credentials(self) -> Any:
        gssapi = _gssapi()
        if not self._keytab:
            return None
        name = None
        if self._client:
            name = gssapi.Name(self._client, name_type=gssapi.NameType.kerberos_principal)
        cache = f"MEMORY:{self._client or ''} {self._keytab}"
        store = {"client_keytab": f"FILE:{self._keytab}", "ccache": cache}
        return gssapi.Credentials(name=name, usage="initiate", store=store)


def _gssapi() -> Any:
    """The Python package gssapi, which is not required."""
    return importlib.import_module("gssapi")
