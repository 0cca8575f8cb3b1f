"""Exposes the metrics of copying: totals for each connector, and stock's metrics of MirrorSourceConnector for
partitions (stock §1.12).

Stock has twelve series for each partition, however many there are. Here the first MOST_PARTITIONS of a service, in
order of connector, topic and partition, have seven each; the others are in the totals and in the API. Histograms are by
topic, of the first MOST_TOPICS of a service.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice

from prometheus_client.core import HistogramMetricFamily, Metric

from bridge.model.copying import GapKind, Progress
from bridge.protocol.messages import CopyTotals
from bridge.service.metrics.naming import PREFIX, family, totals
from bridge.service.state.copy_progress import CopySnapshot
from bridge.service.state.copy_samples import MOST_TOPICS
from bridge.service.state.snapshots import Snapshots
from bridge.service.state.task_table import TaskTable
from connectors.base import COPYING_KINDS

MOST_PARTITIONS = 1_000
_FLOW = ("connector", "source", "target")
_LABELS = (*_FLOW, "topic", "partition")
_COUNTERS = {
    "record_count": ("records", "Records copied"),
    "byte_count": ("bytes", "Bytes of the batches copied, as they are compressed"),
}
_GAUGES = {
    "record_rate": ("record_rate", "Records copied per second"),
    "byte_rate": ("byte_rate", "Bytes copied per second"),
    "record_age_ms": ("record_age_ms", "Age of the last records when they were fetched"),
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

    def __init__(
        self,
        table: TaskTable,
        snapshots: Snapshots,
        now_ms: Callable[[], int] = lambda: int(time.time() * 1000),
    ) -> None:
        self._table = table
        self._snapshots = snapshots
        self._now_ms = now_ms

    def collect(self) -> Iterator[Metric]:
        yield self._heartbeats_known()
        copying = {
            connector.name: snapshot
            for connector in self._table
            if (snapshot := self._snapshots.connector(connector.name).copying).totals is not None
        }
        yield from _sums({name: each.totals for name, each in copying.items() if each.totals is not None})
        yield from _lags(copying, self._now_ms())
        yield from _histograms(copying)
        yield _partition_states(copying)
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

    def _heartbeats_known(self) -> Metric:
        """Also of a connector that has reported nothing: where the source is away from the start, all other series of
        the copy are missing, and an alert on them would say nothing."""
        known = family(
            "heartbeat_known",
            "1 once a heartbeat was copied since the service was started, 0 before: its age is not known",
            *_FLOW,
        )
        for connector in self._table:
            if connector.kind in COPYING_KINDS:
                source, target = connector.flow
                heartbeat = self._snapshots.connector(connector.name).copying.samples.heartbeat
                known.add_metric([connector.name, source or "", target or ""], float(heartbeat is not None))
        return known


def _lags(copying: Mapping[str, CopySnapshot], now_ms: int) -> Iterator[Metric]:
    """The metrics of KIP-382 that stock has not."""
    age = family("heartbeat_age_ms", "Since the newest heartbeat that was copied was made", *_FLOW)
    lag = family("heartbeat_lag_ms", "From when that heartbeat was made until its copy was committed", *_FLOW)
    replication = family(
        "replication_lag_ms",
        "From fetch to commit, on average of the records that were copied last",
        *_FLOW,
    )
    for name, snapshot in copying.items():
        samples, labels = snapshot.samples, _flow(name, snapshot)
        if samples.heartbeat is not None:
            age.add_metric(labels, max(0, now_ms - samples.heartbeat.made_ms))
            lag.add_metric(labels, samples.heartbeat.lag_ms)
        if samples.replication_lag_ms is not None:
            replication.add_metric(labels, round(samples.replication_lag_ms, 1))
    yield from (age, lag, replication)


def _partition_states(copying: Mapping[str, CopySnapshot]) -> Metric:
    states = family(
        "partition_state",
        f"1 for a source partition that is not just copied, of the first {MOST_PARTITIONS} of a connector",
        "connector",
        "source_topic",
        "partition",
        "state",
    )
    for name, snapshot in copying.items():
        for (topic, partition), status in islice(snapshot.apart.items(), MOST_PARTITIONS):
            states.add_metric([name, topic, str(partition), status.state], 1)
    return states


def _histograms(copying: Mapping[str, CopySnapshot]) -> Iterator[Metric]:
    labels = (*_FLOW, "topic")
    age = HistogramMetricFamily(
        f"{PREFIX}_topic_record_age_ms", "Age of records when they were fetched", labels=labels
    )
    latency = HistogramMetricFamily(
        f"{PREFIX}_topic_replication_latency_ms",
        "From the timestamp of records until they were committed on the target",
        labels=labels,
    )
    left_out = family(
        "topics_without_histograms",
        f"Topics beyond the first {MOST_TOPICS} of the service, which have no histograms",
        "connector",
    )
    room = MOST_TOPICS
    for name, snapshot in copying.items():
        shown = 0
        for topic, histograms in islice(snapshot.samples.histograms.items(), room):
            of_topic = [*_flow(name, snapshot), topic]
            age.add_metric(of_topic, histograms.age.buckets(), histograms.age.sum)
            latency.add_metric(of_topic, histograms.latency.buckets(), histograms.latency.sum)
            shown += 1
        room -= shown
        left_out.add_metric(
            [name], len(snapshot.target_topics() | snapshot.samples.histograms.keys()) - shown
        )
    yield from (age, latency, left_out)


def _flow(name: str, snapshot: CopySnapshot) -> list[str]:
    totals = snapshot.totals
    return [name, totals.source, totals.target] if totals is not None else [name, "", ""]


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
    states = family("partitions", "Partitions of a connector in each state", "connector", "state")
    gaps = family("gaps", "Entries of the gap ledger: records that could not be copied", "connector", "kind")
    records = totals("copied_records", "Records copied", "connector")
    copied_bytes = totals("copied_bytes", "Bytes of the batches copied, as they are compressed", "connector")
    restarts = totals("copy_restarts", "Times that copying was restarted after an error", "connector")
    for name, copy_totals in copying.items():
        partitions.add_metric([name], copy_totals.partitions)
        for state, count in copy_totals.states.items():
            states.add_metric([name, state], count)
        if copy_totals.lag is not None:
            lag.add_metric([name], copy_totals.lag)
        if copy_totals.replication_latency_ms is not None:
            latency.add_metric([name], copy_totals.replication_latency_ms)
        for kind in GapKind:
            gaps.add_metric([name, kind.value], copy_totals.gaps.get(kind.value, 0))
        records.add_metric([name], copy_totals.records)
        copied_bytes.add_metric([name], copy_totals.bytes)
        restarts.add_metric([name], copy_totals.restarts)
    yield from (partitions, states, lag, latency, gaps, records, copied_bytes, restarts)
