"""The definition of BridgeMirrorSinkConnector's keys: the source connector's, with topics as sinks have them."""

from __future__ import annotations

from dataclasses import replace

from bridge.mm2.filters import TOPICS, TOPICS_REGEX
from connectors.config.configdef import ConfigDef, Importance, Key, Type, Width
from connectors.config.keys import numbered
from connectors.config.validators import ListOf, Regex
from connectors.source.definition import DEFINITION as SOURCE

_GROUP = SOURCE.keys[TOPICS].group
_SUBSCRIBED = (
    Key(
        TOPICS,
        Type.LIST,
        "",
        Importance.HIGH,
        "Names of the topics to replicate. As of every sink connector, this or topics.regex is required, and not both.",
        _GROUP,
        width=Width.LONG,
        validator=ListOf(),
    ),
    Key(
        TOPICS_REGEX,
        Type.STRING,
        "",
        Importance.HIGH,
        "A Java regex of the topics to replicate, which has to match whole names.",
        _GROUP,
        width=Width.LONG,
        validator=Regex(),
    ),
)


def _keys() -> tuple[Key, ...]:
    others = [replace(key, order=0) for name, key in SOURCE.keys.items() if name != TOPICS]
    first = next(number for number, key in enumerate(others) if key.group == _GROUP)
    return numbered((*others[:first], *_SUBSCRIBED, *others[first:]))


DEFINITION = ConfigDef(_keys(), SOURCE.forbidden)
