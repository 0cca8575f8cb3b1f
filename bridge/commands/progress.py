"""`mirror-bridge progress`: how far a connector's records are copied, as a service says it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn
from urllib.parse import quote

import typer
from pydantic import ValidationError

from bridge.commands.ending import BAD_SETTINGS, CANNOT_START, end, note
from bridge.commands.figures import UNKNOWN, count, duration, size, sums
from bridge.commands.show import Output, OutputOption, printable, show_json, show_table
from bridge.protocol.messages import CopyProgress, ErrorBody, PartitionProgress

if TYPE_CHECKING:
    import httpx

_ENVIRONMENT = "MIRROR_BRIDGE_AUTH_TOKEN"
_PAGE = 1000
_COLUMNS = ("topic", "partition", "position", "source end", "lag", "records/s", "bytes/s", "latency")


def progress(
    name: Annotated[str, typer.Argument(help="Of the connector.")],
    url: Annotated[str, typer.Option(help="Address of the service.")] = "http://127.0.0.1:8900",
    topic: Annotated[str | None, typer.Option(help="Partitions of this source topic only.")] = None,
    min_lag: Annotated[int | None, typer.Option(min=0, help="Partitions with at least so much lag.")] = None,
    auth_token_file: Annotated[
        Path | None,
        typer.Option(help="File with the bearer token; or the environment: MIRROR_BRIDGE_AUTH_TOKEN."),
    ] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show how far a connector of a service has copied: sums, then partitions, as they are committed on the target."""
    import httpx

    chosen = {"topic": topic, "min_lag": min_lag, "limit": _PAGE}
    query = {key: value for key, value in chosen.items() if value is not None}
    try:
        with httpx.Client(base_url=url, headers=_headers(auth_token_file), timeout=10.0) as client:
            found = _pages(client, f"/v1/connectors/{quote(name, safe='')}/progress", query)
    except (httpx.UnsupportedProtocol, httpx.InvalidURL):
        end(f"--url {url!r} is not of the form http://host:port", BAD_SETTINGS)
    except httpx.HTTPError as error:
        end(f"no answer from {url}: {error}", CANNOT_START)
    if output is Output.JSON:
        show_json(found.model_dump())
        return
    if found.totals is None:
        note(f"{printable(name)} copies nothing, or has not begun")
        return
    sys.stdout.write(sums(found.totals) + "\n")
    show_table([_row(each) for each in found.partitions], _COLUMNS, right=_COLUMNS[1:])


def _headers(token_file: Path | None) -> dict[str, str]:
    token = os.environ.get(_ENVIRONMENT, "")
    if token_file is not None:
        try:
            token = token_file.read_text("utf-8").strip()
        except OSError as error:
            end(f"can't read {token_file}: {error.strerror}", BAD_SETTINGS)
    return {"Authorization": f"Bearer {token}"} if token else {}


def _pages(client: httpx.Client, path: str, query: dict[str, Any]) -> CopyProgress:
    """All pages in one. Raises httpx.HTTPError."""
    found = _page(client, path, query)
    partitions, following = list(found.partitions), found.next
    while following is not None:
        more = _page(client, path, {**query, "next": following})
        partitions += more.partitions
        following = more.next
    return found.model_copy(update={"partitions": partitions, "next": None})


def _page(client: httpx.Client, path: str, query: dict[str, Any]) -> CopyProgress:
    answer = client.get(path, params=query)
    try:
        if answer.status_code != 200:
            _refused(ErrorBody.model_validate_json(answer.content))
        return CopyProgress.model_validate_json(answer.content)
    except ValidationError:
        end(
            f"{client.base_url} answers {answer.status_code}, and not as a Mirror Bridge service does",
            CANNOT_START,
        )


def _refused(said: ErrorBody) -> NoReturn:
    end(printable(said.message), CANNOT_START)


def _row(each: PartitionProgress) -> dict[str, object]:
    return {
        "topic": each.topic,
        "partition": each.partition,
        "position": each.position,
        "source end": UNKNOWN if each.source_end is None else each.source_end,
        "lag": count(each.lag),
        "records/s": count(each.record_rate),
        "bytes/s": size(each.byte_rate),
        "latency": duration(each.replication_latency_ms),
    }
