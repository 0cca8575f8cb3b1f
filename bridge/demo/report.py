"""The demo's report: one row for each group and partition, sums, and report.json.

Prints the demo: its progress while it runs, then the table, and a sentence that sums it up.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table

from bridge.demo.answers import Alignment, Answers, exact_offset, reread
from bridge.demo.data import Groups
from bridge.demo.failover import Resumed
from bridge.demo.logs import PartitionLog, Tp
from bridge.protocol.messages import PartitionReport

FILE = "report.json"
Verdicts = Mapping[tuple[str, Tp], PartitionReport]
_PLAIN_WIDTH = 150
Advance = Callable[[int, int], None]
"""Called with how much is done, and how much there is to do."""


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
        return all(row.reread_ours == 0 for row in self.rows) and all(
            resumed.matches for resumed in self.failover
        )

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


def console() -> Console:
    """The console; without a terminal it is wide enough for the table."""
    shown = Console(highlight=False)
    return shown if shown.is_terminal else Console(highlight=False, width=_PLAIN_WIDTH)


class Steps:
    """One line for each step: a progress bar on a terminal, in a file a line when the step is done."""

    def __init__(self, shown: Console) -> None:
        self._console = shown

    @contextmanager
    def step(self, what: str) -> Iterator[Advance]:
        columns = (
            SpinnerColumn(finished_text="[green]✓"),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=self._console) as progress:
            task = progress.add_task(f"{what:<72}", total=1)

            def advance(done: int, total: int) -> None:
                progress.update(task, completed=done, total=total)

            yield advance
            if not progress.finished:
                last = progress.tasks[0]
                progress.update(task, completed=last.total or 1)


def table(report: Report) -> Table:
    shown = Table(
        title="Where each group resumes on B", title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0)
    )
    for name in ("group", "partition"):
        shown.add_column(name, no_wrap=True)
    for name in ("committed\non A", "exact\non B", "by\ntimestamp", "by\nstock", "by\nours"):
        shown.add_column(name, justify="right", overflow="fold")
    for name in ("timestamp", "stock", "ours"):
        shown.add_column(f"re-read\n{name}", justify="right", overflow="fold")
    shown.add_column("evidence")
    shown.add_column("first\nrecord")
    resumed = {(resumed.group, resumed.tp): resumed.matches for resumed in report.failover}
    group = None
    for row in report.rows:
        if group is not None and row.group != group:
            shown.add_section()
        matches = resumed.get((row.group, (row.topic, row.partition)))
        shown.add_row("" if row.group == group else row.group, *_cells(row, matches))
        group = row.group
    return shown


def closing(report: Report, records: int) -> str:
    """The sums of all rows in a few sentences."""
    resumed = sum(resumed.matches for resumed in report.failover)
    parts = []
    for way, name in (("timestamp", "the plain timestamp rule"), ("stock", "stock's checkpoints")):
        unanswered = report.unanswered(way)
        without = f" and leave {unanswered} without an offset" if unanswered else ""
        parts.append(f"{name} would re-read {report.total(way):,}{without}")
    groups = len({row.group for row in report.rows})
    missing = report.unanswered("ours")
    text = (
        f"{groups} groups on {len(report.rows)} partitions of {records:,} records: "
        f"ours re-reads {report.total('ours'):,}{f' and leaves {missing} without an offset' if missing else ''}; "
        f"{'; '.join(parts)}. {resumed} of {len(report.failover)} consumers' first records were the right ones. "
        f"{report.seconds:.0f} s."
    )
    return text if report.passed else f"FAILED. {text}"


def wrong_rows(report: Report, verdicts: Verdicts) -> list[str]:
    """A line for each row that re-reads or skips records, with the service's report of it."""
    lines = []
    for row in (row for row in report.rows if row.reread_ours != 0):
        tp = (row.topic, row.partition)
        verdict = verdicts.get((row.group, tp))
        details = verdict.model_dump_json(exclude_none=True) if verdict else "not known to the service"
        lines.append(
            f"{row.group} {row.topic}-{row.partition}: {_number(row.ours)} for {row.exact:,}: {details}"
        )
    return lines


def _cells(row: Row, matches: bool | None) -> list[str]:
    good = row.reread_ours == 0
    offsets = [row.committed, row.exact, row.timestamp, row.stock, row.ours]
    judgement = row.verdict or "unknown"
    counts = [row.reread_timestamp, row.reread_stock]
    return [
        f"{row.topic}-{row.partition}",
        *(_number(offset) for offset in offsets),
        *(_number(count) for count in counts),
        f"[{'green' if good else 'red'}]{_number(row.reread_ours)}[/]",
        row.evidence or "–" if row.verdict == "exact" else f"{row.evidence or '–'} ({judgement})",
        {True: "[green]matches[/]", False: "[red]differs[/]", None: "–"}[matches],
    ]


def _number(value: int | None) -> str:
    return "–" if value is None else f"{value:,}"
