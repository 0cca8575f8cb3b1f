"""Makes the plan of a file: what stock's driver would run, with this project's connectors.

Checks a connector's configuration by the connector's own rules, and words the errors with the keys of the file.

Finds flows of a file that would send records round and round: both directions, or a ring of clusters, under names
that stay or get longer and longer.

At run time the claim of the first one refuses the second. Where the file alone shows it, nothing starts.

Chooses what a node runs that is near some clusters only: `--clusters B,C`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from bridge.dedicated.config import stock
from bridge.dedicated.config.meaning import KINDS, OWN_NAMES, OWN_PREFIXES, Keys, renamed
from bridge.dedicated.config.plan import (
    ROLES,
    ClusterPlan,
    ConnectorPlan,
    FlowPlan,
    KeyWarning,
    MirrorPlan,
    Properties,
    worker_errors,
)
from bridge.dedicated.config.stock import File, Setting, Settings, values
from bridge.errors import ConfigError, ConfigRejected
from bridge.mm2.filters import (
    TOPICS,
    TOPICS_DEFAULT,
    TOPICS_EXCLUDE,
    TOPICS_EXCLUDE_DEFAULT,
    DefaultTopicFilter,
)
from bridge.model.copy_owners import opposite_refusal
from bridge.model.java_values import boolean, split_list
from bridge.policies.languages import Languages, TooComplex, Unprovable, read_pattern
from connectors.base import ConnectorKind
from connectors.config.client_keys import looks_secret
from connectors.config.configdef import ListOf, Range, Type, Unparsable, invalid, parse
from connectors.ports import ClientCheck
from connectors.source.options import SourceOptions

LEAST_SECRET = 4
"""Shorter values are not hidden in error texts: `a` would hide every a."""
_KEY = re.compile(r"(?<![\w./>-])[a-z][\w-]*(?:\.\w[\w-]*)+")
"""What may be a connector's key in a text."""
_OF_FLOWS = tuple(f"{role}." for role in (*ROLES, *(f"{role}.override" for role in ROLES)))
"""What stock hands on from a flow alone, and otherwise behind the name of a cluster."""
_COMMON = "orders"
"""A name for an example that reads better than the shortest one."""
_LONGEST = 3
"""Times round all flows after which a name is not read as that of a copy any more: it only gets longer."""
_TRIED = 10_000
_NOT_COPIED = ("mm2", "__", ".")
"""What names of internal topics begin with."""
NO_FLOWS = "No source->target replication flows."
"""Stock's words."""
_SOURCE = "MirrorSourceConnector"
_SLICES = "spark.default.parallelism"
_EVIDENCE = "translation.evidence"
_OPTION = "--clusters"
_HEARTBEAT = KINDS["MirrorHeartbeatConnector"].kind


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
    if key in stock.ALIASES:
        return stock.CLUSTERS
    side, _, rest = key.partition(".")
    if side not in stock.SIDES:
        return f"{flow[0]}->{flow[1]}.{key}"
    cluster = flow[stock.SIDES.index(side)]
    return f"{cluster}.{rest.removeprefix('cluster.')}"


def _worded(error: ConfigError, settings: Settings, flow: tuple[str, str]) -> str:
    """Returns the message with the file's keys in place of the connector's; the value that it begins with stays."""

    def in_file(match: re.Match[str]) -> str:
        key = match[0]
        side, _, rest = key.partition(".")
        of_cluster = side in stock.SIDES and rest.startswith(("cluster.", *_OF_FLOWS))
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
    for secret_value in secret:
        text = text.replace(secret_value, "[hidden]")
    return text


def round_trips(copies: Mapping[tuple[str, str], Properties], clients: ClientCheck) -> Iterator[ConfigError]:
    """Yields an error for each way round on which flows copy a topic without end. `copies`: the source connectors
    without errors, by source and target."""
    flows = {flow: SourceOptions.from_props(props, clients) for flow, props in copies.items()}
    found: set[frozenset[tuple[str, str]]] = set()
    if not any(flow.may_go_round for flow in flows.values()):
        return
    for flow, options in flows.items():
        back = flow[1], flow[0]
        common = _in_both((copies[flow], options), (copies[back], flows[back])) if back in flows else ()
        named = (name for flow in flows.values() for name in flow.named_topics)
        for topic in dict.fromkeys((*named, _COMMON, *common)):
            way = _endless(flow, topic, flows)
            # Each way round once, whichever of its flows it is found from.
            if way and frozenset(way) not in found:
                found.add(frozenset(way))
                yield _refusal(sorted(way, key=list(copies).index), topic)
                break


