"""Kafka's compression codecs: their names by number, and the levels that producers may be given. Pure.

The one table of names and levels (CompressionType of Kafka 4.3): what the copy and Spark's sink check, and what batches
are encoded and decoded by.
"""

from __future__ import annotations

from typing import NamedTuple

from bridge.model.java_values import integer


class Codec(NamedTuple):
    """`levels`: from and to, of a codec that has some; `default`: a further one that means Java's default."""

    name: str
    levels: tuple[int, int] | None = None
    default: int | None = None

    def level_problem(self, text: str) -> str | None:
        """Returns why the text is no level, as the end of a sentence; None where it is one."""
        if self.levels is None:
            return None
        (least, most), level = self.levels, integer(text)
        if level is not None and (least <= level <= most or level == self.default):
            return None
        default = "" if self.default is None else f", or {self.default}"
        return f"must be a number from {least} to {most}{default}"


CODECS = (
    Codec("none"),
    Codec("gzip", (1, 9), -1),
    Codec("snappy"),
    Codec("lz4", (1, 17)),
    Codec("zstd", (-131072, 22)),
)
"""By number, as the attributes of a batch have it."""
CODEC_NAMES = tuple(codec.name for codec in CODECS)
"""As in compression.type."""
LEVELS = tuple(codec for codec in CODECS if codec.levels is not None)
