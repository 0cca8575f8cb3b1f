"""Rounds of groups over fakes."""

from __future__ import annotations

import asyncio

from bridge.kafka.config.settings import StaticClientCheck
from connectors.group_offset.options import GroupOffsetOptions
from connectors.group_offset.task import strategy_of
from connectors.group_translation.round import GroupRounds, RoundOutcome
from tests.unit.connectors.fake_clusters import FakeCluster


def options(**given: str) -> GroupOffsetOptions:
    props = {
        "source.cluster.alias": "A",
        "target.cluster.alias": "B",
        "source.cluster.bootstrap.servers": "a:1",
        "target.cluster.bootstrap.servers": "b:1",
        **{name.replace("_", "."): value for name, value in given.items()},
    }
    return GroupOffsetOptions.from_props(props, StaticClientCheck())


def rounds(source: FakeCluster, target: FakeCluster, **given: str) -> GroupRounds:
    chosen = options(**given)
    return GroupRounds(chosen, source, target, strategy_of(chosen))


def run(kept: GroupRounds, source: FakeCluster) -> RoundOutcome:
    """A round of one portion."""

    async def whole() -> RoundOutcome:
        try:
            return await kept.run(sorted(source.offsets))
        finally:
            kept.end()

    return asyncio.run(whole())