def _endless(
    first: tuple[str, str], topic: str, flows: Mapping[tuple[str, str], SourceOptions]
) -> list[tuple[str, str]]:
    """Returns the flows that copy what `first` copies of a topic round and round, under the name that it has or under
    longer and longer ones; none where each way ends, or there are too many to try."""
    ways = [([first], [topic])]
    for _ in range(_TRIED):
        if not ways:
            break
        way, topics = ways.pop()
        remote = flows[way[-1]].remote_of(topics[-1])
        if remote is None:
            continue
        before = [(flow[0], name) for flow, name in zip(way, topics, strict=True)]
        if (place := (way[-1][1], remote)) in before:
            return way[before.index(place) :]
        if len(way) > _LONGEST * len(flows):
            return list(dict.fromkeys(way[-len(flows) :]))
        ways += (([*way, flow], [*topics, remote]) for flow in flows if flow[0] == place[0])
    return []


def _refusal(way: Sequence[tuple[str, str]], topic: str) -> ConfigError:
    *others, last = (f"{source}->{target}" for source, target in way)
    key = f"{last}.{stock.ENABLED}"
    connectors = [f"{flow}.MirrorSourceConnector" for flow in (*others, last)]
    if len(way) == 2:
        return ConfigError(
            key, invalid(key, "true", opposite_refusal(f"topics such as {topic}", *connectors))
        )
    why = (
        f"{', '.join(connectors)} would send each record of topics such as {topic} round and round: under these names "
        "nothing tells what was copied before. Leave out one of them, or exclude the topics with topics.exclude, or "
        "give all DefaultReplicationPolicy"
    )
    return ConfigError(key, invalid(key, "true", why))


def _in_both(*flows: tuple[Properties, SourceOptions]) -> Iterator[str]:
    """Yields the shortest name that the filters of both let through, if that can be worked out."""
    if any(type(options.topic_filter) is not DefaultTopicFilter for _, options in flows):
        return
    languages = Languages()
    try:
        included = [_language(props.get(TOPICS, TOPICS_DEFAULT), languages) for props, _ in flows]
        excluded = [
            _language(props.get(TOPICS_EXCLUDE, TOPICS_EXCLUDE_DEFAULT), languages) for props, _ in flows
        ]
        internal = [languages.sequence(languages.word(text), languages.everything) for text in _NOT_COPIED]
        internal.append(languages.sequence(languages.everything, languages.word(".internal")))
        both = languages.intersection(*included)
        for number in (*excluded, *internal, languages.blank):
            both = languages.without(both, number)
        shortest = languages.shortest(both)
    except (Unprovable, TooComplex):
        return
    if shortest is not None:
        yield shortest


def _language(patterns: str, languages: Languages) -> int:
    items: Sequence[str] = split_list(patterns)
    return languages.union(*(read_pattern(item, languages).whole for item in items))


def plan_of(file: File, clients: ClientCheck, resolved: Collection[str] = ()) -> MirrorPlan:
    """Returns the plan of a file whose references to config providers are replaced; `resolved` are the values that have
    come from there. Raises ConfigRejected with every error at once."""
    aliases = stock.clusters(file)
    today = renamed(file, aliases)
    keys = Keys(today.file, aliases, clients)
    # An alias of the file's own has its error already.
    planned = {key: value for key, value in today.file.items() if key not in stock.ALIASES}
    planning = _Planning(planned, aliases, keys, clients)
    wrong = [*today.errors, *_of_driver(today.file, aliases)]
    # Without clusters there are no flows to judge.
    flows = [] if any(error.key == stock.CLUSTERS for error in wrong) else planning.flows()
    wrong += [*planning.errors, *worker_errors(flows)]
    if not wrong and not flows:
        wrong = [ConfigError(stock.CLUSTERS, f"{NO_FLOWS} Enable one, as in A->B.enabled = true")]
    if wrong:
        hidden = secrets(file, resolved)
        written = (today.as_written(error) for error in wrong)
        masked = (replace(error, message=without(hidden, error.message)) for error in written)
        raise ConfigRejected(list(dict.fromkeys(masked)))
    return MirrorPlan(
        {alias: _cluster(today.file, alias) for alias in aliases},
        tuple(flows),
        keys.unused(),
        (*today.warnings, *keys.warnings(), *planning.warnings),
    )


