"""`mirror-bridge hand-back`: has stock's MirrorSourceConnector go on where ours has stopped, in Connect or in
dedicated mode.

`mirror-bridge hand-back --mirror FILE`: has connect-mirror-maker.sh go on where dedicated mode has stopped.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from bridge.commands.exit_status import BAD_SETTINGS, CANNOT_START, end, note, reported
from bridge.commands.show import Output, OutputOption, show_rows
from bridge.connector_files import load_connector, unresolved
from bridge.errors import ConfigError, ConfigRejected, NothingCopied, OperationRefused
from bridge.java_properties import PropertiesProblem
from bridge.model.java_values import integer
from bridge.translation.runs.source_offsets import PartitionHandBack

if TYPE_CHECKING:
    from bridge.dedicated.config.plan import FlowPlan, WorkerSettings


OURS = ("dev.mirrorbridge.BridgeMirrorSourceConnector", "BridgeMirrorSourceConnector", "BridgeMirrorSource")
SINKS = ("dev.mirrorbridge.BridgeMirrorSinkConnector", "BridgeMirrorSinkConnector", "BridgeMirrorSink")
"""Names that Connect knows the class by."""
RETRY_SECONDS = 5.0
"""For how long a worker is asked again that is away, or in a rebalance."""
_COLUMNS = ("topic", "partition", "position", "offset", "outcome")
HandedBack = list[tuple[str, PartitionHandBack]]
"""With the name of the flow."""
_OFFSETS_TOPIC = (("offset.storage.partitions", 25), ("offset.storage.replication.factor", 3))
"""With Connect's defaults."""


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
    from bridge.errors import OperationRefused
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


def hand_back_flows(file: Path, flow: str | None, *, force: bool) -> HandedBack:
    """Hands back one flow of the file, or all that copy. Nothing is written while a node still runs any of them.

    Raises ConfigRejected, PropertiesProblem and KafkaFailure; ends the command where that is refused."""
    from bridge.dedicated.config.plan import all_worker_settings
    from bridge.dedicated.config.reading import read_plan
    from bridge.kafka.config.settings import StaticClientCheck

    plan = read_plan(file, clients=StaticClientCheck())
    copying = [flow for flow in plan.flows if flow.copies]
    chosen = [plan for plan in copying if flow in (None, plan.name)]
    if not copying:
        end(
            f"{file} has no flow that copies (A->B.enabled = true): there is nothing to hand back",
            BAD_SETTINGS,
        )
    if not chosen:
        known = ", ".join(plan.name for plan in copying)
        end(f"{file} has no flow {flow} that copies: its flows are {known}", BAD_SETTINGS)
    workers = all_worker_settings(plan.flows)
    for flow_plan in chosen:
        asyncio.run(_check_left(flow_plan, workers[flow_plan.name]))
    handed: HandedBack = []
    for flow_plan in chosen:
        try:
            rows = asyncio.run(_hand_back_flow(flow_plan, workers[flow_plan.name], force=force))
        except NothingCopied as nothing:
            note(f"flow {flow_plan.name}: {nothing}")
            continue
        except OperationRefused as refused:
            done = ", ".join(dict.fromkeys(name for name, _ in handed))
            before = f" ({done} handed back before that)" if done else ""
            end(f"flow {flow_plan.name}: {refused}{before}", CANNOT_START)
        handed += [(flow_plan.name, row) for row in rows]
        written = sum(row.written for row in rows)
        note(f"flow {flow_plan.name}: {written} of {len(rows)} source offsets written")
    return handed


async def _check_left(flow: FlowPlan, worker: WorkerSettings) -> None:
    """Ends the command where a node, or a worker of stock's, is a member of the flow's group."""
    from bridge.kafka.cluster import KafkaClusters
    from bridge.model.values import GroupState, Side

    clusters = KafkaClusters()
    try:
        cluster = clusters.open(Side.TARGET, flow.connectors[0].config)
        state = (await cluster.group_states([worker.group]))[worker.group]
    finally:
        await clusters.close()
    if state in (GroupState.EMPTY, GroupState.DEAD, GroupState.NOT_FOUND):
        return
    group = f"flow {flow.name}: group {worker.group} on {flow.target}"
    if state is GroupState.UNKNOWN:
        end(
            f"{group} can't be described, so a node may still run: grant DESCRIBE on the group, or try again when its "
            "coordinator answers",
            CANNOT_START,
        )
    end(
        f"{group} has members (it is {state}). Stop mirror-bridge mirror on all machines, and wait for "
        f"{worker.session_ms / 1000:.0f} s where one was killed. Where connect-mirror-maker.sh runs already, stop it "
        "too",
        CANNOT_START,
    )


async def _hand_back_flow(flow: FlowPlan, worker: WorkerSettings, *, force: bool) -> list[PartitionHandBack]:
    from bridge.dedicated.flow_run import connector_names
    from bridge.dedicated.membership import TargetGroups
    from bridge.dedicated.stock_offsets import OffsetWriter
    from bridge.kafka.config.settings import StaticClientCheck, client_settings, library_settings
    from bridge.model.values import Side
    from bridge.pipeline.positions import hand_back
    from connectors.source.options import SourceOptions
    from connectors.source.take_over import stocks_partition

    ((name, connector),) = (
        (name, connector)
        for name, connector in zip(connector_names(flow), flow.connectors, strict=True)
        if connector.kind == "source"
    )
    props = {**connector.config, "name": name}
    options = SourceOptions.from_props(props, StaticClientCheck())
    writer = OffsetWriter(
        library_settings(Side.TARGET, "producer", props), worker.offsets_topic, connector.name
    )

    def write(rows: Sequence[PartitionHandBack]) -> None:
        writer.write([(stocks_partition(options.source_alias, row.source), row.offset) for row in rows])

    groups = TargetGroups(client_settings(Side.TARGET, props))
    try:
        # Where stock has never run. A topic that is there stays as it is.
        partitions, factor = (_number(flow, *row) for row in _OFFSETS_TOPIC)
        await groups.create_topic(worker.offsets_topic, factor, partitions)
    finally:
        await groups.close()
    return await hand_back(options.spec(name, props), options.remote_of, write, force=force)


def _number(flow: FlowPlan, key: str, default: int) -> int:
    text = flow.worker.get(key) or str(default)
    number = integer(text, 32)
    if number is None:
        why = f"Invalid value {text} for configuration {key}: Not a number of type INT"
        raise ConfigRejected([ConfigError(key, why)])
    return number
