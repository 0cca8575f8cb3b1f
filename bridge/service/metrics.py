"""Prometheus metrics in a registry of their own: requests as they happen, connectors from the snapshots at
a scrape.

No label per group, topic or partition: series grow with connectors (1,000 at most) and reasons (an enum)
only. What stock says of a checkpoint's latency per group and partition, /v1/groups/{group} says per group.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from bridge import VERSION
from bridge.service.delivery import Deliveries
from bridge.service.engine import EngineState
from bridge.service.pool import BoundedPool
from bridge.service.snapshots import Snapshots
from bridge.service.tasks import TaskTable

PREFIX = "mirror_bridge"
BUCKETS = (0.0005, 0.001, 0.002, 0.003, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1.0)


class Metrics:
    """What is counted as it happens."""

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
        known = method if method in ("GET", "PUT", "POST", "DELETE") else "other"
        self._requests.labels(route, known, str(status)).inc()
        if held_ms is not None:
            self._overhead.observe(max(0.0, seconds - held_ms / 1000))

    def text(self) -> bytes:
        return generate_latest(self.registry)


class ServiceCollector:
    """What is read at a scrape."""

    def __init__(
        self,
        table: TaskTable,
        snapshots: Snapshots,
        deliveries: Deliveries,
        pool: BoundedPool,
        engine: Callable[[], tuple[EngineState, int]],
    ) -> None:
        self._table = table
        self._snapshots = snapshots
        self._deliveries = deliveries
        self._pool = pool
        self._engine = engine

    def collect(self) -> Iterator[Metric]:
        yield from self._connectors()
        yield from self._records()
        state, restarts = self._engine()
        yield _gauge(
            "rounds_process_up", "1 while the rounds process runs", float(state is EngineState.RUNNING)
        )
        yield _counter("rounds_process_restarts", "Times the rounds process was started again", restarts)
        yield _gauge("pool_in_use", "Threads of the bounded pool in use", self._pool.in_use)
        yield _gauge("pool_size", "Threads of the bounded pool", self._pool.size)
        yield _counter("pool_refused", "Requests refused because the pool was full", self._pool.refused)
        info = GaugeMetricFamily(f"{PREFIX}_info", "Version", labels=["version"])
        info.add_metric([VERSION], 1)
        yield info

    def _connectors(self) -> Iterator[Metric]:
        verdicts = _family("group_partitions", "Group-partitions by verdict", "connector", "verdict")
        reasons = _family(
            "group_partitions_pending", "Pending group-partitions by reason", "connector", "reason"
        )
        groups = _family("groups", "Groups that a connector looks after", "connector")
        tasks = _family("tasks_active", "Tasks that hold a lease", "connector")
        failed = _family("connector_failed", "1 while a permanent error stands", "connector")
        age = _family("seconds_since_last_success", "Age of the last round without error", "connector")
        seconds = _family("round_seconds", "Wall time of the last round", "connector")
        rounds = _totals("rounds", "Rounds ended")
        lookups = _totals("lookups", "Look-ups of translation")
        writes = _totals("writes", "Group-partition offsets written")
        unreadable = _totals("unreadable_records", "Records of internal topics that can't be read, left out")
        checkpoints = _totals("checkpoints", "Checkpoints emitted, to be written through Connect")
        now = time.time() * 1000
        for known in self._table:
            name, said = known.name, self._snapshots.connector(known.name).summary
            for verdict in ("exact", "bounded", "pending"):
                verdicts.add_metric([name, verdict], getattr(said, verdict))
            for reason, count in said.reasons.items():
                reasons.add_metric([name, reason], count)
            groups.add_metric([name], said.groups)
            tasks.add_metric([name], len(known.active()))
            failed.add_metric([name], float(said.failure is not None))
            if said.last_success_ms is not None:
                age.add_metric([name], max(0.0, (now - said.last_success_ms) / 1000))
            if said.last_round_seconds is not None:
                seconds.add_metric([name], said.last_round_seconds)
            rounds.add_metric([name], said.rounds)
            lookups.add_metric([name], said.lookups)
            writes.add_metric([name], said.writes)
            unreadable.add_metric([name], said.unreadable_records)
            checkpoints.add_metric([name], said.checkpoints)
        yield from (verdicts, reasons, groups, tasks, failed, age, seconds)
        yield from (rounds, lookups, writes, unreadable, checkpoints)

    def _records(self) -> Iterator[Metric]:
        waiting = _family("records_waiting", "Records that wait for a poll of Connect", "connector")
        in_flight = _family(
            "records_in_flight", "Records that Connect was given and has not written", "connector"
        )
        oldest = _family(
            "records_oldest_waiting_seconds", "Age of the record that waits longest", "connector"
        )
        written = _totals("records_written", "Records that Connect has written")
        latency = HistogramMetricFamily(
            f"{PREFIX}_checkpoint_latency_ms",
            "From the timestamp of a checkpoint (or heartbeat) until Connect had written it",
            labels=["connector"],
        )
        for known in self._table:
            name, traffic = known.name, self._deliveries.traffic(known.name)
            waiting.add_metric([name], traffic.waiting)
            in_flight.add_metric([name], traffic.in_flight)
            oldest.add_metric([name], (traffic.oldest_waiting_ms or 0) / 1000)
            written.add_metric([name], traffic.written)
            if (seen := self._deliveries.latency(name)) is not None:
                latency.add_metric([name], seen.buckets(), seen.sum)
        yield from (waiting, in_flight, oldest, written, latency)


def _family(name: str, text: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"{PREFIX}_{name}", text, labels=labels)


def _totals(name: str, text: str) -> CounterMetricFamily:
    return CounterMetricFamily(f"{PREFIX}_{name}", text, labels=["connector"])


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"{PREFIX}_{name}", text, value=value)


def _counter(name: str, text: str, value: float) -> CounterMetricFamily:
    return CounterMetricFamily(f"{PREFIX}_{name}", text, value=value)
