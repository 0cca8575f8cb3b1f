"""BridgeMirrorCheckpointConnector's configuration, typed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from connectors.checkpoint.definition import (
    DEFINITION,
    EMIT,
    EVIDENCE,
    REPLICATION_FACTOR,
)
from connectors.config.configdef import ValidatedConfig
from connectors.config.mirror_options import SYNCS_LOCATION
from connectors.group_translation.checks import GroupOptions, Props, check
from connectors.group_translation.keys import REVERSE
from connectors.ports import ClientCheck

__all__ = ["DEFINITION", "CheckpointOptions", "Evidences", "validate"]


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
