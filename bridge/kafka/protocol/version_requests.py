"""Asks a broker for the versions of its APIs, encoding only: ApiVersions."""

from __future__ import annotations

from bridge.kafka.protocol.api_keys import ApiKeys
from bridge.kafka.protocol.wire import Call, Reader


def api_versions() -> Call:
    """ApiVersions v0, which every broker speaks."""
    return Call(ApiKeys.API_VERSIONS, versions=range(1), flexible_from=3, write=lambda *_: None)


def read_api_versions(response: Reader) -> dict[int, tuple[int, int]]:
    """The lowest and the highest version by API key."""
    response.skip(2)
    return {response.int16(): (response.int16(), response.int16()) for _ in response.array()}
