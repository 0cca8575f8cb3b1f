"""A cluster's client properties as stock resolves them, each remembered with the key that gave it.

In a connector: `X.cluster.*` (client names only) < `admin.*` < `X.admin.*` for admin calls, < `consumer.*` <
`X.consumer.*` for reading records, and < `producer.*` < `X.producer.*` for writing; X is source or target. What writes
to the target in stock is Connect's own producer, so that `producer.override.*` wins over those. In a configuration for
one cluster only (MirrorClientConfig, stock §1.9): names as they are < `admin.*`, and < `consumer.*`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from bridge.errors import ConfigError
from bridge.kafka.config.files import Files
from bridge.kafka.config.property_names import KNOWN, NUMBERS, REFUSED, SECRET, is_cluster_name, is_of
from bridge.model.java_values import integer, trimmed
from bridge.model.key_rules import Effect
from bridge.model.values import Side

ADMIN, CONSUMER, PRODUCER = "admin", "consumer", "producer"
ANYWHERE = Files()
OVERRIDE = "producer.override."

_OTHER_KEYS = frozenset({"admin.timeout.ms", "consumer.poll.timeout.ms"})
"""MirrorMaker's own keys that happen to begin like a client prefix."""

_USER = re.compile(r"://[^/]*@")
"""A URL with a user in it, and so perhaps a password."""


@dataclass(frozen=True, slots=True)
class KeyPrefixes:
    """The prefixes under which a configuration has a cluster's properties. `connection`: prefix of the names that stock
    takes for a connection; `own`: what stands before a role (`admin.`) to mean this cluster only. Both are "" where it
    is the only cluster: then names that no client knows are somebody else's. `writing`: what wins for who writes
    there."""

    connection: str = ""
    own: str = ""
    writing: str = ""

    @staticmethod
    def for_side(side: Side) -> KeyPrefixes:
        return KeyPrefixes(f"{side}.cluster.", f"{side}.", OVERRIDE if side is Side.TARGET else "")

    def resolve(self, role: str, props: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
        """Key, name and value; what comes later wins."""
        prefixes = [self.connection, f"{role}.", f"{self.own}{role}."]
        if role == PRODUCER and self.writing:
            prefixes.append(self.writing)
        for prefix in dict.fromkeys(prefixes):
            for key, value in props.items():
                name = key.removeprefix(prefix)
                other = key in _OTHER_KEYS or name == "alias" or name.startswith("override.")
                if key.startswith(prefix) and name and not other and (prefix or name in KNOWN):
                    yield key, name, value


class ClientProps:
    """Resolved properties of one role of a cluster; `errors` collects what is wrong with them."""

    def __init__(
        self, prefixes: KeyPrefixes, role: str, props: Mapping[str, str], files: Files = ANYWHERE
    ) -> None:
        """`files`: which files the properties may name."""
        self._prefixes = prefixes
        self.files = files
        self.errors: list[ConfigError] = []
        self._values: dict[str, tuple[str, str]] = {}
        for key, name, value in prefixes.resolve(role, props):
            text = trimmed(value)
            connection = prefixes.connection and key.startswith(prefixes.connection)
            if connection and not is_cluster_name(name):
                continue  # stock drops it too, and the status says so
            if name not in KNOWN:
                self.errors.append(
                    _invalid(key, name, text, f"{name} is not a property of Kafka's {role} client")
                )
            else:
                self._values[name] = (key, text)
        for name, rule in REFUSED.items():
            if is_of(role, name) and rule.on(self.get(name)) is Effect.REFUSED:
                self.reject(name, rule.why)

    def get(self, name: str) -> str:
        """The value, "" when not given."""
        return self._values[name][1] if name in self._values else ""

    def has(self, name: str) -> bool:
        return name in self._values

    def beginning(self, *with_: str) -> dict[str, str]:
        """Names that begin with one of these, with their values."""
        return {name: value for name, (_, value) in self._values.items() if name.startswith(with_)}

    def key(self, name: str) -> str:
        """The key that gave the value, or the one that would."""
        return self._values[name][0] if name in self._values else self._prefixes.connection + name

    def reject(self, name: str, why: str) -> None:
        self.errors.append(_invalid(self.key(name), name, self.get(name), why))

    def missing(self, name: str, why: str) -> None:
        self.errors.append(ConfigError(self.key(name), f"Missing configuration {self.key(name)}: {why}"))

    def number(self, name: str) -> int | None:
        """A number of the table, None when not given or wrong."""
        if not self.get(name):
            return None
        rule = NUMBERS[name]
        value = integer(self.get(name), 64 if rule.kind == "LONG" else 32)
        if value is None:
            self.reject(name, f"Not a number of type {rule.kind}")
            return None
        if not rule.low <= value <= rule.high:
            self.reject(
                name, f"must be from {rule.low} to {rule.high}, which is what the service's clients take"
            )
            return None
        return value


def _invalid(key: str, name: str, value: str, why: str) -> ConfigError:
    # A name that nobody knows may be a misspelt secret.
    shown = value if name in KNOWN and name not in SECRET and not _USER.search(value) else "[hidden]"
    return ConfigError(key, f"Invalid value {shown} for configuration {key}: {why}")
