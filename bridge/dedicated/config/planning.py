"""Makes the plan of a file: what stock's driver would run, with this project's connectors."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from bridge.dedicated.config import names, stock
from bridge.dedicated.config.checking import errors, of_file, secrets, without
from bridge.dedicated.config.meaning import KINDS, OWN_NAMES, OWN_PREFIXES, Keys
from bridge.dedicated.config.old_names import renamed
from bridge.dedicated.config.plan import (
    ClusterPlan,
    ConnectorPlan,
    FlowPlan,
    KeyWarning,
    MirrorPlan,
    Properties,
)
from bridge.dedicated.config.round_trips import round_trips
from bridge.dedicated.config.stock import File, Setting, Settings
from bridge.dedicated.config.worker_settings import worker_errors
from bridge.errors import ConfigError, ConfigRejected
from bridge.model.java_values import boolean
from connectors.config.keys import Type, Unparsable, parse
from connectors.config.validators import ListOf, Range, invalid
from connectors.ports import ClientCheck

NO_FLOWS = "No source->target replication flows."
"""Stock's words."""
_SOURCE = "MirrorSourceConnector"
_SLICES = "spark.default.parallelism"
_EVIDENCE = "translation.evidence"


def plan_of(file: File, clients: ClientCheck, resolved: Collection[str] = ()) -> MirrorPlan:
    """Returns the plan of a file whose references to config providers are replaced; `resolved` are the values that have
    come from there. Raises ConfigRejected with every error at once."""
    aliases = stock.clusters(file)
    today = renamed(file, aliases)
    keys = Keys(today.file, aliases, clients)
    # An alias of the file's own has its error already.
    planned = {key: value for key, value in today.file.items() if key not in names.ALIASES}
    planning = _Planning(planned, aliases, keys, clients)
    wrong = [*today.errors, *_of_driver(today.file, aliases)]
    # Without clusters there are no flows to judge.
    flows = [] if any(error.key == names.CLUSTERS for error in wrong) else planning.flows()
    wrong += [*planning.errors, *worker_errors(flows)]
    if not wrong and not flows:
        wrong = [ConfigError(names.CLUSTERS, f"{NO_FLOWS} Enable one, as in A->B.enabled = true")]
    if wrong:
        hidden = secrets(file, resolved)
        written = (today.as_written(each) for each in wrong)
        masked = (replace(each, message=without(hidden, each.message)) for each in written)
        raise ConfigRejected(list(dict.fromkeys(masked)))
    return MirrorPlan(
        {alias: _cluster(today.file, alias) for alias in aliases},
        tuple(flows),
        keys.unused(),
        (*today.warnings, *keys.warnings(), *planning.warnings),
    )


def _of_driver(file: File, aliases: tuple[str, ...]) -> Iterator[ConfigError]:
    """Checks the keys of the driver itself."""
    text = file.get(names.CLUSTERS)
    if text is None:
        missing = f'Missing required configuration "{names.CLUSTERS}" which has no default value.'
        yield ConfigError(names.CLUSTERS, missing)
    else:
        listed = parse(Type.LIST, text)
        problem = ListOf(allow_empty=False).check(names.CLUSTERS, listed)
        if problem is None and len(aliases) == 1:
            problem = invalid(names.CLUSTERS, text, "a flow needs two clusters, as in clusters = A, B")
        if problem is not None:
            yield ConfigError(names.CLUSTERS, problem)
    if names.INTERNAL_REST in file:
        yield from _parsed(Type.BOOLEAN, names.INTERNAL_REST, file[names.INTERNAL_REST])
    for alias in names.ALIASES:
        if alias in file:
            why = f"aliases are the names in {names.CLUSTERS}; remove it"
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
    client = {name: properties[name] for name in names.CLIENT_NAMES if name in properties}
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
        heartbeats = not _off(settings, names.EMIT_HEARTBEATS, "true")
        own = self._file.get(f"{source}->{target}.{names.ENABLED}", "false")
        if boolean(own) is False and not heartbeats:
            return None
        copies = not _off(settings, names.ENABLED, "false")
        connectors = [_SOURCE, *self._of_groups(source, target, settings)] if copies else []
        if heartbeats:
            connectors.append("MirrorHeartbeatConnector")
        if copies and names.TASKS_MAX in settings:
            tasks = settings[names.TASKS_MAX]
            self.errors += _parsed(Type.INT, tasks.key, tasks.value)
        worker = stock.values(stock.worker_settings(self._file, source, target))
        planned = tuple(self._connector(name, source, target) for name in connectors)
        return FlowPlan(source, target, copies, heartbeats, planned, worker)

    def _of_groups(self, source: str, target: str, settings: Settings) -> list[str]:
        """Returns the connector that follows groups, or none. As with stock, checkpoints need offset syncs, unless
        translation.evidence is timestamps."""
        by_syncs = settings.get(_EVIDENCE, Setting("", "")).value != "timestamps"
        no_syncs = _off(settings, names.EMIT_SYNCS, "true") and by_syncs
        if not no_syncs and not _off(settings, names.EMIT_CHECKPOINTS, "true"):
            return ["MirrorCheckpointConnector"]
        if not _off(settings, names.SYNC_GROUPS, "false"):
            return ["MirrorGroupOffsetConnector"]
        if no_syncs and not _off(settings, names.EMIT_CHECKPOINTS, "true"):
            key = of_file(names.EMIT_SYNCS, settings, (source, target))
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
        if name == _SOURCE and names.TASKS_MAX in settings:
            # Slices copy side by side as stock's tasks do; the connector itself has one task.
            settings.setdefault(_SLICES, settings[names.TASKS_MAX])
            del settings[names.TASKS_MAX]
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
