"""Syncs configs and ACLs of remote topics with those of their upstream topics (stock §3.6)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from bridge.errors import KafkaFailure, KafkaFault
from bridge.model.topics import TopicAcl
from bridge.model.values import Side
from connectors.cluster_away import ClusterAway
from connectors.source.cluster_calls import Sides, failed
from connectors.source.options import SourceOptions
from connectors.source.topic_settings import RemoteNames, config_changes, plan_acls, remote_acls

log = logging.getLogger(__name__)

Names = Callable[[], Mapping[str, str]]
"""Remote names of the topics that are there on both sides, now."""


class ConfigSync:
    """Syncs the configs of remote topics. Those of a topic that is gone from the source stay (B28)."""

    def __init__(self, options: SourceOptions, sides: Sides, names: Names) -> None:
        self._options, self._sides, self._names = options, sides, names

    async def round(self) -> list[KafkaFailure]:
        """Failures of single topics; raises ClusterAway."""
        names = self._names()
        sources, failures = await self._sides.configs(Side.SOURCE, list(names))
        targets, unseen = await self._sides.configs(Side.TARGET, [names[topic] for topic in sources])
        changes = {
            names[topic]: changed
            for topic, source in sources.items()
            if names[topic] in targets
            and (changed := config_changes(source, targets[names[topic]], self._options.config_filter))
        }
        return [*failures, *unseen, *await self._alter(changes)]

    async def _alter(self, changes: Mapping[str, Mapping[str, str | None]]) -> list[KafkaFailure]:
        if not changes:
            return []
        try:
            altering = self._sides.admin(Side.TARGET).alter_configs(changes)
            done = await self._sides.ask(Side.TARGET, altering)
        except ClusterAway as away:
            if away.failure.fault is not KafkaFault.UNSUPPORTED:
                raise
            text = (
                f"the target cluster '{self._options.target_alias}' is not compatible with IncrementalAlterConfigs "
                "API; set sync.topic.configs.enabled=false"
            )
            return [KafkaFailure(KafkaFault.UNSUPPORTED, text, retriable=False)]
        return list(failed(Side.TARGET, done).values())


class AclSync:
    """Syncs the ACLs of remote topics. Where a cluster has no authorizer there is nothing to do, which is logged
    once."""

    def __init__(self, name: str, options: SourceOptions, sides: Sides, names: Names) -> None:
        self._name, self._options, self._sides, self._names = name, options, sides, names
        self._logged: set[Side] = set()

    async def round(self) -> list[KafkaFailure]:
        """Failures of single rules, or one where we may not see any; raises ClusterAway."""
        options, admin = self._options, self._sides.admin(Side.TARGET)
        try:
            source, target = await self._rules(Side.SOURCE), await self._rules(Side.TARGET)
        except ClusterAway as away:
            if away.failure.fault is not KafkaFault.NOT_AUTHORIZED:
                raise
            text = (
                f"{away.side} cluster: {away.failure}; grant DESCRIBE and on the target ALTER on the cluster, or set "
                "sync.topic.acls.enabled=false"
            )
            return [KafkaFailure(KafkaFault.NOT_AUTHORIZED, text)]
        if source is None or target is None:
            return []
        names = RemoteNames(self._names(), options.replicates, options.remote)
        plan = plan_acls(remote_acls(source, names), target, names, revoke=options.revoke_acls)
        done: dict[TopicAcl, KafkaFailure] = {}
        if plan.create:
            creating = admin.create_acls(sorted(plan.create))
            done |= failed(Side.TARGET, await self._sides.ask(Side.TARGET, creating))
        if plan.delete:
            deleting = admin.delete_acls(sorted(plan.delete))
            done |= failed(Side.TARGET, await self._sides.ask(Side.TARGET, deleting))
        return list(done.values())

    async def _rules(self, side: Side) -> set[TopicAcl] | None:
        rules = await self._sides.ask(side, self._sides.admin(side).acls())
        if rules is None and side not in self._logged:
            self._logged.add(side)
            log.info(
                "the %s cluster has no authorizer: no ACLs to sync", side, extra={"connector": self._name}
            )
        return None if rules is None else set(rules)
