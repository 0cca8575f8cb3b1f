"""The HTTP client by which commands call a service; it ends the command when the service does not answer."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn, TypeVar

import typer

from bridge.commands.exit_status import BAD_SETTINGS, CANNOT_START, end, note
from bridge.commands.show import SCREEN, Output, printable, reason_lines, show_json

if TYPE_CHECKING:
    import ssl

    import httpx

    from bridge.protocol.base import Message
    from bridge.protocol.messages import CopyProgress, Groups

_ENVIRONMENT = "MIRROR_BRIDGE_AUTH_TOKEN"
_CA, _CERT, _KEY = "MIRROR_BRIDGE_CA", "MIRROR_BRIDGE_CLIENT_CERT", "MIRROR_BRIDGE_CLIENT_KEY"
_SECONDS = 10.0
_ALL_REASONS = "--output json has all"

UrlOption = Annotated[
    str,
    typer.Option(
        "--url",
        envvar="MIRROR_BRIDGE_URL",
        help="Address of the service. PEM files for https are in the environment: MIRROR_BRIDGE_CA, and "
        "MIRROR_BRIDGE_CLIENT_CERT with MIRROR_BRIDGE_CLIENT_KEY where it wants a certificate.",
    ),
]
TokenFileOption = Annotated[
    Path | None,
    typer.Option(
        "--auth-token-file",
        envvar="MIRROR_BRIDGE_AUTH_TOKEN_FILE",
        help="File with the bearer token; or the environment: MIRROR_BRIDGE_AUTH_TOKEN.",
    ),
]
URL = "http://127.0.0.1:8900"

Answer = TypeVar("Answer", bound="Message")
Page = TypeVar("Page", "CopyProgress", "Groups")
Query = Mapping[str, str | int | Sequence[str]]


class ServiceClient:
    """A client of one service. Where it gets no answer, or an error, it ends the command with a line on standard error
    and the exit status `failed`."""

    def __init__(
        self,
        url: str,
        token_file: Path | None,
        *,
        failed: int = CANNOT_START,
        statuses: Mapping[str, int] | None = None,
        seconds: float = _SECONDS,
        output: Output = Output.TABLE,
    ) -> None:
        """`statuses`: exit statuses by error code, instead of `failed`; `seconds`: timeout of each request; `output`:
        as JSON an error goes to standard output too, whole."""
        self._statuses, self._output = statuses or {}, output
        self._url, self._headers, self._failed, self._seconds = url, _headers(token_file), failed, seconds

    def get(self, path: str, message: type[Answer], query: Query | None = None) -> Answer:
        return self._read(self._request("GET", path, query), message)

    def post(
        self, path: str, message: type[Answer], *, query: Query | None = None, body: Message | None = None
    ) -> Answer:
        return self._read(self._request("POST", path, query, body), message)

    def delete(self, path: str) -> None:
        """Raises typer.Exit where it is refused, after a line that says why."""
        response = self._request("DELETE", path)
        if response.status_code != 204:
            self._refuse(response)

    def _request(
        self, method: str, path: str, query: Query | None = None, body: Message | None = None
    ) -> httpx.Response:
        import httpx

        content = None if body is None else body.model_dump_json()
        headers = self._headers | ({} if body is None else {"Content-Type": "application/json"})
        try:
            with httpx.Client(
                base_url=self._url, headers=headers, timeout=self._seconds, verify=tls()
            ) as client:
                return client.request(method, path, params=query, content=content)
        except (httpx.UnsupportedProtocol, httpx.InvalidURL):
            end(f"--url {self._url!r} is not of the form http://host:port", BAD_SETTINGS)
        except httpx.HTTPError as error:
            self._no_answer(
                f"no answer from {self._url}: {error}; --url or MIRROR_BRIDGE_URL names the service"
            )

    def pages(self, path: str, message: type[Page], query: Query | None = None) -> Iterator[Page]:
        """Yields every page of a list, the first one first."""
        page = self.get(path, message, query)
        yield page
        while page.next is not None:
            page = self.get(path, message, {**(query or {}), "next": page.next})
            yield page

    def _read(self, response: httpx.Response, message: type[Answer]) -> Answer:
        from pydantic import ValidationError

        if response.status_code != 200:
            self._refuse(response)
        try:
            return message.model_validate_json(response.content)
        except ValidationError:
            self._not_ours(response)

    def _refuse(self, response: httpx.Response) -> NoReturn:
        from pydantic import ValidationError

        from bridge.protocol.base import ErrorBody

        try:
            error = ErrorBody.model_validate_json(response.content)
        except ValidationError:
            self._not_ours(response)
        note(printable(error.message))
        if self._output is Output.JSON:
            show_json(error.model_dump())
        elif error.refusal is not None:
            for line in reason_lines(error.refusal.reasons, SCREEN - 1, _ALL_REASONS):
                note(printable(line))
        raise typer.Exit(self._statuses.get(error.error_code, self._failed))

    def _no_answer(self, text: str) -> NoReturn:
        from bridge.protocol.base import ErrorBody

        if self._output is Output.JSON:
            show_json(ErrorBody(error_code="not_answered", message=text, retriable=True).model_dump())
        end(text, self._failed)

    def _not_ours(self, response: httpx.Response) -> NoReturn:
        status = response.status_code
        self._no_answer(f"{self._url} returned HTTP {status}, but no Mirror Bridge response: check --url")


def _headers(token_file: Path | None) -> dict[str, str]:
    token = os.environ.get(_ENVIRONMENT, "")
    if token_file is not None:
        try:
            # Of two, the first is the one that the service has known for longer.
            token = next(iter(token_file.read_text("utf-8").split()), "")
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not in UTF-8"
            end(f"can't read {token_file}: {why}", BAD_SETTINGS)
    return {"Authorization": f"Bearer {token}"} if token else {}


def tls() -> ssl.SSLContext:
    """The TLS settings of the environment, for https to a service."""
    import ssl

    paths = {name: os.environ.get(name) or None for name in (_CA, _CERT, _KEY)}
    try:
        context = ssl.create_default_context(cafile=paths[_CA])
        if (certificate := paths[_CERT]) is not None:
            context.load_cert_chain(certificate, paths[_KEY], password=lambda: "")
    except OSError as error:
        named = ", ".join(f"{name}={value}" for name, value in paths.items() if value is not None)
        end(f"can't use {named}: {error.strerror or error}", BAD_SETTINGS)
    return context
