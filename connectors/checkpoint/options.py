"""BridgeMirrorCheckpointConnector's configuration, typed.

The one definition of BridgeMirrorCheckpointConnector's keys: stock's, in stock's order (stock §1.1, §1.3), then
ours.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from connectors.config.client_keys import unprefixed_keys
from connectors.config.cluster_options import bridge_keys, cluster_keys
from connectors.config.configdef import (
    ConfigDef,
    ForbiddenValue,
    Importance,
    In,
    Key,
    ReplicationFactor,
    Type,
    ValidatedConfig,
    flag,
    interval,
    numbered,
)
from connectors.config.mirror_options import (
    SYNCS_LOCATION,
    batch_limit,
    metric_names,
    mirror_keys,
    syncs_location,
)
from connectors.group_translation.options import (
    ASSIGNED_GROUPS,
    GROUP_FILTER_CLASS,
    GROUPS,
    GROUPS_EXCLUDE,
    LEFT_OUT,
    POLL_TIMEOUT,
    REFRESH,
    REVERSE,
    TOPIC_FILTER_CLASS,
    TOPICS,
    GroupOptions,
    Props,
    check,
    readiness_keys,
    reverse,
    sync_interval,
    writing_keys,
)
from connectors.ports import ClientCheck

__all__ = ["DEFINITION", "CheckpointOptions", "Evidences", "validate"]


EMIT, EMIT_SYNCS = "emit.checkpoints.enabled", "emit.offset-syncs.enabled"
EVIDENCE = "translation.evidence"
REPLICATION_FACTOR = "checkpoints.topic.replication.factor"

_GROUP = "Checkpoints"
_EVIDENCES = ("syncs", "timestamps", "both")

_STOCKS = (
    flag(EMIT, "true", "Whether to replicate consumer offsets to target cluster.", _GROUP),
    interval("emit.checkpoints.interval.seconds", "60", "Frequency of checkpoints.", _GROUP),
    flag(
        "sync.group.offsets.enabled",
        "false",
        "Whether to periodically write the translated offsets to __consumer_offsets topic in target cluster, as long "
        "as no active consumers in that group are connected to the target cluster.",
        _GROUP,
    ),
    sync_interval(_GROUP),
    Key(
        REPLICATION_FACTOR,
        Type.SHORT,
        "3",
        Importance.LOW,
        "Replication factor for checkpoints topic; -1: the brokers' default.",
        _GROUP,
        validator=ReplicationFactor(),
    ),
    syncs_location(
        "The location (source/target) of the offset-syncs topic; the same as the source connector's.", _GROUP
    ),
    TOPIC_FILTER_CLASS,
    metric_names(_GROUP),
)
_OURS = (
    flag(
        EMIT_SYNCS,
        "true",
        "A key of the source connector. Without offset syncs there is nothing to translate by, so false is an error "
        "here, unless translation.evidence is timestamps or the connector is not enabled.",
        _GROUP,
    ),
    Key(
        EVIDENCE,
        Type.STRING,
        "both",
        Importance.MEDIUM,
        "What offsets are translated by. syncs: offset syncs alone, with stock's answers. timestamps: the neighbouring "
        "records, found on both clusters. both: those, checked against the syncs, and the offset runs that our own "
        "mirror leaves.",
        _GROUP,
        validator=In(_EVIDENCES),
        recommended=_EVIDENCES,
    ),
    reverse(_GROUP),
    *writing_keys(_GROUP),
    *readiness_keys(_GROUP),
    batch_limit(_GROUP),
)

DEFINITION = ConfigDef(
    numbered(
        (
            *mirror_keys("Mirror", measured=True),
            *unprefixed_keys(),
            POLL_TIMEOUT,
            GROUPS,
            GROUPS_EXCLUDE,
            GROUP_FILTER_CLASS,
            *REFRESH,
            *_STOCKS,
            *TOPICS,
            *LEFT_OUT,
            ASSIGNED_GROUPS,
            *_OURS,
            *bridge_keys("Bridge"),
            *cluster_keys("source", "Source cluster"),
            *cluster_keys("target", "Target cluster"),
        )
    ),
    forbidden=(
        ForbiddenValue(
            EMIT,
            "false",
            "MirrorCheckpointConnector can't run with emit.checkpoints.enabled set to false",
            unless={"enabled": "false"},
        ),
        ForbiddenValue(
            EMIT_SYNCS,
            "false",
            "MirrorCheckpointConnector can't run without offset syncs",
            unless={"enabled": "false", EVIDENCE: "timestamps"},
        ),
    ),
)


class Evidences(StrEnum):
    """The evidence by which offsets are translated (stock §3.1, decision 0010)."""

    SYNCS = "syncs"
    TIMESTAMPS = "timestamps"
    BOTH = "both"


@dataclass(frozen=True, slots=True)
class CheckpointOptions(GroupOptions):
    emit_enabled: bool
    emit_interval: float
    sync_enabled: bool
    checkpoints_replication_factor: int
    """-1: the brokers' default."""
    offset_syncs_on_target: bool
    evidence: Evidences
    reverse: bool
    """Failback: copies of the target's own topics are translated back (KIP-1098)."""

    @staticmethod
    def from_props(props: Props, clients: ClientCheck) -> CheckpointOptions:
        """Raises ConfigRejected with every error at once."""
        checked = check(DEFINITION, props, clients)
        common, config = checked.common(), checked.config
        return CheckpointOptions(
            **common,
            emit_enabled=config.flag(EMIT),
            emit_interval=float(config.number("emit.checkpoints.interval.seconds")),
            sync_enabled=config.flag("sync.group.offsets.enabled"),
            checkpoints_replication_factor=config.number(REPLICATION_FACTOR),
            offset_syncs_on_target=config.text(SYNCS_LOCATION) == "target",
            evidence=Evidences(config.text(EVIDENCE)),
            reverse=config.flag(REVERSE),
        )


def validate(props: Props, clients: ClientCheck) -> ValidatedConfig:
    """Checks a configuration: every key with its value and errors; rules across keys, plugins and client properties
    included."""
    return check(DEFINITION, props, clients).config
