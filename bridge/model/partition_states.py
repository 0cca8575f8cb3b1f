"""Says of single partitions what a connector does with them: copied, or since when not, why, and what leads out. Pure.

    state      the partition                                          what ends it
    copying    is copied
    gap        is copied; of its records some were left out or lost   a day
    waiting    is not copied; it is tried again and again             time, or whoever mends its cluster
    failed     is not copied; tries alone have not helped             `way_out`; it is tried again all the same
    done       is copied as far as was asked for                      (`--until-caught-up`)
    stopped    is not copied, because its connector does not run      the connector's start

A connector has a state for all of its partitions (`PartitionStates.usual`); only those that differ have a
PartitionStatus: of 100,000 partitions these are few, or fail alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from bridge.model.values import LAST_PARTITION, TopicPartition


class PartitionState(StrEnum):
    COPYING = "copying"
    GAP = "gap"
    WAITING = "waiting"
    FAILED = "failed"
    DONE = "done"
    STOPPED = "stopped"


NOT_COPIED = (PartitionState.WAITING, PartitionState.FAILED)
_MORE = "not copied either, for other reasons: see mirror-bridge progress --state failed, and waiting"
_NOT_TOLD = "more partitions are not copied than a report has room for the causes of: see those of the first"
_NAMED = 3
"""Partitions that a sentence names."""
_LAST_MS = 253_402_300_799_999
"""The end of the year 9999."""
_REASONS = 20
"""Reasons that are told one by one."""


class PartitionStatus(NamedTuple):
    """The state of one partition of the source. `why` is a sentence without the partition's name; `way_out`: what an
    operator can do, "" where nothing is to be done but wait. `offset`: where it stands, and `end`: what stands there
    that can't be copied reaches up to there, -1 for not known."""

    topic: str
    partition: int
    state: PartitionState
    since_ms: int
    why: str
    way_out: str = ""
    offset: int = -1
    end: int = -1

    @property
    def source(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class Skip(NamedTuple):
    """A request to leave out the offsets [offset, end) of a partition that stands at `offset`."""

    topic: str
    partition: int
    offset: int
    end: int

    @property
    def source(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class PartitionStates(NamedTuple):
    """The states of all partitions of a connector: `apart` has those that differ from the `usual` one."""

    usual: PartitionState = PartitionState.WAITING
    apart: Sequence[PartitionStatus] = ()


class Reason(NamedTuple):
    """What partitions share that are not copied. `first`: those that a sentence names, of `total`."""

    state: PartitionState
    why: str
    way_out: str
    since_ms: int
    first: Sequence[TopicPartition]
    total: int

    @property
    def sentence(self) -> str:
        names = ", ".join(f"{topic}-{number}" for topic, number in self.first)
        more = self.total - len(self.first)
        beside = f" and {more} partition(s) more" if more else ""
        return f"{names}{beside}: {self.why}" + (f"; {self.way_out}" if self.way_out else "")


def reasons(statuses: Iterable[PartitionStatus]) -> list[Reason]:
    """Groups the partitions that are not copied by why, in the order of the first of each; the last group has all that
    are more than an operator would read."""
    alike: dict[tuple[PartitionState, str, str], list[PartitionStatus]] = {}
    for status in sorted(statuses):
        if status.state in NOT_COPIED:
            alike.setdefault((status.state, status.why, status.way_out), []).append(status)
    groups = list(alike.items())
    if rest := [status for _, some in groups[_REASONS:] for status in some]:
        groups[_REASONS:] = [((_worst(rest), _MORE, ""), rest)]
    return [
        Reason(*key, min(one.since_ms for one in some), [one.source for one in some[:_NAMED]], len(some))
        for key, some in groups
    ]


def _worst(statuses: Iterable[PartitionStatus]) -> PartitionState:
    failed = any(status.state is PartitionState.FAILED for status in statuses)
    return PartitionState.FAILED if failed else PartitionState.WAITING


def with_since(
    statuses: Iterable[PartitionStatus], before: Mapping[TopicPartition, PartitionStatus]
) -> list[PartitionStatus]:
    """Returns the statuses, each since the time that is known of the same state and cause from before."""
    known = ((status, before.get(status.source)) for status in statuses)
    return [
        status._replace(since_ms=old.since_ms)
        if old is not None and (old.state, old.why) == (status.state, status.why)
        else status
        for status, old in known
    ]


# -- as JSON -------------------------------------------------------------------------------------------------------


def with_fewer_causes(statuses: Sequence[PartitionStatus], most: int) -> list[PartitionStatus]:
    """Returns the statuses with so many different causes, as a record has room for; the others say that they are not
    told."""
    causes = dict.fromkeys(status[2:6] for status in statuses)
    shown = set(list(causes)[:most])
    since_ms = min((status.since_ms for status in statuses if status[2:6] not in shown), default=0)
    return [
        status if status[2:6] in shown else status._replace(since_ms=since_ms, why=_NOT_TOLD, way_out="")
        for status in statuses
    ]


def pack(statuses: Iterable[PartitionStatus]) -> list[list[object]]:
    """Packs statuses as JSON: what partitions share is there once."""
    groups: dict[tuple[object, ...], dict[str, list[object]]] = {}
    for topic, partition, state, since_ms, why, way_out, offset, end in statuses:
        row = partition if offset < 0 else (partition, offset, end)
        groups.setdefault((state, since_ms, why, way_out), {}).setdefault(topic, []).append(row)
    return [[*shared, list(topics.items())] for shared, topics in groups.items()]


def unpack(packed: Sequence[Sequence[Any]]) -> tuple[PartitionStatus, ...]:
    """Unpacks what `pack` has made. Raises ValueError and TypeError for something else."""
    groups = [
        (topics, PartitionState(state), since_ms, why, way_out)
        for state, since_ms, why, way_out, topics in packed
    ]
    statuses = tuple(
        PartitionStatus(topic, row[0], *shared, *row[1:])
        for topics, *shared in groups
        for topic, rows in topics
        for row in ([row] if isinstance(row, int) else row for row in rows)
        if row
    )
    if not all(map(_well_formed, statuses)):
        raise ValueError("no statuses of partitions")
    return statuses


def _well_formed(status: PartitionStatus) -> bool:
    # JSON may hold halves of characters, which nobody can encode, and times that no calendar has.
    texts = all(
        isinstance(text, str) and not any("\ud800" <= letter <= "\udfff" for letter in text)
        for text in (status.topic, status.why, status.way_out)
    )
    most = {"partition": LAST_PARTITION, "since_ms": _LAST_MS}
    numbers = all(type(each := getattr(status, name)) is int and 0 <= each <= most[name] for name in most)
    offsets = all(type(number) is int and -1 <= number < 1 << 63 for number in (status.offset, status.end))
    return texts and numbers and offsets
