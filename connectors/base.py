"""Defines what a kind of connector is to the service: a definition, a check, and instances that run rounds.

An instance lives in the rounds process, never in the HTTP process. `assign` names the tasks that run; the instance
publishes reports and summaries, and raises nothing that time can heal.

Runs rounds on request: an operator has a connector run one now instead of at its next interval.

Names this process in records that tell who writes them.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from bridge.errors import ConfigError, OperationRefused
from bridge.model.copying import CopySample, Progress
from bridge.model.key_rules import KeyRule, Use
from bridge.model.partition_states import PartitionState, PartitionStates
from bridge.model.values import Side, TopicPartition
from bridge.protocol.messages import CopyTotals, GapReport, GroupReport
from connectors.config.configdef import ConfigDef, ValidatedConfig, given
from connectors.config.key_effects import ClientUses, KeyRules
from connectors.ports import ClientCheck, Clusters, Pipelines

COPYING_KINDS = frozenset({"source", "sink"})
"""Kinds of connector that copy records."""
GROUP_KINDS = frozenset({"checkpoint", "group_offset"})
"""Kinds of connector that follow groups."""
SourcePartition = Mapping[str, str | int]
SourceOffset = Mapping[str, Any]
"""Of Connect's offset storage."""
Arguments = Mapping[str, Any]
"""JSON."""
R = TypeVar("R")
MOST_NAMES = 1_000
"""Names that an answer lists at most of those that are new, and of those that are gone."""
PROCESS: Final = uuid.uuid4().hex
"""All connectors of a rounds process share it: what one of them writes is no news of another service to the others."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """Which tasks of a connector hold a lease now: `active` are indices below `task_count`."""

    task_count: int
    active: frozenset[int]


@dataclass(frozen=True, slots=True)
class Summary:
    """The state of a connector after a round; counts are of group-partitions, times in ms since the epoch."""

    groups: int = 0
    exact: int = 0
    bounded: int = 0
    pending: int = 0
    reasons: Mapping[str, int] = field(default_factory=dict)
    last_success_ms: int | None = None
    """When the last round without an error ended."""
    copying_ms: int | None = None
    """When the copy was last at work: an error of one topic, or of another duty, does not end that."""
    copying_monotonic_ms: int | None = None
    """The same by the monotonic clock."""
    last_round_seconds: float | None = None
    usual_round_seconds: float = 0.0
    """The shorter of the last two: one round that waited for a cluster makes no answer valid for longer."""
    rounds: int = 0
    lookups: int = 0
    writes: int = 0
    checkpoints: int = 0
    """Emitted: handed over to be written through Connect."""
    unreadable_records: Mapping[str, int] = field(default_factory=dict)
    """By internal topic, left out since the instance was made."""
    as_of_ms: int | None = None
    """When the last round began that both clusters have answered."""
    as_of_monotonic_ms: int | None = None
    """The same by the monotonic clock, which all processes of a machine share and nobody sets; None for not known."""
    tasks: Sequence[int] = ()
    """Tasks whose groups the last round has read."""
    target_monotonic_ms: int | None = None
    """When the last round began that the target has answered, with or without the source, by the monotonic clock."""
    target_tasks: Sequence[int] = ()
    """Tasks whose groups that round has held against the target."""
    other_tasks: Mapping[int, tuple[int, int, int]] = field(default_factory=dict)
    """Tasks that other services run: the time of their last round, their interval (ms), and when this instance has seen
    that time first, by the monotonic clock."""
    waits_for: str = ""
    """What it has found nothing of to work on, though all that it asked has answered."""
    other_connectors: Mapping[str, tuple[int, int, int]] = field(default_factory=dict)
    """The same of other connectors that run on other services: of each the newest record of a task."""
    group_connectors: Mapping[str, tuple[int, int, int]] | None = None
    """Of a connector that copies, the same of those that follow the groups of its flow, wherever they run; None where
    that is not known."""
    groups_unread: str = ""
    """Why that can't be read."""
    task_count: int = 0
    """While no task runs here: how many there are by the newest record of a task, 0 for not known."""
    interval_ms: int = 0
    """Between the rounds of groups."""
    away_since_ms: Mapping[str, int] = field(default_factory=dict)
    """Of `source` and `target` those that did not answer the last round as a whole, and since when."""
    clusters_seen: frozenset[str] = frozenset()
    """`source` and `target`, each once it has answered; or from the beginning, where the connector needs none of it."""
    errors: Sequence[str] = ()
    """Errors that last: present in the last two rounds or more."""
    partitions: Mapping[str, tuple[PartitionState, int]] = field(default_factory=dict)
    """Of the errors those that are of single partitions: their state, and since when."""
    gaps: Sequence[str] = ()
    """Records that could not be copied, as health shows them for a day."""
    failure: str | None = None
    """A permanent error (credentials, a rejected configuration, a policy that says fail): fails the task."""
    failure_code: str = ""
    """Its name, where it has one: that of a KafkaFault, no_java, copy_taken, bad_config."""


