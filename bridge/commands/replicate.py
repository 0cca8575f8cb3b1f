"""`mirror-bridge replicate`: the source connector, or the sink connector, without Connect and without the service."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from bridge.commands.exit_status import (
    BAD_SETTINGS,
    CANNOT_START,
    INTERRUPTED,
    end,
    note,
    reported,
)
from bridge.commands.options import copying_kind
from bridge.commands.views import LineView, LiveTable, LocalPublisher, View
from bridge.connector_files import load_connector, unresolved
from bridge.errors import ConfigRejected
from bridge.java_properties import PropertiesProblem
from bridge.logs.lines import JsonLines, TextLines
from bridge.logs.setup import COMMAND
from bridge.model.copying import PipelineSpec, PipelineState
from bridge.model.java_values import boolean, given, trimmed
from bridge.model.partition_states import PartitionState

if TYPE_CHECKING:
    import asyncio

    from connectors.ports import Pipeline, Pipelines

log = logging.getLogger(__name__)

REFRESH_SECONDS = 0.5
"""Seconds between two looks at the progress."""


class PipelinesOfCommand:
    """Pipelines that end when another process takes over, or, with `once`, when they have caught up."""

    def __init__(self, pipelines: Pipelines, *, once: bool) -> None:
        self._pipelines, self._once = pipelines, once

    def start(self, spec: PipelineSpec) -> Pipeline:
        return self._pipelines.start(replace(spec, until_caught_up=self._once, gives_way=True))


def replicate(
    config: Annotated[
        Path,
        typer.Option(
            help="The connector's configuration: Java .properties, or the JSON that is PUT to Connect."
        ),
    ],
    name: Annotated[
        str | None,
        typer.Option(
            help="Name of the connector, under which state is kept; it takes the place of the file's."
        ),
    ] = None,
    until_caught_up: Annotated[
        bool, typer.Option("--until-caught-up", help="Copy what is there now, and end.")
    ] = False,
    log_file: Annotated[
        Path | None,
        typer.Option(
            "--log",
            help="File for the log. Default: standard error, or none where standard output is a terminal.",
        ),
    ] = None,
    log_format: Annotated[
        Literal["text", "json"], typer.Option(help="Format of the log's lines: text or json.")
    ] = "text",
) -> None:
    """Copy topics from one cluster to another, exactly once, without Connect and without the service.

    SIGINT and SIGTERM stop it after a last commit. Never run it beside a connector of the same name: the one that
    starts last fences the other.

    Exit status 0: all is copied, or, without --until-caught-up, it was stopped by a signal; 1: a permanent error; 2: a
    bad configuration; 130: stopped by a signal before all was copied.
    """
    import asyncio

    props = _checked(config, name)
    with log_to(log_file, log_format), reported():
        code = asyncio.run(_replicate(props, until_caught_up, view_of(), LocalPublisher()))
    raise typer.Exit(code)


def view_of() -> View:
    """Returns a live table where standard output is a terminal, else a view that writes lines."""
    from rich.console import Console

    return LiveTable(Console(highlight=False)) if sys.stdout.isatty() else LineView()


def _checked(path: Path, name: str | None) -> dict[str, str]:
    """Reads the configuration, names it and validates it; ends the command where something is wrong."""
    try:
        config = load_connector(path)
    except PropertiesProblem as problem:
        end(str(problem), BAD_SETTINGS)
    config = _submitted(config)
    if name is not None:
        config["name"] = trimmed(name)
    if not config.get("name"):
        end(f"{path} has no name for the connector: give --name", BAD_SETTINGS)
    copying_kind(config, f"{path}: ")
    if left := unresolved(config):
        end(
            f"{path}: {', '.join(left)} refer to config providers, which only Connect can read: write the values out",
            BAD_SETTINGS,
        )
    validated(config)
    if boolean(config.get("enabled", "")) is False:
        end(f"{path}: enabled is false, so there is nothing to do", BAD_SETTINGS)
    return config


def _submitted(config: dict[str, str]) -> dict[str, str]:
    """The configuration with the settings that spark-submit was given, if it was spark-submit that started us."""
    from bridge.pipeline.driver.submitting import contradictions, is_submitted, merged, submitted_settings

    if not is_submitted():
        return config
    submitted = submitted_settings()
    with reported():
        if wrong := contradictions(config, submitted):
            raise ConfigRejected(wrong)
    return given(merged(config, submitted))


def validated(config: dict[str, str], word: Callable[[str], str] = str) -> dict[str, str]:
    """Validates the configuration and returns it. Errors end the command; a note names each setting without effect.
    `word` as in reported()."""
    from bridge.kafka.config.settings import StaticClientCheck
    from bridge.service.checks.answer import rejected

    kind = copying_kind(config)
    with reported(word):
        result = kind.validate(config, StaticClientCheck())
        if result.errors:
            raise rejected(kind, config, result.errors)
    for setting in result.ignored:
        note(word(f"{setting.key} does nothing: {setting.reason}"))
    return config


@contextlib.contextmanager
def log_to(path: Path | None, style: str) -> Iterator[None]:
    """Sets up the log of this process and its driver: to the file, else to standard error; no log on a terminal."""
    handler: logging.Handler
    try:
        if path is None and not sys.stdout.isatty():
            handler = logging.StreamHandler(sys.stderr)
        else:
            handler = logging.FileHandler(path or os.devnull)
    except OSError as error:
        end(f"can't write {path}: {error.strerror}", BAD_SETTINGS)
    handler.setFormatter(JsonLines(COMMAND) if style == "json" else TextLines(COMMAND))
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    try:
        yield
    finally:
        root.removeHandler(handler)
        handler.close()


async def copying_until_stopped(
    props: dict[str, str],
    view: View,
    copying: LocalPublisher,
    word: Callable[[str], str] = str,
    *,
    abort: bool,
) -> int:
    """Copies until a signal or a permanent error, with `abort` also until a partition fails; returns the exit status.
    Raises KafkaFailure where `copying` can't begin. `word` as in reported()."""
    return await _replicate(props, once=False, view=view, copying=copying, word=word, abort=abort)


