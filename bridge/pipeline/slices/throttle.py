"""Adapts a slice to a target that is far away or slow: size of batches and fetches, length of transactions. Pure.

A broker takes five requests of a producer at a time, and a batch of each partition in one of them; a commit costs round
trips in which nothing is sent. Near by, neither is felt.
"""

from __future__ import annotations

from bridge.kafka.network.in_flight import FIRST, MOST, NEAR, stretched
from bridge.kafka.record.compression import Compression
from bridge.kafka.record.rebuilding import BatchPolicy, CodecSizes, TopicLimits
from bridge.model.copying import MOST_BYTES, PipelineSpec

_LARGEST = 1_000_000
"""Bytes of a batch: below what topics and brokers allow by default."""
_BACKLOG = 7
"""Batches of a backlog become up to so many times as large as batch.size: a batch costs, here and on the target's
brokers, more than its bytes do. By default that stays below 128 KiB, from where on each takes fresh memory."""
_FEW = CodecSizes(none=1 << 31, gzip=2048, snappy=16384, lz4=16384, zstd=16384)
"""A batch that is larger costs less, about, when it is sent as it is than when it is rebuilt with its neighbours."""
_ANY = CodecSizes.all(1 << 31)
_ROUND_TRIPS = 8
"""Of a transaction when there is a backlog."""
_LONGEST = 1 / 3
"""Part of a transaction's timeout after which nothing more is sent in it. The rest is for what is under way, which the
target may take more slowly by then, and for the commit."""
_WINDOWS = 8
"""Held of fetched records at most: what is to be sent in some seconds, by what the target has shown."""


def fetch_bytes(window: int) -> int:
    """The bytes that may be fetched ahead of a target that takes a `window` at a time: a slow one is not waited for
    with memory full of records, which are fetched once more when the slice begins anew."""
    return max(FIRST, min(MOST, _WINDOWS * window))


def batch_bytes(batch_size: int, round_trip: float) -> int:
    """The size up to which neighbours are coalesced. Sizes in bytes; `round_trip` in seconds to the target and back."""
    return max(stretched(batch_size, round_trip, _LARGEST), min(_LARGEST, _BACKLOG * batch_size))


def compression(spec: PipelineSpec) -> Compression | None:
    """The codec that batches get on the target; None: each keeps its own."""
    return Compression.named(spec.compression, spec.compression_level) if spec.compression else None


def batch_policy(
    batch_size: int,
    limits: TopicLimits,
    round_trip: float,
    compression: Compression | None = None,
    decompressed: int = MOST_BYTES,
) -> BatchPolicy:
    """The policy for making batches ready for a target topic that is `round_trip` seconds away and back. The same with
    a backlog and without: what comes in one fetch is coalesced, and a single batch has no neighbour."""
    return BatchPolicy(
        limits.max_message_bytes,
        batch_bytes(batch_size, round_trip),
        _coalesced(round_trip, compression),
        compression,
        decompressed,
        limits.stored,
    )


def _coalesced(round_trip: float, compression: Compression | None) -> CodecSizes:
    """The largest batches that are coalesced. Near by processors are scarce; over a distance it is batches. Those of
    another codec than the target's are rebuilt in any case."""
    few = _FEW if round_trip <= NEAR else _ANY
    if compression is None:
        return few
    return CodecSizes(
        *(
            size if codec == compression.codec else most
            for codec, (size, most) in enumerate(zip(few, _ANY, strict=True))
        )
    )


def longest_transaction(timeout: float) -> float:
    """Seconds from the first batch to the commit, whatever waits to be sent; `timeout`: transaction.timeout.ms."""
    return _LONGEST * timeout


def backlog_seconds(interval: float, round_trip: float, timeout: float) -> float:
    """From the first batch of a backlog to the commit. Its records are late already: commits would only delay them."""
    return min(max(interval, _ROUND_TRIPS * round_trip), longest_transaction(timeout))
