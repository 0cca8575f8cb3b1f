"""Commands about one connector of a service: `mirror-bridge progress`, `refresh`, `reset`, `skip` and `forget`.

`mirror-bridge forget`: has the service forget a connector that was deleted in Connect.

`mirror-bridge progress`: shows how far a service's connector has copied.

`mirror-bridge refresh`: has a connector look for groups, or topics, now. Exit status 1: not all could be found.

`mirror-bridge reset`: has a stopped source or sink connector copy again, or skip, from given positions.

`mirror-bridge skip`: leaves out what keeps a partition from being copied. Shows what it would do first.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

import typer

from bridge.commands.exit_status import BAD_SETTINGS, CANNOT_START, end, note, reported
from bridge.commands.options import copying_kind, read_connector
from bridge.commands.service_client import URL, ServiceClient, TokenFileOption, UrlOption
from bridge.commands.show import Output, OutputOption, printable, show_json, show_rows, show_table
from bridge.commands.views import UNKNOWN, count, duration, size, sums
from bridge.model.partition_states import PartitionState
from bridge.model.values import TopicPartition, iso_time
from bridge.translation.runs.reset_positions import Destination, PartitionReset, destination

if TYPE_CHECKING:
    from bridge.protocol.messages import PartitionProgress


_PAGE = 1000
_AGE = "age at commit"
"""From a record's timestamp: of records that were old when they were copied it is no delay."""
_COLUMNS = ("topic", "partition", "state", "position", "source end", "lag", "records/s", "bytes/s", _AGE)
_EXTRA_SECONDS = 5.0
"""Time of the service in addition to the round's."""
TimeoutOption = Annotated[float, typer.Option(min=0.1, max=300, help="Seconds that the round may take.")]
SECONDS = 60.0
_SKIP_SECONDS, _EXTRA_SKIP_SECONDS = 60.0, 5.0
"""For the slice to do it, and for the service in addition."""


