"""`mirror-bridge progress`: shows how far a service's connector has copied."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

import typer

from bridge.commands.exit_status import note
from bridge.commands.service_client import URL, ServiceClient, TokenFileOption, UrlOption
from bridge.commands.show import Output, OutputOption, printable, show_json, show_table
from bridge.commands.tables import UNKNOWN, count, duration, size, sums
from bridge.model.partition_states import PartitionState
from bridge.model.times import iso_time

if TYPE_CHECKING:
    from bridge.protocol.messages import PartitionProgress

_PAGE = 1000
_AGE = "age at commit"
"""From a record's timestamp: of records that were old when they were copied it is no delay."""
_COLUMNS = ("topic", "partition", "state", "position", "source end", "lag", "records/s", "bytes/s", _AGE)


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
    show_table([_row(each) for each in partitions], _COLUMNS, right=(_COLUMNS[1], *_COLUMNS[3:]))
    for each in partitions:
        if each.why:
            sys.stdout.write(_cause(each) + "\n")


def _row(each: PartitionProgress) -> dict[str, object]:
    return {
        "topic": each.topic,
        "partition": each.partition,
        "state": each.state,
        "position": UNKNOWN if each.position is None else each.position,
        # The end is asked for every two seconds, and the position is newer.
        "source end": UNKNOWN if each.source_end is None else max(each.source_end, each.position or 0),
        "lag": count(each.lag),
        "records/s": count(each.record_rate),
        "bytes/s": size(each.byte_rate),
        # As in the sums: of what was copied just now. The last records may be of last year.
        _AGE: duration(each.replication_latency_ms if each.record_rate else None),
    }


def _cause(each: PartitionProgress) -> str:
    since = f" since {iso_time(each.since_ms)}" if each.since_ms is not None else ""
    way_out = f"; {each.way_out}" if each.way_out else ""
    return printable(f"{each.topic}-{each.partition} {each.state}{since}: {each.why}{way_out}")
