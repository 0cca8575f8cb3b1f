"""MirrorGroupOffsetConnector's configuration, typed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from bridge.errors import ConfigError
from connectors.configdef import ValidatedConfig
from connectors.group_offset.definition import DEFINITION
from connectors.groups.checks import Checked, GroupOptions, Props, check
from connectors.groups.options import Rewind
from connectors.ports import ClientCheck
from connectors.validators import invalid

__all__ = ["DEFINITION", "GroupOffsetOptions", "Rewind", "validate"]


_REVERSE = "reverse.checkpointing.enabled"


@dataclass(frozen=True, slots=True)
class GroupOffsetOptions(GroupOptions):
    verify: bool

    @staticmethod
    def from_props(props: Props, clients: ClientCheck) -> GroupOffsetOptions:
        """Raises ConfigRejected with every error at once."""
        checked = _check(props, clients)
        return GroupOffsetOptions(**checked.common(), verify=checked.config.flag("translation.verify"))


def validate(props: Props, clients: ClientCheck) -> ValidatedConfig:
    """Every key with its value and errors; rules across keys, plugins and client properties included."""
    return _check(props, clients).config


def _check(props: Props, clients: ClientCheck) -> Checked:
    return check(DEFINITION, props, clients, _selection_errors)


def _selection_errors(given: Mapping[str, str], config: ValidatedConfig) -> Iterator[ConfigError]:
    if "group" in given and "groups" in given:
        why = "groups is given too, and both mean the same; give only one of the two"
        yield ConfigError("group", invalid("group", given["group"], why))
    reverse = given.get(_REVERSE, "false")
    if reverse.strip().lower() != "false":
        why = (
            "this connector has no way home, for it leaves no checkpoints by which an opposite flow can tell what the "
            "mirror has put where it is; use BridgeMirrorCheckpointConnector with this key"
        )
        yield ConfigError(_REVERSE, invalid(_REVERSE, reverse, why))
    for key, everything in (("group", "groups"), ("groups", "groups"), ("topics", "topics")):
        if config.items(key) == ():
            why = f"an empty list selects no {everything}; give names or patterns, or .* for all"
            yield ConfigError(key, invalid(key, given.get(key, ""), why))
