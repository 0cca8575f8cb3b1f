"""The entries of the task table: connectors and their tasks.

Sets how long a task may go without a poll before it counts as lapsed, or as paused.

Tells which Connect cluster a connector's name belongs to, where several share a service. Pure.

A name belongs to the Connect cluster that runs the connector, until nothing has been heard of it for HELD_MS: what is
stopped may be deleted, or move to another worker, and Connect tells nobody which (decision 0068).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from bridge.errors import ErrorCode, NameTaken
from bridge.model.copying import MERGE_WITH
from bridge.model.java_values import given, integer, split_list
from bridge.protocol.operators import IgnoredSetting
from bridge.service.ipc.messages import Config, characters

LEASE_KEY = "bridge.task.lease.ms"
LEASE_MS = 30_000
LEAST_LEASE_MS = 2_000  # twice the longest hold of a poll
MOST_LEASE_MS = 3_600_000
PAUSED_MS = 1_500
"""A task that is not polled for so long after Connect has stopped its connector is paused: a poll is held for a second
at most. When a connector moves to another worker its tasks continue to poll."""

IDLE_SLACK_MS = 500
"""Between a task's clock and ours, and for the way, when it says for how long it was not polled."""
HELD_MS = 600_000
"""Twice as long as Connect may wait, by default, for a worker that has left (scheduled.rebalance.max.delay.ms)."""
_RUNS_MS = 5_000
"""A task that runs is polled once a second."""


def lease_of(config: Config) -> int:
    """The lease of a configuration; a value that `validate` would reject counts as the default."""
    lease = integer(config.get(LEASE_KEY) or "") or LEASE_MS
    return min(max(lease, LEAST_LEASE_MS), MOST_LEASE_MS)


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


def taken(connector: Connector, by: ConnectCluster, now: float) -> NameTaken | None:
    """Why a Connect cluster may not use the name of a connector. None where it may."""
    if not connector.runs_in.differs(by) or now - connector.heard >= HELD_MS:
        return None
    which = f"a connector of this name at this service: its group.id is {connector.runs_in}"
    invalid = f"Invalid value {connector.name} for configuration name:"
    if any(not task.stopped and now - task.last_arrival < _RUNS_MS for task in connector.current_tasks):
        return NameTaken(
            f"{invalid} Another Connect cluster runs {which}. It goes on undisturbed. Connect clusters that share a "
            "service need connectors of different names: choose another one, or another bridge.url"
        )
    return NameTaken(
        f"{invalid} Another Connect cluster ran {which}, and it was last heard of "
        f"{int(now - connector.heard) // 1000} s ago. If the connector was deleted there, or that Connect cluster is "
        f"gone for good: mirror-bridge forget {connector.name}. Else the name is free "
        f"{HELD_MS // 60_000} minutes after it was last heard of",
        code=ErrorCode.NAME_HELD,
    )
