"""MirrorGroupOffsetConnector's configuration, typed.

The one definition of MirrorGroupOffsetConnector's keys; connectors/export.py gives it to the Java shim.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from bridge.errors import ConfigError
from connectors.config.client_keys import unprefixed_keys
from connectors.config.cluster_options import bridge_keys, cluster_keys
from connectors.config.configdef import ConfigDef, Importance, ValidatedConfig, flag, invalid, numbered
from connectors.config.mirror_options import batch_limit, mirror_keys
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
    Checked,
    GroupOptions,
    Props,
    Rewind,
    check,
    patterns,
    readiness_keys,
    reverse,
    sync_interval,
    writing_keys,
)
from connectors.ports import ClientCheck

__all__ = ["DEFINITION", "GroupOffsetOptions", "Rewind", "validate"]


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


@dataclass(frozen=True, slots=True)
class GroupOffsetOptions(GroupOptions):
    verify: bool
    reverse: bool
    """Failback: copies of the target's own topics are translated back (KIP-1098)."""

    @staticmethod
    def from_props(props: Props, clients: ClientCheck) -> GroupOffsetOptions:
        """Raises ConfigRejected with every error at once."""
        checked = _check(props, clients)
        common, config = checked.common(), checked.config
        return GroupOffsetOptions(
            **common, verify=config.flag("translation.verify"), reverse=config.flag(REVERSE)
        )


def validate(props: Props, clients: ClientCheck) -> ValidatedConfig:
    """Checks a configuration: every key with its value and errors; rules across keys, plugins and client properties
    included."""
    return _check(props, clients).config


def _check(props: Props, clients: ClientCheck) -> Checked:
    return check(DEFINITION, props, clients, _selection_errors)


def _selection_errors(props: Mapping[str, str], config: ValidatedConfig) -> Iterator[ConfigError]:
    if "group" in props and "groups" in props:
        why = "groups is given too, and both mean the same; give only one of the two"
        yield ConfigError("group", invalid("group", props["group"], why))
    for key, everything in (("group", "groups"), ("groups", "groups"), ("topics", "topics")):
        if config.items(key) == ():
            why = f"an empty list selects no {everything}; give names or patterns, or .* for all"
            yield ConfigError(key, invalid(key, props.get(key, ""), why))
