"""Doctor looks at so many topics and groups at most: a cluster may have a hundred thousand."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from bridge.doctor import collecting
from bridge.doctor.checks import examine
from bridge.doctor.collecting import MOST_DATED, MOST_GROUPS, MOST_PAIRS, collect
from bridge.doctor.facts import ClusterFacts, Facts, Severity
from bridge.kafka.admin.inspection import DescribedTopic
from bridge.kafka.config.settings import StaticClientCheck
from bridge.model.values import Side, TopicInfo, TopicPartition
from connectors.registry import KINDS
from tests.support.messages import message
from tests.unit.connectors.configs import CONFIGS

MANY = 2_500
ALL = frozenset({"READ"})


class Cluster:
    """With MANY topics and MANY groups; remembers which topics were looked into."""

    def __init__(self) -> None:
        self.dated: set[str] = set()
        self.topic_admin = SimpleNamespace(configs=self._configs)

    async def _configs(self, names: Sequence[str]) -> dict[str, dict[str, object]]:
        return {name: {} for name in names}

    async def topic_names(self) -> list[str]:
        return [f"t-{number:04}" for number in range(MANY)]

    async def list_groups(self) -> list[str]:
        return [f"g-{number:04}" for number in range(MANY)]

    async def topics(self, names: Collection[str]) -> dict[str, TopicInfo]:
        return {name: TopicInfo(name, "id", 1) for name in names}

    async def answer(self, needs: Mapping[TopicPartition, object], *, committed_only: bool) -> dict[Any, Any]:
        self.dated |= {partition.topic for partition in needs}
        return {}


class Inspection:
    def __init__(self, _settings: object) -> None: ...

    async def close(self) -> None: ...

    async def versions(self) -> tuple[int, int]:
        return 17, 9

    async def topics(self, names: Sequence[str]) -> dict[str, DescribedTopic]:
        return {name: DescribedTopic(0, 1, ALL) for name in names}

    async def groups(self, names: Sequence[str]) -> dict[str, frozenset[str]]:
        return dict.fromkeys(names, ALL)


@pytest.fixture
def facts(monkeypatch: pytest.MonkeyPatch) -> tuple[Facts, Cluster]:
    cluster = Cluster()

    class Clusters:
        def open(self, *_: object) -> Cluster:
            return cluster

        async def close(self) -> None: ...

    async def reach(*_: object) -> ClusterFacts:
        return ClusterFacts("id", {1: "b:9092"}, ALL)

    monkeypatch.setattr(collecting, "KafkaClusters", Clusters)
    monkeypatch.setattr(collecting, "Inspection", Inspection)
    monkeypatch.setattr(collecting, "reach_side", reach)
    kind = KINDS["group_offset"]
    config = {**CONFIGS["group_offset"], "topics": "t-.*", "groups": "g-.*"}
    return asyncio.run(collect(kind, "c", config, StaticClientCheck())), cluster


def test_so_many_topics_and_groups_are_looked_at(facts: tuple[Facts, Cluster]) -> None:
    collected, cluster = facts
    assert collected.errors == []
    assert len(collected.pairs) == MOST_PAIRS < MANY
    for groups in collected.groups.values():
        assert isinstance(groups, Mapping)
        assert len(groups) == MOST_GROUPS < MANY
    assert list(collected.groups) == list(Side)
    assert len(cluster.dated) == MOST_DATED * 2, "on each side"
    assert collected.beyond == {"topics": MANY - MOST_PAIRS, "groups": MANY - MOST_GROUPS}
    left = [each for each in examine(collected) if each.check == "rights"]
    assert [each.found for each in left if each.severity is Severity.NOT_CHECKED] == [
        message("doctor.beyond", count=500, what=what) for what in ("topics", "groups")
    ]
