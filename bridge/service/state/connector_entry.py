"""The entries of the task table: connectors and their tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from bridge.model.copying import MERGE_WITH
from bridge.model.java_values import given, split_list
from bridge.protocol.operators import IgnoredSetting
from bridge.service.ipc.desired_state import Config, characters
from bridge.service.state.leases import lease_of


class ConnectCluster(NamedTuple):
    """A Connect cluster: the `group.id` of its workers, and their Kafka cluster; None for what is not known."""

    group_id: str | None = None
    kafka_cluster_id: str | None = None

    def differs(self, other: ConnectCluster) -> bool:
        """Whether what is known of both is not the same."""
        return any(None not in pair and pair[0] != pair[1] for pair in zip(self, other, strict=True))

    def __str__(self) -> str:
        cluster = "" if self.kafka_cluster_id is None else f" on Kafka cluster {self.kafka_cluster_id}"
        return f"{self.group_id or 'not known'}{cluster}"


NOT_KNOWN = ConnectCluster()


@dataclass(slots=True)
class Task:
    index: int
    session: str
    last_poll: float
    """When a poll arrived or was answered, or records were acknowledged."""
    last_arrival: float
    """When a poll arrived: what the task reports of being idle is compared with it."""
    active_since: float
    active: bool = True
    stopped: bool = False
    idle: bool = False
    """It has reported that Connect does not poll it."""


@dataclass(slots=True)
class Connector:
    name: str
    kind: str
    config: Config
    config_session: str
    generation: int
    ignored: Sequence[IgnoredSetting] = ()
    """Settings of `config` without effect."""
    unreachable: Mapping[str, str] = field(default_factory=dict)
    """By `source` or `target`, why the cluster could not be reached when the configuration was new."""
    same_cluster: str = ""
    """What is wrong where its target was found to be its source when the configuration was new."""
    shared_groups: Mapping[str, int] = field(default_factory=dict)
    """By other connectors of its flow, of how many of its groups they commit the offsets too."""
    task_count: int = 1
    count_session: str = ""
    session: str = ""
    stopped: bool = False
    tasks: dict[int, Task] = field(default_factory=dict)
    idle_since: float | None = None
    begun: float = 0.0
    """When it was last started or restarted."""
    size: int = 0
    """The characters of `config`."""
    dedicated: bool = False
    """A node of dedicated mode in this process starts and polls it, no Connect worker."""
    elsewhere: bool = False
    """No task runs here, and another service has reported some that it runs."""
    seen_elsewhere: bool = False
    """Another service has reported it since a task of it ran here."""
    recorded: bool = False
    """It has never started here: another service runs it, and records on the target tell of it."""
    runs_in: ConnectCluster = NOT_KNOWN
    """The Connect cluster that runs it."""
    first_session: str = ""
    """The smallest session of that Connect cluster."""
    heard: float = 0.0
    """When one of its calls was last accepted."""
    gone: bool = False
    """Connect has stopped or deleted it long ago, while another connector follows groups of the same flow."""

    def __post_init__(self) -> None:
        self.configure(self.kind, self.config)

    def configure(self, kind: str, config: Config) -> None:
        self.kind, self.config, self.size = kind, given(config), characters(config)

    @property
    def lease_ms(self) -> int:
        return lease_of(self.config)

    @property
    def flow(self) -> tuple[str | None, str]:
        """The aliases of source and target cluster."""
        return self.config.get("source.cluster.alias"), self.config.get("target.cluster.alias") or "target"

    @property
    def merges_with(self) -> Sequence[str]:
        """The connectors whose copies it may put its own beside, in the same topics."""
        return split_list(self.config.get(MERGE_WITH) or "")

    @property
    def stopped_whole(self) -> bool:
        """Whether Connect has stopped it and each of its tasks: so it does when it stops, deletes or moves it."""
        return self.stopped and all(task.stopped for task in self.current_tasks)

    @property
    def current_tasks(self) -> list[Task]:
        """Its tasks below `task_count`: the others stay in `tasks` only to be fenced."""
        return [task for task in self.tasks.values() if task.index < self.task_count]

    def active(self) -> frozenset[int]:
        return frozenset(task.index for task in self.current_tasks if task.active)


@dataclass(frozen=True, slots=True)
class Lapsed:
    """A task whose lease ran out, or a connector that was forgotten (`task` is None)."""

    name: str
    task: int | None