def _of_driver(file: File, aliases: tuple[str, ...]) -> Iterator[ConfigError]:
    """Checks the keys of the driver itself."""
    text = file.get(stock.CLUSTERS)
    if text is None:
        missing = f'Missing required configuration "{stock.CLUSTERS}" which has no default value.'
        yield ConfigError(stock.CLUSTERS, missing)
    else:
        listed = parse(Type.LIST, text)
        problem = ListOf(allow_empty=False).check(stock.CLUSTERS, listed)
        if problem is None and len(aliases) == 1:
            problem = invalid(stock.CLUSTERS, text, "a flow needs two clusters, as in clusters = A, B")
        if problem is not None:
            yield ConfigError(stock.CLUSTERS, problem)
    if stock.INTERNAL_REST in file:
        yield from _parsed(Type.BOOLEAN, stock.INTERNAL_REST, file[stock.INTERNAL_REST])
    for alias in stock.ALIASES:
        if alias in file:
            why = f"aliases are the names in {stock.CLUSTERS}; remove it"
            yield ConfigError(alias, invalid(alias, file[alias], why))


def _parsed(kind: Type, key: str, text: str) -> Iterator[ConfigError]:
    try:
        value = parse(kind, text)
    except Unparsable as problem:
        yield ConfigError(key, invalid(key, text, str(problem)))
    else:
        least = Range(1).check(key, value) if kind is Type.INT else None
        if least is not None:
            yield ConfigError(key, least)


def _cluster(file: File, alias: str) -> ClusterPlan:
    properties = stock.values(stock.cluster_settings(file, alias))
    client = {name: properties[name] for name in stock.CLIENT_NAMES if name in properties}
    return ClusterPlan(alias, properties, client)


