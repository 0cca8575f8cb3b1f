"""A connection for large requests and responses: those that carry batches.

The library opens it and logs in; then its transport serves this protocol instead of the library's own, which
copies each byte five times on its way in or out, together with asyncio's streams. Here a response is read where it was
received, and what is sent goes to the socket from where it lies (docs/decisions/0015).
"""

from __future__ import annotations

import asyncio
import inspect
import struct
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Self, TypeVar

from aiokafka.conn import AIOKafkaConnection
from aiokafka.errors import CorrelationIdError, KafkaConnectionError

from bridge.kafka.network.library_client import LibraryConnection
from bridge.kafka.network.login import Held, LoggedIn
from bridge.kafka.protocol.wire import BytesLike, Call, Reader, size_error

T = TypeVar("T")
_INT32 = struct.Struct(">i")
_FIRST_BUFFER, _GROWTH = 64 * 1024, 4
_AT_ONCE = 256 * 1024
"""Bytes given to the transport at a time: what the socket does not take of them is copied once more."""
_NUMBERS = 1 << 31
_WITHIN_MS, _IDLE_MS = 40_000, 540_000
"""The library's own defaults of request.timeout.ms and connections.max.idle.ms."""
_PARAMETERS = frozenset(inspect.signature(AIOKafkaConnection).parameters)


def connection_to(host: str, port: int, settings: Mapping[str, Any]) -> LibraryConnection:
    """The library's connection, to be connected; `settings`: arguments of the library's client."""
    arguments = {name: value for name, value in settings.items() if name in _PARAMETERS}
    return LibraryConnection(host, port, **arguments)


@dataclass(eq=False, slots=True)
class _Request:
    call: Call
    read: Callable[[Reader], Any]
    response: asyncio.Future[Any]
    number: int = 0

    def fail(self, why: BaseException) -> None:
        if not self.response.done():
            self.response.set_exception(why)


