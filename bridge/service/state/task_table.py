"""Keeps which connectors and tasks there are, which session each of them belongs to, and which tasks hold a lease.
Pure: no clock, no I/O.

Laws (tests/unit/service/state/test_task_table.py holds them for any order of arrival):
  A. Of all sessions that have called for one task (or one connector), the greatest is current; a smaller one is Fenced.
  B. Configuration, kind and task count are those of the greatest session that sent any.
  C. A task is active from its start or poll until its lease expires or it is stopped. A stop of the connector ends no
     task, but shortens the lease to PAUSED_MS: on a pause Connect stops polling. A task that reports that Connect does
     not poll it is inactive until it polls again.
  D. Repeating a call changes nothing. A stopped session stays stopped: a late PUT of it is Fenced.
  E. `generation` changes exactly when the instance has to be restarted.
  F. A name belongs to the Connect cluster that runs the connector (connector_names.py): calls of another one change
     nothing. Where both have registered after a restart of the service, the older session decides.
  G. A session of an earlier run of the service starts nothing: the shim has to ask for a new one (sessions.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from bridge.errors import BodyRejected, ErrorCode, Fenced, NameTaken, NotFound, OperationRefused, Overloaded
from bridge.model.java_values import given
from bridge.service.ipc.messages import Config, Desired
from bridge.service.state.connector_entry import (
    IDLE_SLACK_MS,
    NOT_KNOWN,
    PAUSED_MS,
    ConnectCluster,
    Connector,
    Lapsed,
    Task,
    taken,
)
from connectors.base import GROUP_KINDS, Assignment

__all__ = [
    "NOT_KNOWN",
    "SUPERSEDED_MS",
    "ConnectCluster",
    "Connector",
    "Lapsed",
    "Task",
    "TaskTable",
    "comparable",
]

IDLE_CLOSE_MS = 600_000
"""An instance without an active task keeps its caches this long: a pause or a worker's restart stays warm."""
FORGET_MS = 86_400_000
"""A connector without an active task is forgotten after a day: for the shim, Connect deletes and pauses alike."""
GONE_MS = 600_000
"""A connector of groups that Connect has stopped whole is gone after this long, where another one of its flow runs:
twice as long as Connect may wait, by default, for a worker that has left (scheduled.rebalance.max.delay.ms)."""
SUPERSEDED_MS = 60_000
"""It is forgotten after this long, where running ones report all of its groups: it was renamed."""
MOST_CONNECTORS = 1_000
_RECORDED_KIND = "group_offset"
_RECORDED_CLASS = "org.apache.kafka.connect.mirror.MirrorGroupOffsetConnector"
"""What a connector is taken for that only records tell of: its groups are shown, and none is looked at here."""

PER_TASK_KEYS = frozenset(
    {"task.class", "bridge.task.index", "bridge.task.count", "bridge.session", "task.kafka.cluster.id"}
)
"""Keys that the shim adds per task or per start: they do not make two configurations differ."""


def comparable(config: Config) -> dict[str, str]:
    """What the operator has given, to compare with another configuration."""
    return {key: value for key, value in given(config).items() if key not in PER_TASK_KEYS}


