"""A flow that is ready to fail over, and what a service answers about it."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from bridge.model.copying import Progress
from bridge.protocol.operators import CopyTotals
from connectors.base import CopyReport, Summary
from tests.unit.service.service_fakes import report, session
from tests.unit.service.service_harness import ServiceHarness

FLOW = {"source.cluster.alias": "A", "target.cluster.alias": "B"}
INTERVAL_MS = 2_000
_ANSWERS = {"ready", "ready_as_of", "not_ready", "cannot_tell"}

ROW = {
    "topic": "orders",
    "partition": 0,
    "offset": 1001,
    "targetTopic": "A.orders",
    "targetOffset": 400,
    "verdict": "exact",
    "bound": 0,
    "missing": 12,
}
RECORD: dict[str, Any] = {
    "state": "moved",
    "atMs": 1_795_000_000_000,
    "asOfMs": 1_794_999_999_000,
    "sourceAway": False,
    "missingSinceMs": 1_794_999_990_000,
    "partitions": [ROW],
    "snapshot": [],
}
"""A move record, as the rounds process answers it."""


class Flow:
    """A connector of groups `g` and one that copies `s`, both at work; everything is ready."""

    def __init__(self, at: ServiceHarness) -> None:
        self.at, self.table, self.snapshots = at, at.service.table, at.service.snapshots

    async def begin(self) -> None:
        self.table.start_task("g", 0, session(1), "group_offset", 2, FLOW)
        self.table.start_task("g", 1, session(1), "group_offset", 2, FLOW)
        self.table.start_task("s", 0, session(1), "source", 1, FLOW)
        self.round()
        self.copied()
        zero, one = report("zero", "g"), report("one", "g").model_copy(update={"task": 1})
        self.at.reports(zero, one, connector="g")

    def round(self, generation: int = 1, /, **changes: Any) -> None:
        now_ms = int(time.time() * 1000)
        summary = Summary(rounds=1, as_of_ms=now_ms, tasks=(0, 1), interval_ms=INTERVAL_MS)
        self.snapshots.summary("g", generation, replace(summary, **changes))

    def target_answers(self, seconds_ago: float = 0, *tasks: int) -> dict[str, Any]:
        """The fields of a round without the source that began then."""
        at_ms = self.table.now_ms - int(1000 * seconds_ago)
        return {"target_monotonic_ms": at_ms, "target_tasks": tasks or (0, 1)}

    def copied(self, name: str = "s", topic: str = "orders", **changes: Any) -> None:
        seen = frozenset({"source", "target"})
        summary = Summary(rounds=1, copying_ms=int(time.time() * 1000), clusters_seen=seen)
        self.snapshots.summary(name, 1, replace(summary, **changes))
        row = Progress(topic, 0, f"A.{topic}", 9, 9, 9, 90)
        totals = CopyTotals(source="A", target="B", state="caught_up")
        self.snapshots.progress(name, 1, CopyReport(totals, [row], whole=True))

    async def answers(self) -> tuple[dict[str, str], list[tuple[str, str]]]:
        """Of each group on every surface, which agree; and the reasons of group `zero`."""
        client, result = self.at.client, {}
        page = (await client.get("/v1/groups?connector=g")).json()
        for each in page["groups"]:
            (full,) = (await client.get(f"/v1/groups/{each['group']}")).json()["reports"]
            explained = (await client.get(f"/v1/groups/{each['group']}/explain")).json()["lines"]
            for one in (each, full):
                assert one["ready"] == (one["readiness"] == "ready")
            same = "readiness", "as_of_ms", "reasons"
            assert [each[name] for name in same] == [full[name] for name in same]
            for reason in each["reasons"]:
                assert any(reason["detail"] in line for line in explained), explained
            result[each["group"]] = each["readiness"]
        flow = (await client.get("/v1/readiness")).json()
        counts = {name: list(result.values()).count(name) for name in flow["flows"][0] if name in _ANSWERS}
        assert {name: flow["flows"][0][name] for name in counts} == counts
        metrics = (await client.get("/metrics")).text
        for name, count in counts.items():
            line = f'mirror_bridge_groups_by_readiness{{connector="g",readiness="{name}"}} {count:.1f}'
            assert line in metrics
        assert (flow["readiness"] == "ready") == (set(result.values()) - {"moved"} == {"ready"})
        (zero,) = (each for each in page["groups"] if each["group"] == "zero")
        return result, [(each["reason"], each["detail"]) for each in zero["reasons"]]
