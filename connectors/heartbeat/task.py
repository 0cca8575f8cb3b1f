"""Runs BridgeMirrorHeartbeatConnector: emits one record each interval, for Connect to write to the heartbeats topic.

As in stock (stock §1.4, §3.9) the first comes one interval after the start. One thing is better: where the topic can't
be created stock logs it, and lets the producer create one by the broker's defaults, which is not compacted. Here
records wait until the topic is there, and health has the error.

BridgeMirrorHeartbeatConnector as a kind of connector.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

from bridge.errors import AWAY, KafkaFailure
from bridge.mm2.records import Heartbeat
from bridge.model.key_rules import Use
from bridge.model.values import Side
from connectors.base import (
    Arguments,
    Assignment,
    CheckedOnOpen,
    ConnectorKind,
    EmittedRecord,
    Instance,
    Publisher,
    Summary,
    not_offered,
)
from connectors.cluster_away import ClusterAway, Failures, Outages
from connectors.config.configdef import given
from connectors.heartbeat.options import DEFINITION, REPLICATION_FACTOR, HeartbeatOptions, validate
from connectors.internal_topics import make
from connectors.ports import Clusters, Pipelines

_MAKE_TOPIC = "making of the heartbeats topic"
_SOURCE_ONLY = frozenset({Side.SOURCE.value})
"""This connector never connects to the source: health must not wait for it."""
_CLIENTS = {(Side.TARGET, "admin"): Use.ADMIN, (Side.TARGET, "consumer"): Use.FOLLOW}


class HeartbeatInstance:
    """One connector, running; see connectors.base.Instance."""

    def __init__(
        self,
        name: str,
        options: HeartbeatOptions,
        clusters: Clusters,
        props: Mapping[str, str],
        publisher: Publisher,
    ) -> None:
        self._name, self._options, self._clusters, self._publisher = name, options, clusters, publisher
        self._target = clusters.open(Side.TARGET, props)
        self._topic = options.policy.heartbeats_topic()
        self._topic_there = False
        self._begun, self._ended = asyncio.Event(), asyncio.Event()
        self._failures = Failures()
        self._outages = Outages(name, props)
        self._summary = Summary(clusters_seen=_SOURCE_ONLY)

    def assign(self, assignment: Assignment) -> None:
        if assignment.active:
            self._begun.set()
            self._ended.clear()
        else:
            self._begun.clear()
            self._ended.set()

    async def operate(self, operation: str, arguments: Arguments) -> Arguments:
        raise not_offered(self._name, operation)

    async def close(self) -> None:
        self._outages.left(_MAKE_TOPIC)
        await self._clusters.release(self._target)

    async def run(self) -> None:
        interval = self._options.emit_interval
        if not self._options.emit_enabled:
            await asyncio.Event().wait()
        while True:
            await self._begun.wait()
            self._topic_there, due = False, time.monotonic() + interval
            while await self._topic_made() and await self.until(due):
                self._emit()
                due = max(due + interval, time.monotonic())

    async def until(self, due: float) -> bool:
        """Waits until then; False as soon as the task has ended."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._ended.wait(), max(0.0, due - time.monotonic()))
        # Of a time that is over nothing is waited for: the task may have ended all the same.
        return not self._ended.is_set()

    async def _topic_made(self) -> bool:
        """Tries until the topic is there, or somebody else has to create it; False when the task has ended."""
        while not self._topic_there:
            options = self._options
            try:
                failure = await make(
                    self._target,
                    self._topic,
                    options.replication_factor,
                    options.admin_timeout_ms,
                    key=REPLICATION_FACTOR,
                )
            except ClusterAway as away:
                failure = away.failure
            if failure is None:
                self._topic_exists()
            else:
                self._failed(failure)
                if not await self.until(time.monotonic() + self._failures.pause):
                    return False
        return True

    def _topic_exists(self) -> None:
        self._topic_there = True
        self._failures.clear()
        self._outages.well(_MAKE_TOPIC, [Side.TARGET])
        seen = _SOURCE_ONLY | {Side.TARGET.value}
        last_success_ms, rounds = self._summary.last_success_ms, self._summary.rounds
        self._summary = Summary(last_success_ms=last_success_ms, rounds=rounds, clusters_seen=seen)
        self._publisher.summary(self._summary)

    def _failed(self, failure: KafkaFailure) -> None:
        """Logs a failure when it begins; health shows it when it lasts."""
        error = f"{Side.TARGET.value} cluster: {failure}"
        now_ms = int(time.time() * 1000)
        away = {Side.TARGET.value: now_ms, **self._summary.away_since_ms} if failure.fault in AWAY else {}
        self._outages.cluster_failed(Side.TARGET, failure, _MAKE_TOPIC)
        self._failures.add(failure)
        self._summary = replace(
            self._summary,
            errors=[error] if self._failures.lasting else (),
            failure=error if self._failures.permanent else None,
            failure_code=failure.fault.value if self._failures.permanent else "",
            away_since_ms=away,
        )
        self._publisher.summary(self._summary)

    def _emit(self) -> None:
        now_ms = int(time.time() * 1000)
        options = self._options
        beat = Heartbeat(options.source_alias, options.target_alias, now_ms)
        record = EmittedRecord(
            affinity=options.source_alias,
            source_partition={
                "sourceClusterAlias": options.source_alias,
                "targetClusterAlias": options.target_alias,
            },
            source_offset={"offset": 0},
            topic=self._topic,
            key=beat.key(),
            value=beat.value(),
            timestamp=now_ms,
        )
        self._publisher.records([record])
        self._summary = replace(self._summary, rounds=self._summary.rounds + 1, last_success_ms=now_ms)
        self._publisher.summary(self._summary)


def _make(
    name: str,
    props: Mapping[str, str | None],
    clusters: Clusters,
    _pipelines: Pipelines,
    publisher: Publisher,
) -> Instance:

    options = HeartbeatOptions.from_props(props, CheckedOnOpen())
    return HeartbeatInstance(name, options, clusters, given(props), publisher)


KIND = ConnectorKind(
    "heartbeat", "dev.mirrorbridge.BridgeMirrorHeartbeatConnector", DEFINITION, _CLIENTS, validate, _make
)
