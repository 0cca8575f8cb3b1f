"""Which topics are copied, and what has to be made on the target for them: plans without I/O (mm2 3.6).

Remote topics are never deleted, nor do they lose partitions (B28): a topic that is gone from the source may be the very
reason why its copy is wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from bridge.translation.copying import Copied
from bridge.translation.model import TopicInfo, TopicPartition


class TopicPlan(NamedTuple):
    """`create`: partitions of new remote topics. `grow`: how many partitions remote topics are to have."""

    create: Mapping[str, int]
    grow: Mapping[str, int]

    @property
    def wanted(self) -> Mapping[str, int]:
        """Partitions that have to be seen on the target before anything is copied (B26)."""
        return {**self.create, **self.grow}


def plan_topics(
    sources: Mapping[str, TopicInfo], remotes: Mapping[str, TopicInfo | None], names: Mapping[str, str]
) -> TopicPlan:
    """`sources` by name on the source, `remotes` by name on the target (None: no such topic; absent: not known now),
    `names`: from the one to the other."""
    create, grow = {}, {}
    for topic, info in sources.items():
        remote = names[topic]
        if remote not in remotes:
            continue
        there = remotes[remote]
        if there is None:
            create[remote] = info.partitions
        elif there.partitions < info.partitions:
            grow[remote] = info.partitions
    return TopicPlan(create, grow)


def missing(wanted: Mapping[str, int], remotes: Mapping[str, TopicInfo | None]) -> list[str]:
    """Remote topics that are not there with all of their partitions."""
    counts = {name: info.partitions for name, info in remotes.items() if info is not None}
    return [name for name, partitions in wanted.items() if counts.get(name, 0) < partitions]


def copied(
    sources: Mapping[str, TopicInfo],
    remotes: Mapping[str, TopicInfo | None],
    names: Mapping[str, str],
    transforms_of: Callable[[str], tuple[int, ...]] = lambda _: (),
) -> list[Copied]:
    """Partitions that are there on both sides. Those that only the target has mean nothing."""
    found: list[Copied] = []
    for topic, info in sorted(sources.items()):
        there = remotes.get(names[topic])
        if there is not None:
            transforms = transforms_of(topic)
            found += [
                Copied(
                    TopicPartition(topic, number),
                    info.topic_id,
                    there.name,
                    there.topic_id,
                    transforms=transforms,
                )
                for number in range(min(info.partitions, there.partitions))
            ]
    return found