class _Planning:
    """Plans the flows of a file, and collects what is wrong with them."""

    def __init__(self, file: File, aliases: tuple[str, ...], keys: Keys, clients: ClientCheck) -> None:
        self._file, self._aliases, self._keys, self._clients = file, aliases, keys, clients
        self.errors: list[ConfigError] = []
        self.warnings: list[KeyWarning] = []
        self._copies: dict[tuple[str, str], Properties] = {}
        """Configurations of the source connectors without errors, by source and target."""

    def flows(self) -> list[FlowPlan]:
        flows = []
        for source in self._aliases:
            for target in self._aliases:
                if source != target and (flow := self._flow(source, target)) is not None:
                    flows.append(flow)
        self.errors += round_trips(self._copies, self._clients)
        return flows

    def _flow(self, source: str, target: str) -> FlowPlan | None:
        settings = self._given(source, target, "")
        heartbeats = not _off(settings, stock.EMIT_HEARTBEATS, "true")
        own = self._file.get(f"{source}->{target}.{stock.ENABLED}", "false")
        if boolean(own) is False and not heartbeats:
            return None
        copies = not _off(settings, stock.ENABLED, "false")
        connectors = [_SOURCE, *self._of_groups(source, target, settings)] if copies else []
        if heartbeats:
            connectors.append("MirrorHeartbeatConnector")
        if copies and stock.TASKS_MAX in settings:
            tasks = settings[stock.TASKS_MAX]
            self.errors += _parsed(Type.INT, tasks.key, tasks.value)
        worker = stock.values(stock.worker_settings(self._file, source, target))
        planned = tuple(self._connector(name, source, target) for name in connectors)
        return FlowPlan(source, target, copies, heartbeats, planned, worker)

    def _of_groups(self, source: str, target: str, settings: Settings) -> list[str]:
        """Returns the connector that follows groups, or none. As with stock, checkpoints need offset syncs, unless
        translation.evidence is timestamps."""
        by_syncs = settings.get(_EVIDENCE, Setting("", "")).value != "timestamps"
        no_syncs = _off(settings, stock.EMIT_SYNCS, "true") and by_syncs
        if not no_syncs and not _off(settings, stock.EMIT_CHECKPOINTS, "true"):
            return ["MirrorCheckpointConnector"]
        if not _off(settings, stock.SYNC_GROUPS, "false"):
            return ["MirrorGroupOffsetConnector"]
        if no_syncs and not _off(settings, stock.EMIT_CHECKPOINTS, "true"):
            key = of_file(stock.EMIT_SYNCS, settings, (source, target))
            message = (
                f"{key} is false: {source}->{target} has no checkpoints, as in MirrorMaker; "
                f"{source}->{target}.{_EVIDENCE} = timestamps gives them without offset syncs"
            )
            self.warnings.append(KeyWarning(key, message))
        return []

    def _connector(self, name: str, source: str, target: str) -> ConnectorPlan:
        kind = KINDS[name]
        settings = self._settings(name, source, target)
        config = stock.values(settings)
        wrong = list(errors(kind, settings, (source, target), self._clients))
        self.errors += wrong
        if name == _SOURCE and not wrong:
            self._copies[source, target] = config
        return ConnectorPlan(name, kind.kind, config)

    def _settings(self, name: str, source: str, target: str) -> Settings:
        """Returns a connector's settings: what stock hands to it, without the keys that are not passed on here."""
        settings = self._given(source, target, name)
        if name == _SOURCE and stock.TASKS_MAX in settings:
            # Slices copy side by side as stock's tasks do; the connector itself has one task.
            settings.setdefault(_SLICES, settings[stock.TASKS_MAX])
            del settings[stock.TASKS_MAX]
        kept = {key: setting for key, setting in settings.items() if self._keys.passed_on(name, key)}
        named = {"name": name, "connector.class": KINDS[name].connector_class}
        return {**kept, **{key: Setting(value, "") for key, value in named.items()}}

    def _given(self, source: str, target: str, name: str) -> Settings:
        """Returns stock's configuration of a connector, and this project's own keys of the top level."""
        own = {
            key: Setting(value, key)
            for key, value in self._file.items()
            if key in OWN_NAMES or key.startswith(OWN_PREFIXES)
        }
        return {**own, **stock.connector_settings(self._file, source, target, name)}


def _off(settings: Settings, key: str, default: str) -> bool:
    """Whether a setting is false. Any other text counts as true, so that its connector says what is wrong with it."""
    return boolean(settings.get(key, Setting(default, "")).value) is False


def restricted(plan: MirrorPlan, clusters: Sequence[str]) -> MirrorPlan:
    """Returns the plan with the flows whose target is among `clusters`; without any, the whole plan.

    A flow that copies from A needs heartbeats in A, and in stock those come from the flows into A: where B->A is not
    among the chosen ones, its heartbeats stay, alone. Raises ConfigRejected for names that the file does not have.
    """
    if not clusters:
        return plan
    known = ", ".join(plan.clusters)
    unknown = [name for name in clusters if name not in plan.clusters]
    if unknown:
        raise ConfigRejected(
            [
                ConfigError(_OPTION, f"Invalid value {name} for {_OPTION}: the file's clusters are {known}")
                for name in unknown
            ]
        )
    flows = tuple(_chosen(plan, frozenset(clusters)))
    if not flows:
        why = f"None of the file's flows has {' or '.join(clusters)} as its target"
        raise ConfigRejected([ConfigError(_OPTION, f"{NO_FLOWS} {why}")])
    return replace(plan, flows=flows)


def _chosen(plan: MirrorPlan, clusters: frozenset[str]) -> Iterator[FlowPlan]:
    copied = {(flow.source, flow.target) for flow in plan.flows if flow.copies and flow.target in clusters}
    for flow in plan.flows:
        if flow.target in clusters:
            yield flow
        elif flow.heartbeats and (flow.target, flow.source) in copied:
            alone = tuple(connector for connector in flow.connectors if connector.kind == _HEARTBEAT)
            yield replace(flow, copies=False, connectors=alone)
