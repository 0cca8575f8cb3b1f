"""Checks a connector's configuration by the connector's own rules, and words the errors with the keys of the file."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from bridge.dedicated.config import names
from bridge.dedicated.config.plan import ROLES
from bridge.dedicated.config.stock import File, Settings, values
from bridge.errors import ConfigError
from connectors.base import ConnectorKind
from connectors.config.secret_names import looks_secret
from connectors.ports import ClientCheck

LEAST_SECRET = 4
"""Shorter values are not hidden in error texts: `a` would hide every a."""
_KEY = re.compile(r"(?<![\w./>-])[a-z][\w-]*(?:\.\w[\w-]*)+")
"""What may be a connector's key in a text."""
_OF_FLOWS = tuple(f"{role}." for role in (*ROLES, *(f"{role}.override" for role in ROLES)))
"""What stock hands on from a flow alone, and otherwise behind the name of a cluster."""


def errors(
    kind: ConnectorKind, settings: Settings, flow: tuple[str, str], clients: ClientCheck
) -> Iterator[ConfigError]:
    """Yields what is wrong with the settings of a connector of a flow, by the keys of the file."""
    for error in kind.validate(values(settings), clients).errors:
        yield ConfigError(of_file(error.key, settings, flow), _worded(error, settings, flow))


def of_file(key: str, settings: Settings, flow: tuple[str, str]) -> str:
    """Returns the key of the file that sets a connector's key; if none does, the one that would."""
    if key in settings and settings[key].key:
        return settings[key].key
    if key in names.ALIASES:
        return names.CLUSTERS
    side, _, rest = key.partition(".")
    if side not in names.SIDES:
        return f"{flow[0]}->{flow[1]}.{key}"
    cluster = flow[names.SIDES.index(side)]
    return f"{cluster}.{rest.removeprefix('cluster.')}"


def _worded(error: ConfigError, settings: Settings, flow: tuple[str, str]) -> str:
    """Returns the message with the file's keys in place of the connector's; the value that it begins with stays."""

    def in_file(match: re.Match[str]) -> str:
        key = match[0]
        side, _, rest = key.partition(".")
        of_cluster = side in names.SIDES and rest.startswith(("cluster.", *_OF_FLOWS))
        meant = key == error.key or (key in settings and settings[key].key)
        return of_file(key, settings, flow) if meant or of_cluster or key.startswith(_OF_FLOWS) else key

    value, configuration, rest = error.message.partition(f" for configuration {error.key}:")
    if not configuration:
        return _KEY.sub(in_file, error.message)
    return f"{value} for configuration {of_file(error.key, settings, flow)}:{_KEY.sub(in_file, rest)}"


def secrets(file: File, resolved: Collection[str]) -> list[str]:
    """Returns the values that no text may show, the longest first. `resolved`: what config providers gave."""
    values = {*resolved, *(value for key, value in file.items() if looks_secret(key))}
    return sorted((value for value in values if len(value) >= LEAST_SECRET), key=len, reverse=True)


def without(secret: Collection[str], text: str) -> str:
    for each in secret:
        text = text.replace(each, "[hidden]")
    return text
