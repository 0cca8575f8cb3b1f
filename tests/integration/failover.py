"""A hand-made mirror: copies with shifted offsets, and rounds of group offsets over two real clusters."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from bridge.errors import ConfigError
from bridge.kafka.cluster import KafkaClusters
from bridge.local import Cluster
from bridge.model.values import Side, TopicPartition
from bridge.translation.plan import PartitionPlan
from connectors.group_offset.options import GroupOffsetOptions
from connectors.group_offset.task import strategy_of
from connectors.group_translation.round import GroupRounds
from tests.support.names import unique
from tests.support.records import Record, produce
from tests.support.topics import create_topic

JUNK = 5
"""Records that a copy begins with, so that no translated offset is right by being the source's."""


class AnyClient:
    """Leaves client properties unchecked."""

    def check(self, props: object) -> Sequence[ConfigError]:
        return ()

    def check_producer(self, side: object, props: object) -> tuple[()]:
        return ()

    def refused(self, props: object) -> tuple[()]:
        return ()

    def rule(self, use: object, name: object) -> None:
        return None

    properties = ()


def topics(source: Cluster, target: Cluster, *, junk: int = JUNK) -> str:
    """A topic of one partition on the source, and its copy on the target, which begins with `junk` records."""
    topic = create_topic(source.bootstrap, unique("kinds"))
    create_topic(target.bootstrap, f"{source.name}.{topic}")
    if junk:
        produce(target.bootstrap, f"{source.name}.{topic}", foreign(junk))
    return topic


def foreign(count: int) -> list[Record]:
    """Records that stand nowhere else, older than all others."""
    return [Record(unique("junk").encode(), key=b"junk", timestamp=1_000_000 + at) for at in range(count)]


def copy(source: Cluster, target: Cluster, topic: str, records: Sequence[Record]) -> None:
    """As a mirror would: each record as it is, in order."""
    produce(target.bootstrap, f"{source.name}.{topic}", records)


def translate(
    source: Cluster, target: Cluster, group: str, **settings: str
) -> dict[TopicPartition, PartitionPlan]:
    """One round for one group, written on the target; `settings`: keys of the connector, `_` for `.`."""
    props = {
        "source.cluster.alias": source.name,
        "target.cluster.alias": target.name,
        "source.cluster.bootstrap.servers": source.bootstrap,
        "target.cluster.bootstrap.servers": target.bootstrap,
        **{name.replace("_", "."): value for name, value in settings.items()},
    }
    options = GroupOffsetOptions.from_props(props, AnyClient())

    async def go() -> dict[TopicPartition, PartitionPlan]:
        clusters = KafkaClusters()
        try:
            source, target = (clusters.open(side, props) for side in (Side.SOURCE, Side.TARGET))
            rounds = GroupRounds(options, source, target, strategy_of(options))
            outcome = await rounds.run([group])
            rounds.end()
            assert not outcome.failures, outcome
            return {row.source: row for row in outcome.plans[group].rows}
        finally:
            await clusters.close()

    return asyncio.run(go())
