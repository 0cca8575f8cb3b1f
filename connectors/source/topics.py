"""Plans which topics are copied, and which remote topics and partitions have to be created for them (stock §3.6). Pure.

Remote topics are never deleted, nor do they lose partitions (B28): a topic that is gone from the source may be the very
reason why its copy is made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from bridge.model.copying import Copied
from bridge.model.values import TopicInfo, TopicPartition


class TopicPlan(NamedTuple):
    """Remote topics that copying needs. `create`: partitions of new ones. `grow`: how many partitions existing ones are
    to have."""

    create: Mapping[str, int]
    grow: Mapping[str, int]

    @property
    def awaited(self) -> Mapping[str, int]:
        """Partitions that have to be seen on the target before anything is copied (B26)."""
        return {**self.create, **self.grow}


def plan_topics(
    sources: Mapping[str, TopicInfo],
    remotes: Mapping[str, TopicInfo | None],
    names: Mapping[str, str],
    also: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> TopicPlan:
    """Plans which remote topics to create and to grow. `sources` by name on the source, `remotes` by name on the target
    (None: no such topic; absent: not known now), `names`: from the one to the other. `also`: other topics of the target
    that records of a topic may go to; of several topics whose records may, the one with the most partitions counts."""
    create: dict[str, int] = {}
    grow: dict[str, int] = {}
    for topic, info in sources.items():
        for remote in (names[topic], *also.get(topic, ())):
            if remote not in remotes:
                continue
            there = remotes[remote]
            if there is None:
                create[remote] = max(create.get(remote, 0), info.partitions)
            elif there.partitions < info.partitions:
                grow[remote] = max(grow.get(remote, 0), info.partitions)
    return TopicPlan(create, grow)


def missing(expected: Mapping[str, int], remotes: Mapping[str, TopicInfo | None]) -> list[str]:
    """Returns remote topics that are not there with all of their partitions."""
    counts = {name: info.partitions for name, info in remotes.items() if info is not None}
    return [name for name, partitions in expected.items() if counts.get(name, 0) < partitions]


def copied(
    sources: Mapping[str, TopicInfo],
    remotes: Mapping[str, TopicInfo | None],
    names: Mapping[str, str],
    transforms_of: Callable[[str], tuple[int, ...]] = lambda _: (),
    also: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> list[Copied]:
    """Partitions that are there on both sides. Those that only the target has mean nothing."""
    partitions: list[Copied] = []
    for topic, info in sorted(sources.items()):
        there = remotes.get(names[topic])
        others = [remotes.get(name) for name in also.get(topic, ())]
        infos = [each for each in (there, *others) if each is not None]
        if there is not None and len(infos) == 1 + len(others):
            transforms = transforms_of(topic)
            partitions += [
                Copied(
                    TopicPartition(topic, number),
                    info.topic_id,
                    there.name,
                    there.topic_id,
                    transforms=transforms,
                    also=tuple((each.name, each.topic_id) for each in infos[1:]),
                )
                for number in range(min(info.partitions, *(each.partitions for each in infos)))
            ]
    return partitions
