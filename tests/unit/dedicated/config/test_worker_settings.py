"""What a flow's worker properties say of its group: stock's names and defaults."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bridge.dedicated.config.plan import FlowPlan, WorkerSettings, all_worker_settings, worker_settings
from bridge.dedicated.flow_run import transactional_id
from bridge.errors import ConfigRejected
from tests.support.messages import message, message_pattern


def flow(source: str = "A", target: str = "B", **worker: str) -> FlowPlan:
    given = {name.replace("_", "."): value for name, value in worker.items()}
    return FlowPlan(source, target, copies=True, heartbeats=True, connectors=(), worker=given)


def test_defaults_are_stocks() -> None:
    assert worker_settings(flow()) == WorkerSettings(
        group="A-mm2",
        topic="mm2-configs.A.internal",
        topic_factor=3,
        offsets_topic="mm2-offsets.A.internal",
        session_ms=10_000,
        heartbeat_ms=3_000,
        rebalance_ms=60_000,
    )


def test_keys_are_honoured() -> None:
    settings = worker_settings(
        flow(
            group_id="mine",
            config_storage_topic="configs",
            config_storage_replication_factor="-1",
            offset_storage_topic="offsets",
            session_timeout_ms="90000",
            heartbeat_interval_ms="1000",
        )
    )
    assert settings == WorkerSettings("mine", "configs", -1, "offsets", 90_000, 1_000, 90_000)


def test_a_flow_of_heartbeats_alone_is_shared_by_itself() -> None:
    """The nodes of another file may copy it."""
    heartbeats = replace(flow(), copies=False)
    assert worker_settings(heartbeats).group == "A-mm2-heartbeats"
    assert worker_settings(replace(flow(group_id="mine"), copies=False)).group == "mine-heartbeats"
    assert transactional_id(heartbeats) != transactional_id(flow())


def test_all_errors_come_at_once_and_once() -> None:
    wrong = flow(session_timeout_ms="soon", heartbeat_interval_ms="0"), flow("C", session_timeout_ms="soon")
    with pytest.raises(ConfigRejected) as raised:
        all_worker_settings(wrong)
    assert [each.message for each in raised.value.errors] == [
        message("config.not_a_number", value="soon", key="B.session.timeout.ms", type="INT"),
        message("config.too_small", value=0, key="B.heartbeat.interval.ms", least=1),
    ]


def test_a_heartbeat_is_shorter_than_a_session() -> None:
    with pytest.raises(ConfigRejected, match=message_pattern("dedicated.heartbeat", session=2000)):
        worker_settings(flow(session_timeout_ms="2000"))


def test_flows_into_one_cluster_have_groups_of_their_own() -> None:
    with pytest.raises(
        ConfigRejected, match=message_pattern("dedicated.one_group", one="A->B", other="C->B", cluster="B")
    ):
        all_worker_settings([flow(group_id="g"), flow("C", group_id="g")])
    assert len(all_worker_settings([flow(group_id="g"), flow("B", "A", group_id="g")])) == 2
