"""What connectors report of their copies, and the metrics of it."""

from __future__ import annotations

from collections.abc import Sequence

from bridge.model.copying import Progress
from bridge.protocol.messages import CopyTotals


def row(
    partition: int, topic: str = "orders", lag: int = 5, position: int = 10, records: int = 7
) -> Progress:
    end = position + lag if lag >= 0 else -1
    return Progress(topic, partition, f"A.{topic}", position, end, records, 700, 1.5, 150.0, 40, -1)


def totals(**changes: object) -> CopyTotals:
    fields = {"source": "A", "target": "B", "state": "copying", "partitions": 3, "lag": 10, "records": 21}
    return CopyTotals.model_validate(fields | {"bytes": 2100} | changes)


def lines(text: str, metric: str) -> Sequence[str]:
    """The samples of one of our metrics."""
    return [line for line in text.splitlines() if line.startswith(f"mirror_bridge_{metric}{{")]
