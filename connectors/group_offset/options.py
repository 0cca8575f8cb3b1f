"""MirrorGroupOffsetConnector's configuration, typed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from bridge.errors import ConfigError
from connectors.config.configdef import ValidatedConfig
from connectors.config.validators import invalid
from connectors.group_offset.definition import DEFINITION
from connectors.group_translation.checks import Checked, GroupOptions, Props, check
from connectors.group_translation.keys import REVERSE
from connectors.group_translation.options import Rewind
from connectors.ports import ClientCheck

__all__ = ["DEFINITION", "GroupOffsetOptions", "Rewind", "validate"]


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


def _selection_errors(given: Mapping[str, str], config: ValidatedConfig) -> Iterator[ConfigError]:
    if "group" in given and "groups" in given:
        why = "groups is given too, and both mean the same; give only one of the two"
        yield ConfigError("group", invalid("group", given["group"], why))
    for key, everything in (("group", "groups"), ("groups", "groups"), ("topics", "topics")):
        if config.items(key) == ():
            why = f"an empty list selects no {everything}; give names or patterns, or .* for all"
            yield ConfigError(key, invalid(key, given.get(key, ""), why))
