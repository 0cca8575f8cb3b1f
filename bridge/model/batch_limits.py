"""Limits how large a batch of records may get when it is decompressed."""

from __future__ import annotations

from collections.abc import Mapping

from bridge.model.java_values import integer

KEY = "bridge.batch.decompressed.max.bytes"
MOST_BYTES = 128 * 1024 * 1024
"""Its default."""
RATIO, FREE = 1000, 8
"""A batch may be RATIO times as large as it is compressed; up to one part in FREE of the most bytes it may be
larger."""
BYTES_A_RECORD = 32
"""Bytes of the limit that each record of a batch counts for, beside its own."""


class Overlarge(ValueError):
    """Raised for a batch that holds more than the limit allows."""

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"it holds more than {limit} bytes when it is decompressed, or more records or headers than there may be; "
            f"a higher {KEY} allows more"
        )


def limit(size: int, most: int) -> int:
    """Returns how many bytes `size` compressed ones may become, where a batch may have `most`."""
    return min(most, max(most // FREE, RATIO * size))


def most_bytes(props: Mapping[str, str]) -> int:
    """Returns the limit of a connector's configuration, which was checked before."""
    return integer(props.get(KEY, "")) or MOST_BYTES
