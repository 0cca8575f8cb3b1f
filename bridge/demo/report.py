"""The demo's report: one row for each group and partition, sums, and report.json."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bridge.demo.answers import Answers
from bridge.demo.expected import Alignment, exact_offset, reread
from bridge.demo.failover import Resumed
from bridge.demo.groups import Groups
from bridge.demo.logs import PartitionLog, Tp
from bridge.protocol.messages import PartitionReport

FILE = "report.json"
Verdicts = Mapping[tuple[str, Tp], PartitionReport]


@dataclass(frozen=True, slots=True)
class Row:
    """A group's offsets on the target by each way of translating, and how many records each re-reads, negative if it
    skips some; None without an offset."""

    group: str
    topic: str
    partition: int
    committed: int
    exact: int
    timestamp: int | None
    stock: int | None
    ours: int | None
    reread_timestamp: int | None
    reread_stock: int | None
    reread_ours: int | None
    evidence: str | None
    verdict: str | None


@dataclass(frozen=True, slots=True)
class Judged:
    """The offsets of all groups by the three ways of translating."""

    timestamp: Answers
    stock: Answers
    ours: Answers
    verdicts: Verdicts


@dataclass(frozen=True, slots=True)
class Report:
    rows: Sequence[Row]
    failover: Sequence[Resumed]
    seconds: float

    @property
    def passed(self) -> bool:
        """Whether ours re-reads, skips and leaves out nothing, and every consumer's first record was the right one."""
        return all(row.reread_ours == 0 for row in self.rows) and all(each.matches for each in self.failover)

    def total(self, way: str) -> int:
        """Records re-read by `timestamp`, `stock` or `ours`, in the rows where it has an offset."""
        return sum(getattr(row, f"reread_{way}") or 0 for row in self.rows)

    def unanswered(self, way: str) -> int:
        return sum(getattr(row, way) is None for row in self.rows)

    def as_json(self) -> dict[str, Any]:
        failover = [
            {"group": group, "topic": tp[0], "partition": tp[1], "first_record_matches": matches}
            for group, tp, matches in self.failover
        ]
        return {
            "rows": [asdict(row) for row in self.rows],
            "failover": failover,
            "seconds": round(self.seconds, 1),
        }

    def write(self, directory: Path) -> Path:
        path = directory / FILE
        path.write_text(json.dumps(self.as_json(), indent=2) + "\n", "utf-8")
        return path


def make_rows(
    groups: Groups,
    alignments: Mapping[Tp, Alignment],
    target: Mapping[Tp, PartitionLog],
    judged: Judged,
) -> list[Row]:
    """The rows of the report. `alignments` and `target` are by source partition."""
    rows = []
    for group, offsets in groups.items():
        for tp, committed in offsets.items():
            log = target[tp]
            exact = exact_offset(committed, alignments[tp], log.end)
            timestamp, stock, ours = (
                answers.get((group, tp)) for answers in (judged.timestamp, judged.stock, judged.ours)
            )
            verdict = judged.verdicts.get((group, tp))
            rows.append(
                Row(
                    group=group,
                    topic=tp[0],
                    partition=tp[1],
                    committed=committed,
                    exact=exact,
                    timestamp=timestamp,
                    stock=stock,
                    ours=ours,
                    reread_timestamp=reread(timestamp, exact, log),
                    reread_stock=reread(stock, exact, log),
                    reread_ours=reread(ours, exact, log),
                    evidence=verdict.evidence if verdict else None,
                    verdict=verdict.verdict if verdict else None,
                )
            )
    return rows
