"""A login by SASL, over whatever connection sends its requests: the first one and all that follow it (KIP-368)."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple, Protocol

from aiokafka import errors as wire_errors

from bridge.errors import BridgeError
from bridge.kafka.protocol import sasl_requests
from bridge.kafka.protocol.error_codes import Errors
from bridge.kafka.protocol.reading import Unreadable
from bridge.kafka.protocol.wire import Call, Reader

Send = Callable[[Call], Awaitable[Reader]]
_OTHER_PRINCIPAL = "Cannot change principals"
"""How brokers begin to refuse a login on an open connection that is of somebody else than the last one."""
_SHOWN = 200


class Authenticator(Protocol):
    """A mechanism's part: the payload that answers a challenge, None for the first; None once all is said."""

    def step(self, payload: bytes | None) -> Awaitable[tuple[bytes, bool] | None]: ...


class LoggedIn(NamedTuple):
    """A login that a broker has accepted. `at`: no later than the broker counts from, in monotonic time; `seconds` that
    the login lasts, 0 for ever."""

    at: float
    seconds: float


async def log_in(mechanism: str, authenticator: Authenticator, send: Send) -> LoggedIn:
    """Logs in by SASL. Raises aiokafka's errors: SaslAuthenticationFailed where the broker refuses the credentials,
    KafkaConnectionError where only a new connection could log in, and for whatever can't be read: what answers has
    proved nothing yet, and another broker may be one."""
    try:
        return await _log_in(mechanism, authenticator, send)
    except Unreadable as wrong:
        raise wire_errors.KafkaConnectionError(str(wrong)) from None


async def _log_in(mechanism: str, authenticator: Authenticator, send: Send) -> LoggedIn:
    agreed = sasl_requests.read_handshake(await send(sasl_requests.handshake(mechanism)))
    if agreed.error not in (Errors.NONE, Errors.UNSUPPORTED_SASL_MECHANISM):
        raise wire_errors.for_code(agreed.error)(f"while a login by {mechanism} begins")
    if agreed.error or mechanism not in agreed.mechanisms:
        raise wire_errors.UnsupportedSaslMechanismError(
            f"The broker has no SASL mechanism {mechanism}, only {', '.join(agreed.mechanisms) or 'none'}"
        )
    at, challenge, lifetime_ms = time.monotonic(), None, 0
    while (said := await _step(authenticator, challenge)) is not None:
        call, at = sasl_requests.authenticate(said[0]), time.monotonic()
        answer = sasl_requests.read_authenticated(await send(call), call.API_VERSION)
        if answer.error:
            raise _refused(answer.error, answer.message)
        challenge, lifetime_ms = answer.challenge, answer.lifetime_ms
    return LoggedIn(at, max(0, lifetime_ms) / 1000)


async def _step(authenticator: Authenticator, challenge: bytes | None) -> tuple[bytes, bool] | None:
    """Takes the mechanism's next step. Raises aiokafka's errors, and ours of token providers and Kerberos."""
    try:
        return await authenticator.step(challenge)
    except (BridgeError, wire_errors.KafkaError):
        raise
    except (
        Exception
    ) as wrong:  # the library raises anything for a challenge that is malformed, or proves nothing
        if challenge is None:
            raise
        what = f"{type(wrong).__name__}: {str(wrong)[:_SHOWN]}"
        raise wire_errors.KafkaConnectionError(
            f"The broker's answer to the login can't be read, or proves nothing: {what}"
        ) from None


def _refused(code: int, message: str) -> wire_errors.KafkaError:
    if message.startswith(_OTHER_PRINCIPAL):
        # As with tokens of a role that AWS names anew with each session: nothing is wrong with them.
        return wire_errors.KafkaConnectionError(
            "The login is of another principal, and takes a new connection"
        )
    return wire_errors.for_code(code)(message)
