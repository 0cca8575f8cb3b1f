"""Decides for each key of a configuration whether it is honoured, ignored or refused: for our keys, Connect's, those of
Kafka's clients, and unknown ones.

Finds the keys that an unknown one may be a misspelling of.

Two names are near when removing at most one character from each makes them the same. Case does not count, and `_` and
`-` count as `.`. So a name may have one character too many, one missing, a wrong one, or one that has moved.

Names that keys had before: in KIP-382's draft, in MirrorMaker 1, and in MirrorMaker 2 before Kafka 4.

Each is an error that names the key to use: a name that nobody reads would change what is copied, in silence.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from bridge.errors import ConfigError
from bridge.model.key_rules import Effect, KeyRule, Use, honoured, ignored
from bridge.model.values import Side
from bridge.protocol.operators import IgnoredSetting
from connectors.config import client_keys, connect_keys
from connectors.config.configdef import ConfigDef, invalid

LEAST, MOST = 5, 120
"""Least length of a known key, and most of an unknown one: short keys have too many neighbours, ours are shorter."""
OTHERS = frozenset({"offset.storage.topic"})
"""Keys of Kafka that are not misspelt, though near a connector's key: this one is a Connect worker's."""
_SEPARATORS = str.maketrans("_-", "..")
_SIDES = ("source", "target")
_NEW_NAMES = {
    **{f"{topics}.blacklist": "topics.exclude" for topics in ("topics", "topic")},
    **{f"{topics}.whitelist": "topics" for topics in ("topics", "topic")},
    "whitelist": "topics",
    "blacklist": "topics.exclude",
    **{f"{groups}.blacklist": "groups.exclude" for groups in ("groups", "group")},
    **{f"{groups}.whitelist": "groups" for groups in ("groups", "group")},
    "config.properties.blacklist": "config.properties.exclude",
    "emit.heartbeats": "emit.heartbeats.enabled",
    "emit.checkpoints": "emit.checkpoints.enabled",
    "refresh.topics": "refresh.topics.enabled",
    "refresh.groups": "refresh.groups.enabled",
    "sync.topic.configs": "sync.topic.configs.enabled",
    "sync.topic.acls": "sync.topic.acls.enabled",
    **{f"{side}.cluster.broker.list": f"{side}.cluster.bootstrap.servers" for side in _SIDES},
    **{f"{side}.cluster.brokers.list": f"{side}.cluster.bootstrap.servers" for side in _SIDES},
    **{f"{side}.cluster.brokers": f"{side}.cluster.bootstrap.servers" for side in _SIDES},
    **{f"{side}.broker.list": f"{side}.cluster.bootstrap.servers" for side in _SIDES},
}
_NO_LONGER = {
    "rename.topics": (
        "remove it: topics are renamed, but with replication.policy.class="
        "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
    ),
    "readahead.queue.capacity": "how much is read ahead follows from how fast the target takes it; leave it out",
    "heartbeat.retention.ms": "the heartbeats topic is compacted, and keeps the newest of each flow; leave it out",
    "checkpoint.retention.ms": "the checkpoints topic is compacted, and keeps the newest of each group; leave it out",
    "message.handler": "give bridge.transforms=python:module.function",
    "num.streams": "give spark.master=local[N], or spark.default.parallelism=N",
    "abort.on.send.failure": "give source.record.policy: fail for true, report for false",
    "offset.commit.interval.ms": "positions are committed with the records: give transaction.interval.ms",
}
_REMOTE_ADMIN = "remote.admin."
OLD_NAMES = MappingProxyType({**{old: f"its name is {new}" for old, new in _NEW_NAMES.items()}, **_NO_LONGER})
"""By old name, what to do instead."""
ROLES: Final = ("admin", "consumer", "producer")
OVERRIDE = "producer.override."
"""Of Connect's producer, which in stock writes to the target what the source connector writes here itself."""
ClientUses = Mapping[tuple[Side, str], Use]
"""What a connector's clients are for, by side and role; it has none where there is no entry."""
ClientRule = Callable[[Use, str], KeyRule | None]
FOR_GROUPS: ClientUses = {
    (Side.SOURCE, "admin"): Use.ADMIN,
    (Side.TARGET, "admin"): Use.ADMIN,
    (Side.SOURCE, "consumer"): Use.COMPARE,
    (Side.TARGET, "consumer"): Use.FOLLOW,
}
"""Of connectors that follow groups."""
_OURS = honoured("see its documentation")
_SPARK = honoured("passed on to Spark, if the service allows it (docs/security.md)")
_TRANSFORM = honoured("by the transform that it names")
_OF_JMX = ("metrics.jmx.include", "metrics.jmx.exclude")
_MEASURED = (*connect_keys.COPYING, connect_keys.CHECKPOINT)
"""Kinds with stock's metrics in the worker."""
_JMX = honoured("by Kafka's JmxReporter, for the MBeans of kafka.connect.mirror (docs/operations.md)")
_NO_CLIENT = ignored("the connector makes no such client")
_NO_SOURCE = ignored("the connector does not connect to the source")
UNPREFIXED = ignored(
    "without a prefix it reaches no client; put source.consumer., target.producer. or another client's before it"
)
NOBODYS = ignored("it is no key of this connector, of Connect or of Kafka's clients")
NOTHING = (NOBODYS, UNPREFIXED, _NO_CLIENT, _NO_SOURCE)
"""Of keys that nobody can have meant."""
_OF_CONNECTIONS = ("bootstrap.servers", "security.protocol", "ssl.", "sasl.")
"""How names begin that stock keeps under `X.cluster.`."""
_DROPPED = "it reaches no client, as in MirrorMaker, which takes connections only from there"
_PREFIXES = (
    *(f"{side}.{name}" for side in Side for name in ("cluster", *ROLES)),
    *ROLES,
    *(f"{role}.override" for role in ROLES),
)
"""Of client properties."""
_PLUGINS = ignored(f"{NOBODYS.why}; classes of your own may read it")


