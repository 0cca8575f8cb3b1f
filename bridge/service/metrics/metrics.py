"""Exposes Prometheus metrics from a registry of its own: requests are counted as they happen, connectors are read from
the snapshots at a scrape.

No label has groups: the number of series grows with connectors (1,000 at most), reasons (an enum) and copied partitions
(1,000 at most). Stock's latency of checkpoints per group and partition is per group in
/v1/groups/{group}.

Builds metric families with our prefix.

Exposes the metrics of copying: totals for each connector, and stock's metrics of MirrorSourceConnector for
partitions (stock §1.12).

Stock has twelve series for each partition, however many there are. Here the first MOST_PARTITIONS of a service, in
order of connector, topic and partition, have seven each; the others are in the totals and in the API. Histograms are by
topic, of the first MOST_TOPICS of a service.

Exposes which flows of dedicated mode this node runs, read at a scrape.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from bridge import VERSION
from bridge.model.copying import GapKind, Progress
from bridge.protocol.messages import CopyTotals
from bridge.protocol.operators import FlowStatus
from bridge.protocol.readiness import Readiness
from bridge.service.answers.readiness import Answers, ConnectorView
from bridge.service.answers.status import RUNNING
from bridge.service.pool import Pools
from bridge.service.state.copy_progress import CopySnapshot
from bridge.service.state.copy_samples import MOST_TOPICS
from bridge.service.state.delivery import Deliveries
from bridge.service.state.snapshots import RoundsState, Snapshots
from bridge.service.state.task_table import TaskTable
from connectors.base import COPYING_KINDS, GROUP_KINDS

PREFIX = "mirror_bridge"
BUCKETS = (0.0005, 0.001, 0.002, 0.003, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1.0)
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


def family(name: str, text: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"{PREFIX}_{name}", text, labels=labels)


def totals(name: str, text: str, *labels: str) -> CounterMetricFamily:
    return CounterMetricFamily(f"{PREFIX}_{name}", text, labels=labels)


def gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"{PREFIX}_{name}", text, value=value)


def counter(name: str, text: str, value: float) -> CounterMetricFamily:
    return CounterMetricFamily(f"{PREFIX}_{name}", text, value=value)


class Metrics:
    """The metrics that are counted as they happen."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            f"{PREFIX}_http_requests",
            "Requests by route",
            ["route", "method", "status"],
            registry=self.registry,
        )
        self._overhead = Histogram(
            f"{PREFIX}_poll_overhead_seconds",
            "Answer time of polls minus the time they were held",
            buckets=BUCKETS,
            registry=self.registry,
        )

    def answered(self, route: str, method: str, status: int, seconds: float, held_ms: float | None) -> None:
        connector = method if method in ("GET", "PUT", "POST", "DELETE") else "other"
        self._requests.labels(route, connector, str(status)).inc()
        if held_ms is not None:
            self._overhead.observe(max(0.0, seconds - held_ms / 1000))

    async def text(self) -> bytes:
        """Renders all metrics, and yields to other requests after each family: 1,000 partitions take 7 ms a family, 50
        ms in all."""
        parts = []
        for metric in self.registry.collect():
            parts.append(generate_latest(_Single(metric)))
            await asyncio.sleep(0)
        return b"".join(parts)


class _Single(Collector):
    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> Iterator[Metric]:
        yield self._metric


