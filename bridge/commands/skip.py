"""`mirror-bridge skip`: leaves out what keeps a partition from being copied. Shows what it would do first."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

import typer

from bridge.commands.exit_status import BAD_SETTINGS, end, note
from bridge.commands.service_client import URL, ServiceClient, TokenFileOption, UrlOption
from bridge.commands.show import Output, OutputOption, printable, show_json

_SECONDS, _EXTRA_SECONDS = 60.0, 5.0
"""For the slice to do it, and for the service in addition."""


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
    client = ServiceClient(url, auth_token_file, seconds=_SECONDS + _EXTRA_SECONDS)
    body = SkipOffsets(
        topic=topic, partition=int(number), to=to, dry_run=not yes, timeout_ms=int(_SECONDS * 1000)
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
