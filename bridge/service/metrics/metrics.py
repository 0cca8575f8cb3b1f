"""Exposes Prometheus metrics from a registry of its own: requests are counted as they happen, connectors are read from
the snapshots at a scrape.

No label has groups: the number of series grows with connectors (1,000 at most), reasons (an enum) and copied partitions
(1,000 at most, see copy_metrics). Stock's latency of checkpoints per group and partition is per group in
/v1/groups/{group}.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from bridge import VERSION
from bridge.protocol.readiness import Readiness
from bridge.service.answers.readiness import Answers, ConnectorView
from bridge.service.metrics.naming import PREFIX, counter, family, gauge, totals
from bridge.service.pool import Pools
from bridge.service.state.delivery import Deliveries
from bridge.service.state.rounds_state import RoundsState
from bridge.service.state.snapshots import Snapshots
from bridge.service.state.task_table import TaskTable
from connectors.base import GROUP_KINDS

BUCKETS = (0.0005, 0.001, 0.002, 0.003, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1.0)


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
                for each in Readiness:
                    readiness.add_metric([name, each], counts[each])
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