class TaskTable:
    """The connectors of this service. `clock` gives monotonic milliseconds; `foreign` tells whether another run of the
    service has issued a session. `dedicated`: a node in this process runs the connectors, no Connect worker."""

    def __init__(self, clock: Callable[[], float], foreign: Callable[[str], bool] = lambda _: False) -> None:
        self._clock = clock
        self._foreign = foreign
        self._connectors: dict[str, Connector] = {}
        self._generation = 0
        self.dedicated = False
        self.version = 0
        """Increases with every change of `desired()`."""

    # -- calls of the shim -------------------------------------------------------------------------

    def start_connector(
        self, name: str, session: str, kind: str, config: Config, by: ConnectCluster = NOT_KNOWN
    ) -> Connector:
        self._require_own_session(session, ErrorCode.UNKNOWN_CONNECTOR)
        connector = self._of_this_cluster(name, session, by)
        if connector is None:
            connector = self._add(name, session, kind, config)
        elif session < connector.session:
            raise _fenced(f"connector {name}", session, connector.session)
        else:
            self._configure(connector, session, kind, config)
        if session > connector.session:
            connector.session, connector.stopped, connector.begun = session, False, self._clock()
            connector.gone = False
        self._hear(connector, session, by)
        return connector

    def stop_connector(self, name: str, session: str, by: ConnectCluster = NOT_KNOWN) -> Connector:
        connector, foreign = self.connector(name), self._foreign(session)
        self._require_same_cluster(connector, by)
        if session < connector.session or (foreign and connector.session):
            raise _fenced(f"connector {name}", session, connector.session)
        # After a restart of the service tasks ask for new sessions and connectors don't: stop the connector all the
        # same.
        connector.session, connector.stopped = connector.session if foreign else session, True
        connector.heard = self._clock()
        return connector

    def start_task(
        self,
        name: str,
        index: int,
        session: str,
        kind: str,
        count: int,
        config: Config,
        by: ConnectCluster = NOT_KNOWN,
    ) -> bool:
        """Starts a task. True for a session of the task that was not known before."""
        if index >= count:
            raise BodyRejected(f"task {index} is not below task_count {count}")
        self._require_own_session(session)
        connector = self._of_this_cluster(name, session, by)
        task = connector.tasks.get(index) if connector is not None else None
        if task is not None and (session < task.session or (task.stopped and session == task.session)):
            raise _fenced(f"task {index} of {name}", session, task.session)
        if connector is not None and index >= connector.task_count and session < connector.count_session:
            beyond = f"task {index} of {name}, which has {connector.task_count} tasks now,"
            raise _fenced(beyond, session, connector.count_session)
        if connector is None:
            connector = self._add(name, session, kind, config)
        else:
            self._configure(connector, session, kind, config)
        if session >= connector.count_session:
            if count != connector.task_count:
                self.version += 1
            connector.task_count, connector.count_session = count, session
        fresh = task is None or session > task.session
        if task is None:
            connector.tasks[index] = Task(index, session, now := self._clock(), now, now)
            self.version += 1
        else:
            task.session, task.stopped = session, False
            self._renew_lease(task, arrived=True)
        self._hear(connector, session, by)
        self._note_idleness(connector)
        return fresh

    def stop_task(self, name: str, index: int, session: str, by: ConnectCluster = NOT_KNOWN) -> Connector:
        connector, task = self._connector_and_task(name, index, session)
        self._require_same_cluster(connector, by)
        if session < task.session:
            raise _fenced(f"task {index} of {name}", session, task.session)
        if task.active:
            self.version += 1
        task.session, task.active, task.stopped, task.idle = session, False, True, False
        connector.heard = self._clock()
        self._note_idleness(connector)
        return connector

    def idle(self, name: str, index: int, session: str, idle_ms: int) -> bool:
        """Makes a task inactive that Connect has not polled for so long. False where it is inactive already, or has
        polled since."""
        connector, task = self._connector_and_task(name, index, session)
        if session != task.session or task.stopped:
            raise _fenced(f"task {index} of {name}", session, task.session)
        connector.heard = self._clock()
        if not task.active or self._clock() - task.last_arrival + IDLE_SLACK_MS < idle_ms:
            return False
        task.active, task.idle = False, True
        self.version += 1
        self._note_idleness(connector)
        return True

    def poll(self, name: str, index: int, session: str, *, arrived: bool = True) -> Connector:
        """Renews the lease of a task, when a poll arrives; with `arrived` false when it is answered, or records are
        acknowledged. That makes no task active that was idle: a busy machine answers late what arrived before Connect
        paused the task, and nobody would report that it is idle again."""
        connector, task = self._connector_and_task(name, index, session)
        if session < task.session or (task.stopped and session == task.session):
            raise _fenced(f"task {index} of {name}", session, task.session)
        if session > task.session:
            raise NotFound(
                f"task {index} of {name} has not been started in session {session}",
                code=ErrorCode.UNKNOWN_TASK,
            )
        if index >= connector.task_count and connector.count_session > session:
            beyond = f"task {index} of {name}, which has {connector.task_count} tasks now,"
            raise _fenced(beyond, session, connector.count_session)
        if arrived or not task.idle:
            self._renew_lease(task, arrived=arrived)
        connector.heard = self._clock()
        self._note_idleness(connector)
        return connector

    # -- time --------------------------------------------------------------------------------------

    def expire(self) -> list[Lapsed]:
        """Ends the leases that have expired, and removes connectors that were idle for a day."""
        now = self._clock()
        lapsed: list[Lapsed] = []
        for connector in list(self._connectors.values()):
            for task in connector.tasks.values():
                lease_ms = PAUSED_MS if connector.stopped else connector.lease_ms
                if task.active and now - task.last_poll >= lease_ms:
                    task.active = False
                    self.version += 1
                    lapsed.append(Lapsed(connector.name, task.index))
            self._note_idleness(connector)
            idle = now - connector.idle_since if connector.idle_since is not None else 0
            if idle >= FORGET_MS:
                del self._connectors[connector.name]
                self.version += 1
                lapsed.append(Lapsed(connector.name, None))
        self._note_gone()
        return lapsed

    def desired(self) -> tuple[Desired, ...]:
        now = self._clock()
        return tuple(
            Desired(
                connector.name,
                connector.kind,
                connector.config,
                connector.generation,
                Assignment(connector.task_count, connector.active()),
            )
            for connector in self._connectors.values()
            if connector.idle_since is None or now - connector.idle_since < IDLE_CLOSE_MS
        )

    def forget(self, name: str) -> None:
        """Removes a connector without an active task. Raises NotFound, and OperationRefused for one with active
        tasks."""
        connector = self.connector(name)
        if connector.active():
            remedy = (
                "it runs on this node as the node's file says: disable its flow there, and restart the node"
                if connector.dedicated
                else "delete it in Connect, then send this request again"
            )
            raise OperationRefused(f"connector {name} has running tasks: {remedy}")
        del self._connectors[name]
        self.version += 1

    def note_elsewhere(self, connector: Connector, task_count: int) -> None:
        """Notes that tasks of a connector without one here run on other services; `task_count`: how many it has, 0 for
        not known. It does not count as idle then: its instance goes on following them."""
        now = self._clock()
        if connector.idle_since is not None and now - connector.idle_since >= IDLE_CLOSE_MS:
            self.version += 1
        connector.elsewhere, connector.seen_elsewhere, connector.idle_since = True, True, now
        if task_count and task_count != connector.task_count:
            connector.task_count = task_count
            self.version += 1

    def note_recorded(self, copying: Connector, name: str) -> None:
        """Adds a connector of groups that has written records on the target and runs on other services: it reaches the
        clusters of the flow as the one that copies does."""
        config = comparable(copying.config) | {"name": name, "connector.class": _RECORDED_CLASS}
        connector = self._add(name, "", _RECORDED_KIND, config)
        connector.recorded = True
        self.note_elsewhere(connector, 0)

    def renew(self, name: str) -> None:
        """Restarts the instance, after an operator has restarted a task that had failed."""
        self._next_generation(self.connector(name))

    # -- reading -----------------------------------------------------------------------------------

    def connector(self, name: str) -> Connector:
        connector = self._connectors.get(name)
        if connector is None:
            raise NotFound(f"there is no connector {name}", code=ErrorCode.UNKNOWN_CONNECTOR)
        return connector

    def get(self, name: str) -> Connector | None:
        return self._connectors.get(name)

    def __iter__(self) -> Iterator[Connector]:
        return iter(sorted(self._connectors.values(), key=lambda connector: connector.name))

    @property
    def has_room(self) -> bool:
        """Whether there are fewer connectors than may be."""
        return len(self._connectors) < MOST_CONNECTORS

    @property
    def now_ms(self) -> int:
        """The time of its clock."""
        return int(self._clock())

    def age_ms(self, task: Task) -> int:
        return int(self._clock() - task.last_poll)

    def begun_ms(self, connector: Connector) -> int:
        """Returns for how many ms it has been running, since its last start or restart."""
        return int(self._clock() - connector.begun)

    def active_ms(self, task: Task) -> int:
        """Returns for how many ms an active task has been active."""
        return int(self._clock() - task.active_since)

    def name_taken(self, name: str, by: ConnectCluster) -> NameTaken | None:
        """Why a Connect cluster may not use a name: another one runs a connector of this name here."""
        connector = self._connectors.get(name)
        return None if connector is None else taken(connector, by, self._clock())

    def require_name(self, name: str, session: str, by: ConnectCluster) -> None:
        """Raises NameTaken where a connector, or task, of this session may not have the name."""
        connector = self._connectors.get(name)
        # After a restart of the service the second may have come before the first.
        if connector is not None and session >= connector.first_session:
            self._require_same_cluster(connector, by)

    # -- steps -------------------------------------------------------------------------------------

    def _of_this_cluster(self, name: str, session: str, by: ConnectCluster) -> Connector | None:
        """The connector of that name; None where there is none, or that of another Connect cluster has to go. Raises
        NameTaken."""
        self.require_name(name, session, by)
        connector = self._connectors.get(name)
        if connector is None or not connector.runs_in.differs(by):
            return connector
        del self._connectors[name]
        self.version += 1
        return None

    def _require_same_cluster(self, connector: Connector, by: ConnectCluster) -> None:
        if (refusal := taken(connector, by, self._clock())) is not None:
            raise refusal

    def _hear(self, connector: Connector, session: str, by: ConnectCluster) -> None:
        """Notes that a start was accepted, and from which Connect cluster."""
        connector.heard = self._clock()
        known = (mine or given for mine, given in zip(connector.runs_in, by, strict=True))
        connector.runs_in = ConnectCluster._make(known)
        connector.first_session = min(connector.first_session or session, session)

    def _add(self, name: str, session: str, kind: str, config: Config) -> Connector:
        if not self.has_room:
            raise Overloaded(
                f"this service has its limit of {MOST_CONNECTORS} connectors; delete some, or run another service",
                retry_after=60,
            )
        now = self._clock()
        connector = Connector(name, kind, config, session, 0, idle_since=now, dedicated=self.dedicated)
        self._connectors[name] = connector
        self._next_generation(connector)
        return connector

    def _configure(self, connector: Connector, session: str, kind: str, config: Config) -> None:
        if session <= connector.config_session:
            return
        connector.config_session, connector.recorded = session, False
        if kind != connector.kind or comparable(config) != comparable(connector.config):
            connector.configure(kind, config)
            self._next_generation(connector)

    def _next_generation(self, connector: Connector) -> None:
        self._generation += 1
        self.version += 1
        connector.generation, connector.begun = self._generation, self._clock()

    def _require_own_session(self, session: str, code: ErrorCode = ErrorCode.UNKNOWN_TASK) -> None:
        if self._foreign(session):
            raise NotFound(
                f"session {session} was issued before the service restarted: ask for a new one", code=code
            )

    def _connector_and_task(self, name: str, index: int, session: str) -> tuple[Connector, Task]:
        """The connector and the task that a call belongs to. Raises NotFound."""
        connector = self.connector(name)
        task = self._task(connector, index)
        self._require_own_session(session)
        return connector, task

    def _task(self, connector: Connector, index: int) -> Task:
        task = connector.tasks.get(index)
        if task is None:
            raise NotFound(
                f"connector {connector.name} has no task {index} here", code=ErrorCode.UNKNOWN_TASK
            )
        return task

    def _renew_lease(self, task: Task, *, arrived: bool) -> None:
        task.last_poll, task.idle = self._clock(), False
        if arrived:
            task.last_arrival = task.last_poll
        if not task.active:
            task.active, task.active_since = True, task.last_poll
            self.version += 1

    def stopped_beside_others(self, since_ms: float) -> list[Connector]:
        """Returns the connectors of groups that Connect has stopped whole so long ago, while another one of their flow
        runs: else Connect's workers may all have ended."""
        groups = [connector for connector in self._connectors.values() if connector.kind in GROUP_KINDS]
        followed = {group.flow for group in groups if group.active() or group.elsewhere}
        return [
            connector
            for connector in groups
            if connector.stopped_whole
            and not connector.dedicated
            and connector.idle_since is not None
            and self.now_ms - connector.idle_since >= since_ms
            and connector.flow in followed
        ]

    def _note_gone(self) -> None:
        for connector in self._connectors.values():
            connector.gone = False
        for connector in self.stopped_beside_others(GONE_MS):
            connector.gone = True

    def _note_idleness(self, connector: Connector) -> None:
        if connector.active():
            connector.gone = connector.elsewhere = connector.seen_elsewhere = False
            if connector.idle_since is not None:
                connector.idle_since = None
                self.version += 1
        elif connector.idle_since is None:
            connector.idle_since = self._clock()
            self.version += 1


def _fenced(what: str, session: str, current: str) -> Fenced:
    if session == current:
        return Fenced(f"{what}: session {session} was stopped")
    return Fenced(f"{what}: session {session} was fenced by the newer session {current}")
