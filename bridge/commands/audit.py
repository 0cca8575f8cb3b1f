"""`mirror-bridge audit`: compares the topics of a mirror with their copies, as they are now."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bridge.commands.exit_status import BAD_SETTINGS, INTERRUPTED, end, note
from bridge.commands.options import read_connector
from bridge.commands.show import printable, show_json, show_table
from bridge.commands.views import count
from bridge.errors import BridgeError, ConfigRejected

if TYPE_CHECKING:
    from bridge.audit.report import AuditReport
    from bridge.commands.audit_files import ReportFile
    from bridge.spark.auditing.options import AuditOptions


DIFFERENT, NOT_KNOWN = 1, 2
SHOWN = 20
"""Differences that a table shows."""
POLL_SECONDS = 0.3


def audit(
    config: Annotated[
        Path,
        typer.Option(
            help="The connector's configuration: Java .properties, or the JSON that is PUT to Connect. Stock's, too."
        ),
    ],
    topics: Annotated[
        str | None,
        typer.Option(
            help="Names and patterns, as in the setting `topics`; default: all topics of the connector."
        ),
    ] = None,
    since: Annotated[
        str | None, typer.Option("--from", help="Records from this time on, such as 2026-11-22T21:00:00Z.")
    ] = None,
    until: Annotated[str | None, typer.Option("--to", help="Records before this time.")] = None,
    sample: Annotated[
        float | None, typer.Option(help="Fraction of the logs to compare, spread over them, such as 0.05.")
    ] = None,
    window: Annotated[str, typer.Option(help="Length of the time windows: 15m, 1h, 1d.")] = "1d",
    output: Annotated[
        Path | None,
        typer.Option(
            help="Where differences and summary are written: FILE.json, or a folder FOLDER.parquet."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print all as JSON.")] = False,
) -> None:
    """Compare source and target of a mirror record by record: what is missing, extra, changed, twice or out of order on
    the target, and which offset runs are not true.

    It changes nothing. What retention or compaction took, and what is not copied yet, is counted, not as a difference.

    Exit status 0: all that was compared is equal; 1: there are differences; 2: something is wrong with the
    configuration, or not all could be compared.
    """
    from bridge.commands.audit_files import document
    from bridge.pipeline.driver.spark_problem import SparkProblem

    file = None if output is None else _file(output)
    options = _options(config, topics=topics or (), since=since, until=until, sample=sample, window=window)
    try:
        with _quiet():
            report = run_audit(options)
    except (BridgeError, SparkProblem) as failure:
        end(str(failure), NOT_KNOWN)
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    if as_json:
        show_json(document(report))
    else:
        _show(report)
    if file is not None:
        try:
            file.write(report)
        except OSError as error:
            end(f"can't write {output}: {error.strerror or error}", BAD_SETTINGS)
    raise typer.Exit(_status(report))


def _file(path: Path) -> ReportFile:
    """Ends the command where the report could not be written."""
    from bridge.commands.audit_files import CannotWrite, ReportFile

    try:
        file = ReportFile(path)
        file.verify()
    except CannotWrite as problem:
        end(f"--output {path}{problem}", BAD_SETTINGS)
    return file


def _options(path: Path, **asked: Any) -> AuditOptions:
    from bridge.pipeline.driver.spark_problem import java_problem
    from bridge.spark.auditing.options import OF_THE_COMMAND, read_options

    props = read_connector(path)
    try:
        options = read_options(props, names=OF_THE_COMMAND, **asked)
    except ConfigRejected as rejected:
        for error in rejected.errors[:-1]:
            note(error.message)
        end(rejected.errors[-1].message, BAD_SETTINGS)
    if (no_java := java_problem(os.environ)) is not None:
        end(no_java, BAD_SETTINGS)
    return options


def run_audit(options: AuditOptions) -> AuditReport:
    """Raises BridgeError and SparkProblem."""
    from bridge.spark.auditing.running import audited, session

    with session(options.props) as spark, progress_bar(spark.sparkContext) as started:
        return audited(spark, options, started)


@contextmanager
def _quiet() -> Iterator[None]:
    """Logs of the libraries go nowhere: what fails is in the report."""
    root = logging.getLogger()
    handler = logging.NullHandler()
    root.addHandler(handler)
    try:
        yield
    finally:
        root.removeHandler(handler)


@contextmanager
def progress_bar(context: Any) -> Iterator[Any]:
    """Shows on a terminal how many Spark tasks are done. Yields a function to be called with their total number."""
    if not sys.stderr.isatty():
        yield lambda total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    tracker, over = context.statusTracker(), threading.Event()
    columns = TextColumn("comparing"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("comparing", total=None)

        def watch() -> None:
            with suppress(Exception):  # Spark is gone, of which the audit itself tells
                while not over.wait(POLL_SECONDS):
                    stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
                    if stages and stages[0] is not None:
                        bar.update(task, completed=stages[0].numCompletedTasks)

        thread = threading.Thread(target=watch, name="progress", daemon=True)
        thread.start()
        try:
            yield lambda total: bar.update(task, total=total)
        finally:
            over.set()
            thread.join()


def _status(report: AuditReport) -> int:
    from bridge.audit.report import AuditVerdict

    return {AuditVerdict.EQUAL: 0, AuditVerdict.DIFFERENT: DIFFERENT, AuditVerdict.NOT_KNOWN: NOT_KNOWN}[
        report.verdict
    ]


def _show(report: AuditReport) -> None:
    from bridge.audit.report import DifferenceKind, difference_rows, not_compared, totals

    rows = [
        {
            "topic": part.source.topic,
            "partition": part.source.partition,
            "verdict": part.verdict.value,
            **{name.replace("_", " "): count(number) for name, number in totals(part).items()},
        }
        for part in report.partitions
    ]
    names = (
        "source records",
        "target records",
        "same",
        *(kind.value.replace("_", " ") for kind in DifferenceKind),
        "unknown",
    )
    if rows:
        show_table(rows, ("topic", "partition", "verdict", *names), right=("partition", *names))
    differences = difference_rows(report)
    if differences:
        columns = (
            "topic",
            "partition",
            "kind",
            "source_offset",
            "target_offset",
            "claimed_offset",
            "copy_offset",
        )
        show_table(differences[:SHOWN], columns, right=(columns[1], *columns[3:]))
    found = sum(sum(part.findings.found.values()) for part in report.partitions)
    if found > min(len(differences), SHOWN):
        note(
            f"{found - min(len(differences), SHOWN):,} more difference(s) are not shown; --output FILE.json or "
            "FOLDER.parquet lists them, 10,000 of each stretch at most"
        )
    for why, number in not_compared(report).items():
        sys.stdout.write(f"not compared: {number:,} {why}\n")
    for text in [*report.failures, *(text for part in report.partitions for text in part.failures)]:
        sys.stdout.write(f"could not be compared: {printable(text)}\n")
    if report.compared_nothing and report.partitions:
        sys.stdout.write(
            "no record was compared: the lines above say why, or --from and --to leave out all\n"
        )
    of = f" of the sample ({report.sample:g})" if report.sample is not None else ""
    sys.stdout.write(f"{_verdict(report)[0]}{of}: {_verdict(report)[1]}\n")


def _verdict(report: AuditReport) -> tuple[str, str]:
    """The verdict in words, and what it is about: the differences, not what was compared; and of what is not known
    which part that is."""
    from bridge.audit.report import AuditVerdict, totals

    compared = sum(totals(part)["source_records"] for part in report.partitions)
    records = f"{compared:,} records in {len(report.partitions):,} partition(s)"
    if report.verdict is AuditVerdict.EQUAL:
        return "equal", records
    if report.verdict is AuditVerdict.DIFFERENT:
        kinds: Counter[str] = Counter()
        for part in report.partitions:
            kinds.update({kind.replace("_", " "): number for kind, number in part.findings.found.items()})
        listed = ", ".join(f"{number:,} {kind}" for kind, number in kinds.most_common())
        where = sum(part.verdict is AuditVerdict.DIFFERENT for part in report.partitions)
        return (
            "different",
            f"{listed}, in {where:,} of {len(report.partitions):,} partition(s); {records} were compared",
        )
    unknown = sum(part.verdict is AuditVerdict.NOT_KNOWN for part in report.partitions)
    parts = [
        f"{number:,} {what}"
        for number, what in ((unknown, "partition(s)"), (len(report.failures), "topic(s)"))
        if number
    ]
    return "not known", f"of {' and '.join(parts) or 'all'}; no difference in {records}"
