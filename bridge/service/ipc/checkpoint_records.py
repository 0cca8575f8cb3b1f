"""Records on their way to Connect, packed once, in the rounds process: their text is that of the poll's answer, and
what the HTTP process has to know of them stands beside it.

    payload of RECORDS := length u32 | JSON [name, generation] | parcel …
    parcel := line 16 bytes | place 16 bytes | timestamp i64 | affinity length u32 | text length u32 | affinity | text

`line` stands for topic and key: of one line only the newest record matters. `place` stands for the source partition:
what an acknowledgement names. Both are digests, because 16 bytes are less than a key.
"""

from __future__ import annotations

import json
import struct
from base64 import b64encode
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final

from bridge.protocol.messages import Record
from connectors.base import EmittedRecord

PackedRecord = tuple[bytes, bytes, str, int, int, bytes]
"""line, place, affinity, the record's timestamp, since when a record of this line has been waiting (ms), text. A plain
tuple, for the reason that snapshots.GroupTuple is one."""
LINE: Final = 0
PLACE: Final = 1
AFFINITY: Final = 2
TIMESTAMP: Final = 3
SINCE: Final = 4
TEXT: Final = 5

PORTION = 100
"""Records in one frame: the HTTP process handles a frame in well under a millisecond."""

_SORTED = json.JSONEncoder(sort_keys=True)
_LONG = struct.Struct(">I")
_HEAD = struct.Struct(">16s16sqII")


def pack(record: EmittedRecord) -> PackedRecord:
    text = Record(
        source_partition=dict(record.source_partition),
        source_offset=dict(record.source_offset),
        topic=record.topic,
        partition=0,
        key=b64encode(record.key).decode(),
        value=b64encode(record.value).decode(),
        timestamp=record.timestamp,
    ).model_dump_json(exclude_defaults=True)
    line = _digest(record.topic.encode() + b"\0" + record.key)
    place = partition_digest(record.source_partition)
    return line, place, record.affinity, record.timestamp, record.timestamp, text.encode()


def partition_digest(source_partition: Mapping[str, Any]) -> bytes:
    """The same for the partition as an instance gave it and as it comes back, whatever the order of its fields."""
    return _digest(_SORTED.encode(source_partition).encode())


def pack_records(name: str, generation: int, parcels: Sequence[PackedRecord]) -> bytes:
    header = json.dumps([name, generation]).encode()
    parts = [_LONG.pack(len(header)), header]
    for line, place, affinity, timestamp, _, text in parcels:
        group = affinity.encode()
        parts += (_HEAD.pack(line, place, timestamp, len(group), len(text)), group, text)
    return b"".join(parts)


def unpack_records(payload: bytes) -> tuple[str, int, list[PackedRecord]]:
    (length,) = _LONG.unpack_from(payload)
    at = _LONG.size + length
    name, generation = json.loads(payload[_LONG.size : at])
    parcels: list[PackedRecord] = []
    affinities: dict[bytes, str] = {}  # the records of a group share one string
    while at < len(payload):
        line, place, timestamp, group_size, text_size = _HEAD.unpack_from(payload, at)
        group_at = at + _HEAD.size
        text_at = group_at + group_size
        at = text_at + text_size
        raw = payload[group_at:text_at]
        affinity = affinities.get(raw)
        if affinity is None:
            affinity = affinities[raw] = raw.decode()
        parcels.append((line, place, affinity, timestamp, timestamp, payload[text_at:at]))
    return name, generation, parcels


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=16).digest()
