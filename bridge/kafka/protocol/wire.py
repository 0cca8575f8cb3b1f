"""Kafka's request and response encoding, as far as look-ups need it: plain and flexible (KIP-482) versions.

Written by hand because the library's protocol layer ends at Fetch v11 and Metadata v5 (no topic ids), and decodes a
field at a time: an OffsetFetch response of 100,000 partitions would take seconds. Connections, versions, TLS and SASL
stay the library's: a `Call` is what its connection wants of a request.

Reads Kafka's responses field by field, whatever bytes they hold.

Kafka's requests by number, as ApiKeys.java names them: those that we send.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable, Mapping
from enum import IntEnum
from io import BytesIO

from bridge.errors import KafkaFailure, KafkaFault

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


Writable = bytearray | memoryview
BytesLike = bytes | Writable
_SHIFTS = range(7, 35, 7)
"""Of a varint's bytes, behind the first."""
_INT16, _INT32, _INT64 = struct.Struct(">h"), struct.Struct(">i"), struct.Struct(">q")
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


class Unreadable(KafkaFailure):
    """A response that ends before its last field, or has a field with an impossible value: from a broker with a defect,
    or from something that is no broker."""

    def __init__(self, at: int, why: str) -> None:
        super().__init__(KafkaFault.OTHER, f"The broker's response can't be read: {why} at byte {at}")


class Reader:
    """Reads fields in order from one response, as copies. All raise Unreadable for what is not there. A length is
    believed where as many bytes are left."""

    def __init__(self, data: BytesLike, *, flexible: bool) -> None:
        self.data, self.at, self.flexible = data, 0, flexible

    def int8(self) -> int:
        self.skip(1)
        return self.data[self.at - 1]

    def int16(self) -> int:
        try:
            value: int = _INT16.unpack_from(self.data, self.at)[0]
        except struct.error:
            raise self._ended() from None
        self.at += 2
        return value

    def int32(self) -> int:
        try:
            value: int = _INT32.unpack_from(self.data, self.at)[0]
        except struct.error:
            raise self._ended() from None
        self.at += 4
        return value

    def int64(self) -> int:
        try:
            value: int = _INT64.unpack_from(self.data, self.at)[0]
        except struct.error:
            raise self._ended() from None
        self.at += 8
        return value

    def varint(self) -> int:
        try:
            value = self.data[self.at]
            self.at += 1
            if value < 0x80:  # as nearly all are
                return value
            value &= 0x7F
            for shift in _SHIFTS:
                byte = self.data[self.at]
                self.at += 1
                value |= (byte & 0x7F) << shift
                if byte < 0x80:
                    return value
        except IndexError:
            raise self._ended() from None
        raise Unreadable(self.at, "a number does not end")

    def string(self) -> str:
        """ "" for null."""
        return self.nullable_string() or ""

    def nullable_string(self) -> str | None:
        length = self.varint() - 1 if self.flexible else self.int16()
        if length <= 0:
            return None if length < 0 else ""
        try:
            return self._take(length).decode()
        except UnicodeDecodeError:
            raise Unreadable(self.at, "a text is no UTF-8") from None

    def blob(self) -> bytes:
        return self._take(self._length())

    def buffer(self) -> bytearray:
        """A blob that may be written to."""
        length = self._length()
        if not length:
            return bytearray()
        self.skip(length)
        return bytearray(memoryview(self.data)[self.at - length : self.at])  # one copy, whatever the data are

    def _length(self) -> int:
        """Reads the length of a blob; null is as good as empty."""
        return max(0, self.varint() - 1 if self.flexible else self.int32())

    def uuid(self) -> str:
        return str(uuid.UUID(bytes=self._take(16)))

    def array(self) -> range:
        return range(self._count(self.varint() - 1 if self.flexible else self.int32()))

    def _count(self, length: int) -> int:
        if length > len(self.data) - self.at:
            raise Unreadable(self.at, f"there can't be {length} of a thing")
        return max(0, length)

    def skip(self, size: int) -> None:
        self.at += size
        if self.at > len(self.data):
            raise self._ended()

    def _ended(self) -> Unreadable:
        return Unreadable(len(self.data), "it ends")

    def tags(self) -> None:
        """Steps over tagged fields."""
        if self.flexible and (count := self.varint()):
            for _ in range(self._count(count)):
                self.varint()
                self.skip(self.varint())

    def tagged(self) -> dict[int, bytes]:
        """Tagged fields by number."""
        if not self.flexible:
            return {}
        return {self.varint(): self._take(self.varint()) for _ in range(self._count(self.varint()))}

    def _take(self, length: int) -> bytes:
        begin, self.at = self.at, self.at + length
        if self.at > len(self.data):
            raise self._ended()
        return bytes(self.data[begin : self.at])


class ApiKeys(IntEnum):
    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    END_TXN = 26
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_CLUSTER = 60
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66


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
