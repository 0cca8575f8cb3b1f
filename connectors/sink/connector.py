"""BridgeMirrorSinkConnector as a kind of connector: the source connector's pipeline, for a worker at the source.

The definition of BridgeMirrorSinkConnector's keys: the source connector's, with topics as sinks have them.

Checks a configuration of BridgeMirrorSinkConnector; returns all errors at once.

What Connect refuses of sinks too is said in its words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from bridge.errors import ConfigError
from bridge.mm2.filters import TOPICS, TOPICS_REGEX
from connectors.base import CheckedOnOpen, ConnectorKind, CopiedTopics, Instance, Publisher
from connectors.config.configdef import (
    ConfigDef,
    Importance,
    Key,
    ListOf,
    Regex,
    Type,
    ValidatedConfig,
    Width,
    given,
    invalid,
    numbered,
)
from connectors.ports import ClientCheck, Clusters, Pipelines
from connectors.source import checks
from connectors.source.connector import CLIENTS
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
Props = Mapping[str, str | None]
BOTH = f"{TOPICS} and {TOPICS_REGEX} are mutually exclusive options, but both are set."
NONE = f"Must configure one of {TOPICS} or {TOPICS_REGEX}"
_NAME = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")


def _keys() -> tuple[Key, ...]:
    others = [replace(key, order=0) for name, key in SOURCE.keys.items() if name != TOPICS]
    first = next(number for number, key in enumerate(others) if key.group == _GROUP)
    return numbered((*others[:first], *_SUBSCRIBED, *others[first:]))


DEFINITION = ConfigDef(_keys(), SOURCE.forbidden)


def validate(props: Props, clients: ClientCheck) -> ValidatedConfig:
    """Checks a configuration: what the source connector's check says, and how topics are subscribed to."""
    config = checks.check(props, clients, DEFINITION)[0]
    return config.with_errors(_subscription(config))


def _subscription(config: ValidatedConfig) -> Iterator[ConfigError]:
    names, pattern = config.items(TOPICS) or (), config.value(TOPICS_REGEX)
    if names and pattern:
        yield ConfigError(TOPICS, BOTH)
    elif not names and not pattern and not _wrong(config):
        yield ConfigError(TOPICS, NONE)
    for name in names:
        if name and _NAME.fullmatch(name) is None:
            why = f"{name!r} is no name of a topic; sink connectors take patterns by {TOPICS_REGEX}"
            yield ConfigError(TOPICS, invalid(TOPICS, ",".join(names), why))


def _wrong(config: ValidatedConfig) -> bool:
    return any(error.key in (TOPICS, TOPICS_REGEX) for error in config.errors)


def _make(
    name: str,
    props: Mapping[str, str | None],
    clusters: Clusters,
    pipelines: Pipelines,
    publisher: Publisher,
) -> Instance:
    from connectors.source.options import SourceOptions
    from connectors.source.task import SourceInstance

    options = SourceOptions.from_props(props, CheckedOnOpen(), DEFINITION)
    return SourceInstance(name, options, clusters, pipelines, given(props), publisher)


def _taken(props: Mapping[str, str | None], others: Sequence[CopiedTopics]) -> Sequence[ConfigError]:
    from connectors.source.connector import taken

    return taken(props, others, DEFINITION)


KIND = ConnectorKind(
    "sink", "dev.mirrorbridge.BridgeMirrorSinkConnector", DEFINITION, CLIENTS, validate, _make, _taken
)
