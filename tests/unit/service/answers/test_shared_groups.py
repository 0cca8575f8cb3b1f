"""A second connector that commits the same groups is named: each of them is in the answers twice."""

from __future__ import annotations

import pytest

from bridge.service.doctor import namings
from bridge.service.ipc.messages import pack_report
from connectors.registry import KINDS
from tests.unit.service.answers.ready_flow import FLOW, Flow
from tests.unit.service.service_fakes import report, session
from tests.unit.service.service_harness import ServiceHarness, run


@pytest.mark.parametrize(
    ("kind", "config", "groups", "shared"),
    [
        ("group_offset", {}, ["zero", "one", "two"], 2),
        ("checkpoint", {"sync.group.offsets.enabled": "true"}, ["one"], 1),
        ("checkpoint", {}, ["one"], 0),
        ("group_offset", {"dry.run": "TRUE"}, ["one"], 0),
        ("group_offset", {}, ["two"], 0),
        ("group_offset", {"source.cluster.alias": "C"}, ["one"], 0),
    ],
)
def test_it_is_a_condition_of_both_and_a_finding_of_doctor(
    kind: str, config: dict[str, str], groups: list[str], shared: int
) -> None:
    async def test(at: ServiceHarness) -> None:
        made = Flow(at)
        await made.begin()
        table = at.service.table
        table.start_task("second", 0, session(1), kind, 1, {**FLOW, **config})
        at.service.snapshots.groups(
            "second", 1, [pack_report(each, report(each, "second")) for each in groups]
        )
        at.clock.ms += 6_000
        for name in ("g", "s", "second"):
            for task in table.connector(name).tasks.values():
                table.poll(name, task.index, task.session)
        at.service.expire()
        health = (await at.client.get("/health")).json()
        said = {
            each["name"]: [one["detail"] for one in each["conditions"] if one["condition"] == "same_groups"]
            for each in health["connectors"]
        }
        assert {name: len(details) for name, details in said.items()} == {
            "g": min(shared, 1),
            "s": 0,
            "second": min(shared, 1),
        }
        assert all(f"connector second commits the offsets of {shared}" in detail for detail in said["g"])
        others = [
            each.same_groups for each in namings(table.connector("g"), table, KINDS) if each.name == "second"
        ]
        assert others == ([] if "source.cluster.alias" in config else [shared])
        table.stop_task("second", 0, session(1))
        at.clock.ms += 6_000
        for task in table.connector("g").tasks.values():
            table.poll("g", task.index, task.session)
        at.service.expire()
        assert table.connector("g").shared_groups == {}

    run(test)
