"""Bodies of many requests at once are limited together."""

from __future__ import annotations

import asyncio
from typing import Any

from bridge.service.http.app import create_app
from tests.unit.service.service_fakes import fake_service

MEGABYTE = b" " * (1 << 20)


class Sender:
    """A client that sends a body, and does not say that it has ended before it is told to."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self.ends, self.sent = asyncio.Event(), asyncio.Event()
        self.status = 0

    async def receive(self) -> dict[str, Any]:
        if not self.sent.is_set():
            self.sent.set()
            return {"type": "http.request", "body": self._body, "more_body": True}
        await self.ends.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: dict[str, Any]) -> None:
        self.status = message.get("status", self.status)


SCOPE = {
    "type": "http",
    "http_version": "1.1",
    "method": "PUT",
    "scheme": "http",
    "path": "/v1/plugins/fake/validate",
    "raw_path": b"/v1/plugins/fake/validate",
    "query_string": b"",
    "headers": [(b"content-type", b"application/json")],
    "client": ("127.0.0.1", 1),
    "server": ("127.0.0.1", 8900),
}


def test_large_bodies_that_do_not_end_are_limited_together_and_make_room_when_they_do() -> None:
    async def play() -> None:
        app = create_app(fake_service())

        async def begun(body: bytes = MEGABYTE) -> tuple[Sender, asyncio.Task[None]]:
            sender = Sender(body)
            task = asyncio.create_task(app(dict(SCOPE), sender.receive, sender.send))  # type: ignore[arg-type]
            await sender.sent.wait()
            return sender, task

        held = [await begun() for _ in range(64)]
        one_more, refused = await begun()
        await refused
        assert one_more.status == 503
        assert [sender.status for sender, _ in held] == [0] * 64
        small, passing = await begun(b"{}")
        await asyncio.sleep(0)
        assert small.status == 0
        small.ends.set()
        await passing
        for sender, _ in held:
            sender.ends.set()
        await asyncio.gather(*(task for _, task in held))
        later, going_on = await begun()
        await asyncio.sleep(0)
        assert later.status == 0
        later.ends.set()
        await going_on

    asyncio.run(play())
