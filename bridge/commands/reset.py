"""`mirror-bridge reset`: has a stopped source or sink connector copy again, or skip, from given positions."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from bridge.commands.connector_config import copying_kind, read_connector
from bridge.commands.exit_status import BAD_SETTINGS, CANNOT_START, end, note, reported
from bridge.commands.show import Output, OutputOption, show_rows
from bridge.model.values import TopicPartition
from bridge.translation.runs.reset_positions import Destination, PartitionReset, destination


def reset(
    name: Annotated[str, typer.Argument(help="Name of the connector, which has to be stopped.")],
    config: Annotated[Path, typer.Option(help="The connector's configuration, .properties or .json.")],
    to: Annotated[
        str, typer.Option(help="earliest, latest, an offset of the source, or a time: 2026-11-22T21:00:00Z.")
    ],
    topic: Annotated[
        list[str] | None, typer.Option(help="A source topic; may be given several times. All if not given.")
    ] = None,
    partition: Annotated[
        list[int] | None,
        typer.Option(help="A partition of it; may be given several times. All if not given."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be done, and do nothing.")
    ] = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Go on even if copying has not stopped cleanly: only where its service is gone for good.",
        ),
    ] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Have a stopped source or sink connector copy again, or skip, from a position of your choice.

    The same as PATCH and DELETE of /connectors/NAME/offsets, without Connect. Records that are copied again are on the
    target twice; consumer groups are translated to the newer copy.
    """
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    try:
        where = destination(to)
    except ValueError as problem:
        end(f"--to {problem}", BAD_SETTINGS)
    if partition and len(topic or ()) != 1:
        end("--partition needs exactly one --topic: the topic that the partitions are of", BAD_SETTINGS)
    with reported():
        rows = _reset(name, _config(name, config), topic, partition, where, dry_run=dry_run, force=force)
    _show(name, rows, output, dry_run=dry_run)


def _config(name: str, path: Path) -> dict[str, str]:
    props = read_connector(path)
    return {**props, "name": name}


def _reset(
    name: str,
    props: Mapping[str, str],
    topics: Sequence[str] | None,
    partitions: Sequence[int] | None,
    to: Destination,
    *,
    dry_run: bool,
    force: bool,
) -> list[PartitionReset]:
    import asyncio

    from bridge.errors import OperationRefused
    from bridge.kafka.config.settings import StaticClientCheck
    from bridge.pipeline.reset import reset as carry_out
    from connectors.source.options import SourceOptions

    kind = copying_kind(props)
    options = SourceOptions.from_props(props, StaticClientCheck(), kind.definition)

    def choose(copied: Mapping[TopicPartition, object]) -> dict[TopicPartition, Destination]:
        partitions_or_error = chosen(copied, topics, partitions)
        if isinstance(partitions_or_error, str):
            raise OperationRefused(partitions_or_error)
        return dict.fromkeys(partitions_or_error, to)

    try:
        return asyncio.run(
            carry_out(options.spec(name, props), options.remote_of, choose, dry_run=dry_run, force=force)
        )
    except OperationRefused as refused:
        end(str(refused), CANNOT_START)


def chosen(
    copied: Mapping[TopicPartition, object], topics: Sequence[str] | None, partitions: Sequence[int] | None
) -> list[TopicPartition] | str:
    """The copied partitions of these topics with these numbers; or why there are none."""
    selected = [
        tp
        for tp in copied
        if (not topics or tp.topic in topics) and (not partitions or tp.partition in partitions)
    ]
    copied_topics = {tp.topic for tp in copied}
    if missing := [topic for topic in topics or () if topic not in copied_topics]:
        return f"nothing of topic {missing[0]} was copied; copied were: {', '.join(sorted(copied_topics))}"
    numbers = {tp.partition for tp in selected}
    if lacking := [str(number) for number in partitions or () if number not in numbers]:
        return f"nothing of partition {lacking[0]} of topic {(topics or ('',))[0]} was copied"
    return selected


def _show(name: str, rows: Sequence[PartitionReset], output: Output, *, dry_run: bool) -> None:
    shown = [
        {
            "topic": row.source.topic,
            "partition": row.source.partition,
            "target_topic": row.target_topic,
            "position": row.position,
            "to": row.to,
            "outcome": row.outcome.value,
        }
        for row in rows
    ]
    show_rows(shown, ("topic", "partition", "target_topic", "position", "to", "outcome"), output)
    changed = sum(row.changes for row in rows)
    note(f"{changed} of {len(rows)} positions of {name} {'would be' if dry_run else 'are'} changed")
