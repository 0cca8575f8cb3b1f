"""Defines what the rounds process and the checks are given, so that neither imports an adapter, and loads the rounds
process's part by name."""

from __future__ import annotations

import importlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from bridge.mm2.java_regex import JavaPattern
from bridge.model.values import Committed, Side, TopicPartition
from bridge.protocol.operators import DoctorReport
from bridge.service.checks.large_configs import LargeConfigs
from bridge.service.checks.plugin_process import PluginProcess
from bridge.service.ipc.messages import Config
from bridge.translation.runs.reset_positions import PartitionReset
from connectors.base import Kind
from connectors.ports import ClientCheck, Clusters, Pipelines
from connectors.source.take_over import Offsets

Props = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class RoundsContext:
    """The context of the rounds process.

    - `open_key_stores`: opens those of a configuration, so that its clusters find them open. Blocks for as long as
      their passwords take, so for a thread; what is wrong with them is said by the cluster.
    - `close`: closes clusters and pipelines.
    """

    kinds: Mapping[str, Kind]
    clusters: Clusters
    pipelines: Pipelines
    open_key_stores: Callable[[Config], None]
    close: Callable[[], Awaitable[None]]


class Probed(NamedTuple):
    """By side why a cluster can't be reached, and the ids of those that can."""

    unreachable: Mapping[Side, str]
    cluster_ids: Mapping[Side, str]


class Probe(Protocol):
    """Tries to reach the clusters of a valid configuration, all at once. Blocks, so for a bounded pool."""

    def __call__(self, props: Props, sides: Sequence[Side], seconds: float) -> Probed: ...


class Naming(NamedTuple):
    """How another connector names topics. `same_groups`: of how many groups both commit the offsets."""

    name: str
    policy: str
    separator: str
    aliases: str = ""
    topic_map: str = ""
    topic_map_file: str = ""
    same_groups: int = 0


class Doctor(Protocol):
    """Examines a connector (bridge.doctor); blocks, so for a bounded pool. `worker_cluster_id`: None for not known."""

    def __call__(
        self, kind: Kind, name: str, props: Props, others: Sequence[Naming], worker_cluster_id: str | None
    ) -> DoctorReport: ...


@dataclass(frozen=True, slots=True)
class CheckContext:
    """The context in which the HTTP process checks configurations. `probe`: None tries to reach no cluster; `doctor`:
    None examines none."""

    kinds: Mapping[str, Kind]
    clients: ClientCheck
    probe: Probe | None = None
    doctor: Doctor | None = None
    plugin_process: PluginProcess | None = None
    """Checks configurations that name users' code; None checks them as all others."""
    large: LargeConfigs | None = None
    """Checks large configurations; None checks them as all others."""


class MirrorQueries(Protocol):
    """The queries of MirrorClient to a cluster of a connector (`props`, `side`). They block, so for the bounded pool,
    and raise KafkaFailure and ConfigRejected."""

    def replication_hops(self, props: Props, alias: str, side: Side) -> int: ...

    def heartbeat_topics(self, props: Props, side: Side) -> set[str]: ...

    def checkpoint_topics(self, props: Props, side: Side) -> set[str]: ...

    def upstream_clusters(self, props: Props, side: Side) -> set[str]: ...

    def remote_topics(self, props: Props, source: str | None, side: Side) -> set[str]: ...

    def translate_offsets(
        self, props: Props, alias: str, group: JavaPattern, timeout_s: float, side: Side
    ) -> Mapping[str, Mapping[TopicPartition, Committed]]: ...


class AlterOffsets(Protocol):
    """Alters where a connector of that kind copies from, as an operator has altered its offsets. Blocks, so for the
    bounded pool; raises OperationRefused, KafkaFailure and ConfigRejected."""

    def __call__(self, kind: str, name: str, props: Props, offsets: Offsets) -> Sequence[PartitionReset]: ...


Factory = Callable[[], RoundsContext]


def load_factory(path: str) -> Factory:
    """Loads the factory that `module:function` names: a child process gets names, not functions."""
    module, _, name = path.partition(":")
    factory: Factory = getattr(importlib.import_module(module), name)
    return factory
