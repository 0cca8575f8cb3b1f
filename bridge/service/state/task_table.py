"""Which connectors and tasks there are, who speaks for them, and who still holds a lease. Pure: no clock,
no I/O.

Laws (tests/unit/service/state/test_task_table.py holds them for any order of arrival):
  A. Of all sessions that spoke for one task (or one connector), the greatest rules; a smaller one is Fenced.
  B. Configuration, kind and task count are those of the greatest session that brought any.
  C. A task is active from its start or poll until it has not polled for its lease, or was stopped. A stop of
     the connector ends no task, but makes the lease as short as PAUSED_MS: on a pause Connect stops polling.
     A task that says itself that Connect does not poll it is active no more, until it polls again.
  D. Repeating a call changes nothing. A stopped session stays stopped: a late PUT of it is Fenced.
  E. `generation` moves exactly when the instance has to be made anew.
  F. A session that another run of the service has given starts nothing: it is to be asked for again (sessions.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from bridge.errors import BodyRejected, ErrorCode, Fenced, NotFound, OperationRefused, Overloaded
from bridge.service.ipc.desired_state import Config, Desired
from bridge.service.state.connector_entry import Connector, Lapsed, Task
from bridge.service.state.leases import IDLE_SLACK_MS, PAUSED_MS
from connectors.base import Assignment

__all__ = ["Connector", "Lapsed", "Task", "TaskTable", "comparable"]

IDLE_CLOSE_MS = 600_000
"""An instance without an active task keeps its caches this long: a pause or a worker's restart stays warm."""
FORGET_MS = 86_400_000
"""A connector without an active task is forgotten after a day (Connect does not tell deletion from a
pause)."""
MOST_CONNECTORS = 1_000

PER_TASK_KEYS = frozenset({"task.class", "bridge.task.index", "bridge.task.count", "bridge.session"})
"""Keys that the shim adds per task or per start: they never make two configurations differ."""


def comparable(config: Config) -> dict[str, str]:
    return {key: value for key, value in config.items() if value is not None and key not in PER_TASK_KEYS}


