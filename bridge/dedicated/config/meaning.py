"""Decides for each key of a file: it reaches a connector or a client, it means nothing here, or nobody knows it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum, auto
from functools import cached_property
from typing import NamedTuple

from bridge.dedicated.config import names
from bridge.dedicated.config.plan import ROLES, KeyWarning, Unused
from bridge.dedicated.config.scopes import CLUSTER, FLOW, TOP, Scoped, scopes
from bridge.dedicated.config.stock import File, on_side
from bridge.dedicated.config.suggestions import Known, suggested
from bridge.dedicated.config.tables import MEMBERSHIP, OF_CONNECTORS, OF_DRIVER, STORAGE, meaningless
from bridge.model.key_rules import Effect, KeyRule
from connectors.base import ConnectorKind
from connectors.checkpoint.connector import KIND as CHECKPOINT
from connectors.config import connect_keys
from connectors.config.key_effects import NOBODYS, NOTHING, OVERRIDE, UNPREFIXED, KeyRules
from connectors.group_offset.connector import KIND as GROUP_OFFSET
from connectors.heartbeat.connector import KIND as HEARTBEAT
from connectors.ports import ClientCheck
from connectors.source.connector import KIND as SOURCE

KINDS: Mapping[str, ConnectorKind] = {
    "MirrorSourceConnector": SOURCE,
    "MirrorCheckpointConnector": CHECKPOINT,
    "MirrorHeartbeatConnector": HEARTBEAT,
    "MirrorGroupOffsetConnector": GROUP_OFFSET,
}
"""By the names of the connectors of a flow. All but the last are stock's."""
OWN_PREFIXES = ("spark.", "bridge.transforms.")
_OF_CLUSTERS = tuple(f"{side}." for side in names.SIDES)
_CONNECTIONS = tuple(f"{side}.cluster." for side in names.SIDES)
_ONLY_OF_FLOWS = ("use.defaults.from",)
"""Keys that stock drops at the top level, without a word."""
NOBODYS_KEY = "it is no key of MirrorMaker, of Connect or of Kafka's clients"


def _own_names() -> frozenset[str]:
    """Returns keys that stock does not have: they reach all flows from the top level."""
    defined = {key for kind in KINDS.values() for key in kind.definition.keys}
    apart = {key for key in defined if key.startswith(_CONNECTIONS)}
    return frozenset(defined - names.CONNECTOR_NAMES - apart - {*_ONLY_OF_FLOWS})


OWN_NAMES = _own_names()


class Fate(Enum):
    USED = auto()
    UNUSED = auto()
    UNKNOWN = auto()


class Meaning(NamedTuple):
    fate: Fate
    why: str = ""


_USED, _NOBODY_KNOWS = Meaning(Fate.USED), Meaning(Fate.UNKNOWN, NOBODYS_KEY)


