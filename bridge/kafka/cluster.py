"""A cluster as connectors see it (the Cluster port): look-ups and commits over one client, admin calls over another.

Clusters by their settings: equal settings share one set of clients, closed when the last user releases them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from bridge.backoff import pauses
from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.admin.admin_client import AsyncAdminClient
from bridge.kafka.admin.topic_admin import KafkaTopicAdmin, create_compacted
from bridge.kafka.admin.topic_configs import configs_in_parts
from bridge.kafka.config.settings import ClientSettings, client_settings
from bridge.kafka.consumer.log_bounds import bounds
from bridge.kafka.consumer.record_lookups import Lookups, scan
from bridge.kafka.consumer.topic_tail import TopicTail
from bridge.kafka.expiring_cache import ExpiringCache
from bridge.kafka.network.client import NetworkClient
from bridge.kafka.producer.producer import KeyValue, StateWriter
from bridge.kafka.protocol import group_requests
from bridge.kafka.protocol.error_codes import COORDINATOR_MOVED, Errors
from bridge.kafka.protocol.errors import of_code
from bridge.model.lookups import LookupResult, Need
from bridge.model.topics import ConfigEntry
from bridge.model.values import (
    Bounds,
    Committed,
    GroupListing,
    GroupState,
    Side,
    TopicInfo,
    TopicPartition,
)

log = logging.getLogger(__name__)


_GROUPS_A_FETCH = 200
_TOPICS_A_CALL = 500
_CONFIGS_FOR = 600.0
"""Seconds before a topic's configs are described again."""
_CONFIGS_AGAIN = 10.0
"""The same where records show another timestamp type."""
_CONFIGS_PATIENCE = 5.0
"""Seconds that a round waits for topics' configs, which only add a reason to what it finds."""
_COORDINATOR_PAUSES = (0.3, 0.6, 2)
"""Seconds before coordinators are looked up again, after a retry at once: the first pause, the longest, and how many. A
cluster without groups has to create the offsets topic first, and one that has just started loads it."""
_ADMIN_SECONDS = 30.0
"""For which an admin call waits, and a broker until a topic is created: the default of request.timeout.ms."""
_APPEND_SECONDS = 30.0
"""For which a batch of a state topic may be in flight: the default of a producer's request.timeout.ms."""
_AWAY = {KafkaFault.UNREACHABLE, KafkaFault.TIMEOUT, KafkaFault.CREDENTIALS}
"""Failures of every group when it is the cluster that does not answer."""


class _LogConfig(NamedTuple):
    """What brokers do to records of a topic: they set their timestamps, and take those whose key comes again."""

    append_time: bool
    compacted: bool | None


_UNREAD = _LogConfig(append_time=False, compacted=None)
"""Of a topic whose configs can't be read."""


