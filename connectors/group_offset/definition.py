"""The one definition of MirrorGroupOffsetConnector's keys; connectors/export.py gives it to the Java shim."""

from __future__ import annotations

from connectors.config.client_keys import unprefixed_keys
from connectors.config.cluster_options import bridge_keys, cluster_keys
from connectors.config.configdef import ConfigDef, Importance
from connectors.config.keys import flag, numbered
from connectors.config.mirror_options import batch_limit, mirror_keys
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
    patterns,
    readiness_keys,
    reverse,
    sync_interval,
    writing_keys,
)

_SYNC = "Offset sync"

DEFINITION = ConfigDef(
    numbered(
        (
            *mirror_keys("Mirror"),
            *unprefixed_keys(),
            POLL_TIMEOUT,
            GROUPS,
            patterns(
                "group",
                None,
                "Another name for groups (as in KIP-1292); only one of the two may be given.",
            ),
            GROUPS_EXCLUDE,
            GROUP_FILTER_CLASS,
            *REFRESH,
            TOPIC_FILTER_CLASS,
            *TOPICS,
            *LEFT_OUT,
            ASSIGNED_GROUPS,
            sync_interval(_SYNC),
            flag(
                "translation.verify",
                "true",
                "true: an offset is written only after the neighbouring records were found on both clusters, or where "
                "the offset runs of our own mirror tell it. "
                "false: the plain timestamp answer of KIP-1292, which may re-read any number of records.",
                _SYNC,
                Importance.MEDIUM,
            ),
            reverse(_SYNC),
            *writing_keys(_SYNC),
            *readiness_keys(_SYNC),
            batch_limit(_SYNC),
            *bridge_keys("Bridge"),
            *cluster_keys("source", "Source cluster"),
            *cluster_keys("target", "Target cluster"),
        )
    )
)