async def _replicate(
    props: dict[str, str],
    once: bool,
    view: View,
    copying: LocalPublisher,
    word: Callable[[str], str] = str,
    *,
    abort: bool = False,
) -> int:
    """Copies until a signal, until a permanent error, or, with `once`, until all is copied; returns the exit status."""
    import asyncio

    from bridge.kafka.cluster import KafkaClusters
    from bridge.pipeline.driver.launch import DriverPipelines
    from connectors.base import Assignment

    pipelines = PipelinesOfCommand(DriverPipelines(), once=once)
    clusters = KafkaClusters()
    stop = _stop_signal()
    try:
        await copying.begin(clusters, props)
        instance = copying_kind(props).create(props["name"], props, clusters, pipelines, copying)
        instance.assign(Assignment(1, frozenset({0})))
        running = asyncio.create_task(instance.run(), name="rounds")
        beside = asyncio.create_task(copying.run(), name="beside")
        try:
            while not (done := _done(copying, once, abort)) and not stop.is_set() and not running.done():
                view.show(copying)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), REFRESH_SECONDS)
        finally:
            for task in (running, beside):
                task.cancel()
            await asyncio.wait({running, beside})
            await instance.close()
            await copying.finish()
            view.close(copying)
    finally:
        await clusters.close()
    return _status(copying, once, done, running, word)


def _stop_signal() -> asyncio.Event:
    """An event that the first SIGINT or SIGTERM sets; the second one ends the process at once."""
    import asyncio

    loop, stop = asyncio.get_running_loop(), asyncio.Event()

    def handle() -> None:
        stop.set()
        for which in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(which)

    for which in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(which, handle)
    return stop


def _done(copying: LocalPublisher, once: bool, abort: bool) -> bool:
    """Whether it has failed for good, with `abort` also a partition, or, with `once`, has copied all there was."""
    summary, totals = copying.latest, copying.totals
    if summary.failure is not None or (abort and _failed(copying)):
        return True
    if not once or totals is None:
        return False
    nothing_to_copy = summary.rounds > 0 and totals.partitions == 0 and not summary.errors
    return nothing_to_copy or totals.state == PipelineState.CAUGHT_UP


def _failed(copying: LocalPublisher) -> list[str]:
    """Returns what is the matter with the partitions that have failed."""
    partitions = copying.latest.partitions.items()
    return [text for text, (state, _) in partitions if state is PartitionState.FAILED]


def _status(
    copying: LocalPublisher, once: bool, done: bool, running: asyncio.Task[None], word: Callable[[str], str]
) -> int:
    if not running.cancelled() and (error := running.exception()) is not None:
        log.error("copying ended on an unexpected error: %s", error, exc_info=error)
        note(
            f"copying ended on an unexpected error: {type(error).__name__}: {error}. The log has its traceback; on a "
            "terminal there is a log only with --log FILE"
        )
        return CANNOT_START
    if copying.latest.failure is not None:
        note(word(copying.latest.failure))
        return CANNOT_START
    if done and not once:
        note(word("; ".join(_failed(copying))))
        return CANNOT_START
    if not once:
        return 0
    if not done:
        return INTERRUPTED
    left = (copying.totals.partitions if copying.totals is not None else 0) - len(copying.rows)
    missing = [*copying.latest.errors, *([f"{left} partition(s) have no progress yet"] if left > 0 else [])]
    for line in missing:
        note(f"not all is copied: {line}")
    return CANNOT_START if missing else 0
