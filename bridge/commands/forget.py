"""`mirror-bridge forget`: has the service forget a connector that was deleted in Connect."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

import typer

from bridge.commands.service_client import URL, ServiceClient, TokenFileOption, UrlOption
from bridge.commands.show import printable


def forget(
    name: Annotated[str, typer.Argument(help="Name of the connector.")],
    url: UrlOption = URL,
    auth_token_file: TokenFileOption = None,
) -> None:
    """Forget a connector that was deleted in Connect, with its groups and metrics: Connect tells no plugin of it."""
    ServiceClient(url, auth_token_file).delete(f"/v1/connectors/{quote(name, safe='')}")
    typer.echo(f"connector {printable(name)} is forgotten")
