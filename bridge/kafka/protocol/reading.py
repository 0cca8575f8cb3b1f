"""Reads Kafka's responses field by field, whatever bytes they hold."""

from __future__ import annotations

import struct
import uuid

from bridge.errors import KafkaFailure, KafkaFault

Writable = bytearray | memoryview
BytesLike = bytes | Writable
_SHIFTS = range(7, 35, 7)
"""Of a varint's bytes, behind the first."""
_INT16, _INT32, _INT64 = struct.Struct(">h"), struct.Struct(">i"), struct.Struct(">q")


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
