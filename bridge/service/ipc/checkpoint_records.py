"""Packs records for Connect, once, in the rounds process: as the JSON text that answers a poll, with the fields that
the HTTP process needs beside it.

    payload of RECORDS := length u32 | JSON [name, generation] | record …
    record := key 16 bytes | partition 16 bytes | timestamp i64 | affinity length u32 | text length u32
              | affinity | text

`key` stands for topic and record key: of one key only the newest record matters, as in a compacted topic. `partition`
stands for the source partition, which an acknowledgement names. Both are digests: 16 bytes are less than a key.
`affinity` decides which task gets the record (bridge.model.values).
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
"""Key, partition, affinity, timestamp of the record, timestamp of the oldest waiting record of this key, text. A plain
tuple, for the reason that snapshots.GroupTuple is one."""
KEY: Final = 0
PARTITION: Final = 1
AFFINITY: Final = 2
TIMESTAMP: Final = 3
WAITING_SINCE: Final = 4
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
    key = _digest(record.topic.encode() + b"\0" + record.key)
    partition = partition_digest(record.source_partition)
    return key, partition, record.affinity, record.timestamp, record.timestamp, text.encode()


def partition_digest(source_partition: Mapping[str, Any]) -> bytes:
    """Identifies a source partition, whatever the order of its fields."""
    return _digest(_SORTED.encode(source_partition).encode())


def record_size(record: PackedRecord) -> int:
    """Bytes that a record takes in a frame, at most."""
    return _HEAD.size + 4 * len(record[AFFINITY]) + len(record[TEXT])


def pack_records(name: str, generation: int, records: Sequence[PackedRecord]) -> bytes:
    header = json.dumps([name, generation]).encode()
    parts = [_LONG.pack(len(header)), header]
    for key, partition, affinity, timestamp, _, text in records:
        group = affinity.encode()
        parts += (_HEAD.pack(key, partition, timestamp, len(group), len(text)), group, text)
    return b"".join(parts)


def unpack_records(payload: bytes) -> tuple[str, int, list[PackedRecord]]:
    (length,) = _LONG.unpack_from(payload)
    at = _LONG.size + length
    name, generation = json.loads(payload[_LONG.size : at])
    records: list[PackedRecord] = []
    affinities: dict[bytes, str] = {}  # the records of a group share one string
    while at < len(payload):
        key, partition, timestamp, group_size, text_size = _HEAD.unpack_from(payload, at)
        group_at = at + _HEAD.size
        text_at = group_at + group_size
        at = text_at + text_size
        raw = payload[group_at:text_at]
        affinity = affinities.get(raw)
        if affinity is None:
            affinity = affinities[raw] = raw.decode()
        records.append((key, partition, affinity, timestamp, timestamp, payload[text_at:at]))
    return name, generation, records


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=16).digest()