class TaskTable:
    """`clock` gives milliseconds that never go back; `foreign`: whether another run of the service has given a
    session."""

    def __init__(self, clock: Callable[[], float], foreign: Callable[[str], bool] = lambda _: False) -> None:
        self._clock = clock
        self._foreign = foreign
        self._connectors: dict[str, Connector] = {}
        self._generation = 0
        self.version = 0
        """Moves with every change of `desired()`."""

    # -- calls of the shim -------------------------------------------------------------------------

    def start_connector(self, name: str, session: str, kind: str, config: Config) -> Connector:
        self._of_this_run(session, ErrorCode.UNKNOWN_CONNECTOR)
        known = self._connectors.get(name)
        if known is None:
            known = self._add(name, session, kind, config)
        elif session < known.session:
            raise _fenced(f"connector {name}", session, known.session)
        else:
            self._configure(known, session, kind, config)
        if session > known.session:
            known.session, known.stopped, known.begun = session, False, self._clock()
        return known

    def stop_connector(self, name: str, session: str) -> Connector:
        known, foreign = self.connector(name), self._foreign(session)
        if session < known.session or (foreign and known.session):
            raise _fenced(f"connector {name}", session, known.session)
        # Tasks asked again when the service was started anew, the connector did not: it is stopped all the same.
        known.session, known.stopped = known.session if foreign else session, True
        return known

    def start_task(self, name: str, index: int, session: str, kind: str, count: int, config: Config) -> bool:
        """True when a session that was not known before has taken the task."""
        if index >= count:
            raise BodyRejected(f"task {index} is not below task_count {count}")
        self._of_this_run(session)
        known = self._connectors.get(name)
        task = known.tasks.get(index) if known is not None else None
        if task is not None and (session < task.session or (task.stopped and session == task.session)):
            raise _fenced(f"task {index} of {name}", session, task.session)
        if known is not None and index >= known.task_count and session < known.count_session:
            beyond = f"task {index} of {name}, which has {known.task_count} tasks now,"
            raise _fenced(beyond, session, known.count_session)
        if known is None:
            known = self._add(name, session, kind, config)
        else:
            self._configure(known, session, kind, config)
        if session >= known.count_session:
            if count != known.task_count:
                self.version += 1
            known.task_count, known.count_session = count, session
        fresh = task is None or session > task.session
        if task is None:
            known.tasks[index] = Task(index, session, now := self._clock(), now)
            self.version += 1
        else:
            task.session, task.stopped = session, False
            self._touch(task)
        self._note_idleness(known)
        return fresh

    def stop_task(self, name: str, index: int, session: str) -> Connector:
        known, task = self._spoken(name, index, session)
        if session < task.session:
            raise _fenced(f"task {index} of {name}", session, task.session)
        if task.active:
            self.version += 1
        task.session, task.active, task.stopped, task.idle = session, False, True, False
        self._note_idleness(known)
        return known

    def idle(self, name: str, index: int, session: str, idle_ms: int) -> bool:
        """The task lives, and has not been polled for so long; whether it was active until now. A poll that came since
        makes it void."""
        known, task = self._spoken(name, index, session)
        if session != task.session or task.stopped:
            raise _fenced(f"task {index} of {name}", session, task.session)
        if not task.active or self.age_ms(task) + IDLE_SLACK_MS < idle_ms:
            return False
        task.active, task.idle = False, True
        self.version += 1
        self._note_idleness(known)
        return True

    def poll(self, name: str, index: int, session: str) -> Connector:
        """Renews the lease; to be called when a poll arrives and again when it is answered."""
        known, task = self._spoken(name, index, session)
        if session < task.session or (task.stopped and session == task.session):
            raise _fenced(f"task {index} of {name}", session, task.session)
        if session > task.session:
            raise NotFound(
                f"task {index} of {name} is not known in this session", code=ErrorCode.UNKNOWN_TASK
            )
        if index >= known.task_count and known.count_session > session:
            beyond = f"task {index} of {name}, which has {known.task_count} tasks now,"
            raise _fenced(beyond, session, known.count_session)
        self._touch(task)
        self._note_idleness(known)
        return known

    # -- time --------------------------------------------------------------------------------------

    def expire(self) -> list[Lapsed]:
        """Ends the leases that ran out and forgets connectors that were idle for a day."""
        now = self._clock()
        lapsed: list[Lapsed] = []
        for known in list(self._connectors.values()):
            for task in known.tasks.values():
                lease_ms = PAUSED_MS if known.stopped else known.lease_ms
                if task.active and now - task.last_poll >= lease_ms:
                    task.active = False
                    self.version += 1
                    lapsed.append(Lapsed(known.name, task.index))
            self._note_idleness(known)
            idle = now - known.idle_since if known.idle_since is not None else 0
            if idle >= FORGET_MS:
                del self._connectors[known.name]
                self.version += 1
                lapsed.append(Lapsed(known.name, None))
        return lapsed

    def desired(self) -> tuple[Desired, ...]:
        now = self._clock()
        return tuple(
            Desired(
                known.name,
                known.kind,
                known.config,
                known.generation,
                Assignment(known.task_count, known.active()),
            )
            for known in self._connectors.values()
            if known.idle_since is None or now - known.idle_since < IDLE_CLOSE_MS
        )

    def forget(self, name: str) -> None:
        """Forgets a connector without a running task. Raises NotFound, and OperationRefused for one that runs."""
        known = self.connector(name)
        if known.active():
            raise OperationRefused(
                f"connector {name} runs: delete it in Connect, and forget it here when its tasks have stopped"
            )
        del self._connectors[name]
        self.version += 1

    def renew(self, name: str) -> None:
        """Has the instance made anew (an operator restarted a task after a permanent failure)."""
        self._next_generation(self.connector(name))

    # -- reading -----------------------------------------------------------------------------------

    def connector(self, name: str) -> Connector:
        known = self._connectors.get(name)
        if known is None:
            raise NotFound(f"there is no connector {name}", code=ErrorCode.UNKNOWN_CONNECTOR)
        return known

    def get(self, name: str) -> Connector | None:
        return self._connectors.get(name)

    def __iter__(self) -> Iterator[Connector]:
        return iter(sorted(self._connectors.values(), key=lambda known: known.name))

    def age_ms(self, task: Task) -> int:
        return int(self._clock() - task.last_poll)

    def begun_ms(self, known: Connector) -> int:
        """Since it was started, or made anew."""
        return int(self._clock() - known.begun)

    def active_ms(self, task: Task) -> int:
        """For how long a task that is active has been so."""
        return int(self._clock() - task.active_since)

    # -- steps -------------------------------------------------------------------------------------

    def _add(self, name: str, session: str, kind: str, config: Config) -> Connector:
        if len(self._connectors) >= MOST_CONNECTORS:
            raise Overloaded(f"this service has {MOST_CONNECTORS} connectors already", retry_after=60)
        now = self._clock()
        known = Connector(name, kind, dict(config), session, now, 0, idle_since=now)
        self._connectors[name] = known
        self._next_generation(known)
        return known

    def _configure(self, known: Connector, session: str, kind: str, config: Config) -> None:
        if session <= known.config_session:
            return
        known.config_session = session
        if kind != known.kind or comparable(config) != comparable(known.config):
            known.kind, known.config = kind, dict(config)
            self._next_generation(known)

    def _next_generation(self, known: Connector) -> None:
        self._generation += 1
        self.version += 1
        known.generation, known.begun = self._generation, self._clock()

    def _of_this_run(self, session: str, code: ErrorCode = ErrorCode.UNKNOWN_TASK) -> None:
        if self._foreign(session):
            raise NotFound(
                f"session {session} was given by another run of the service: ask for another", code=code
            )

    def _spoken(self, name: str, index: int, session: str) -> tuple[Connector, Task]:
        """Of a call that a task makes between its start and its end."""
        known = self.connector(name)
        task = self._task(known, index)
        self._of_this_run(session)
        return known, task

    def _task(self, known: Connector, index: int) -> Task:
        task = known.tasks.get(index)
        if task is None:
            raise NotFound(f"connector {known.name} has no task {index} here", code=ErrorCode.UNKNOWN_TASK)
        return task

    def _touch(self, task: Task) -> None:
        task.last_poll, task.idle = self._clock(), False
        if not task.active:
            task.active, task.active_since = True, task.last_poll
            self.version += 1

    def _note_idleness(self, known: Connector) -> None:
        if known.active():
            if known.idle_since is not None:
                known.idle_since = None
                self.version += 1
        elif known.idle_since is None:
            known.idle_since = self._clock()
            self.version += 1


def _fenced(what: str, session: str, ruling: str) -> Fenced:
    if session == ruling:
        return Fenced(f"{what}: session {session} was stopped")
    return Fenced(f"{what}: session {session} has been taken over by {ruling}")
