"""`mirror-bridge mirror`: dedicated mode, the file and the flags of connect-mirror-maker.sh without Connect."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bridge.commands.exit_status import BAD_SETTINGS, CANNOT_START, end, note
from bridge.errors import ConfigError, ConfigRejected

if TYPE_CHECKING:
    from bridge.dedicated.config.plan import MirrorPlan, WorkerSettings
    from bridge.policy import Policy
    from bridge.settings import Settings

log = logging.getLogger(__name__)


def mirror(
    config: Annotated[
        Path, typer.Argument(help="The file, as connect-mirror-maker.sh takes it: mm2.properties.")
    ],
    more: Annotated[list[str] | None, typer.Argument(hidden=True)] = None,
    clusters: Annotated[
        list[str] | None,
        typer.Option(
            "--clusters",
            help="Only flows into these clusters: --clusters B C, or B,C. All flows of the file otherwise.",
        ),
    ] = None,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Refuse a file with keys that are misspelt, or that nobody knows."),
    ] = False,
    host: Annotated[str | None, typer.Option(help="Address to listen on [127.0.0.1].")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on, 0 for a free one [8900].")] = None,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning or error [info].")] = None,
    log_format: Annotated[str | None, typer.Option(help="text or json [text].")] = None,
) -> None:
    """Mirror all flows of one file, in one command and without Connect: records, topics, checkpoints, group offsets,
    heartbeats.

    Serves health, metrics and groups as `mirror-bridge serve` does, and takes all of its settings (MIRROR_BRIDGE_PORT
    and so on). Run the same file on several machines: they share the flows, and those of a
    machine that goes away continue on the others. SIGTERM and SIGINT end it after a last commit.

    Exit status 0: it was ended by a signal; 1: it can't listen; 2: something is wrong with the file or the settings.
    """
    flags = {"host": host, "port": port, "log_level": log_level, "log_format": log_format}
    named = named_clusters(clusters, more)
    from bridge.settings import SettingsRejected, load_settings

    try:
        settings = load_settings(**{name: value for name, value in flags.items() if value is not None})
    except SettingsRejected as error:
        end(str(error), BAD_SETTINGS)
    plan, workers = _planned(config, named, settings)
    if strict and (wrong := unknown_keys(plan)):
        _print_errors(config, wrong)
        raise typer.Exit(BAD_SETTINGS)
    _serve(plan, workers, settings)


def named_clusters(clusters: Sequence[str] | None, more: Sequence[str] | None) -> list[str] | None:
    """The clusters as stock's flag takes them, one word after the other, or with commas."""
    if clusters is None:
        if more:
            end(f"unexpected argument {more[0]!r}: one file, then --clusters and names", BAD_SETTINGS)
        return None
    words = [word.strip() for cluster in (*clusters, *(more or ())) for word in cluster.split(",")]
    return [word for word in words if word]


def _planned(
    path: Path, clusters: Sequence[str] | None, settings: Settings
) -> tuple[MirrorPlan, Mapping[str, WorkerSettings]]:
    """The flows that are to run, every connector checked as Connect would. Ends the command with all errors."""
    from bridge.dedicated.config.plan import all_worker_settings
    from bridge.dedicated.config.planning import restricted
    from bridge.dedicated.config.reading import read_plan
    from bridge.java_properties import PropertiesProblem
    from bridge.service.wiring import check_context

    try:
        plan = read_plan(path, clients=check_context(_policy(settings)).clients)
        if clusters is not None:
            plan = restricted(plan, clusters)
        return plan, all_worker_settings(plan.flows)
    except PropertiesProblem as problem:
        end(str(problem), BAD_SETTINGS)
    except ConfigRejected as rejected:
        _print_errors(path, rejected.errors)
        raise typer.Exit(BAD_SETTINGS) from None


def _policy(settings: Settings) -> Policy:
    """What the file may name: whoever wrote it runs the node, and has its machine's credentials anyway."""
    return replace(settings.policy(), open_to_others=False)


def unknown_keys(plan: MirrorPlan) -> list[ConfigError]:
    """The keys that stock passes over in silence: misspelt ones, also of flows and clusters, and those that nobody
    knows. Old names and keys that mean something to stock alone are neither."""
    from bridge.dedicated.config.meaning import NOBODYS_KEY

    unknown = [key for unused in plan.unused if unused.reason == NOBODYS_KEY for key in unused.keys]
    return [
        *(ConfigError(warning.key, warning.message) for warning in plan.warnings if warning.unknown),
        *(ConfigError(key, f"Unknown configuration '{key}': {NOBODYS_KEY}") for key in unknown),
    ]


def _print_errors(path: Path, errors: Sequence[ConfigError]) -> None:
    note(f"can't mirror {path}: {len(errors)} error(s) in the file or the flags:")
    for number, error in enumerate(errors, 1):
        _print(f"  {number}. {error.message}")


def _print(line: str) -> None:
    typer.echo(line, err=True)


def _serve(plan: MirrorPlan, workers: Mapping[str, WorkerSettings], settings: Settings) -> None:
    from bridge.dedicated.node import Node
    from bridge.service.serve import CannotListen, run
    from bridge.service.service import Service
    from bridge.service.wiring import check_context

    def beside(service: Service, url: str) -> Node:
        for unused in plan.unused:
            keys = ", ".join(unused.keys)
            log.warning("ignored in dedicated mode: %s (%s)", keys, unused.reason)
        for warning in plan.warnings:
            log.warning("%s: %s", warning.key, warning.message)
        return Node(service, url, plan, workers)

    try:
        run(settings, check_context(_policy(settings)), beside=beside)
    except CannotListen as error:
        if settings.log_format == "text":
            end(str(error), CANNOT_START)
        logging.getLogger("bridge").critical("%s", error)
        raise typer.Exit(CANNOT_START) from None
