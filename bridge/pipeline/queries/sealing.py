"""Slices as bytes that only their driver and their tasks can read.

As rows of a DataFrame slices come to places that a job's partitions do not: a query's plan, and with Spark Connect a
message and perhaps a file of the server. The key is in the task's function; neither is of use without the other.

Runs the sealed slices of a query's task, which come, and report what they copy, in batches of Arrow.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from pyspark.serializers import CPickleSerializer

from bridge.kafka.gc_tuning import collect_seldom
from bridge.pipeline.layouts.slots import Slice
from bridge.pipeline.slices.progress_row import ProgressRow
from bridge.pipeline.slices.tasks import is_retry, progress

_PICKLES: Any = CPickleSerializer()
_NONCE = 12
"""Bytes, new ones for each slice."""
_PURPOSE = b"mirror-bridge slice"
_FAST = 1
"""Level of zlib: the runs of many partitions compress well."""
_TYPES = {"at": pa.timestamp("us", "UTC"), "connector": pa.string(), "ended": pa.string()}
_SCHEMA = pa.schema([(name, _TYPES.get(name, pa.int64())) for name in ProgressRow._fields])


def new_key() -> bytes:
    """A key for one driver process, which has it in memory only."""
    return AESGCM.generate_key(bit_length=256)


def seal(work: Slice, key: bytes) -> bytes:
    nonce = os.urandom(_NONCE)
    packed: bytes = _PICKLES.dumps(work)
    return nonce + AESGCM(key).encrypt(nonce, zlib.compress(packed, _FAST), _PURPOSE)


def unseal(sealed: bytes, key: bytes) -> Slice:
    """Raises ValueError for what was not sealed with this key: nothing of it is unpickled."""
    try:
        packed = AESGCM(key).decrypt(sealed[:_NONCE], sealed[_NONCE:], _PURPOSE)
    except (InvalidTag, ValueError):  # ValueError: too short to be one
        raise ValueError("a slice that no driver of ours has sealed") from None
    work: Any = _PICKLES.loads(zlib.decompress(packed))
    assert isinstance(work, Slice)
    return work


def run_sealed(key: bytes, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Runs batches of sealed slices for DataFrame.mapInArrow; yields batches of one row each."""
    collect_seldom()
    sealed = [sealed_slice for batch in batches for sealed_slice in batch.column(0).to_pylist()]
    for row in progress([unseal(sealed_slice, key) for sealed_slice in sealed], retried=is_retry()):
        yield pa.RecordBatch.from_pylist([row._asdict()], _SCHEMA)