class KafkaCluster:
    """Clients of one cluster. Shared by every connector whose settings for it are equal (see clusters.py)."""

    def __init__(self, settings: ClientSettings) -> None:
        timeout_ms = settings.api_timeout_ms or 60_000
        self.settings = settings
        self._client = NetworkClient(settings.raw)
        self._admin_client = NetworkClient(settings.raw_admin)
        seconds = min(timeout_ms / 1000, _ADMIN_SECONDS)
        self._admin = AsyncAdminClient(settings.admin, self._admin_client, seconds)
        self.topic_admin = KafkaTopicAdmin(self._admin, self._admin_client)
        self._state_writer = StateWriter(self._admin_client, min(timeout_ms / 1000, _APPEND_SECONDS))
        self._lookups = {flag: Lookups(self._client, committed_only=flag) for flag in (False, True)}
        self._configs: ExpiringCache[tuple[str, str], tuple[float, _LogConfig]] = ExpiringCache(_CONFIGS_FOR)

    async def close(self) -> None:
        await self._state_writer.close()
        await self._client.close()
        await self._admin_client.close()
        await self._admin.close()

    @property
    def remembered(self) -> int:
        """Topics, partitions and groups of which anything is cached."""
        clients = self._client.remembered + self._admin_client.remembered
        return clients + len(self._configs) + sum(lookup.remembered for lookup in self._lookups.values())

    def forget_windows(self) -> None:
        for lookups in self._lookups.values():
            lookups.forget()

    @property
    def fetches(self) -> int:
        """Fetch requests sent so far."""
        return sum(lookups.fetches for lookups in self._lookups.values())

    async def list_groups(self) -> dict[str, GroupListing]:
        listed: dict[str, GroupListing] = {}
        for node in await self._client.nodes():
            call = group_requests.list_groups()
            error, groups = group_requests.read_groups(
                await self._client.send(node, call, "list consumer groups"), call.API_VERSION
            )
            failed = of_code(error, "list consumer groups")
            if failed is not None:
                raise failed
            listed |= {listing.group: listing for listing in groups}
        return listed

    async def committed(
        self, groups: Sequence[str], *, right: str = "DESCRIBE"
    ) -> dict[str, Mapping[TopicPartition, Committed] | KafkaFailure]:
        results = await self._committed_once(groups, right)
        for pause in (0.0, *pauses(*_COORDINATOR_PAUSES)):
            again = [group for group, error in results.items() if isinstance(error, int)]
            if not again:
                break
            await asyncio.sleep(pause)
            self._client.forget_coordinators(again)
            results |= await self._committed_once(again, right)
        failures = [result for result in results.values() if isinstance(result, KafkaFailure)]
        if failures and len(failures) == len(results) and failures[0].fault in _AWAY:
            raise failures[0]
        return {
            group: _of_group(result, group, right) or {} if isinstance(result, int) else result
            for group, result in results.items()
        }

    async def _committed_once(
        self, groups: Sequence[str], right: str
    ) -> dict[str, Mapping[TopicPartition, Committed] | KafkaFailure | int]:
        """Offsets; or the error code, where another try with a new coordinator may succeed."""
        nodes, errors = await self._client.coordinators(groups)
        results: dict[str, Mapping[TopicPartition, Committed] | KafkaFailure | int] = dict(errors)

        async def part(node: int, some: Sequence[str]) -> None:
            try:
                response = await self._client.send(
                    node, group_requests.fetch_offsets(some), "read committed offsets"
                )
            except KafkaFailure as error:
                self._client.forget_coordinators(some)
                results.update(dict.fromkeys(some, error))
                return
            for group, (code, offsets) in group_requests.read_fetched_offsets(response).items():
                if code and code not in COORDINATOR_MOVED:
                    results[group] = _of_group(code, group, right) or offsets
                else:
                    results[group] = code or offsets

        for node, kept in nodes.items():
            for start in range(0, len(kept), _GROUPS_A_FETCH):
                await part(node, kept[start : start + _GROUPS_A_FETCH])
        return results

    async def group_states(self, groups: Sequence[str]) -> dict[str, GroupState]:
        states = dict.fromkeys(groups, GroupState.UNKNOWN)
        again = await self._describe(groups, states)
        if again:
            self._client.forget_coordinators(again)
            await self._describe(again, states)
        return states

    async def _describe(self, groups: Sequence[str], states: dict[str, GroupState]) -> list[str]:
        """Fills in `states` where brokers answer; returns the groups that another coordinator may know of."""
        try:
            nodes, errors = await self._client.coordinators(groups)
        except KafkaFailure:
            return []
        again = [group for group, code in errors.items() if code in COORDINATOR_MOVED]
        for node, kept in nodes.items():
            for start in range(0, len(kept), _GROUPS_A_FETCH):
                some = kept[start : start + _GROUPS_A_FETCH]
                try:
                    response = await self._client.send(
                        node, group_requests.describe_groups(some), "describe groups"
                    )
                except KafkaFailure:
                    self._client.forget_coordinators(some)
                    continue
                for group, described in group_requests.read_described_groups(response).items():
                    if described.error in COORDINATOR_MOVED:
                        again.append(group)
                    elif described.error == Errors.NONE:
                        gone = described.state is GroupState.DEAD
                        states[group] = GroupState.NOT_FOUND if gone else described.state
        return again

    async def topics(
        self, names: Sequence[str], *, right: str = "READ"
    ) -> dict[str, TopicInfo | KafkaFailure]:
        results: dict[str, TopicInfo | KafkaFailure] = {}
        for start in range(0, len(names), _TOPICS_A_CALL):
            described = await self._client.metadata(names[start : start + _TOPICS_A_CALL])
            for name, meta in described.items():
                failed = of_code(meta.error, f"describe topic {name}", f"{right} on topic {name}")
                results[name] = failed or TopicInfo(name, meta.topic_id, len(meta.partitions))
        configs = await self._log_configs(
            {name: info.topic_id for name, info in results.items() if isinstance(info, TopicInfo)}
        )
        for name, info in results.items():
            if isinstance(info, TopicInfo):
                log_config = configs.get(name, _UNREAD)
                # Configs are described now and then: records show at once that one has changed.
                overwritten = log_config.append_time or bool(self._append_time_seen(info.topic_id))
                results[name] = replace(
                    info,
                    log_append_time=overwritten,
                    compacted=log_config.compacted,
                    sets_append_time=log_config.append_time,
                )
        return results

    def _append_time_seen(self, topic_id: str) -> bool | None:
        """Whether brokers have overwritten timestamps of what was read last; None where nothing was."""
        seen = (lookup.append_time(topic_id) for lookup in self._lookups.values())
        return next((reading for reading in seen if reading is not None), None)

    async def _log_configs(self, topics: Mapping[str, str]) -> dict[str, _LogConfig]:
        """Returns what matters of topics' configs by name, for topics with their ids. Topics whose configs could not be
        described are left out."""
        now = time.monotonic()
        ask = [name for name, id_ in topics.items() if self._describe_is_due(name, id_, now)]
        for name, value in (await self._described_log_configs(ask)).items():
            self._configs.put((name, topics[name]), (now, value))
        cached = {name: self._configs.get((name, id_)) for name, id_ in topics.items()}
        return {name: entry[1] for name, entry in cached.items() if entry is not None}

    def _describe_is_due(self, name: str, topic_id: str, now: float) -> bool:
        known = self._configs.get((name, topic_id))
        if known is None:
            return True
        (at, config), seen = known, self._append_time_seen(topic_id)
        agrees = config is _UNREAD or seen is None or seen == config.append_time
        return now - at > (_CONFIGS_FOR if agrees else _CONFIGS_AGAIN)

    async def _described_log_configs(self, topics: Sequence[str]) -> dict[str, _LogConfig]:
        """Topics whose configs can't be read now are left out; those whose configs we may not read are taken for
        others: brokers log what they refuse, so it is not asked for in each round."""
        described: dict[str, Mapping[str, ConfigEntry] | KafkaFailure] = {}
        with contextlib.suppress(KafkaFailure, TimeoutError):
            async with asyncio.timeout(_CONFIGS_PATIENCE):
                async for some in configs_in_parts(self._admin_client, topics):
                    described |= some
        return {
            name: _UNREAD
            if isinstance(configs, KafkaFailure)
            else _LogConfig(
                configs["message.timestamp.type"].value == "LogAppendTime",
                "compact" in (configs["cleanup.policy"].value or ""),
            )
            for name, configs in described.items()
            if not isinstance(configs, KafkaFailure) or configs.fault is KafkaFault.NOT_AUTHORIZED
        }

    async def bounds(
        self, partitions: Sequence[TopicPartition], *, committed_only: bool
    ) -> dict[TopicPartition, Bounds | KafkaFailure]:
        return await bounds(self._client, partitions, committed_only=committed_only)

    async def answer(
        self, needs: Mapping[TopicPartition, Sequence[Need]], *, committed_only: bool
    ) -> Mapping[TopicPartition, Mapping[Need, LookupResult | KafkaFailure]]:
        looked_up, scanned = await asyncio.gather(
            self._lookups[committed_only].answer(needs),
            scan(self._client, needs, committed_only=committed_only),
        )
        answers: dict[TopicPartition, dict[Need, LookupResult | KafkaFailure]] = {}
        for tp in needs:
            answers[tp] = {**looked_up[tp], **scanned[tp]}
        return answers

    async def alter(
        self, group: str, offsets: Mapping[TopicPartition, Committed]
    ) -> dict[TopicPartition, KafkaFailure | None]:
        try:
            codes = await self._commit(group, offsets)
            if any(code in COORDINATOR_MOVED for code in codes.values()):
                self._client.forget_coordinators([group])
                codes = await self._commit(group, offsets)
            if refused := [tp for tp, code in codes.items() if code == Errors.OFFSET_METADATA_TOO_LARGE]:
                codes = {**codes, **await self._commit_without_metadata(group, refused, offsets)}
        except KafkaFailure as error:
            return dict.fromkeys(offsets, error)
        doing = f"commit offsets of group {group}"
        failures: dict[TopicPartition, KafkaFailure | None] = {}
        for tp in offsets:
            code = codes.get(tp, Errors.UNKNOWN_SERVER_ERROR)
            denied = f"topic {tp.topic}" if code == Errors.TOPIC_AUTHORIZATION_FAILED else f"group {group}"
            failures[tp] = of_code(code, doing, f"READ on {denied}")
        return failures

    async def _commit_without_metadata(
        self, group: str, refused: Sequence[TopicPartition], offsets: Mapping[TopicPartition, Committed]
    ) -> dict[TopicPartition, int]:
        """Commits offsets whose metadata the cluster does not take: without one the group could not go on at all."""
        codes = await self._commit(group, {tp: offsets[tp]._replace(metadata="") for tp in refused})
        names = ", ".join(f"{tp.topic}-{tp.partition}" for tp in sorted(refused)[:5])
        more = " and others" if len(refused) > 5 else ""
        log.warning(
            "offsets of group %s in %s%s are committed without their metadata of up to %d bytes, which the brokers "
            "refuse: raise their offset.metadata.max.bytes, and commit them there again, if it is needed",
            group,
            names,
            more,
            max(len(offsets[tp].metadata.encode()) for tp in refused),
        )
        return codes

    async def cluster_id(self) -> str:
        return await self._client.cluster_id()

    async def topic_names(self) -> list[str]:
        return await self._client.topic_names()

    async def create_compacted_topic(self, name: str, replication_factor: int) -> KafkaFailure | None:
        return await create_compacted(self._admin, name, replication_factor)

    async def append(self, topic: str, records: Sequence[KeyValue]) -> None:
        await self._state_writer.append(topic, records)

    def tail(self, topic: str, *, from_end: bool = False, committed_only: bool = False) -> TopicTail:
        return TopicTail(self._client, topic, from_end=from_end, committed_only=committed_only)

    async def _commit(
        self, group: str, offsets: Mapping[TopicPartition, Committed]
    ) -> dict[TopicPartition, int]:
        nodes, errors = await self._client.coordinators([group])
        if errors:
            return dict.fromkeys(offsets, errors[group])
        (node,) = nodes
        call = group_requests.commit_offsets(group, offsets)
        return group_requests.read_committed_offsets(
            await self._client.send(node, call, f"commit offsets of group {group}")
        )


def _of_group(code: int, group: str, right: str) -> KafkaFailure | None:
    return of_code(code, f"read offsets of group {group}", f"{right} on group {group}")


class KafkaClusters:
    """The Clusters port. For use in one event loop."""

    def __init__(self) -> None:
        # The library logs each failed attempt as an error; a round logs once what lasts.
        logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
        self._open: dict[str, tuple[KafkaCluster, int]] = {}

    def open(self, side: Side, props: Mapping[str, str]) -> KafkaCluster:
        settings = client_settings(side, props)
        cluster, users = self._open.get(settings.fingerprint) or (KafkaCluster(settings), 0)
        self._open[settings.fingerprint] = (cluster, users + 1)
        return cluster

    async def release(self, cluster: object) -> None:
        for key, (shared, users) in list(self._open.items()):
            if shared is not cluster:
                continue
            if users > 1:
                self._open[key] = (shared, users - 1)
            else:
                del self._open[key]
                await shared.close()

    async def close(self) -> None:
        while self._open:
            _, (cluster, _) = self._open.popitem()
            await cluster.close()
