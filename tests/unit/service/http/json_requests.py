"""Requests with bodies in JSON."""

from __future__ import annotations

import json

from fastapi import Request


def request(data: bytes) -> Request:
    """A POST with this body, in one piece."""

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": data, "more_body": False}

    return Request({"type": "http", "method": "POST", "headers": []}, receive)


def altering(count: int) -> bytes:
    """A body that alters so many source offsets."""
    row = {"source_partition": {"topic": 'or"d}e],rs\\', "partition": 1}, "source_offset": {"offset": 7}}
    return json.dumps({"config": {"a": "[{"}, "offsets": [row] * count, "version": "1"}).encode()
