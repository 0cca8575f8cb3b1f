"""Checks a configuration of BridgeMirrorSinkConnector; returns all errors at once.

What Connect refuses of sinks too is said in its words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from bridge.errors import ConfigError
from bridge.mm2.filters import TOPICS, TOPICS_REGEX
from connectors.config.configdef import ValidatedConfig
from connectors.config.validators import invalid
from connectors.ports import ClientCheck
from connectors.sink.definition import DEFINITION
from connectors.source import checks

Props = Mapping[str, str | None]

BOTH = f"{TOPICS} and {TOPICS_REGEX} are mutually exclusive options, but both are set."
NONE = f"Must configure one of {TOPICS} or {TOPICS_REGEX}"
_NAME = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}")


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
