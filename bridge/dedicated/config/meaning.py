"""Decides for each key of a file: it reaches a connector or a client, it means nothing here, or nobody knows it.

Takes the keys of a file apart: what stands before the first key of a flow, of a cluster, or of none.

Keys that stock's driver, its REST server and its Connect workers read, and that mean nothing here: each with the
reason.

Says what an unknown key of a file was probably meant to be.

Names that keys had before: in KIP-382, and in MirrorMaker before 3.0. They are read under today's names.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum, auto
from functools import cached_property
from itertools import permutations
from typing import NamedTuple

from bridge.dedicated.config import stock
from bridge.dedicated.config.plan import ROLES, KeyWarning, Unused
from bridge.dedicated.config.stock import File, on_side
from bridge.errors import ConfigError
from bridge.model.key_rules import Effect, KeyRule
from connectors.base import ConnectorKind
from connectors.checkpoint.task import KIND as CHECKPOINT
from connectors.config import connect_keys
from connectors.config.configdef import invalid
from connectors.config.key_effects import NOBODYS, NOTHING, OVERRIDE, UNPREFIXED, KeyRules
from connectors.group_offset.task import KIND as GROUP_OFFSET
from connectors.heartbeat.task import KIND as HEARTBEAT
from connectors.ports import ClientCheck
from connectors.source.connector import KIND as SOURCE

FLOW, CLUSTER, TOP = "flow", "cluster", "top level"
_NO_WORKER = "there is no Connect worker: state is in topics of this project's own (docs/state-topics.md)"
_NO_REST = (
    "nodes share flows by Kafka's own consumer groups, without REST between them; the HTTP of health, metrics and "
    "groups is set by the command's own options"
)
_OWN_NAMES = "each connector of a flow has its own name and class, as in MirrorMaker"
_ONCE = "records are copied exactly once without it"
_SHIM = "it is for the shim in a Connect worker, and there is none"
_METRICS = "the service's metrics have names of their own, at /metrics"
_NO_MBEANS = "there is no Connect worker with MBeans: metrics are at /metrics (docs/operations.md)"
MEMBERSHIP = ("group.id", "session.timeout.ms", "heartbeat.interval.ms", "rebalance.timeout.ms")
"""Keys of a cluster's workers that are kept: nodes share the flows into the cluster by them."""
STORAGE = ("config.storage.topic", "config.storage.replication.factor", "offset.storage.topic")
"""Of the topics of stock's workers those that are kept, of a cluster or for all: the group's own topic, and where a
mirror of stock's left off."""
LONGEST = 120
"""Characters of a key that can be misspelt."""
_NEAR, _NEAR_NAME = 0.82, 0.6
_FLOW = re.compile(r"(?P<source>.+?)->(?P<target>.+?)\.(?P<rest>.+)")
_CLIENT = tuple(
    f"{prefix}{role}." for prefix in ("", "source.", "target.") for role in (*ROLES, "producer.override")
)
KINDS: Mapping[str, ConnectorKind] = {
    "MirrorSourceConnector": SOURCE,
    "MirrorCheckpointConnector": CHECKPOINT,
    "MirrorHeartbeatConnector": HEARTBEAT,
    "MirrorGroupOffsetConnector": GROUP_OFFSET,
}
"""By the names of the connectors of a flow. All but the last are stock's."""
OWN_PREFIXES = ("spark.", "bridge.transforms.")
_OF_CLUSTERS = tuple(f"{side}." for side in stock.SIDES)
_CONNECTIONS = tuple(f"{side}.cluster." for side in stock.SIDES)
_ONLY_OF_FLOWS = ("use.defaults.from",)
"""Keys that stock drops at the top level, without a word."""
NOBODYS_KEY = "it is no key of MirrorMaker, of Connect or of Kafka's clients"
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


class Scoped(NamedTuple):
    """A key within its scope. `owner`: the flow or the cluster, empty at the top level; `rest`: what stands behind."""

    scope: str
    owner: str
    rest: str

    @property
    def prefix(self) -> str:
        return f"{self.owner}." if self.owner else ""


def scopes(key: str, clusters: Sequence[str]) -> Iterator[Scoped]:
    """Yields how a key may be read, the longest prefix first: an alias may begin as another one, or as a key does."""
    flows = [f"{source}->{target}" for source, target in permutations(clusters, 2)]
    for scope, owners in ((FLOW, flows), (CLUSTER, clusters)):
        for owner in sorted(owners, key=len, reverse=True):
            if key.startswith(f"{owner}.") and key != f"{owner}.":
                yield Scoped(scope, owner, key.removeprefix(f"{owner}."))
    yield Scoped(TOP, "", key)


