"""Kafka's request and response encoding, as far as look-ups need it: plain and flexible (KIP-482) versions.

Written by hand because the library's protocol layer ends at Fetch v11 and Metadata v5 (no topic ids), and decodes a
field at a time: an OffsetFetch response of 100,000 partitions would take seconds. Connections, versions, TLS and SASL
stay the library's: a `Call` is what its connection wants of a request.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable, Mapping
from io import BytesIO

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.protocol.api_keys import ApiKeys
from bridge.kafka.protocol.reading import BytesLike, Reader, Writable

__all__ = [
    "MAX_BEFORE_LOGIN_BYTES",
    "MAX_RESPONSE_BYTES",
    "BytesLike",
    "Call",
    "Reader",
    "Writable",
    "Writer",
    "size_error",
]

_LARGE = 64 * 1024
"""Bytes from which on a blob is sent from where it lies; a shorter one is copied, which costs less than a send."""
_CORRELATION_ID = 4
"""Bytes that every response begins with."""
MAX_RESPONSE_BYTES = 256 * 1024 * 1024
"""Of a response: more than the largest that a fetch asks for and a batch as large as brokers accept by default (100
MiB, socket.request.max.bytes)."""
MAX_BEFORE_LOGIN_BYTES = 1024 * 1024
"""Of a response before the connection has logged in, versions of APIs and what logins say, which whoever listens there
may send; and of those that the library reads itself, such as the list of a cluster's brokers."""
_INT16, _INT32, _INT64 = struct.Struct(">h"), struct.Struct(">i"), struct.Struct(">q")


def size_error(size: int, most: int = MAX_RESPONSE_BYTES) -> str:
    """Why a response can't have this length, which a broker sends in front of it; "" when it can."""
    if size < _CORRELATION_ID:
        return (
            f"The broker sent a response of {size} bytes, less than a header has; the connection was closed"
        )
    if size > most:
        limit = f"more than {most} are not read"
        return f"The broker sent a response of {size} bytes; {limit}, and the connection was closed"
    return ""


class Writer:
    """Appends fields; `flexible` picks compact lengths and tagged fields."""

    def __init__(self, *, flexible: bool) -> None:
        self.flexible = flexible
        self._before: list[BytesLike] = []
        self._parts = bytearray()

    def int8(self, value: int) -> None:
        self._parts += value.to_bytes(1, "big", signed=True)

    def int16(self, value: int) -> None:
        self._parts += _INT16.pack(value)

    def int32(self, value: int) -> None:
        self._parts += _INT32.pack(value)

    def int64(self, value: int) -> None:
        self._parts += _INT64.pack(value)

    def varint(self, value: int) -> None:
        while value > 0x7F:
            self._parts.append(value & 0x7F | 0x80)
            value >>= 7
        self._parts.append(value)

    def string(self, value: str | None) -> None:
        data = None if value is None else value.encode()
        if self.flexible:
            self.varint(0 if data is None else len(data) + 1)
        else:
            self.int16(-1 if data is None else len(data))
        self._parts += data or b""

    def blob(self, value: BytesLike) -> None:
        """Appends bytes; what is large is not copied."""
        if self.flexible:
            self.varint(len(value) + 1)
        else:
            self.int32(len(value))
        if len(value) < _LARGE:
            self._parts += value
        else:
            self._before += (self._parts, value)
            self._parts = bytearray()

    def uuid(self, value: str) -> None:
        self._parts += uuid.UUID(value).bytes

    def array(self, length: int | None) -> None:
        if self.flexible:
            self.varint(0 if length is None else length + 1)
        else:
            self.int32(-1 if length is None else length)

    def tags(self) -> None:
        if self.flexible:
            self.varint(0)

    def pieces(self) -> list[BytesLike]:
        """To be sent one behind the other."""
        return [*self._before, self._parts]

    def encode(self) -> bytearray:
        return bytearray().join(self.pieces()) if self._before else self._parts


class _Encoded:
    def __init__(self, data: bytes) -> None:
        self._data = data

    def encode(self) -> bytes:
        return self._data


class _Header:
    def __init__(self, correlation_id: int) -> None:
        self.correlation_id = correlation_id


class Call:
    """One request, in the version that its connection agrees on. `write` gets the version; the response is a Reader.

    Raises KafkaFailure(unsupported) when the broker speaks none of `versions`.
    """

    def __init__(
        self,
        api_key: ApiKeys,
        versions: range,
        flexible_from: int,
        write: Callable[[Writer, int], None],
    ) -> None:
        self.API_KEY, self._versions, self._flexible_from, self._write = (
            api_key,
            versions,
            flexible_from,
            write,
        )
        self.API_VERSION = -1

    @property
    def RESPONSE_TYPE(self) -> Call:
        """The type by which the connection decodes the response: one object is request and decoder. No attribute,
        because a call that refers to itself keeps all that it sent until garbage is collected."""
        return self

    @property
    def flexible(self) -> bool:
        return self._flexible_from <= self.API_VERSION

    def prepare(self, versions: Mapping[int, tuple[int, int]]) -> Call:
        lowest, highest = versions.get(self.API_KEY, (0, -1))
        version = min(highest, self._versions[-1])
        if version < max(lowest, self._versions[0]):
            raise KafkaFailure(
                KafkaFault.UNSUPPORTED,
                f"{self.API_KEY.name} v{self._versions[0]} to v{self._versions[-1]} are needed, the broker "
                + (f"speaks v{lowest} to v{highest}" if highest >= 0 else "has no such request"),
                retriable=False,
            )
        self.API_VERSION = version
        return self

    def build_request_header(self, correlation_id: int, client_id: str) -> _Encoded:
        name = client_id.encode()
        head = struct.pack(
            f">hhih{len(name)}s", self.API_KEY, self.API_VERSION, correlation_id, len(name), name
        )
        return _Encoded(head + b"\0" if self.flexible else head)

    def encode(self) -> bytearray:
        return self._written().encode()

    def _written(self) -> Writer:
        writer = Writer(flexible=self.flexible)
        self._write(writer, self.API_VERSION)
        return writer

    def framed(self, correlation_id: int, client_id: str) -> list[BytesLike]:
        """The whole request with its length in front, to be sent one piece behind the other."""
        head = self.build_request_header(correlation_id, client_id).encode()
        first, *rest = self._written().pieces()
        size = len(head) + len(first) + sum(map(len, rest))
        return [b"".join((_INT32.pack(size), head, first)), *rest]

    def response(self, frame: BytesLike) -> Reader:
        """Returns a reader of a whole response without its length."""
        reader = Reader(frame, flexible=self.flexible)
        reader.skip(4)  # the correlation id
        reader.tags()
        return reader

    def parse_response_header(self, buffer: BytesIO) -> _Header:
        header = _Header(_INT32.unpack(buffer.read(4))[0])
        if self.flexible:
            buffer.read(1)  # tagged fields: no broker sends any in a header
        return header

    def decode(self, buffer: BytesIO) -> Reader:
        reader = Reader(buffer.getvalue(), flexible=self.flexible)  # unlike read, not a copy
        reader.skip(buffer.tell())
        return reader

    def __str__(self) -> str:
        return f"{self.API_KEY.name} v{self.API_VERSION}"