def _plain(text: str) -> str:
    return text.strip().lower().translate(_SEPARATORS)


def _shortened(text: str) -> Iterator[str]:
    """Yields the text, and the text without each of its characters."""
    yield text
    yield from (text[:index] + text[index + 1 :] for index in range(len(text)))


class Names:
    """An index of names, searched by a text that is near."""

    def __init__(self, names: Collection[str]) -> None:
        self._by_text: dict[str, set[str]] = {}
        for name in names:
            for text in _shortened(_plain(name)):
                self._by_text.setdefault(text, set()).add(name)

    def near(self, text: str) -> set[str]:
        """Returns the names near a text, with the text itself where it is one."""
        matches = set[str]()
        for shortened in _shortened(_plain(text)):
            matches |= self._by_text.get(shortened, set())
        return matches


class NearKeys:
    """What a key may have been meant as: one of `keys`, or a client's property behind one of `prefixes`."""

    def __init__(self, keys: Collection[str], prefixes: Collection[str], properties: Collection[str]) -> None:
        self._keys = Names([key for key in keys if len(key) >= LEAST])
        self._prefixes = Names(prefixes)
        self._properties = Names(properties)

    def find(self, key: str) -> list[str]:
        """Returns the names near an unknown key, the nearest first."""
        if key in OTHERS or len(key) > MOST:
            return []
        matches = self._keys.near(key)
        for index, character in enumerate(key):
            if character not in "._-":
                continue
            for prefix in self._prefixes.near(key[:index]):
                matches |= {f"{prefix}.{name}" for name in self._properties.near(key[index + 1 :])}
        return sorted(matches, key=lambda other: (_edits(_plain(key), _plain(other)), -len(other), other))


def _edits(text: str, other: str) -> int:
    """Returns how many characters are too many, missing, or different, of two near texts."""
    if len(text) != len(other):
        return abs(len(text) - len(other))
    wrong = [pair for pair in zip(text, other, strict=True) if pair[0] != pair[1]]
    swapped = len(wrong) == 2 and wrong[0] == wrong[1][::-1]
    return 1 if swapped else min(len(wrong), 2)


def instead(key: str) -> str | None:
    """Returns what to give in place of an old name; None for a name that is none."""
    if key.startswith(_REMOTE_ADMIN) and key != _REMOTE_ADMIN:
        name = key.removeprefix(_REMOTE_ADMIN)
        return f"its name is source.admin.{name} or target.admin.{name}"
    return OLD_NAMES.get(key)


