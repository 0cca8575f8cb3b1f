"""What a file of dedicated mode asks for: clusters, flows between them, and the connectors of each flow.

All values are resolved: references to config providers are replaced, so that a plan holds secrets. Printing one shows
no value.

Reads what a flow's worker properties say of its group and topics: stock's names and defaults (stock §1.7). Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bridge.errors import ConfigError, ConfigRejected
from bridge.model.java_values import integer

Properties = Mapping[str, str]

ROLES = ("admin", "consumer", "producer")
GROUP, CONFIGS, OFFSETS = "group.id", "config.storage.topic", "offset.storage.topic"
SESSION, HEARTBEAT, REBALANCE = "session.timeout.ms", "heartbeat.interval.ms", "rebalance.timeout.ms"
CONFIGS_FACTOR = "config.storage.replication.factor"
_NUMBERS = {SESSION: (10_000, 1), HEARTBEAT: (3_000, 1), REBALANCE: (60_000, 1), CONFIGS_FACTOR: (3, -1)}
"""Connect's defaults, and the least that each may be."""


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """A cluster. `properties` are the file's `NAME.*` and, behind them, its top-level client properties: stock's
    `clusterProps` (stock §1.7)."""

    name: str
    properties: Properties = field(repr=False)
    client: Properties = field(repr=False)
    """Of them, the connection: `bootstrap.servers`, `security.protocol`, `ssl.*`, `sasl.*`, without a prefix."""

    def of_role(self, role: str) -> dict[str, str]:
        """Returns the properties of a client of the cluster; `role` is one of ROLES. What stands behind the role's own
        prefix counts before the connection's."""
        prefix = role + "."
        own = {
            key.removeprefix(prefix): value
            for key, value in self.properties.items()
            if key.startswith(prefix)
        }
        return {**self.client, **own}


@dataclass(frozen=True, slots=True)
class ConnectorPlan:
    """A connector of a flow. `name` is stock's (MirrorSourceConnector), the same in every flow; `kind` is its key in
    connectors.registry.KINDS, and `config` what that kind validates, with `name` and `connector.class`."""

    name: str
    kind: str
    config: Properties = field(repr=False)


@dataclass(frozen=True, slots=True)
class FlowPlan:
    """A flow, as stock's herder of `source->target`. A flow that does not copy has a heartbeat connector alone.

    The heartbeat connector of a flow writes into its *target*, as in stock: the heartbeats that a flow copies from its
    source A are those of the flows into A, B->A by default.
    """

    source: str
    target: str
    copies: bool
    """`A->B.enabled`: records, topics' configurations and ACLs, checkpoints and group offsets go from source to
    target."""
    heartbeats: bool
    """`emit.heartbeats.enabled`, of the flow or of the file."""
    connectors: tuple[ConnectorPlan, ...]
    worker: Properties = field(repr=False)
    """Stock's `workerConfig`: `group.id` (SOURCE-mm2), `client.id` (SOURCE->TARGET) and the like, with the client
    properties of the target."""

    @property
    def name(self) -> str:
        return f"{self.source}->{self.target}"


@dataclass(frozen=True, slots=True)
class Unused:
    """Keys of the file that mean nothing here, all for one reason; they are named once at start."""

    keys: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class KeyWarning:
    """A key of the file that is probably a misspelling (`unknown`), or whose value is doubtful; a warning at start."""

    key: str
    message: str
    unknown: bool = False


@dataclass(frozen=True, slots=True)
class MirrorPlan:
    """What a file asks for. `clusters` and `flows` stand in the order of the file's `clusters`."""

    clusters: Mapping[str, ClusterPlan]
    flows: tuple[FlowPlan, ...]
    unused: tuple[Unused, ...] = ()
    warnings: tuple[KeyWarning, ...] = ()


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """The settings of a flow that are not its connectors'. `group`: its members are the nodes that may run the flow;
    `topic`: stock's config topic, of one partition, which goes to the node that runs it; `offsets_topic`: where a stock
    mirror has left its source offsets."""

    group: str
    topic: str
    topic_factor: int
    offsets_topic: str
    session_ms: int
    heartbeat_ms: int
    rebalance_ms: int


def worker_settings(flow: FlowPlan) -> WorkerSettings:
    """Raises ConfigRejected with every error at once."""
    errors: list[ConfigError] = []
    worker = flow.worker
    numbers = {name: _number(flow, name, errors) for name in _NUMBERS}
    if not errors and numbers[HEARTBEAT] >= numbers[SESSION]:
        key = f"{flow.target}.{HEARTBEAT}"
        errors.append(
            ConfigError(
                key,
                f"Invalid value {numbers[HEARTBEAT]} for configuration {key}: it must be lower than "
                f"{flow.target}.{SESSION}, "
                f"which is {numbers[SESSION]}",
            )
        )
    if errors:
        raise ConfigRejected(errors)
    group = worker.get(GROUP) or f"{flow.source}-mm2"
    return WorkerSettings(
        # A node that only writes heartbeats of the flow, which its file does not enable, must not be the one that the
        # group chooses to copy.
        group=group if flow.copies else f"{group}-heartbeats",
        topic=worker.get(CONFIGS) or f"mm2-configs.{flow.source}.internal",
        topic_factor=numbers[CONFIGS_FACTOR],
        offsets_topic=worker.get(OFFSETS) or f"mm2-offsets.{flow.source}.internal",
        session_ms=numbers[SESSION],
        heartbeat_ms=numbers[HEARTBEAT],
        rebalance_ms=max(numbers[REBALANCE], numbers[SESSION]),
    )


def all_worker_settings(flows: Sequence[FlowPlan]) -> Mapping[str, WorkerSettings]:
    """Returns the settings of each flow. Raises ConfigRejected with the errors of all, and for flows that would share a
    group on one cluster: a group's one partition goes to one of them only."""
    by_flow: dict[str, WorkerSettings] = {}
    errors: dict[str, ConfigError] = {}
    owners: dict[tuple[str, str], str] = {}
    for flow in flows:
        try:
            settings = by_flow[flow.name] = worker_settings(flow)
        except ConfigRejected as rejected:
            errors |= {error.message: error for error in rejected.errors}
            continue
        other = owners.setdefault((flow.target, settings.group), flow.name)
        if other != flow.name:
            key = f"{flow.target}.{GROUP}"
            why = (
                f"Invalid value {flow.worker.get(GROUP)} for configuration {key}: flows {other} and {flow.name} would "
                f"have one group on {flow.target}; remove it, each flow then has its own, {flow.source}-mm2"
            )
            errors[why] = ConfigError(key, why)
    if errors:
        raise ConfigRejected(list(errors.values()))
    return by_flow


def worker_errors(flows: Sequence[FlowPlan]) -> Sequence[ConfigError]:
    """Returns what is wrong with the worker properties of all flows."""
    try:
        all_worker_settings(flows)
    except ConfigRejected as rejected:
        return rejected.errors
    return ()


def _number(flow: FlowPlan, name: str, errors: list[ConfigError]) -> int:
    default, least = _NUMBERS[name]
    text = flow.worker.get(name) or str(default)
    key = name if name == CONFIGS_FACTOR else f"{flow.target}.{name}"
    number = integer(text, 32)
    if number is None:
        errors.append(
            ConfigError(key, f"Invalid value {text} for configuration {key}: Not a number of type INT")
        )
        return default
    if number < least:
        errors.append(
            ConfigError(key, f"Invalid value {text} for configuration {key}: Value must be at least {least}")
        )
    return number
