"""HTTP as a function: what our blocking client is answered without a server."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest

Answer = Callable[[httpx.Request], httpx.Response]


def serve(monkeypatch: pytest.MonkeyPatch, answer: Answer) -> None:
    """Has `answer` serve every client of httpx that is made in this test."""
    client = httpx.Client

    def made(**options: object) -> httpx.Client:
        return client(transport=httpx.MockTransport(answer), **options)  # type: ignore[arg-type]

    monkeypatch.setattr(httpx, "Client", made)
