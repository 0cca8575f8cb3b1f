"""Exposes which flows of dedicated mode this node runs, read at a scrape."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from prometheus_client.core import Metric

from bridge.protocol.operators import FlowStatus
from bridge.service.answers.status import RUNNING
from bridge.service.metrics.naming import family


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
        for each in self._flows():
            kind = "copy" if each.copies else "heartbeats"
            running.add_metric([each.source, each.target, kind], float(each.state == RUNNING))
        if running.samples:
            yield running
