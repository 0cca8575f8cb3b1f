"""What the rounds process needs of the outside, and how its maker is named across the process boundary."""

from __future__ import annotations

import importlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from bridge.mm2.java_regex import JavaPattern
from bridge.model.values import Committed, Side, TopicPartition
from bridge.protocol.doctor import DoctorReport
from bridge.service.checks.plugin_process import PluginProcess
from bridge.translation.runs.reset_positions import PartitionReset
from connectors.base import Kind
from connectors.ports import ClientCheck, Clusters, Pipelines
from connectors.source.altering import Offsets

Props = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class RoundsContext:
    """Of the rounds process: the kinds, the clusters and pipelines that they are given, and how to let go of it all."""

    kinds: Mapping[str, Kind]
    clusters: Clusters
    pipelines: Pipelines
    close: Callable[[], Awaitable[None]]


class Probe(Protocol):
    """Tries to reach the clusters of a configuration without errors, all at once. Blocking, so for a bounded pool; by
    side in words why a cluster can't be reached, without those that can."""

    def __call__(self, props: Props, sides: Sequence[Side], seconds: float) -> Mapping[Side, str]: ...


class Naming(NamedTuple):
    """How another connector names topics."""

    name: str
    policy: str
    separator: str


class Doctor(Protocol):
    """Examines a connector (bridge.doctor); blocks, so for a bounded pool. `worker_cluster_id`: None for not known."""

    def __call__(
        self, kind: Kind, name: str, props: Props, others: Sequence[Naming], worker_cluster_id: str | None
    ) -> DoctorReport: ...


@dataclass(frozen=True, slots=True)
class CheckContext:
    """What the HTTP process needs to check configurations. `probe`: None tries to reach no cluster; `doctor`: None
    examines none."""

    kinds: Mapping[str, Kind]
    clients: ClientCheck
    probe: Probe | None = None
    doctor: Doctor | None = None
    plugin_process: PluginProcess | None = None
    """Checks configurations that name code of others; None: they are checked as all others."""


class MirrorQueries(Protocol):
    """What MirrorClient knows of a cluster of a connector (`props`, `side`). Blocking, so for the bounded pool; raises
    KafkaFailure and ConfigRejected."""

    def replication_hops(self, props: Props, alias: str, side: Side) -> int: ...

    def heartbeat_topics(self, props: Props, side: Side) -> set[str]: ...

    def checkpoint_topics(self, props: Props, side: Side) -> set[str]: ...

    def upstream_clusters(self, props: Props, side: Side) -> set[str]: ...

    def remote_topics(self, props: Props, source: str | None, side: Side) -> set[str]: ...

    def translate_offsets(
        self, props: Props, alias: str, group: JavaPattern, timeout_s: float, side: Side
    ) -> Mapping[str, Mapping[TopicPartition, Committed]]: ...


class AlterOffsets(Protocol):
    """Carries out on the clusters what an operator alters of a connector's source offsets. Blocking, so for the bounded
    pool; raises OperationRefused, KafkaFailure and ConfigRejected."""

    def __call__(self, name: str, props: Props, offsets: Offsets) -> Sequence[PartitionReset]: ...


Factory = Callable[[], RoundsContext]


def load_factory(path: str) -> Factory:
    """`module:function`; functions don't cross processes, names do."""
    module, _, name = path.partition(":")
    factory: Factory = getattr(importlib.import_module(module), name)
    return factory
