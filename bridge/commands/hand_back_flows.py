"""`mirror-bridge hand-back --mirror FILE`: has connect-mirror-maker.sh go on where dedicated mode has stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bridge.commands.exit_status import BAD_SETTINGS, CANNOT_START, end, note
from bridge.errors import ConfigError, ConfigRejected, NothingCopied, OperationRefused
from bridge.model.java_values import integer
from bridge.translation.runs.source_offsets import PartitionHandBack

if TYPE_CHECKING:
    from bridge.dedicated.config.plan import FlowPlan, WorkerSettings


HandedBack = list[tuple[str, PartitionHandBack]]
"""With the name of the flow."""


_OFFSETS_TOPIC = (("offset.storage.partitions", 25), ("offset.storage.replication.factor", 3))
"""With Connect's defaults."""


def hand_back_flows(file: Path, flow: str | None, *, force: bool) -> HandedBack:
    """Hands back one flow of the file, or all that copy. Nothing is written while a node still runs any of them.

    Raises ConfigRejected, PropertiesProblem and KafkaFailure; ends the command where that is refused."""
    from bridge.dedicated.config.plan import all_worker_settings
    from bridge.dedicated.config.reading import read_plan
    from bridge.kafka.config.settings import StaticClientCheck

    plan = read_plan(file, clients=StaticClientCheck())
    copying = [flow_plan for flow_plan in plan.flows if flow_plan.copies]
    chosen = [flow_plan for flow_plan in copying if flow in (None, flow_plan.name)]
    if not copying:
        end(
            f"{file} has no flow that copies (A->B.enabled = true): there is nothing to hand back",
            BAD_SETTINGS,
        )
    if not chosen:
        known = ", ".join(flow_plan.name for flow_plan in copying)
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
