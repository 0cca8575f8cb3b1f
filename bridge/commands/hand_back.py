"""`mirror-bridge hand-back`: has stock's MirrorSourceConnector go on where ours has stopped, in Connect or in
dedicated mode.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Protocol

import typer

from bridge.commands.exit_status import BAD_SETTINGS, CANNOT_START, end, note, reported
from bridge.commands.show import Output, OutputOption, show_rows
from bridge.connector_files import load_connector, unresolved
from bridge.errors import OperationRefused
from bridge.java_properties import PropertiesProblem
from bridge.translation.runs.source_offsets import PartitionHandBack

OURS = ("dev.mirrorbridge.BridgeMirrorSourceConnector", "BridgeMirrorSourceConnector", "BridgeMirrorSource")
SINKS = ("dev.mirrorbridge.BridgeMirrorSinkConnector", "BridgeMirrorSinkConnector", "BridgeMirrorSink")
"""Names that Connect knows the class by."""
RETRY_SECONDS = 5.0
"""For how long a worker is asked again that is away, or in a rebalance."""
_COLUMNS = ("topic", "partition", "position", "offset", "outcome")


class Connect(Protocol):
    """The part of Connect's REST API that is needed."""

    def status(self, name: str) -> Any: ...

    def config(self, name: str) -> dict[str, str]: ...

    def alter_offsets(
        self, name: str, offsets: Sequence[tuple[Mapping[str, Any], Mapping[str, Any] | None]]
    ) -> None: ...


def hand_back(
    name: Annotated[
        str | None,
        typer.Argument(
            help="Name of the connector, which has to be stopped; with --mirror the one flow, A->B, all without it."
        ),
    ] = None,
    connect_url: Annotated[
        str | None, typer.Option(help="REST API of a Connect worker, http://host:8083.")
    ] = None,
    mirror: Annotated[
        Path | None,
        typer.Option(help="The file of mirror-bridge mirror, which has to be stopped on all machines."),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            help="The connector's whole configuration, .properties or .json, where the one in Connect refers to "
            "secrets by ${…}, or clusters have other addresses from here."
        ),
    ] = None,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Go on even if copying has not stopped cleanly: only where its service is gone for good.",
        ),
    ] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Give a mirror back to stock's MirrorSourceConnector, which then loses nothing and copies nothing twice.

    Writes the positions of a stopped BridgeMirrorSourceConnector as stock's source offsets (KIP-875). Then PUT stock's
    class under the same name and resume it. Or, with --mirror, those of the flows of dedicated mode; then start
    connect-mirror-maker.sh with the same file.
    """
    from bridge.local.connect_client import ConnectClient
    from bridge.local.processes import LocalStackError

    # The library logs each failed attempt; the command reports the outcome once, at the end.
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    if mirror is not None:
        if connect_url is not None or config is not None:
            end("--mirror takes the place of --connect-url and --config", BAD_SETTINGS)
        _hand_back_flows(mirror, name, output, force=force)
        return
    if name is None or connect_url is None:
        end("give NAME and --connect-url for a connector, or --mirror FILE for dedicated mode", BAD_SETTINGS)
    if not re.match(r"https?://[^/]", connect_url):
        end(f"--connect-url {connect_url!r} is not of the form http://host:port", BAD_SETTINGS)
    connect = ConnectClient(connect_url.rstrip("/"), patience=RETRY_SECONDS)
    try:
        with reported():
            _check_stopped(connect, name)
            rows = _hand_back(connect, name, _config(connect, name, config), force=force)
    except PropertiesProblem as problem:
        end(str(problem), BAD_SETTINGS)
    except OperationRefused as refused:
        end(str(refused), CANNOT_START)
    except LocalStackError as error:
        end(f"Connect at {connect_url}: {str(error).splitlines()[0]}", CANNOT_START)
    finally:
        connect.close()
    _show(name, rows, output)


def _check_stopped(connect: Connect, name: str) -> None:
    status = connect.status(name)
    state, tasks = status["connector"]["state"], len(status["tasks"])
    if state != "STOPPED" or tasks:
        end(
            f"connector {name} is {state} and has {tasks} task(s): PUT /connectors/{name}/stop, and wait until it is "
            "STOPPED with none",
            CANNOT_START,
        )


def _config(connect: Connect, name: str, path: Path | None) -> Mapping[str, str]:
    current = connect.config(name)
    if current.get("connector.class") in SINKS:
        end(
            f"connector {name} is a {SINKS[1]}, and stock has no sink that could go on: PUT it to the Connect cluster "
            f"of the target as a {OURS[1]} with the same name and topics, which goes on where it has stopped, stop "
            "that one, hand it back by the URL of that cluster, and DELETE this one: resumed, it would copy beside "
            "stock",
            CANNOT_START,
        )
    if current.get("connector.class") not in OURS:
        end(
            f"connector {name} is a {current.get('connector.class')}: hand back before its class is changed from "
            f"{OURS[1]}. What stock has copied since would be copied twice otherwise",
            CANNOT_START,
        )
    props = current if path is None else load_connector(path)
    if left := unresolved(props):
        end(
            f"{', '.join(left)} refer to config providers of the worker, which can't be asked from here: give the "
            "whole configuration with --config",
            BAD_SETTINGS,
        )
    return {**props, "name": name}


def _hand_back(
    connect: Connect, name: str, props: Mapping[str, str], *, force: bool
) -> list[PartitionHandBack]:
    import asyncio

    from bridge.kafka.config.settings import StaticClientCheck
    from bridge.pipeline.positions import hand_back as hand_over
    from connectors.source.options import SourceOptions
    from connectors.source.take_over import stocks_partition

    options = SourceOptions.from_props(props, StaticClientCheck())

    def write(rows: Sequence[PartitionHandBack]) -> None:
        connect.alter_offsets(
            name,
            [
                (
                    stocks_partition(options.source_alias, row.source),
                    None if row.offset is None else {"offset": row.offset},
                )
                for row in rows
            ],
        )

    return asyncio.run(hand_over(options.spec(name, props), options.remote_of, write, force=force))


def _hand_back_flows(file: Path, flow: str | None, output: Output, *, force: bool) -> None:
    from bridge.commands.hand_back_flows import hand_back_flows

    try:
        with reported():
            handed = hand_back_flows(file, flow, force=force)
    except PropertiesProblem as problem:
        end(str(problem), BAD_SETTINGS)
    shown = [{"flow": name, **_cells(row)} for name, row in handed]
    show_rows(shown, ("flow", *_COLUMNS), output)


def _show(name: str, rows: Sequence[PartitionHandBack], output: Output) -> None:
    show_rows([_cells(row) for row in rows], _COLUMNS, output)
    note(f"{sum(row.written for row in rows)} of {len(rows)} source offsets of {name} written")


def _cells(row: PartitionHandBack) -> dict[str, str | int | None]:
    return {
        "topic": row.source.topic,
        "partition": row.source.partition,
        "position": row.position,
        "offset": row.offset,
        "outcome": row.outcome.value,
    }