class BulkConnection(asyncio.BufferedProtocol):
    """Requests to one broker, which answers them in their order. For use in one event loop."""

    def __init__(
        self,
        library: LibraryConnection,
        transport: asyncio.Transport,
        settings: Mapping[str, Any],
        versions: Mapping[int, tuple[int, int]],
    ) -> None:
        """`versions`: the lowest and highest version of each API that the broker speaks."""
        self._library, self._transport, self._before = library, transport, transport.get_protocol()
        self._client_id: str = settings.get("client_id") or ""
        self._within: float = settings.get("request_timeout_ms", _WITHIN_MS) / 1000
        idle_ms: int | None = settings.get("connections_max_idle_ms", _IDLE_MS)
        self._idle_within = float("inf") if idle_ms is None else idle_ms / 1000
        self._versions = versions
        self._number = 0
        self._requests: deque[_Request] = deque()
        self._outgoing: deque[BytesLike] = deque()
        self._paused = False
        self._buffer = memoryview(bytearray(_FIRST_BUFFER))
        """As large as the largest response; none that is not read yet is ever overwritten."""
        self._filled = 0
        self._used = time.monotonic()
        self.lost: BaseException | None = None
        """Why the connection was lost; None while it is open."""
        self.dropped = False
        """Whether it was lost by none of us, and not because it was idle."""

    @classmethod
    async def open(cls, host: str, port: int, settings: Mapping[str, Any]) -> Self:
        """`settings`: arguments of the library's client. Raises what the library raises."""
        library = connection_to(host, port, settings)
        _, writer = await library.connect()
        transport = writer.transport
        assert isinstance(transport, asyncio.Transport)
        connection = cls(library, transport, settings, library.versions)
        transport.set_protocol(connection)
        # Not 0: asyncio's TLS transport takes that for full when it is empty, and never says that there is room again.
        transport.set_write_buffer_limits(high=1, low=0)
        return connection

    @property
    def usable(self) -> bool:
        """Not when it is lost, nor when the broker may be about to close it because it was idle."""
        return self.lost is None and not self._idle

    @property
    def _idle(self) -> bool:
        return not self._requests and time.monotonic() - self._used > self._idle_within

    @property
    def buffer_size(self) -> int:
        """Bytes that the connection holds for responses."""
        return len(self._buffer)

    @property
    def unsent(self) -> int:
        """Bytes that the transport has and the socket has not taken."""
        return self._transport.get_write_buffer_size()

    async def send(self, call: Call, read: Callable[[Reader], T]) -> T:
        """Returns what `read` makes of the response; its bytes are overwritten as soon as `read` returns. What `call`
        has by reference must not change until then. Raises KafkaFailure for a version that the broker does not speak,
        KafkaError, TimeoutError and what `read` raises."""
        if self.lost is not None:
            raise KafkaConnectionError(str(self.lost))
        request = self._prepared(call, read)
        session = self._library.session
        if session.due:
            session.hold(Held(partial(self._put, request), request.fail), self._log_in_again, self._end)
        else:
            self._put(request)
        answer: T = await self._answer(request)
        return answer

    def close(self) -> Awaitable[None]:
        """At once: requests in flight fail with KafkaConnectionError. To be awaited where it matters that the socket is
        closed."""
        self._end(KafkaConnectionError("The connection was closed"))
        closed: Awaitable[None] = self._library.close()
        return closed

    def _end(self, why: BaseException) -> None:
        self.lost = self.lost or why
        self._outgoing.clear()
        requests, self._requests = self._requests, deque()
        closed = KafkaConnectionError(str(why))
        for request in requests:
            request.fail(closed)
        self._library.session.close(closed)
        self._transport.abort()

    def _prepared(self, call: Call, read: Callable[[Reader], Any]) -> _Request:
        return _Request(call.prepare(self._versions), read, asyncio.get_running_loop().create_future())

    def _put(self, request: _Request) -> None:
        """Sends it behind all others, unless nobody waits for it any more."""
        if request.response.done():
            return
        self._number = request.number = (self._number + 1) % _NUMBERS
        self._outgoing += request.call.framed(self._number, self._client_id)
        self._requests.append(request)
        self._flush()

    async def _answer(self, request: _Request) -> Any:
        try:
            async with asyncio.timeout(self._within):
                return await request.response
        except TimeoutError:
            self.close()
            raise

    async def _log_in_again(self) -> LoggedIn:
        return await self._library.log_in(self._ask)

    async def _ask(self, call: Call) -> Reader:
        """Its response, as a copy. Past the requests that wait for a login."""
        request = self._prepared(
            call, lambda answer: Reader(bytes(answer.data[answer.at :]), flexible=call.flexible)
        )
        self._put(request)
        copied: Reader = await self._answer(request)
        return copied

    # -- callbacks of the transport ----------------------------------------------------------------------------------

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        self._filled += nbytes
        position, needed = 0, _INT32.size
        while self._filled - position >= needed:
            size: int = _INT32.unpack_from(self._buffer, position)[0]
            if wrong := size_error(size):
                self._filled = 0
                self._end(KafkaConnectionError(wrong))
                return
            needed = _INT32.size + size
            if self._filled - position < needed:
                break
            self._answered(self._buffer[position + _INT32.size : position + needed])
            position, needed = position + needed, _INT32.size
        self._go_on_from(position, needed)

    def _go_on_from(self, at: int, needed: int) -> None:
        """Moves what lies behind `at` to the front of the buffer. Makes it larger when the response of `needed` bytes
        fills all of it: a length is believed as its bytes come."""
        size = len(self._buffer)
        full = self._filled - at == size
        if not at and not full:
            return
        rest = bytes(self._buffer[at : self._filled])
        if full:
            self._buffer = memoryview(bytearray(max(2 * size, min(needed, _GROWTH * size))))
        self._filled = len(rest)
        self._buffer[: self._filled] = rest

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self._flush()

    def connection_lost(self, exc: Exception | None) -> None:
        self.dropped = self.lost is None and not self._idle
        self._end(exc or KafkaConnectionError("The broker closed the connection"))
        self._before.connection_lost(exc)

    def _answered(self, frame: memoryview) -> None:
        if not self._requests or _INT32.unpack_from(frame)[0] != self._requests[0].number:
            self._end(
                CorrelationIdError("The correlation id of a response is not that of the oldest request")
            )
            return
        request = self._requests.popleft()
        self._used = time.monotonic()
        if request.response.done():
            return  # nobody waits for it any more
        try:
            request.response.set_result(request.read(request.call.response(frame)))
        except Exception as error:
            request.response.set_exception(error)

    def _flush(self) -> None:
        while self._outgoing and not self._paused and not self._transport.is_closing():
            piece = self._outgoing.popleft()
            if len(piece) > _AT_ONCE:
                whole = memoryview(piece)
                piece = whole[:_AT_ONCE]
                self._outgoing.appendleft(whole[_AT_ONCE:])
            self._transport.write(piece)
