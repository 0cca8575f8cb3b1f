"""Addresses of Spark Connect servers: sc://host:15002/;use_ssl=true. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

REMOTE = "spark.remote"
"""The address of a Spark Connect server; there is no master then."""
TOKEN = "spark.connect.authenticate.token"  # noqa: S105
"""The token that the server asks for; not in the address, which is shown."""
_DEFAULT_PORT = 15002
_ADDRESS = re.compile(
    r"sc://(?P<host>\[[0-9a-fA-F:]+\]|[A-Za-z0-9._-]+)(:(?P<port>\d{1,5}))?(/(?P<rest>(;[^;=]+=[^;]*)*))?"
)
_HERE = ("localhost", "127.0.0.1", "[::1]")


def problem(address: str) -> str | None:
    """Returns what is wrong with an address: passwords would go to another machine in the open, or a token be shown."""
    match = _ADDRESS.fullmatch(address)
    if match is None:
        return "it must be sc://HOST or sc://HOST:PORT, with parameters behind it as in sc://HOST:15002/;use_ssl=true"
    given = _parameters(match["rest"] or "")
    if "token" in given:
        return f"addresses are shown, tokens must not be: give the token as {TOKEN}"
    if match["host"].lower() not in _HERE and given.get("use_ssl", "").lower() != "true":
        return (
            "the passwords of both clusters go to that server: behind the address of another machine it must have "
            "/;use_ssl=true"
        )
    return None


def shown(address: str) -> str:
    """Returns the address without its parameters."""
    match = _ADDRESS.fullmatch(address)
    return "a server that has no address" if match is None else f"sc://{match['host']}:{endpoint(address)[1]}"


def endpoint(address: str) -> tuple[str, int]:
    """Host and port; the address has no problem."""
    match = _ADDRESS.fullmatch(address)
    assert match is not None, "checked before"
    return match["host"].strip("[]"), int(match["port"] or _DEFAULT_PORT)


def with_token(props: Mapping[str, str]) -> str:
    """The address as Spark's client takes it."""
    address, token = props[REMOTE], props.get(TOKEN)
    if not token:
        return address
    return f"{address.rstrip('/')}{'' if '/;' in address else '/'};token={_quoted(token)}"


def _parameters(text: str) -> dict[str, str]:
    return dict(each.split("=", 1) for each in text.split(";") if each)


def _quoted(text: str) -> str:
    """As in a URL: a token may have what separates parameters."""
    plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~"
    return "".join(
        each if each in plain else "".join(f"%{byte:02X}" for byte in each.encode()) for each in text
    )
