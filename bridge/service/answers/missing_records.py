"""Counts the records that groups would lose if the source were gone now: those not on the target yet. Pure.

A number is of the time when both clusters were last queried: without that time it is not known."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property

from bridge.protocol.messages import GroupReport, NotBegunPartition
from bridge.service.answers.readiness import GroupAnswer
from bridge.service.ipc.messages import Lacking, lacking

Place = tuple[str, int]
Rows = Mapping[tuple[str, int], tuple[int, int]]
"""By source partition: at most so many records are missing, none that was appended before a time; -1: unknown."""


def summed(rows: Iterable[tuple[int, int] | None]) -> tuple[int | None, int | None]:
    """Sums records, and finds the earliest time, over partitions; None for not known, and for the time if none is
    missing."""
    listed = list(rows)
    known = [row for row in listed if row is not None and row[0] >= 0]
    if not listed or len(known) < len(listed):
        return None, None
    since = [since_ms for records, since_ms in known if records]
    return sum(records for records, _ in known), min(since) if since and min(since) >= 0 else None


def most_of_each(rows: Iterable[tuple[Place, int | None]]) -> dict[Place, int | None]:
    """Returns by place the greatest number of missing records, None where one is not known: of one partition several
    groups miss the same records, and some of them more."""
    most: dict[Place, int | None] = {}
    for place, count in rows:
        before = most.get(place, 0)
        most[place] = None if count is None or before is None else max(before, count)
    return most


class MissingRows:
    """The missing records of a connector's partitions, by topic too: a group will read those of its topics in which it
    has committed nothing yet."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    @cached_property
    def _topics(self) -> Mapping[str, Sequence[tuple[str, int]]]:
        # Only where a group is shown: a page looks at all connectors, and shows groups of few.
        topics: dict[str, list[tuple[str, int]]] = {}
        for place in self._rows:
            topics.setdefault(place[0], []).append(place)
        return topics

    def _places(self, tps: Iterable[Place], lacks: Lacking) -> set[Place]:
        places = {*tps, *((topic, partition) for topic, partition, _ in lacks)}
        for topic in {topic for topic, _ in places}:
            places.update(self._topics.get(topic, ()))
        return places

    def of_group(self, tps: Iterable[Place], lacks: Lacking) -> dict[str, int | None]:
        """Returns the fields for missing records of a group with these partitions. `lacks`: of those that the copies
        are past."""
        records, since_ms = summed(map(self._rows.get, self._places(tps, lacks)))
        return {
            "missing_records": _added(records, lacks),
            # When those were appended that the copies are past is not known.
            "missing_since_ms": None if lacks else since_ms,
        }

    def of_report(self, report: GroupReport) -> dict[str, int | None]:
        """Returns the same of a report."""
        return self.of_group([(part.topic, part.partition) for part in report.partitions], lacking(report))

    def of_each(self, report: GroupReport) -> dict[Place, int | None]:
        """Returns the missing records of each partition of the group's topics."""
        lacks = lacking(report)
        places = self._places(((part.topic, part.partition) for part in report.partitions), lacks)
        more = {(topic, partition): count for topic, partition, count in lacks}
        return {place: _sum((summed([self._rows.get(place)])[0], more.get(place, 0))) for place in places}


def of_flow(rows: Rows, groups: Iterable[Lacking]) -> tuple[int | None, int | None]:
    """Sums the missing records of a flow, with the earliest time. `groups`: what each group lacks besides: of one
    partition the greatest number counts, for the others are part of it."""
    records, since_ms = summed(rows.values())
    most = most_of_each(((topic, partition), count) for group in groups for topic, partition, count in group)
    lacks = tuple((*place, count) for place, count in most.items())
    return _added(records, lacks), None if lacks else since_ms


def _added(waiting: int | None, lacks: Lacking) -> int | None:
    return _sum((waiting, *(count for _, _, count in lacks)))


def _sum(counts: Collection[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def not_begun_of(report: GroupReport, missing: Mapping[Place, int | None]) -> list[NotBegunPartition]:
    """Returns the partitions in which the group has committed nothing, and of which records are missing, or may be."""
    begun = {(part.topic, part.partition) for part in report.partitions}
    lacks = {
        (partition.topic, partition.partition): partition.not_on_target for partition in report.not_begun
    }
    return [
        NotBegunPartition(
            topic=place[0], partition=place[1], not_on_target=lacks.get(place, 0), missing_records=count
        )
        for place, count in sorted(missing.items())
        if place not in begun and count != 0
    ]


def with_answer(report: GroupReport, answer: GroupAnswer, rows: Rows, rounds: int) -> GroupReport:
    """The report with its current readiness, missing records and the rounds that it counts in."""
    missing = MissingRows(rows if answer.as_of_ms is not None else {})
    each = missing.of_each(report)
    return report.model_copy(
        update={
            "ready": answer.ready,
            "readiness": answer.readiness,
            "as_of_ms": answer.as_of_ms,
            "reasons": list(answer.reasons),
            "rounds": rounds,
            "partitions": [
                part.model_copy(update={"missing_records": each[part.topic, part.partition]})
                for part in report.partitions
            ],
            "not_begun": not_begun_of(report, each),
            **missing.of_report(report),
        }
    )