@dataclass(frozen=True, slots=True)
class KeyRules:
    """The rules for the keys of one kind of connector."""

    kind: str
    definition: ConfigDef
    uses: ClientUses
    client_rule: ClientRule
    client_properties: Collection[str] = ()
    """That `client_rule` knows."""

    def ignored(self, props: Mapping[str, str]) -> Iterator[IgnoredSetting]:
        """Settings that do nothing, in the order of their keys."""
        own_code = any(value.startswith("python:") for value in props.values())
        for key in sorted(props):
            rule = self.rule(key)
            if rule is NOBODYS and own_code:
                rule = _PLUGINS
            if rule.on(props[key]) is Effect.IGNORED:
                yield IgnoredSetting(key=key, reason=rule.why)

    def refused(self, props: Mapping[str, str]) -> Iterator[ConfigError]:
        """Yields errors for Connect's own keys that can't be honoured; client properties are checked by the clients."""
        for key, value in props.items():
            rule = self._connects(key)
            if rule is not None and rule.on(value) is Effect.REFUSED:
                yield ConfigError(key, invalid(key, value, rule.why))

    def misspelt(self, props: Mapping[str, str]) -> Iterator[ConfigError]:
        """Yields errors for unknown keys that are spelt nearly as a known one, or are a known one's old name."""
        for key in props:
            old = instead(key) if self.rule(key) in NOTHING else None
            if old is not None:
                yield ConfigError(key, f"Unknown configuration '{key}': {old}")
                continue
            meant = self._meant(key) if self.rule(key) is NOBODYS else None
            if meant is not None:
                yield ConfigError(key, f"Unknown configuration '{key}': did you mean '{meant}'?")

    def of_connect(self, key: str) -> bool:
        """Whether Connect checks the value too: in its answer to a validation ours would take the place of its own."""
        return key.startswith(OVERRIDE) or self._connects(key) is not None

    def rule(self, key: str) -> KeyRule:
        defined = self.definition.keys.get(key)
        if defined is not None:
            return defined.rule or _OURS
        return self._connects(key) or self._clients(key) or self._others(key)

    def _meant(self, key: str) -> str | None:
        defined = {name for name, key in self.definition.keys.items() if key.group != client_keys.UNPREFIXED}
        ours = defined | {key.name for key in connect_keys.KEYS}
        near = _near_keys(frozenset(ours), frozenset(self.client_properties)).find(key)
        return next((text for text in near if self.rule(text) not in NOTHING), None)

    def _connects(self, key: str) -> KeyRule | None:
        for connect_key in connect_keys.KEYS:
            if connect_key.covers(key):
                return connect_key.rules[self.kind]
        return None

    def _clients(self, key: str) -> KeyRule | None:
        """Returns the rule of a key whose prefix names a client, of either side or of both."""
        if key.startswith(OVERRIDE):
            return self._override(key.removeprefix(OVERRIDE))
        prefix, _, rest = key.partition(".")
        sides = [side for side in Side if side == prefix] or list(Side)
        role, _, name = (rest if prefix in list(Side) else key).partition(".")
        if not name or role not in (*ROLES, "cluster") or (role == "cluster" and len(sides) > 1):
            return None
        if role == "cluster" and not name.startswith(_OF_CONNECTIONS):
            return self._dropped(sides[0], name)
        roles = ROLES if role == "cluster" else (role,)
        uses = [self.uses[side, text] for side in sides for text in roles if (side, text) in self.uses]
        rules = [rule for use in uses if (rule := self.client_rule(use, name)) is not None]
        if not uses:
            away = not any(side == Side.SOURCE for side, _ in self.uses)
            return _NO_SOURCE if away and sides == [Side.SOURCE] else _NO_CLIENT
        by_effect = {rule.effect: rule for rule in reversed(rules)}
        return next((by_effect[effect] for effect in Effect if effect in by_effect), None)

    def _dropped(self, side: Side, name: str) -> KeyRule | None:
        """Returns the rule of a property that stands where stock drops it, with the keys by which it has an effect."""
        rules = {role: self.client_rule(use, name) for (at, role), use in self.uses.items() if at == side}
        if not any(self.client_rule(use, name) for use in Use):
            return None
        keys = [
            f"{side}.{role}.{name}"
            for role, rule in rules.items()
            if role != "admin" and rule is not None and rule.effect is Effect.HONOURED
        ]
        return ignored(f"{_DROPPED}; give {' or '.join(keys)}" if keys else _DROPPED)

    def _override(self, name: str) -> KeyRule | None:
        use = self.uses.get((Side.TARGET, "producer"))
        if use is not None:
            return self.client_rule(use, name)
        return connect_keys.OF_RECORDS[self.kind]

    def _others(self, key: str) -> KeyRule:
        if self.kind in connect_keys.COPYING and key.startswith("spark."):
            return _SPARK
        if self.kind in connect_keys.COPYING and key.startswith("bridge.transforms."):
            return _TRANSFORM
        if key in _OF_JMX and self.kind in _MEASURED:
            return _JMX
        if any(self.client_rule(use, key) is not None for use in Use):
            return UNPREFIXED
        return NOBODYS


@lru_cache(maxsize=8)
def _near_keys(keys: frozenset[str], properties: frozenset[str]) -> NearKeys:
    return NearKeys([key for key in keys if not key.endswith("*")], _PREFIXES, properties)
