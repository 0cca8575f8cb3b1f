"""Checks a connector's configuration by the connector's own rules, and words the errors with the keys of the file."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from bridge.dedicated.config import names
from bridge.dedicated.config.stock import File, Settings, values
from bridge.errors import ConfigError
from connectors.base import ConnectorKind
from connectors.config.secret_names import looks_secret
from connectors.ports import ClientCheck

LEAST_SECRET = 4
"""Shorter values are not hidden in error texts: `a` would hide every a."""
_ON_CLUSTER = re.compile(
    r"\b(?P<side>source|target)\.(?P<rest>(?:cluster|admin|consumer|producer)(?:\.\w+)+)"
)


def errors(
    kind: ConnectorKind, settings: Settings, flow: tuple[str, str], clients: ClientCheck
) -> Iterator[ConfigError]:
    """Yields what is wrong with the settings of a connector of a flow, by the keys of the file."""
    for error in kind.validate(values(settings), clients).errors:
        key = of_file(error.key, settings, flow)
        message = _ON_CLUSTER.sub(lambda match: of_file(match[0], settings, flow), error.message)
        yield ConfigError(key, _renamed(message, error.key, key))


def of_file(key: str, settings: Settings, flow: tuple[str, str]) -> str:
    """Returns the key of the file that sets a connector's key; if none does, the one that would."""
    if key in settings and settings[key].key:
        return settings[key].key
    side, _, rest = key.partition(".")
    if side not in names.SIDES:
        return f"{flow[0]}->{flow[1]}.{key}"
    cluster = flow[names.SIDES.index(side)]
    return f"{cluster}.{rest.removeprefix('cluster.')}"


def _renamed(message: str, key: str, file_key: str) -> str:
    """Returns the message, worded as Kafka words it, with the file's key in place of the connector's."""
    for before, after in (("configuration ", ":"), ('configuration "', '"'), ("Configuration '", "'")):
        message = message.replace(f"{before}{key}{after}", f"{before}{file_key}{after}")
    return message


def secrets(file: File, resolved: Collection[str]) -> list[str]:
    """Returns the values that no text may show, the longest first. `resolved`: what config providers gave."""
    values = {*resolved, *(value for key, value in file.items() if looks_secret(key))}
    return sorted((value for value in values if len(value) >= LEAST_SECRET), key=len, reverse=True)


def without(secret: Collection[str], text: str) -> str:
    for each in secret:
        text = text.replace(each, "[hidden]")
    return text
