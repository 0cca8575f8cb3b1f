"""The one definition of BridgeMirrorCheckpointConnector's keys: stock's, in stock's order (stock §1.1, §1.3), then
ours."""

from __future__ import annotations

from connectors.config.client_keys import unprefixed_keys
from connectors.config.cluster_options import bridge_keys, cluster_keys
from connectors.config.configdef import ConfigDef, ForbiddenValue, Importance, Key, Type
from connectors.config.keys import flag, interval, numbered
from connectors.config.mirror_options import batch_limit, metric_names, mirror_keys, syncs_location
from connectors.config.validators import In, ReplicationFactor
from connectors.group_translation.keys import (
    ASSIGNED_GROUPS,
    GROUP_FILTER_CLASS,
    GROUPS,
    GROUPS_EXCLUDE,
    LEFT_OUT,
    POLL_TIMEOUT,
    REFRESH,
    TOPIC_FILTER_CLASS,
    TOPICS,
    readiness_keys,
    reverse,
    sync_interval,
    writing_keys,
)

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
