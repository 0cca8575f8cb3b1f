"""Exposes the metrics of copying: totals for each connector, and stock's metrics of MirrorSourceConnector for
partitions (stock §1.12).

Stock has twelve series for each partition, however many there are. Here the first MOST_PARTITIONS of a service, in
order of connector, topic and partition, have seven each; the others are in the totals and in the API.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

from prometheus_client.core import Metric

from bridge.model.copying import GapKind, Progress
from bridge.protocol.messages import CopyTotals
from bridge.service.metrics.naming import family, totals
from bridge.service.state.snapshots import Snapshots
from bridge.service.state.task_table import TaskTable

MOST_PARTITIONS = 1_000
_LABELS = ("connector", "source", "target", "topic", "partition")
_COUNTERS = {
    "record_count": ("records", "Records copied"),
    "byte_count": ("bytes", "Bytes of the batches copied, as they are compressed"),
}
_GAUGES = {
    "record_rate": ("record_rate", "Records copied per second"),
    "byte_rate": ("byte_rate", "Bytes copied per second"),
    "record_age_ms": ("record_age_ms", "Age of the last records when they were committed"),
    "replication_latency_ms": (
        "replication_latency_ms",
        "From the timestamp of the last records until they were committed on the target",
    ),
    "lag": ("lag", "Offsets of the source that are yet to be copied"),
}
"""By metric name, which is stock's, the field of a Progress. `topic` is the remote topic, as with stock."""

_Rows = list[tuple[list[str], Progress]]
"""Label values, and the partition."""


class CopyCollector:
    """The metrics of copying, read at a scrape."""

    def __init__(self, table: TaskTable, snapshots: Snapshots) -> None:
        self._table = table
        self._snapshots = snapshots

    def collect(self) -> Iterator[Metric]:
        copying = {
            connector.name: snapshot
            for connector in self._table
            if (snapshot := self._snapshots.connector(connector.name).copying).totals is not None
        }
        yield from _sums({name: each.totals for name, each in copying.items() if each.totals is not None})
        rows: _Rows = []
        left_out = family(
            "partitions_without_metrics",
            f"Partitions beyond the first {MOST_PARTITIONS} of the service, which have no series of their own",
            "connector",
        )
        for name, snapshot in copying.items():
            before = len(rows)
            rows += _labelled(name, snapshot.totals, islice(snapshot.partitions(), MOST_PARTITIONS - before))
            left_out.add_metric([name], len(snapshot.rows) - (len(rows) - before))
        yield left_out
        for metric, (field, text) in _COUNTERS.items():
            counted = totals(metric, text, *_LABELS)
            for labels, row in rows:
                counted.add_metric(labels, getattr(row, field))
            yield counted
        for metric, (field, text) in _GAUGES.items():
            now = family(metric, text, *_LABELS)
            for labels, row in rows:
                if (value := getattr(row, field)) >= 0:
                    now.add_metric(labels, value)
            yield now


def _labelled(
    name: str, copy_totals: CopyTotals | None, rows: Iterable[Progress]
) -> Iterator[tuple[list[str], Progress]]:
    source, target = (copy_totals.source, copy_totals.target) if copy_totals is not None else ("", "")
    for row in rows:
        yield [name, source, target, row.target_topic, str(row.partition)], row


def _sums(copying: Mapping[str, CopyTotals]) -> Iterator[Metric]:
    partitions = family("copied_partitions", "Partitions that a connector copies", "connector")
    lag = family("copy_lag", "Offsets of the source that are yet to be copied", "connector")
    latency = family(
        "copy_latency_max_ms", "Greatest replication latency of partitions that copy now", "connector"
    )
    gaps = family("gaps", "Entries of the gap ledger: records that could not be copied", "connector", "kind")
    records = totals("copied_records", "Records copied", "connector")
    copied_bytes = totals("copied_bytes", "Bytes of the batches copied, as they are compressed", "connector")
    restarts = totals("copy_restarts", "Times that copying was restarted after an error", "connector")
    for name, copy_totals in copying.items():
        partitions.add_metric([name], copy_totals.partitions)
        if copy_totals.lag is not None:
            lag.add_metric([name], copy_totals.lag)
        if copy_totals.replication_latency_ms is not None:
            latency.add_metric([name], copy_totals.replication_latency_ms)
        for kind in GapKind:
            gaps.add_metric([name, kind.value], copy_totals.gaps.get(kind.value, 0))
        records.add_metric([name], copy_totals.records)
        copied_bytes.add_metric([name], copy_totals.bytes)
        restarts.add_metric([name], copy_totals.restarts)
    yield from (partitions, lag, latency, gaps, records, copied_bytes, restarts)
