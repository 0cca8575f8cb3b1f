"""Calls the two clusters with a time limit; failures name the cluster they are of."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from bridge.errors import KafkaFailure, KafkaFault
from bridge.model.topics import ConfigEntry
from bridge.model.values import Side, TopicInfo
from connectors.cluster_away import ask
from connectors.ports import Cluster, TopicAdmin
from connectors.source.options import SourceOptions

K = TypeVar("K")
T = TypeVar("T")


def name_cluster(side: Side, failure: KafkaFailure) -> KafkaFailure:
    return KafkaFailure(failure.fault, f"{side} cluster: {failure}", retriable=failure.retriable)


def failed(side: Side, answers: Mapping[K, object]) -> dict[K, KafkaFailure]:
    """Returns those of the answers that are failures."""
    return {
        key: name_cluster(side, answer) for key, answer in answers.items() if isinstance(answer, KafkaFailure)
    }


_RIGHTS = {Side.SOURCE: "READ", Side.TARGET: "WRITE"}
"""The operation on topics that copying needs."""
_CONFIGS = {Side.SOURCE: "DESCRIBE_CONFIGS", Side.TARGET: "ALTER_CONFIGS"}
"""The operation that syncing their configs needs."""


class Sides:
    """The source and the target cluster. Every method but `cluster` and `admin` raises ClusterAway."""

    def __init__(self, options: SourceOptions, source: Cluster, target: Cluster) -> None:
        self._clusters = {Side.SOURCE: source, Side.TARGET: target}
        self._aliases = {Side.SOURCE: options.source_alias, Side.TARGET: options.target_alias}
        self._timeout_ms = options.admin_timeout_ms

    def cluster(self, side: Side) -> Cluster:
        return self._clusters[side]

    def admin(self, side: Side) -> TopicAdmin:
        return self._clusters[side].topic_admin

    async def ask(self, side: Side, work: Coroutine[Any, Any, T]) -> T:
        return await ask(side, work, self._timeout_ms)

    async def topics(
        self, side: Side, names: Sequence[str]
    ) -> tuple[dict[str, TopicInfo | None], dict[str, KafkaFailure]]:
        """Returns each topic, None for those that do not exist; and failures of those that could not be described."""
        answers = await self.ask(side, self.cluster(side).topics(names, right=_RIGHTS[side])) if names else {}
        described: dict[str, TopicInfo | None] = {}
        unknown = {}
        for name, answer in answers.items():
            if isinstance(answer, TopicInfo):
                described[name] = answer
            elif answer.fault is KafkaFault.UNKNOWN_TOPIC:
                described[name] = None
            else:
                unknown[name] = name_cluster(side, answer)
        return described, unknown

    async def configs(
        self, side: Side, names: Sequence[str]
    ) -> tuple[dict[str, Mapping[str, ConfigEntry]], list[KafkaFailure]]:
        """Returns the configs of topics; topics that are gone are left out. Those that we may not describe are one
        failure, in stock's words (stock §1.8)."""
        answers = await self.ask(side, self.admin(side).configs(names)) if names else {}
        described, refused, others = {}, [], []
        for name, answer in answers.items():
            if not isinstance(answer, KafkaFailure):
                described[name] = answer
            elif answer.fault is KafkaFault.NOT_AUTHORIZED:
                refused.append(name)
            elif answer.fault is not KafkaFault.UNKNOWN_TOPIC:
                others.append(name_cluster(side, answer))
        if refused:
            text = (
                "TopicAuthorizationException occurred while trying to describe configs for topics "
                f"[{', '.join(sorted(refused))}] on {self._aliases[side]} cluster; grant {_CONFIGS[side]} on them"
            )
            others.append(KafkaFailure(KafkaFault.NOT_AUTHORIZED, text))
        return described, others