def progress(
    name: Annotated[str, typer.Argument(help="Name of the connector.")],
    url: UrlOption = URL,
    topic: Annotated[str | None, typer.Option(help="Partitions of this source topic only.")] = None,
    min_lag: Annotated[int | None, typer.Option(min=0, help="Partitions with at least so much lag.")] = None,
    state: Annotated[PartitionState | None, typer.Option(help="Partitions in this state only.")] = None,
    auth_token_file: TokenFileOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show how far a connector of a service has copied: sums, then partitions, as they are committed on the target."""
    from bridge.protocol.messages import CopyProgress

    filters = {"topic": topic, "min_lag": min_lag, "state": state, "limit": _PAGE}
    query = {key: value for key, value in filters.items() if value is not None}
    client = ServiceClient(url, auth_token_file)
    pages = list(client.pages(f"/v1/connectors/{quote(name, safe='')}/progress", CopyProgress, query))
    partitions = [partition for page in pages for partition in page.partitions]
    if output is Output.JSON:
        whole = pages[0].model_copy(update={"partitions": partitions, "next": None})
        show_json(whole.model_dump())
        return
    if (totals := pages[0].totals) is None:
        note(f"{printable(name)} copies nothing, or has not begun")
        return
    sys.stdout.write(sums(totals) + "\n")
    show_table([_row(partition) for partition in partitions], _COLUMNS, right=(_COLUMNS[1], *_COLUMNS[3:]))
    for partition_progress in partitions:
        if partition_progress.why:
            sys.stdout.write(_cause(partition_progress) + "\n")


def _row(partition: PartitionProgress) -> dict[str, object]:
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "state": partition.state,
        "position": UNKNOWN if partition.position is None else partition.position,
        # The end is asked for every two seconds, and the position is newer.
        "source end": UNKNOWN
        if partition.source_end is None
        else max(partition.source_end, partition.position or 0),
        "lag": count(partition.lag),
        "records/s": count(partition.record_rate),
        "bytes/s": size(partition.byte_rate),
        # As in the sums: of what was copied just now. The last records may be of last year.
        _AGE: duration(partition.replication_latency_ms if partition.record_rate else None),
    }


def _cause(partition: PartitionProgress) -> str:
    since = f" since {iso_time(partition.since_ms)}" if partition.since_ms is not None else ""
    way_out = f"; {partition.way_out}" if partition.way_out else ""
    return printable(
        f"{partition.topic}-{partition.partition} {partition.state}{since}: {partition.why}{way_out}"
    )


def refresh(
    name: Annotated[str, typer.Argument(help="Name of the connector.")],
    url: UrlOption = URL,
    timeout: TimeoutOption = SECONDS,
    auth_token_file: TokenFileOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Have a connector look for groups, or topics, now, and wait until it has."""
    from bridge.protocol.messages import Refreshed
    from connectors.base import COPYING_KINDS

    client = ServiceClient(url, auth_token_file, seconds=timeout + _EXTRA_SECONDS)
    path = f"/v1/connectors/{quote(name, safe='')}/refresh"
    refreshed = client.post(path, Refreshed, query={"timeout_ms": int(timeout * 1000)})
    if output is Output.JSON:
        show_json(refreshed.model_dump())
    else:
        what = "topics" if refreshed.kind in COPYING_KINDS else "groups"
        typer.echo(f"{refreshed.found} {what} after a round of {refreshed.seconds:.1f} s")
        for sign, names in (("+", refreshed.added), ("-", refreshed.removed)):
            for text in names:
                typer.echo(f"{sign} {printable(text)}")
    for error in refreshed.errors:
        note(printable(error))
    if refreshed.errors:
        raise typer.Exit(CANNOT_START)


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
    from bridge.pipeline.positions import reset as carry_out
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


def skip(
    name: Annotated[str, typer.Argument(help="Name of the connector that copies.")],
    partition: Annotated[str, typer.Argument(metavar="TOPIC-PARTITION", help="A partition of the source.")],
    to: Annotated[
        int | None,
        typer.Option(min=0, help="Offset to go on at [behind what can't be copied, where that is known]."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do it; without, what would be done is shown.")] = False,
    url: UrlOption = URL,
    auth_token_file: TokenFileOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Leave out records of a partition that is not copied because of them, while its connector runs.

    The gap ledger names what is left out, and groups that have not read it are told that it is missing.
    """
    from bridge.protocol.messages import SkipOffsets, SkippedOffsets

    topic, _, number = partition.rpartition("-")
    if not topic or not (number.isascii() and number.isdecimal()):
        end(f"{partition} names no partition: give TOPIC-PARTITION, as in orders-0", BAD_SETTINGS)
    client = ServiceClient(url, auth_token_file, seconds=_SKIP_SECONDS + _EXTRA_SKIP_SECONDS)
    body = SkipOffsets(
        topic=topic, partition=int(number), to=to, dry_run=not yes, timeout_ms=int(_SKIP_SECONDS * 1000)
    )
    skipped = client.post(f"/v1/connectors/{quote(name, safe='')}/skip", SkippedOffsets, body=body)
    if output is Output.JSON:
        show_json(skipped.model_dump())
        return
    does = "leaves" if skipped.done else "would leave"
    typer.echo(printable(f"{partition} stands at offset {skipped.offset}: {skipped.why}"))
    typer.echo(f"{does} out offsets [{skipped.offset}, {skipped.end}), and goes on at {skipped.end}")
    if not skipped.done:
        note("nothing was changed: give --yes to do it")


def forget(
    name: Annotated[str, typer.Argument(help="Name of the connector.")],
    url: UrlOption = URL,
    auth_token_file: TokenFileOption = None,
) -> None:
    """Forget a connector that was deleted in Connect, with its groups and metrics: Connect tells no plugin of it."""
    ServiceClient(url, auth_token_file).delete(f"/v1/connectors/{quote(name, safe='')}")
    typer.echo(f"connector {printable(name)} is forgotten")
