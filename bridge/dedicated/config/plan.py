"""What a file of dedicated mode asks for: clusters, flows between them, and the connectors of each flow.

All values are resolved: references to config providers are replaced, so that a plan holds secrets. Printing one shows
no value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Properties = Mapping[str, str]

ROLES = ("admin", "consumer", "producer")


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
