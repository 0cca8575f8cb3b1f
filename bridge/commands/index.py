"""`mirror-bridge index`: writes offset runs of what another mirror has copied."""

from __future__ import annotations

import logging
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bridge.commands.exit_status import CANNOT_START, end, note, reported
from bridge.commands.options import read_connector
from bridge.commands.show import Output, OutputOption, show_rows

if TYPE_CHECKING:
    from bridge.errors import KafkaFailure
    from bridge.spark.indexing.index import Index, Pace, PairJobs

LEFT_OUT = 3
"""The exit status where some topics were left out, or not read."""
_COLUMNS = ("topic", "partition", "target_topic", "indexed_to", "source_end", "found")


def index(
    config: Annotated[
        Path,
        typer.Option(
            help="Configuration of a source connector that would copy the flow, .properties or .json: clusters, "
            "aliases, topics, replication policy, spark.* keys."
        ),
    ],
    follow: Annotated[bool, typer.Option("--follow", help="Go on until SIGINT or SIGTERM.")] = False,
    interval: Annotated[float, typer.Option(min=0.1, help="Seconds between passes with --follow.")] = 10.0,
    output: OutputOption = Output.TABLE,
) -> None:
    """Index what a stock mirror has copied: groups then are translated exactly also when the source is gone.

    Reads both sides, pairs records with their copies, and writes offset runs to the target, marked as found. Copies
    that a connector of ours owns are left out. Exit status 0: all was indexed; 3: topics were left out, or not read;
    1: nothing could be indexed; 2: usage. With --follow a cluster that is away is waited for, and SIGINT or SIGTERM end
    the command after the pass under way, with the status that this leaves; a second one ends it at once.
    """
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    from bridge.errors import OperationRefused
    from bridge.pipeline.driver.spark_problem import SparkProblem
    from bridge.spark.indexing.index import IndexJobFailed

    try:
        with reported():
            done = _index(config, interval if follow else None)
    except (OperationRefused, IndexJobFailed, SparkProblem) as refused:
        end(str(refused), CANNOT_START)
    _show(done, output)
    for line in done.refused:
        note(f"left out: {line}")
    errors = {row.error for row in done.rows.values() if row.error}
    for line in sorted(errors):
        note(f"not read: {line}")
    if done.away:
        note(f"not indexed to the end: {done.away}")
        raise typer.Exit(LEFT_OUT)
    if not done.rows:
        end(
            "nothing to index: no topic that matches has a copy on the target that may be indexed",
            CANNOT_START,
        )
    if done.refused or errors:
        raise typer.Exit(LEFT_OUT)


def _index(path: Path, interval: float | None) -> Index:
    """Raises ConfigRejected, KafkaFailure, OperationRefused, IndexJobFailed and SparkProblem."""
    import asyncio

    from bridge.kafka.config.settings import StaticClientCheck
    from bridge.pipeline.driver.jobs import SparkJobs
    from bridge.pipeline.driver.spark_problem import java_problem
    from bridge.spark.indexing.index import Index
    from connectors.source.options import SourceOptions

    props = read_connector(path)
    props = {**props, "name": props.get("name") or "index"}
    options = SourceOptions.from_props(props, StaticClientCheck())
    spec = options.spec(props["name"], props)

    def remote(topic: str) -> str | None:
        return None if options.policy.is_heartbeats_topic(topic) else options.remote_of(topic)

    if (no_java := java_problem(os.environ)) is not None:
        end(no_java, CANNOT_START)
    made = Index(spec, remote, options.internal_replication_factor, options.named_topics)
    jobs = SparkJobs("index", props, ["bridge.spark.indexing.task.pair_part"])
    try:
        asyncio.run(_run(made, jobs, interval))
    finally:
        jobs.close()
    return made


async def _run(made: Index, jobs: PairJobs, interval: float | None) -> None:
    """Indexes once, or at an interval until the first SIGINT or SIGTERM. Raises KafkaFailure, OperationRefused
    and IndexJobFailed."""
    from bridge.spark.indexing.index import Pace

    lines = _Lines()
    pace = None if interval is None else Pace(interval, lines.waits)
    if pace is not None:
        _end_by_signals(pace)
    await made.run(jobs, pace, lines.tell)


def _end_by_signals(pace: Pace) -> None:
    """The first one ends the pace; a second one has its usual effect, as a pass may take minutes."""
    import asyncio

    loop, signals = asyncio.get_running_loop(), (signal.SIGINT, signal.SIGTERM)

    def end() -> None:
        pace.end()
        for which in signals:
            loop.remove_signal_handler(which)
            signal.signal(which, signal.SIG_DFL)
        note("ends after this pass")

    for which in signals:
        loop.add_signal_handler(which, end)


class _Lines:
    """Prints the result of each pass, and why one waits; a line that repeats is printed once."""

    def __init__(self) -> None:
        self._said: list[str] = []

    def tell(self, made: Index) -> None:
        rows = made.rows.values()
        found, more = sum(row.found for row in rows), sum(row.more for row in rows)
        errors = {f"not read: {row.error}" for row in rows if row.error}
        self._say([f"{found} copies found, {more} partition(s) to go on with", *sorted(errors)])

    def waits(self, failure: KafkaFailure) -> None:
        self._say([f"waiting: {failure}"])

    def _say(self, lines: list[str]) -> None:
        for line in lines:
            if line not in self._said:
                note(line)
        self._said = lines


def _show(made: Index, output: Output) -> None:
    rows = [
        {
            "topic": row.copied.source.topic,
            "partition": row.copied.source.partition,
            "target_topic": row.copied.target_topic,
            "indexed_to": row.runs.position,
            "source_end": row.source_end,
            "found": row.found,
        }
        for row in made.rows.values()
    ]
    show_rows(rows, _COLUMNS, output)
