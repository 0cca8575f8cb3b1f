"""What groups are at now against what their connector reports: the same clusters, once looked at and once worked on."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.config.settings import StaticClientCheck
from bridge.model.values import GroupState, TopicPartition
from bridge.positions.flow import Flow
from bridge.positions.groups import GroupsLook, look_at_groups
from bridge.protocol.messages import GroupReport
from connectors.base import Instance
from connectors.checkpoint.options import CheckpointOptions
from connectors.checkpoint.task import CheckpointInstance
from connectors.group_offset.task import GroupOffsetInstance
from tests.support.forms import examples
from tests.support.messages import message_pattern
from tests.unit.connectors.fake_clusters import JUNK, FakeCluster, FakeClusters, mirrored
from tests.unit.connectors.run_instance import ALONE, Published
from tests.unit.positions.worlds import PROPS, clusters_of
from tests.unit.translation.copied import CopiedPartition

CHECKPOINTS = {"connector.class": "BridgeMirrorCheckpointConnector"}
FLOWS: Mapping[str, Mapping[str, str]] = {
    "runs": {},
    "timestamps": {"translation.verify": "false"},
    "both": CHECKPOINTS,
    "syncs": {**CHECKPOINTS, "translation.evidence": "syncs", "sync.group.offsets.enabled": "true"},
}
AWAY = KafkaFailure(KafkaFault.UNREACHABLE, "gone")


def flow_of(props: Mapping[str, str]) -> Flow:
    return Flow.from_props(props, StaticClientCheck())


async def looked(source: FakeCluster, target: FakeCluster, **more: str) -> GroupsLook:
    props = {**PROPS, **{key.replace("_", "."): value for key, value in more.items()}}
    return await look_at_groups(flow_of(props), props["name"], FakeClusters(source, target), props)


class Heard(Published):
    def records(self, records: Sequence[object]) -> None:
        """Checkpoints are for Connect."""


async def serviced(
    props: Mapping[str, str], source: FakeCluster, target: FakeCluster
) -> dict[str, GroupReport]:
    """What the service reports after as many rounds as the answers take."""
    published, options, clusters = Heard(), flow_of(props).options, FakeClusters(source, target)
    instance: Instance
    if isinstance(options, CheckpointOptions):
        instance = CheckpointInstance("groups", options, clusters, props, published)
    else:
        instance = GroupOffsetInstance("groups", options, clusters, props, published)
    instance.assign(ALONE)
    running = asyncio.create_task(instance.run())
    try:
        for _ in range(4):
            await asyncio.wait_for(instance.operate("refresh", {}), 60)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await instance.close()
    return published.reports


@given(st.integers(0, 1 << 32), st.sampled_from(sorted(FLOWS)))
@settings(max_examples=examples(12, 40), deadline=None)
def test_a_look_says_what_the_service_says(seed: int, kind: str) -> None:
    history = CopiedPartition(str(seed))
    source, target = clusters_of(history)
    target.compacted("mm2-group-readiness.A.internal")
    target.compacted("A.checkpoints.internal")
    end = len(history.source)
    for offset in range(end + 3):
        source.group(f"g{offset:04}", {("orders", 0): offset})
        if offset % 3 == 0:  # members of some are at work on the target already
            target.group(f"g{offset:04}", {("A.orders", 0): offset}, GroupState.STABLE)
    props = {**PROPS, **FLOWS[kind]}

    async def compare() -> None:
        look = await look_at_groups(flow_of(props), "groups", FakeClusters(source, target), props)
        assert not target.altered
        assert target.calls["append"] == target.calls["create_compacted_topic"] == 0
        reports = await serviced(props, source, target)
        assert look.fresh
        assert look.as_of_ms
        assert [each.group for each in look.answers] == sorted(reports)
        for each in look.answers:
            (row,) = reports[each.group].partitions
            assert each.partition is not None
            quiet = {"written": 0, "detail": {}}
            if (each.partition.verdict, row.verdict) == ("pending", "pending"):
                assert each.partition.reason == row.reason
            assert each.partition.model_copy(update=quiet) == row.model_copy(update=quiet)
            assert each.lag == end - row.committed

    asyncio.run(compare())


def test_a_look_has_rows_for_groups_of_which_nothing_can_be_told() -> None:
    source, target = mirrored(20)
    source.group("billing", {("orders", 0): 12, ("nowhere", 0): 3})
    source.group("hidden", {("orders", 0): 1})
    source.group("share", {("orders", 0): 1}, kind="share")
    source.group_trouble["hidden"] = KafkaFailure(KafkaFault.NOT_AUTHORIZED, "no")
    look = asyncio.run(looked(source, target))
    translated = [
        (each.group, each.partition.verdict if each.partition else "", each.reason, each.lag)
        for each in look.answers
    ]
    assert sorted(translated, key=lambda row: row[:2]) == [
        ("billing", "exact", None, 8),
        ("billing", "pending", "source_topic_missing", None),
        ("hidden", "", "source_not_authorized", None),
        ("share", "", "group_type_unsupported", None),
    ]


def test_lag_of_a_partition_that_does_not_answer_is_not_known() -> None:
    source, target = mirrored(20, partitions=2)
    source.group("billing", {("orders", 0): 12, ("orders", 1): 25})
    source.bounds_trouble[TopicPartition("orders", 0)] = AWAY
    look = asyncio.run(looked(source, target))
    lags = {each.partition.partition: each.lag for each in look.answers if each.partition is not None}
    assert lags == {0: None, 1: -5}


def test_without_the_source_groups_are_where_the_service_has_seen_them() -> None:
    history = CopiedPartition("7")
    source, target = clusters_of(history)
    target.compacted("mm2-group-readiness.A.internal")
    source.group("billing", {("orders", 0): len(history.source)})

    async def go() -> None:
        fresh = await looked(source, target)
        source.away = AWAY
        said = message_pattern("positions.source_away", why="gone", topic="mm2-group-readiness.A.internal")
        with pytest.raises(KafkaFailure, match=said):
            await looked(source, target)
        source.away = None
        await serviced(PROPS, source, target)
        source.away, appended = AWAY, target.calls["append"]
        stored = await looked(source, target)
        assert (stored.fresh, target.calls["append"]) == (False, appended)
        assert stored.as_of_ms is not None
        assert fresh.as_of_ms is not None
        assert stored.as_of_ms >= fresh.as_of_ms
        (before,), (after,) = fresh.answers, stored.answers
        assert before.partition is not None
        assert after.partition is not None
        assert after.partition.committed == before.partition.committed
        assert (after.lag, after.reason) == (None, "source_unreachable")
        target.away = AWAY
        with pytest.raises(KafkaFailure, match="target cluster: gone"):
            await looked(source, target)

    asyncio.run(go())


def test_what_stands_on_the_target_is_shown_beside_the_answer() -> None:
    source, target = mirrored(20)
    source.group("billing", {("orders", 0): 12})
    target.group("billing", {("A.orders", 0): 9})
    (answer,) = asyncio.run(looked(source, target)).answers
    assert answer.partition is not None
    assert (answer.partition.target_offset, answer.partition.written, answer.reason) == (12 + JUNK, 9, None)
