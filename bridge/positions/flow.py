"""The flow that positions are translated for, by the configuration of one of its connectors.

A group connector's configuration gives the answers that its groups get. A source connector's has no keys of
translation: it gives those that MirrorGroupOffsetConnector gives by default.

Holds what is read of a flow once, before positions are translated: offset runs, offset syncs, and whether the source
answers. It can be sent to other processes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from bridge.errors import ConfigError, ConfigRejected, KafkaFailure, KafkaFault
from bridge.mm2.offset_sync_store import OffsetSyncStore
from bridge.model.values import CopyId, Side
from bridge.translation.bulk.run_columns import RunColumns
from bridge.translation.runs.run_evidence import ConsistentRuns
from bridge.translation.runs.runs import OffsetRun
from connectors.checkpoint import task as checkpoint
from connectors.checkpoint.options import CheckpointOptions, Evidences
from connectors.cluster_away import ClusterAway, ask
from connectors.group_offset.options import GroupOffsetOptions
from connectors.group_offset.task import strategy_of
from connectors.group_translation.translating.followed_topics import FollowedRuns
from connectors.group_translation.translating.pairs import PartitionPairs
from connectors.group_translation.translating.strategies import Strategy
from connectors.ports import ClientCheck, Cluster
from connectors.registry import KINDS, kind_of_class

_KEPT = 256
"""Copies whose columns are kept."""
_KINDS = ("group_offset", "checkpoint", "source")


@dataclass(frozen=True)
class Knowledge:
    """Everything read from a flow before its positions are translated. `runs`: of each copy. `syncs`: none where they
    are not asked. `source_fault` and `source_error`: why the source did not answer, None where it did."""

    runs: Mapping[CopyId, tuple[OffsetRun, ...]]
    syncs: OffsetSyncStore
    remarks: tuple[str, ...] = ()
    """Topics that can't be read, and why."""
    source_fault: KafkaFault | None = None
    source_error: str = ""

    @property
    def source_failure(self) -> KafkaFailure | None:
        return None if self.source_fault is None else KafkaFailure(self.source_fault, self.source_error)


@dataclass
class LoadedRuns:
    """The runs, made ready for look-ups as they are asked for."""

    runs: Mapping[CopyId, tuple[OffsetRun, ...]]
    reads: int = 1
    _consistent: dict[CopyId, ConsistentRuns] = field(default_factory=dict)
    _columns: dict[CopyId, RunColumns] = field(default_factory=dict)

    def get_runs(self, copy: CopyId) -> ConsistentRuns:
        """Returns the runs of a copy."""
        if copy not in self._consistent:
            self._consistent[copy] = ConsistentRuns(self.runs.get(copy, ()))
        return self._consistent[copy]

    def columns(self, copy: CopyId) -> RunColumns:
        if copy not in self._columns:
            if len(self._columns) >= _KEPT:
                self._columns.clear()
            self._columns[copy] = RunColumns(self.get_runs(copy))
        return self._columns[copy]


@dataclass(frozen=True)
class Flow:
    """The options of a connector, and how it translates."""

    options: GroupOffsetOptions | CheckpointOptions

    @staticmethod
    def from_props(props: Mapping[str, str], clients: ClientCheck) -> Flow:
        """Raises ConfigRejected with every error at once."""
        kind = kind_of_class(props.get("connector.class", ""))
        if kind is None or kind.kind not in _KINDS:
            known = ", ".join(KINDS[text].connector_class for text in _KINDS)
            connector_class = props.get("connector.class", "")
            why = f"Invalid value {connector_class!r} for configuration connector.class: it must be one of {known}"
            raise ConfigRejected([ConfigError("connector.class", why)])
        if kind.kind == "checkpoint":
            return Flow(CheckpointOptions.from_props(props, clients))
        return Flow(GroupOffsetOptions.from_props(props, clients))

    @property
    def answers_at_once(self) -> bool:
        """Whether no answer takes a look-up."""
        return isinstance(self.options, CheckpointOptions) and self.options.evidence is Evidences.SYNCS

    @property
    def uses_runs(self) -> bool:
        options = self.options
        if isinstance(options, CheckpointOptions):
            return options.evidence is Evidences.BOTH
        return options.verify

    def pairs(self) -> PartitionPairs:
        options = self.options
        if isinstance(options, CheckpointOptions):
            return PartitionPairs(options, reverse=checkpoint.pairs_reversed(options))
        return PartitionPairs(options, reverse=options.reverse)

    def strategy(self, knowledge: Knowledge, runs: LoadedRuns | None) -> Strategy:
        if not isinstance(self.options, CheckpointOptions):
            return strategy_of(self.options, runs)
        return checkpoint.strategy_of(self.options.evidence, knowledge.syncs, runs)

    async def load(self, source: Cluster, target: Cluster) -> Knowledge:
        """Reads runs and syncs to their ends, once. Raises ClusterAway for the target."""
        runs = FollowedRuns(self.options, target) if self.uses_runs else None
        remarks: list[str | None] = []
        if runs is not None:
            await runs.follow()
            remarks.append(runs.log.remark)
        fault, error, syncs = None, "", OffsetSyncStore(must_read_to_end=False)
        try:
            await ask(Side.SOURCE, source.topic_names(), self.options.admin_timeout_ms)
            if isinstance(self.options, CheckpointOptions) and self._uses_syncs:
                followed = checkpoint.syncs_of(self.options, (source, target))
                await followed.follow(must_read_to_end=False)
                syncs = followed.store
                remarks.append(followed.log.remark)
        except ClusterAway as away:
            if not away.on_source:
                raise
            fault, error = away.failure.fault, str(away.failure)
        read_errors = tuple(remark for remark in remarks if remark is not None)
        return Knowledge(runs.all() if runs is not None else {}, syncs, read_errors, fault, error)

    @property
    def _uses_syncs(self) -> bool:
        return isinstance(self.options, CheckpointOptions) and (
            self.options.evidence is not Evidences.TIMESTAMPS
        )