class ServiceCollector:
    """The metrics that are read at a scrape."""

    def __init__(
        self,
        table: TaskTable,
        snapshots: Snapshots,
        deliveries: Deliveries,
        pools: Pools,
        rounds: Callable[[], tuple[RoundsState, int]],
        views: Callable[[], Mapping[str, ConnectorView]],
    ) -> None:
        self._table = table
        self._snapshots = snapshots
        self._deliveries = deliveries
        self._pools = pools
        self._rounds = rounds
        self._views = views

    def collect(self) -> Iterator[Metric]:
        yield from self._connectors()
        yield from self._records()
        state, restarts = self._rounds()
        yield gauge(
            "rounds_process_up", "1 while the rounds process runs", float(state is RoundsState.RUNNING)
        )
        yield counter("rounds_process_restarts", "Times the rounds process was started again", restarts)
        yield gauge("pool_in_use", "Threads of the bounded pools in use", self._pools.in_use)
        yield gauge("pool_size", "Threads of the bounded pools", self._pools.size)
        yield gauge("pool_hanging", "Threads whose call has timed out and still runs", self._pools.hanging)
        yield counter("pool_refused", "Requests refused because a pool was full", self._pools.refused)
        info = GaugeMetricFamily(f"{PREFIX}_info", "Version", labels=["version"])
        info.add_metric([VERSION], 1)
        yield info

    def _connectors(self) -> Iterator[Metric]:
        verdicts = family("group_partitions", "Group-partitions by verdict", "connector", "verdict")
        reasons = family(
            "group_partitions_pending", "Pending group-partitions by reason", "connector", "reason"
        )
        groups = family("groups", "Groups that a connector follows", "connector")
        readiness = family(
            "groups_by_readiness", "Groups by whether they can fail over now", "connector", "readiness"
        )
        as_of = family(
            "readiness_age_seconds", "Since both clusters were asked for what readiness rests on", "connector"
        )
        tasks = family("tasks_active", "Tasks that hold a lease", "connector")
        failed = family("connector_failed", "1 while a permanent error stands", "connector")
        age = family("seconds_since_last_success", "Age of the last round without error", "connector")
        seconds = family("round_seconds", "Wall time of the last round", "connector")
        rounds = totals("rounds", "Rounds ended", "connector")
        lookups = totals("lookups", "Look-ups of translation", "connector")
        writes = totals("writes", "Group-partition offsets written", "connector")
        unreadable = totals(
            "unreadable_records",
            "Records of internal topics that can't be read, left out",
            "connector",
            "topic",
        )
        checkpoints = totals("checkpoints", "Checkpoints emitted, to be written to the target", "connector")
        now, views = time.time() * 1000, self._views()
        for connector in self._table:
            name, summary = connector.name, self._snapshots.connector(connector.name).summary
            for verdict in ("exact", "bounded", "pending"):
                verdicts.add_metric([name, verdict], getattr(summary, verdict))
            for reason, count in summary.reasons.items():
                reasons.add_metric([name, reason], count)
            groups.add_metric([name], summary.groups)
            if connector.kind in GROUP_KINDS:
                counts = Answers(views[name], self._snapshots.connector(name)).all()
                for word in Readiness:
                    readiness.add_metric([name, word], counts[word])
                if summary.as_of_ms is not None:
                    as_of.add_metric([name], max(0.0, (now - summary.as_of_ms) / 1000))
            tasks.add_metric([name], len(connector.active()))
            failed.add_metric([name], float(summary.failure is not None))
            if summary.last_success_ms is not None:
                age.add_metric([name], max(0.0, (now - summary.last_success_ms) / 1000))
            if summary.last_round_seconds is not None:
                seconds.add_metric([name], summary.last_round_seconds)
            rounds.add_metric([name], summary.rounds)
            lookups.add_metric([name], summary.lookups)
            writes.add_metric([name], summary.writes)
            for topic, count in summary.unreadable_records.items():
                unreadable.add_metric([name, topic], count)
            checkpoints.add_metric([name], summary.checkpoints)
        yield from (readiness, as_of, verdicts, reasons, groups, tasks, failed, age, seconds)
        yield from (rounds, lookups, writes, unreadable, checkpoints)

    def _records(self) -> Iterator[Metric]:
        waiting = family("records_waiting", "Records that wait to be polled", "connector")
        in_flight = family(
            "records_in_flight", "Records that were polled and are not known to be written", "connector"
        )
        oldest = family("records_oldest_waiting_seconds", "Age of the record that waits longest", "connector")
        written = totals("records_written", "Records that were written", "connector")
        latency = HistogramMetricFamily(
            f"{PREFIX}_checkpoint_latency_ms",
            "From the timestamp of a checkpoint (or heartbeat) until it was written",
            labels=["connector"],
        )
        for connector in self._table:
            name, traffic = connector.name, self._deliveries.traffic(connector.name)
            waiting.add_metric([name], traffic.waiting)
            in_flight.add_metric([name], traffic.in_flight)
            oldest.add_metric([name], (traffic.oldest_waiting_ms or 0) / 1000)
            written.add_metric([name], traffic.written)
            if (seen := self._deliveries.latency(name)) is not None:
                latency.add_metric([name], seen.buckets(), seen.sum)
        yield from (waiting, in_flight, oldest, written, latency)


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
        yield from _sums(
            {name: snapshot.totals for name, snapshot in copying.items() if snapshot.totals is not None}
        )
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


class FlowCollector:
    """Metrics of flows. `flows`: those of the node's file; none where the service is no node of dedicated mode."""

    def __init__(self, flows: Callable[[], Iterable[FlowStatus]]) -> None:
        self._flows = flows

    def collect(self) -> Iterator[Metric]:
        running = family(
            "flow_running",
            "1 while this node runs the flow, 0 while another one does or none; kind: copy, or heartbeats alone",
            "source",
            "target",
            "kind",
        )
        for flow in self._flows():
            kind = "copy" if flow.copies else "heartbeats"
            running.add_metric([flow.source, flow.target, kind], float(flow.state == RUNNING))
        if running.samples:
            yield running
