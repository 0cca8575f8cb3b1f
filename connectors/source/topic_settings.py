"""Plans configs and ACLs of remote topics from those of the source. Pure.

Plans configs of remote topics: those of a new one, and the changes to one that exists (stock §3.6).

Stock writes every config of every topic at each interval. Here only what differs is written, and three things are
mended: B23, the timestamp limits are excluded by the names that brokers have for them, which no topic has; B24, what
the source's brokers have been given as a default is pinned on the remote topic; B25, see `excluded_timestamp_type`.

Plans the ACLs of remote topics from those of the source: what to create and delete on the target (stock §3.6).

Who may read a topic may read its copy; nobody but the mirror may write one. So of rules that ALLOW only reading and
describing is copied (ALL becomes READ), and every DENY. Stock maps the rule for all topics (`*`) to a topic called
`A.*` (B21), knows no prefixes, copies ALLOW CREATE, DELETE and ALTER_CONFIGS, makes every rule anew at each interval
and never takes one back (B22).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from typing import NamedTuple

from bridge.mm2.filters import ConfigPropertyFilter
from bridge.model.topics import (
    WILDCARD,
    ConfigEntry,
    ConfigSource,
    PatternType,
    Permission,
    TopicAcl,
    TopicOperation,
)

_COPIED = frozenset({TopicOperation.READ, TopicOperation.DESCRIBE, TopicOperation.DESCRIBE_CONFIGS})
TIMESTAMP_TYPE = "message.timestamp.type"
_BROKERS_NAMES = {
    name: f"log.{name}" for name in ("message.timestamp.before.max.ms", "message.timestamp.after.max.ms")
}
Configs = Mapping[str, ConfigEntry]


class AclPlan(NamedTuple):
    create: Set[TopicAcl]
    delete: Set[TopicAcl]


@dataclass(frozen=True, slots=True)
class RemoteNames:
    """How names of rules are mapped. `names`: the topics that are copied, with their remote names; `replicates`:
    whether a topic of the source, there or not, would be; `remote`: the name that it would have."""

    names: Mapping[str, str]
    replicates: Callable[[str], bool]
    remote: Callable[[str], str]

    @property
    def prefix(self) -> str:
        """The prefix of all remote names, before the source's name: "" where that is not how they are made, so that
        nothing but its name tells a remote topic from one of the target's own."""
        probe = self.remote("a")
        prefix = probe.removesuffix("a")
        regular = probe != prefix and all(remote == prefix + name for name, remote in self.names.items())
        return prefix if regular else ""

    def mapped(self, pattern: PatternType, name: str) -> Iterator[tuple[PatternType, str]]:
        """Maps a rule's name. Rules for many topics stay rules for many where a prefix holds just the remote topics;
        else each copied topic gets a rule of its own."""
        everything = pattern is PatternType.LITERAL and name == WILDCARD
        if pattern is PatternType.LITERAL and not everything:
            if self.replicates(name):
                yield PatternType.LITERAL, self.remote(name)
            return
        start = "" if everything else name
        chosen = [remote for topic, remote in self.names.items() if topic.startswith(start)]
        if self.prefix and chosen:
            yield PatternType.PREFIXED, self.prefix + start
        else:
            yield from ((PatternType.LITERAL, remote) for remote in chosen)

    def holds(self, acl: TopicAcl) -> bool:
        """Whether a rule of the target is about remote topics of this source, and no others."""
        if self.prefix:
            own = acl.name.startswith(self.prefix)
            rest = acl.name.removeprefix(self.prefix)
            return own and (acl.pattern is PatternType.PREFIXED or self.replicates(rest))
        return acl.pattern is PatternType.LITERAL and acl.name in self.names.values()


def remote_acls(source: Iterable[TopicAcl], names: RemoteNames) -> set[TopicAcl]:
    """Returns the ACLs that the target is to have for those of the source."""
    remote = set()
    for acl in source:
        operation = _operation(acl)
        if operation is not None:
            for pattern, name in names.mapped(acl.pattern, acl.name):
                remote.add(acl._replace(name=name, pattern=pattern, operation=operation))
    return remote


def plan_acls(
    mirrored: Set[TopicAcl], existing: Set[TopicAcl], names: RemoteNames, *, revoke: bool
) -> AclPlan:
    """Plans what to create and delete. With `revoke` (`sync.topic.acls.revoke`) rules of the kind that we make are
    deleted when the source has none for them. Never a DENY: one that was made by hand can't be told from a copy, and
    without it somebody could read what they must not."""
    gone = {acl for acl in existing - mirrored if _as_ours(acl) and names.holds(acl)} if revoke else set()
    return AclPlan(mirrored - existing, gone)


def _as_ours(acl: TopicAcl) -> bool:
    return acl.permission is Permission.ALLOW and acl.operation in _COPIED


def _operation(acl: TopicAcl) -> TopicOperation | None:
    if acl.permission is Permission.DENY or acl.operation in _COPIED:
        return acl.operation
    return TopicOperation.READ if acl.operation is TopicOperation.ALL else None


def new_topic_configs(source: Configs, chosen: ConfigPropertyFilter) -> dict[str, str]:
    """Returns the configs of a new remote topic."""
    return {name: value for name, value in _replicated(source, chosen) if value is not None}


def config_changes(source: Configs, target: Configs, chosen: ConfigPropertyFilter) -> dict[str, str | None]:
    """Returns the changes to a remote topic that exists: overrides to be set, or removed (None).

    What the target's brokers don't know is left out: with one such config they would refuse all of the topic's.
    """
    changes: dict[str, str | None] = {}
    for name, value in _replicated(source, chosen):
        current = target.get(name)
        if current is None:
            continue
        override = current.value if current.source is ConfigSource.DYNAMIC_TOPIC else None
        if override != value:
            changes[name] = value
    return changes


def _replicated(source: Configs, chosen: ConfigPropertyFilter) -> Iterator[tuple[str, str | None]]:
    """Configs that follow the source's, with the override that the remote topic is to have (None: none)."""
    for name, entry in source.items():
        # As stock: what the source's brokers have in their files is neither set nor taken away.
        if entry.read_only or entry.sensitive or entry.source is ConfigSource.STATIC_BROKER:
            continue
        if not _follows(name, chosen):
            continue
        pinned = entry.source is ConfigSource.DYNAMIC_TOPIC or chosen.should_replicate_source_default(name)
        yield name, entry.value if pinned else None


def _follows(name: str, chosen: ConfigPropertyFilter) -> bool:
    names = (name, _BROKERS_NAMES.get(name, name))
    return all(map(chosen.should_replicate_config_property, names))


def excluded_timestamp_type(chosen: ConfigPropertyFilter) -> bool:
    """Whether remote topics keep their own timestamp type, as they have to (B25): a broker told LogAppendTime drops
    the timestamps of copies, by which offsets are translated."""
    return not chosen.should_replicate_config_property(TIMESTAMP_TYPE)
