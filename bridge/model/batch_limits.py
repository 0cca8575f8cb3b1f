"""How much may become of a batch of records when it is decompressed, and how much of it is kept at a time."""

from __future__ import annotations

from collections.abc import Mapping

KEY = "bridge.batch.decompressed.max.bytes"
MOST_BYTES = 128 * 1024 * 1024
"""Its default."""
RATIO, FREE = 1000, 8
"""How many times as large as it is compressed a batch may be. Up to this part of the most bytes it may be more."""
BYTES_A_RECORD = 32
"""Of the most bytes, for each record that a batch may have: what is kept of one beside its bytes."""


class Overlarge(ValueError):
    """There is more in a batch than the limit allows."""

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"it holds more than {limit} bytes when it is decompressed, or more records or headers than there may be; "
            f"a higher {KEY} allows more"
        )


def limit(size: int, most: int) -> int:
    """Bytes that may become of `size` compressed ones, where a batch may have `most`."""
    return min(most, max(most // FREE, RATIO * size))


def most_bytes(props: Mapping[str, str]) -> int:
    """What a connector's configuration, which is checked already, allows."""
    text = props.get(KEY, "").strip()
    return int(text) if text else MOST_BYTES
