"""Answers to altered offsets: what is logged, and the message as JSON."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from bridge.protocol.messages import AlteredOffset
from bridge.translation.runs.reset_positions import PartitionReset

log = logging.getLogger(__name__)


def log_and_pack(name: str, rows: Iterable[PartitionReset]) -> bytes:
    """AlteredOffsets as JSON, packed row by row: there may be thousands, and a thread that packs all of them in one go
    holds up the others."""
    packed: list[bytes] = []
    for row in rows:
        fields = row.source.topic, row.source.partition, row.position, row.to, row.outcome.value
        if row.changes:
            log.info(
                "partition %s-%d: position altered from offset %d to %d: %s",
                *fields,
                extra={"connector": name},
            )
        altered = AlteredOffset(
            topic=row.source.topic,
            partition=row.source.partition,
            target_topic=row.target_topic,
            position=row.position,
            to=row.to,
            outcome=row.outcome.value,
        )
        packed.append(altered.model_dump_json().encode())
    return b'{"offsets":[' + b",".join(packed) + b"]}"