@dataclass(frozen=True, slots=True)
class EmittedRecord:
    """A record for Connect to write to a compacted topic of the target, partition 0. Timestamp in ms.

    `affinity` (a group id; anything that stays the same) says which task carries it: two records of one key never go
    through two tasks at a time, or the older could be written last.
    """

    affinity: str
    source_partition: Mapping[str, str | int]
    source_offset: Mapping[str, str | int]
    topic: str
    key: bytes
    value: bytes
    timestamp: int


class CopiedTopics(NamedTuple):
    """What another connector copies: pairs of source and target topics."""

    name: str
    config: Mapping[str, str | None]
    topics: Collection[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class CopyReport:
    """How copying has gone on since the last report. `whole`: it is the first of an instance, and whatever it does not
    name is gone. `gaps` are the newest of the ledger, oldest first, None where they are as they were, as `states` is.
    `samples`: what was copied meanwhile, at most one of each partition."""

    totals: CopyTotals
    changed: Sequence[Progress] = ()
    gone: Sequence[TopicPartition] = ()
    gaps: Sequence[GapReport] | None = None
    whole: bool = False
    samples: Sequence[CopySample] = ()
    states: PartitionStates | None = None


class Missing(NamedTuple):
    """The missing records of a source partition: at most so many are not on the target, and none that was appended
    before `since_ms`. -1 for not known. `stuck_since_ms`: since when none of them was copied, -1 while some are."""

    records: int = -1
    since_ms: int = -1
    stuck_since_ms: int = -1


class Publisher(Protocol):
    """Takes what an instance reports, cheaply and without blocking; and reads what only Connect has stored."""

    def records(self, records: Sequence[EmittedRecord]) -> None:
        """Hands over records for Connect to write. Of one topic and key only the newest waits; each is handed out again
        until Connect has written it, whatever dies meanwhile but the rounds process itself."""

    def summary(self, summary: Summary) -> None: ...

    def groups(self, changed: Mapping[str, GroupReport | None]) -> None:
        """Publishes reports that changed since the last call; None removes a group."""

    def backlog(self, changed: Mapping[TopicPartition, Missing | None]) -> None:
        """Publishes the missing records of source partitions that changed since the last call; None removes one."""

    async def stored_offsets(self, partitions: Sequence[SourcePartition]) -> Sequence[SourceOffset | None]:
        """Returns the source offset that Connect has stored for each of these source partitions under the connector's
        name, None for none. It takes as long as a task of the connector takes to answer: set a time limit."""

    def progress(self, report: CopyReport) -> None: ...


class Operation(StrEnum):
    """An operation that an operator requests of a running connector."""

    REFRESH = "refresh"
    """List groups or topics now, in a round of its own."""
    MOVE = "move"
    """Move groups to the target: they are committed no more."""
    GIVE_BACK = "give_back"
    """Commit moved groups again, from where their consumers have left them."""
    SKIP = "skip"
    """Leave out offsets of a partition that can't be copied."""
    ROLL_BACK = "roll_back"
    """Set moved groups back to where they were before the move, and commit them again."""


class Instance(Protocol):
    """One connector of one name, running."""

    def assign(self, assignment: Assignment) -> None: ...

    async def operate(self, operation: str, arguments: Arguments) -> Arguments:
        """Carries out an Operation, and answers in JSON when that is done. Raises OperationRefused for what can't be
        done, or not by its kind, and KafkaFailure for a cluster that does not answer."""

    async def run(self) -> None:
        """Runs rounds until cancelled."""

    async def close(self) -> None: ...


class Kind(Protocol):
    """A kind of connector, as registered."""

    @property
    def kind(self) -> str: ...

    @property
    def connector_class(self) -> str: ...

    @property
    def definition(self) -> ConfigDef: ...

    def validate(self, props: Mapping[str, str | None], clients: ClientCheck) -> ValidatedConfig:
        """Checks a configuration: every key with its value and errors, cross-key rules and client properties included.
        No I/O."""

    def conflicts(
        self, props: Mapping[str, str | None], others: Sequence[CopiedTopics]
    ) -> Sequence[ConfigError]:
        """Returns errors for topics that the configuration would copy and another connector copies already."""

    def create(
        self,
        name: str,
        props: Mapping[str, str | None],
        clusters: Clusters,
        pipelines: Pipelines,
        publisher: Publisher,
    ) -> Instance:
        """Makes an instance for a configuration that `validate` found without errors; raises ConfigRejected
        otherwise."""


@dataclass(frozen=True, slots=True)
class ConnectorKind:
    """A Kind from its parts. `make` imports what runs the rounds when it is called: the HTTP process validates only,
    and does without the translation."""

    kind: str
    connector_class: str
    definition: ConfigDef
    clients: ClientUses
    check: Callable[[Mapping[str, str | None], ClientCheck], ValidatedConfig]
    make: Callable[[str, Mapping[str, str | None], Clusters, Pipelines, Publisher], Instance]
    taken: Callable[[Mapping[str, str | None], Sequence[CopiedTopics]], Sequence[ConfigError]] | None = None

    def conflicts(
        self, props: Mapping[str, str | None], others: Sequence[CopiedTopics]
    ) -> Sequence[ConfigError]:
        return self.taken(props, others) if self.taken is not None and others else ()

    def validate(self, props: Mapping[str, str | None], clients: ClientCheck) -> ValidatedConfig:
        stated = given(props)
        rules = KeyRules(self.kind, self.definition, self.clients, clients.rule, clients.properties)
        config = self.check(props, clients).with_errors(rules.refused(stated))
        config = config.with_errors_instead(list(rules.misspelt(stated)))
        ignored = list(rules.ignored(stated))
        return config.with_ignored(
            ignored, (setting.key for setting in ignored if not rules.of_connect(setting.key))
        )

    def create(
        self,
        name: str,
        props: Mapping[str, str | None],
        clusters: Clusters,
        pipelines: Pipelines,
        publisher: Publisher,
    ) -> Instance:
        return self.make(name, props, clusters, pipelines, publisher)


class CheckedOnOpen:
    """The ClientCheck of `create`: `Clusters.open` reads the client properties itself, and rejects what `validate`
    would."""

    def refused(self, props: Mapping[str, str]) -> Sequence[ConfigError]:
        return ()

    def check(self, props: Mapping[str, str]) -> Sequence[ConfigError]:
        return ()

    def check_producer(self, side: Side, props: Mapping[str, str]) -> Sequence[ConfigError]:
        return ()

    def rule(self, use: Use, name: str) -> KeyRule | None:
        return None

    properties = ()


class RequestedRounds(Generic[R]):
    """Requests for a round, with its result of type `R`. `wake` is set when one is requested, and cleared by whoever
    waits for it."""

    def __init__(self, wake: asyncio.Event | None = None) -> None:
        self.wake = wake or asyncio.Event()
        self._waiting: list[asyncio.Future[R]] = []
        self._under_way: list[asyncio.Future[R]] = []

    async def round(self) -> R:
        """Requests a round and returns its result. One under way does not count: it may have read older state."""
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        self.wake.set()
        return await future

    def begin(self) -> bool:
        """Begins a round; returns whether it was requested."""
        self._under_way += self._waiting
        self._waiting = []
        return bool(self._under_way)

    def end(self, outcome: R) -> None:
        """Ends the round, and hands its result to those who requested it."""
        for future in self._under_way:
            if not future.done():
                future.set_result(outcome)
        self._under_way = []

    def refuse(self, error: Exception) -> None:
        """Fails all requests: no round will come."""
        self.begin()
        for future in self._under_way:
            if not future.done():
                future.set_exception(error)
        self._under_way = []


def refresh_answer(before: Collection[str], after: Collection[str]) -> dict[str, Any]:
    """Returns the answer to a refresh, from the names before and after it."""
    added, removed = sorted(set(after) - set(before)), sorted(set(before) - set(after))
    return {
        "found": len(after),
        "added": added[:MOST_NAMES],
        "removed": removed[:MOST_NAMES],
    }


def does_not_run(name: str) -> OperationRefused:
    return OperationRefused(
        f"connector {name} does not run: it is disabled (enabled=false), paused or stopped, or no task of it polls; "
        "its conditions in /health say which"
    )


def not_offered(name: str, operation: str) -> OperationRefused:
    return OperationRefused(f"connector {name} is of a kind that has no operation {operation}")
