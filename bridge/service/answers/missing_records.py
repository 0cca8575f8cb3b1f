"""Counts the records that groups would lose if the source were gone now: those not on the target yet. Pure.

A number is of the time when both clusters were last queried: without that time it is not known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from bridge.protocol.messages import GroupReport, PartitionReport
from bridge.service.answers.readiness import GroupAnswer
from bridge.service.ipc.messages import Lacking, lacking

Rows = Mapping[tuple[str, int], tuple[int, int]]
"""By source partition: at most so many records are missing, none that was appended before a time; -1: unknown."""


def summed(rows: Iterable[tuple[int, int] | None]) -> tuple[int | None, int | None]:
    """Sums records, and finds the earliest time, over partitions; None for not known, and for the time if none is
    missing."""
    there = list(rows)
    known = [row for row in there if row is not None and row[0] >= 0]
    if not there or len(known) < len(there):
        return None, None
    since = [since_ms for records, since_ms in known if records]
    return sum(records for records, _ in known), min(since) if since and min(since) >= 0 else None


def of_partitions(report: GroupReport, rows: Rows) -> list[PartitionReport]:
    """The partitions, each with its missing records."""
    return [
        part.model_copy(
            update={
                "missing_records": _added(
                    summed([rows.get((part.topic, part.partition))])[0], lacking([part])
                )
            }
        )
        for part in report.partitions
    ]


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

    def of_group(self, tps: Iterable[tuple[str, int]], passed: Lacking) -> dict[str, int | None]:
        """Returns the fields for missing records of a group with these partitions. `passed`: of those that the copies
        are past."""
        places = set(tps)
        for topic in {topic for topic, _ in places}:
            places.update(self._topics.get(topic, ()))
        records, since_ms = summed(map(self._rows.get, places))
        return {
            "missing_records": _added(records, passed),
            # When those were appended that the copies are past is not known.
            "missing_since_ms": None if passed else since_ms,
        }


def of_flow(rows: Rows, groups: Iterable[Lacking]) -> tuple[int | None, int | None]:
    """Sums the missing records of a flow, with the earliest time. `groups`: what each group lacks besides: of one
    partition the greatest number counts, for the others are part of it."""
    records, since_ms = summed(rows.values())
    most: dict[tuple[str, int], int | None] = {}
    for group in groups:
        for topic, partition, count in group:
            before = most.get((topic, partition), 0)
            most[topic, partition] = None if count is None or before is None else max(before, count)
    lacks = tuple((*place, count) for place, count in most.items())
    return _added(records, lacks), None if lacks else since_ms


def _added(waiting: int | None, passed: Lacking) -> int | None:
    counts = [count for _, _, count in passed]
    if waiting is None or None in counts:
        return None
    return waiting + sum(count for count in counts if count is not None)


def with_answer(report: GroupReport, answer: GroupAnswer, rows: Rows, rounds: int) -> GroupReport:
    """The report with its current readiness, missing records and the rounds that it counts in."""
    rows = rows if answer.as_of_ms is not None else {}
    return report.model_copy(
        update={
            "ready": answer.ready,
            "readiness": answer.readiness,
            "as_of_ms": answer.as_of_ms,
            "reasons": list(answer.reasons),
            "rounds": rounds,
            "partitions": of_partitions(report, rows),
            **MissingRows(rows).of_group(
                [(part.topic, part.partition) for part in report.partitions], lacking(report.partitions)
            ),
        }
    )
