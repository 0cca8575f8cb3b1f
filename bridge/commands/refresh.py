"""`mirror-bridge refresh`: has a connector look for groups, or topics, now. Exit status 1: not all could be found."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

import typer

from bridge.commands.exit_status import CANNOT_START, note
from bridge.commands.service_client import URL, ServiceClient, TokenFileOption, UrlOption
from bridge.commands.show import Output, OutputOption, printable, show_json

_EXTRA_SECONDS = 5.0
"""Time of the service in addition to the round's."""
TimeoutOption = Annotated[float, typer.Option(min=0.1, max=300, help="Seconds that the round may take.")]
SECONDS = 60.0


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
            for each in names:
                typer.echo(f"{sign} {printable(each)}")
    for error in refreshed.errors:
        note(printable(error))
    if refreshed.errors:
        raise typer.Exit(CANNOT_START)
