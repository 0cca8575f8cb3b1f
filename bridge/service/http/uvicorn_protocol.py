"""Limits slow clients of uvicorn's HTTP/1.1, and sends our error body itself where no complete request has arrived.

    idle ──first byte──▶ head ──▶ body ──▶ answered ──▶ idle

A new connection begins at head. idle, head and body have a timeout each; the service may take any time to answer.
"""

from __future__ import annotations

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from bridge.errors import ErrorCode
from bridge.protocol.messages import ErrorBody
from bridge.service.http.access import CERTIFICATE
from bridge.service.http.connections import LOGIN, ConnectionLimits, Login
from bridge.service.http.tls import ClientCertificate, CurrentContext, client_certificate

_DAY = 86_400.0
"""Seconds after which a connection is closed though its certificate counts for longer."""
_MOST_HEAD = 16 << 10
"""Bytes, where the configuration of uvicorn has no other: that of h11."""
LINGER_SECONDS = 10.0
"""How long a closed connection may still send the rest of an answer."""


class Http11(H11Protocol):
    """One connection."""

    limits = ConnectionLimits()
    _phase: str = ""
    """`head` or `body` while that is expected from the client, else empty."""
    _has_data = False
    """Whether a byte has arrived."""
    _read_timer: asyncio.TimerHandle | None = None
    _write_timer: asyncio.TimerHandle | None = None
    _certificate_timer: asyncio.TimerHandle | None = None
    """Closes the connection, after its answer, when the client's certificate counts no longer."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if self.client is not None:
            self.limits.handshake_ended(self.client)
            self.app_state = {**self.app_state, LOGIN: Login(self.limits, self.client)}
        if (shown := self._certificate(transport)) is not None:
            if shown.seconds <= 0:
                transport.abort()
                return
            self.app_state = {**self.app_state, CERTIFICATE: shown.subject}
            self._certificate_timer = self.loop.call_later(min(shown.seconds, _DAY), self.shutdown)
        self._watch("head")

    def connection_lost(self, exc: Exception | None) -> None:
        self._watch("")
        if self._certificate_timer is not None:
            self._certificate_timer.cancel()
        self.resume_writing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self._has_data = True
        most = self.config.h11_max_incomplete_event_size or _MOST_HEAD
        # h11 counts a head that has not come whole: one of less than a read's size would pass.
        if len(data) > most and self.conn.their_state is h11.IDLE and data.find(b"\r\n\r\n") > most:
            self.send_400_response(f"The head of the request has more than {most} bytes (max_header_bytes)")
            return
        super().data_received(data)
        self._watch(self._expected())

    def on_response_complete(self) -> None:
        super().on_response_complete()
        # Between two requests the time for an idle connection counts, not that for a head.
        self._watch("body" if self._expected() == "body" else "")

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._linger()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._write_timer = self.loop.call_later(self.limits.write_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None
        if self.flow is not None:
            super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        self._reject(400, ErrorCode.BODY_REJECTED, msg)

    # -- steps -------------------------------------------------------------------------------------

    def _certificate(self, transport: asyncio.BaseTransport) -> ClientCertificate | None:
        tls, context = transport.get_extra_info("ssl_object"), self.config.ssl
        if tls is None or not isinstance(context, CurrentContext):
            return None
        return client_certificate(tls, context)

    def _expected(self) -> str:
        if self.transport.is_closing():
            return ""
        return {h11.IDLE: "head", h11.SEND_BODY: "body"}.get(self.conn.their_state, "")

    def _watch(self, phase: str) -> None:
        """Starts the timer for what is expected from the client now; it keeps running while that stays the same."""
        if phase == self._phase:
            return
        if self._read_timer is not None:
            self._read_timer.cancel()
            self._read_timer = None
        self._phase = phase
        if phase:
            seconds = self.limits.head_seconds if phase == "head" else self.limits.body_seconds
            self._read_timer = self.loop.call_later(seconds, self._too_slow, phase, seconds)

    def _too_slow(self, phase: str, seconds: float) -> None:
        self._read_timer = None
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        answered = self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE)
        if answered or not self._has_data:
            self.transport.close()
            self._linger()
            return
        text = f"The {phase} of the request did not arrive within {seconds:g} s"
        self._reject(408, ErrorCode.TOO_SLOW, text, retry=True)

    def _reject(self, status: int, code: ErrorCode, message: str, *, retry: bool = False) -> None:
        body = ErrorBody(error_code=code, message=message, retriable=retry).model_dump_json().encode()
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"),
        ]
        reason = {400: b"Bad Request", 408: b"Request Timeout"}[status]
        events = (
            h11.Response(status_code=status, headers=headers, reason=reason),
            h11.Data(data=body),
            h11.EndOfMessage(),
        )
        for event in events:
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()
        self._linger()

    def _linger(self) -> None:
        """Aborts a closed connection whose client does not read the rest of an answer in time."""
        self.loop.call_later(LINGER_SECONDS, self.transport.abort)


def limited(limits: ConnectionLimits) -> type[Http11]:
    """Returns the protocol class of one server, with its limits."""
    return type("LimitedHttp11", (Http11,), {"limits": limits})