class Meaningless(NamedTuple):
    """A key, or all that begin with what stands before a final `*`."""

    name: str
    why: str

    def covers(self, key: str) -> bool:
        return key.startswith(self.name[:-1]) if self.name.endswith("*") else key == self.name


def _all(why: str, *keys: str) -> tuple[Meaningless, ...]:
    return tuple(Meaningless(key, why) for key in keys)


OF_DRIVER = (
    *_all(_NO_REST, "dedicated.mode.enable.internal.rest", "listeners", "listeners.https.*", "rest.*"),
    *_all(
        _NO_REST, "admin.listeners", "admin.listeners.https.*", "access.control.allow.*", "ssl.client.auth"
    ),
    *_all(_NO_REST, "response.http.headers.config", "inter.worker.*"),
    *_all(_NO_WORKER, "offset.storage.*", "config.storage.*", "status.storage.*", "offset.flush.*"),
    *_all(_NO_WORKER, "worker.*", "task.shutdown.graceful.timeout.ms", "connect.protocol"),
    *_all(_NO_WORKER, "scheduled.rebalance.max.delay.ms", "topic.tracking.*", "topic.creation.enable"),
    *_all(_NO_WORKER, "connector.client.config.override.policy", "header.converter.*"),
    *_all(_NO_WORKER, "key.converter.*", "value.converter.*", "internal.key.converter*"),
    *_all(_NO_WORKER, "internal.value.converter*"),
    *_all("no Java plugin is loaded: there is no JVM", "plugin.path", "plugin.discovery"),
    *_all(_ONCE, "exactly.once.source.support"),
    *_all(
        _METRICS, "metrics.context.*", "metrics.reporter", "metrics.num.samples", "metrics.recording.level"
    ),
    *_all(_METRICS, "metrics.sample.window.ms", "auto.include.jmx.reporter", "enable.metrics.push"),
    *_all(_NO_MBEANS, "metric.reporters", "metric.names.formats", "metrics.jmx.*"),
    *_all("topics have the retention of their cluster", "heartbeat.retention.ms", "checkpoint.retention.ms"),
    *_all("how much is read ahead is the pipeline's own affair", "readahead.queue.capacity"),
    *_all("it is what happens anyway", "rename.topics"),
)
"""In any scope: stock reads some of them of a cluster, some of the top level, and none of a flow."""


OF_CONNECTORS = (
    *_all(_OWN_NAMES, "name", "connector.class", "connector.plugin.version", "task.class"),
    *_all("a flow never has more tasks than tasks.max", "tasks.max.enforce"),
    *_all("a value that changes needs a restart, one node after the other", "config.action.reload"),
    *_all(_NO_WORKER, "offsets.storage.topic"),
    *_all(_SHIM, "bridge.url", "bridge.auth.token", "bridge.request.timeout.ms", "bridge.task.lease.ms"),
    *_all(_SHIM, "bridge.ssl.*"),
)
"""Keys of connectors that only a Connect worker gives a meaning."""


def meaningless(key: str, table: tuple[Meaningless, ...]) -> str | None:
    """Returns why a key means nothing here; None where the table has nothing to say of it."""
    return next((row.why for row in table if row.covers(key)), None)


@dataclass(frozen=True, slots=True)
class Known:
    """The names that keys may have, by what stands before them."""

    top: Collection[str]
    of_flows: Collection[str]
    of_clusters: Collection[str]
    of_clients: Collection[str]
    """Behind the role of a client."""


def suggested(key: str, clusters: Sequence[str], known: Known) -> str | None:
    """Returns the end of a sentence, `did you mean 'B.bootstrap.servers'?`; None where nothing is near."""
    if len(key) > LONGEST:
        return None
    if (stranger := _stranger(key, clusters, known)) is not None:
        return stranger
    scoped = next(scopes(key, clusters))
    candidates = known.top
    if scoped.scope == FLOW:
        candidates = [*known.of_flows, *_of_roles(scoped.rest, known)]
    elif scoped.scope == CLUSTER:
        candidates = [*known.of_clusters, *known.of_clients, *_of_roles(scoped.rest, known)]
    near = get_close_matches(scoped.rest.lower(), sorted(candidates), 1, _NEAR)
    if not near and scoped.scope == CLUSTER:
        near = get_close_matches(key.lower(), sorted(known.top), 1, _NEAR)
        return f"did you mean '{near[0]}'?" if near else None
    return f"did you mean '{scoped.prefix}{near[0]}'?" if near else None


def _of_roles(rest: str, known: Known) -> Iterator[str]:
    """Yields the properties of the client that a key begins with."""
    heads = [text for text in _CLIENT if rest.startswith(text)]
    heads += get_close_matches(rest.partition(".")[0] + ".", _CLIENT, 1, _NEAR) if not heads else []
    for head in heads:
        yield from (head + name for name in known.of_clients)