class Keys:
    """The keys of one file."""

    def __init__(self, file: File, clusters: Sequence[str], clients: ClientCheck) -> None:
        self._file, self._clusters, self._clients = file, clusters, clients
        self._rules = {
            name: KeyRules(kind.kind, kind.definition, kind.clients, clients.rule, clients.properties)
            for name, kind in KINDS.items()
        }
        self.own_code = any(value.startswith("python:") for value in file.values())
        """Whether classes of the user's own may read keys that nobody else knows."""

    def passed_on(self, connector: str, key: str) -> bool:
        """Whether a connector gets a key that stock hands to it."""
        if meaningless(key, OF_CONNECTORS) or meaningless(key, OF_DRIVER) or key.startswith(names.PROVIDERS):
            return False
        connection = next((each for each in _CONNECTIONS if key.startswith(each)), None)
        if connection and key not in names.ALIASES and key.removeprefix(connection) not in names.CLIENT_NAMES:
            return False
        rule = self._rules[connector].rule(key)
        for_own_code = self.own_code and not key.startswith(_OF_CLUSTERS)
        return rule != UNPREFIXED and (rule != NOBODYS or for_own_code)

    def unused(self) -> tuple[Unused, ...]:
        """Returns the keys without a meaning, by reason, in the order of the file."""
        by_reason: dict[str, list[str]] = {}
        for key, meaning in self._meanings.items():
            alone = meaning.fate is Fate.UNKNOWN and self._meant(key) is None
            if meaning.fate is Fate.UNUSED or alone:
                by_reason.setdefault(meaning.why, []).append(key)
        return tuple(Unused(tuple(keys), why) for why, keys in by_reason.items())

    def warnings(self) -> Iterator[KeyWarning]:
        """Yields the keys that are probably misspelt."""
        for key, meaning in self._meanings.items():
            if meaning.fate is Fate.UNKNOWN and (meant := self._meant(key)) is not None:
                yield KeyWarning(key, f"Unknown configuration '{key}': {meant}", unknown=True)

    @cached_property
    def _meanings(self) -> Mapping[str, Meaning]:
        return {key: self._meaning(key, value) for key, value in self._file.items()}

    def _meaning(self, key: str, value: str) -> Meaning:
        read = [self._of_scope(scoped, value) for scoped in scopes(key, self._clusters)]
        return next((each for each in read if each.fate is not Fate.UNKNOWN), read[0])

    def _of_scope(self, scoped: Scoped, value: str) -> Meaning:
        scope, _, rest = scoped
        if scope == TOP and (rest in (names.CLUSTERS, names.PROVIDERS) or self._of_provider(rest)):
            return _USED
        if (scope == CLUSTER and rest in MEMBERSHIP) or (scope != FLOW and rest in STORAGE):
            return _USED
        tables = OF_DRIVER if scope == CLUSTER else (*OF_DRIVER, *OF_CONNECTORS)
        if (why := meaningless(rest, tables)) is not None:
            return Meaning(Fate.UNUSED, why)
        meaning = self._judged(placed(scoped), value)
        if meaning.fate is Fate.UNKNOWN and scope != FLOW:
            return self._elsewhere(scoped, value)
        if meaning.fate is Fate.UNKNOWN and scope == FLOW and self.own_code:
            return _USED
        return meaning

    def _judged(self, keys: Sequence[str], value: str) -> Meaning:
        """Judges keys of connectors: one that reaches any of them is used."""
        rules = [rule for key in keys for rule in self._rules_of(key) if rule not in NOTHING]
        if any(rule.on(value) is not Effect.IGNORED for rule in rules):
            return _USED
        return Meaning(Fate.UNUSED, rules[0].why) if rules else _NOBODY_KNOWS

    def _rules_of(self, key: str) -> list[KeyRule]:
        # Other connectors leave Connect's keys to Connect, and there is none: what the copies make of them counts.
        connects = any(each.covers(key) for each in connect_keys.KEYS) and key != names.TASKS_MAX
        own = ["MirrorSourceConnector"] if connects and not key.startswith(OVERRIDE) else list(KINDS)
        return [self._rules[name].rule(key) for name in own]

    def _elsewhere(self, scoped: Scoped, value: str) -> Meaning:
        """Judges a key that its scope does not have: another one may."""
        scope, owner, rest = scoped
        flow = "->".join(self._clusters[:2]) if len(self._clusters) > 1 else "A->B"
        if self._judged([rest], value).fate is not Fate.UNKNOWN:
            if scope == CLUSTER:
                return Meaning(Fate.UNUSED, f"it is a key of flows, not of clusters: write {flow}. before it")
            where = f"the name of a flow before it, as in {flow}.{rest}"
            if rest.startswith(ROLES):
                where = f"the name of a cluster or of a flow before it, as in {self._first}.{rest}"
            return Meaning(
                Fate.UNUSED, f"at the top level it reaches nothing, as in MirrorMaker: write {where}"
            )
        if rest in self._clients.properties:
            where = f"{owner or self._first}.consumer.{rest}"
            why = f"it reaches no connector, as in MirrorMaker: write a cluster and a client before it, as in {where}"
            return Meaning(Fate.UNUSED, why)
        return _NOBODY_KNOWS

    @property
    def _first(self) -> str:
        return next(iter(self._clusters), "A")

    def _of_provider(self, key: str) -> bool:
        return key.startswith(f"{names.PROVIDERS}.")

    @cached_property
    def _known(self) -> Known:
        flows = {key for kind in KINDS.values() for key in kind.definition.keys}
        flows |= {each.name for each in connect_keys.KEYS if not each.name.endswith("*")}
        everywhere = {each.name for each in OF_DRIVER if not each.name.endswith("*")}
        everywhere |= {*names.CLIENT_NAMES, *STORAGE}
        top = names.CONNECTOR_NAMES | OWN_NAMES | everywhere | {names.CLUSTERS}
        return Known(
            top=top,
            of_flows=flows,
            of_clusters=everywhere | {*MEMBERSHIP},
            of_clients=frozenset(self._clients.properties),
        )

    def _meant(self, key: str) -> str | None:
        return suggested(key, self._clusters, self._known)


def placed(scoped: Scoped) -> list[str]:
    """Returns the keys of connectors that a key of the file becomes."""
    scope, _, rest = scoped
    if scope == FLOW:
        return [rest]
    on_clusters = [on_side(side, rest) for side in names.SIDES]
    if scope == CLUSTER:
        return on_clusters if rest in names.CLIENT_NAMES or rest.startswith(ROLES) else []
    of_clients = on_clusters if rest in names.CLIENT_NAMES else []
    handed_on = rest in names.CONNECTOR_NAMES or rest in OWN_NAMES
    return (
        [rest, *of_clients]
        if handed_on or rest.startswith((f"{names.POLICY}.", *OWN_PREFIXES))
        else of_clients
    )
