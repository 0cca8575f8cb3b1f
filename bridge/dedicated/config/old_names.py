"""Names that keys had before: in KIP-382, and in MirrorMaker before 3.0. They are read under today's names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from bridge.dedicated.config.plan import KeyWarning
from bridge.dedicated.config.scopes import TOP, scopes
from bridge.errors import ConfigError
from connectors.config.validators import invalid

_RENAMED: Mapping[str, str] = {
    **dict.fromkeys(("broker.list", "brokers", "brokers.list"), "bootstrap.servers"),
    "topics.whitelist": "topics",
    "groups.whitelist": "groups",
    **{f"{of}.blacklist": f"{of}.exclude" for of in ("topics", "groups", "config.properties")},
    **{
        old: f"{old}.enabled"
        for old in (
            *("emit.heartbeats", "emit.checkpoints", "refresh.topics", "refresh.groups"),
            *("sync.topic.configs", "sync.topic.acls"),
        )
    },
}
_DRAFT = ("cluster.", "connector.")
"""What the KIP has before the name of a cluster, and before that of a flow."""
_RENAMING = "rename.topics"
_IDENTITY = "replication.policy.class=org.apache.kafka.connect.mirror.IdentityReplicationPolicy"


class Renamed(NamedTuple):
    file: dict[str, str]
    warnings: list[KeyWarning]
    errors: list[ConfigError]
    written: dict[str, str]
    """The file's own names, by today's."""

    def as_written(self, error: ConfigError) -> ConfigError:
        """Returns an error with the name that the file has."""
        old = self.written.get(error.key)
        if old is None:
            return error
        return ConfigError(old, error.message.replace(f"configuration {error.key}:", f"configuration {old}:"))


def renamed(file: Mapping[str, str], clusters: Sequence[str]) -> Renamed:
    """Returns the file with today's names. A setting that is given under both is an error."""
    result = Renamed({}, [], [], {})
    for key, value in file.items():
        now = _now(key, clusters)
        if now == key:
            result.file[key] = value
        elif now in file:
            why = f"{now} is given too, and both mean the same; remove {key}"
            result.errors.append(ConfigError(key, invalid(key, value, why)))
        else:
            result.file[now] = value
            result.written[now] = key
            result.warnings.append(KeyWarning(key, f"{key} is an old name and is read as {now}: write that"))
        if any(each.rest == _RENAMING for each in scopes(key, clusters)) and value == "false":
            why = f"topics are renamed by the replication policy; remove it, and use {_IDENTITY}"
            result.errors.append(ConfigError(key, invalid(key, value, why)))
    return result


def _now(key: str, clusters: Sequence[str]) -> str:
    draft = next((each for each in _DRAFT if key.startswith(each)), "")
    if draft and draft.rstrip(".") not in clusters:
        shorter = key.removeprefix(draft)
        if next(scopes(shorter, clusters)).scope != TOP:
            key = shorter
    for each in scopes(key, clusters):
        if each.rest in _RENAMED:
            return each.prefix + _RENAMED[each.rest]
    return key