def _stranger(key: str, clusters: Sequence[str], known: Known) -> str | None:
    """Judges keys of flows and clusters that `clusters` does not name."""
    if next(scopes(key, clusters)).scope != TOP:
        return None
    if (flow := _FLOW.fullmatch(key)) is not None:
        pairs = [f"{source}->{target}" for source, target in permutations(clusters, 2)]
        if flow["source"] == flow["target"]:
            return f"{flow['source']} is no source of its own"
        named = f"{flow['source']}->{flow['target']}"
        meant = get_close_matches(named, pairs, 1, _NEAR_NAME)
        strangers = [alias for alias in (flow["source"], flow["target"]) if alias not in clusters]
        return _not_named(strangers, clusters, f"{meant[0]}.{flow['rest']}" if meant else "")
    for position in (position for position, character in enumerate(key) if character == "."):
        owner, rest = key[:position], key[position + 1 :]
        if owner in clusters or not _of_cluster(rest, known):
            continue
        meant = get_close_matches(owner, clusters, 1, _NEAR_NAME)
        return _not_named([owner], clusters, f"{meant[0]}.{rest}" if meant else "")
    return None


def _of_cluster(rest: str, known: Known) -> bool:
    role, _, name = rest.partition(".")
    # Names without a dot are words that anything may end with.
    return (rest in known.of_clusters and "." in rest) or (role in ROLES and name in known.of_clients)


def _not_named(strangers: Sequence[str], clusters: Sequence[str], meant: str) -> str:
    verb = "is" if len(strangers) == 1 else "are"
    message = f"{' and '.join(strangers)} {verb} not among the clusters ({', '.join(clusters)})"
    return f"{message}; did you mean '{meant}'?" if meant else message


def _own_names() -> frozenset[str]:
    """Returns keys that stock does not have: they reach all flows from the top level."""
    defined = {key for kind in KINDS.values() for key in kind.definition.keys}
    apart = {key for key in defined if key.startswith(_CONNECTIONS)}
    return frozenset(defined - stock.CONNECTOR_NAMES - apart - {*_ONLY_OF_FLOWS})


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
        if meaningless(key, OF_CONNECTORS) or meaningless(key, OF_DRIVER) or key.startswith(stock.PROVIDERS):
            return False
        connection = next((text for text in _CONNECTIONS if key.startswith(text)), None)
        if connection and key not in stock.ALIASES and key.removeprefix(connection) not in stock.CLIENT_NAMES:
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
        return next((meaning for meaning in read if meaning.fate is not Fate.UNKNOWN), read[0])

    def _of_scope(self, scoped: Scoped, value: str) -> Meaning:
        scope, _, rest = scoped
        if scope == TOP and (rest in (stock.CLUSTERS, stock.PROVIDERS) or self._of_provider(rest)):
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
        connects = (
            any(connect_key.covers(key) for connect_key in connect_keys.KEYS) and key != stock.TASKS_MAX
        )
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
        return key.startswith(f"{stock.PROVIDERS}.")

    @cached_property
    def _known(self) -> Known:
        flows = {key for kind in KINDS.values() for key in kind.definition.keys}
        flows |= {key.name for key in connect_keys.KEYS if not key.name.endswith("*")}
        everywhere = {key_row.name for key_row in OF_DRIVER if not key_row.name.endswith("*")}
        everywhere |= {*stock.CLIENT_NAMES, *STORAGE}
        top = stock.CONNECTOR_NAMES | OWN_NAMES | everywhere | {stock.CLUSTERS}
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
    on_clusters = [on_side(side, rest) for side in stock.SIDES]
    if scope == CLUSTER:
        return on_clusters if rest in stock.CLIENT_NAMES or rest.startswith(ROLES) else []
    of_clients = on_clusters if rest in stock.CLIENT_NAMES else []
    handed_on = rest in stock.CONNECTOR_NAMES or rest in OWN_NAMES
    return (
        [rest, *of_clients]
        if handed_on or rest.startswith((f"{stock.POLICY}.", *OWN_PREFIXES))
        else of_clients
    )


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
        if any(scope.rest == _RENAMING for scope in scopes(key, clusters)) and value == "false":
            why = f"topics are renamed by the replication policy; remove it, and use {_IDENTITY}"
            result.errors.append(ConfigError(key, invalid(key, value, why)))
    return result


def _now(key: str, clusters: Sequence[str]) -> str:
    draft = next((text for text in _DRAFT if key.startswith(text)), "")
    if draft and draft.rstrip(".") not in clusters:
        shorter = key.removeprefix(draft)
        if next(scopes(shorter, clusters)).scope != TOP:
            key = shorter
    for scope in scopes(key, clusters):
        if scope.rest in _RENAMED:
            return scope.prefix + _RENAMED[scope.rest]
    return key
