"""Requests that a connection begins with, encoding only: ApiVersions, SaslHandshake, SaslAuthenticate."""

from __future__ import annotations

from typing import NamedTuple

from bridge.kafka.protocol.wire import ApiKeys, Call, Reader, Writer


class Handshake(NamedTuple):
    error: int
    mechanisms: tuple[str, ...]
    """Those that the broker has."""


class Authenticated(NamedTuple):
    """A response to SaslAuthenticate. `lifetime_ms`: how long the login lasts, with the last response of a login; 0 for
    ever."""

    error: int
    message: str
    challenge: bytes
    lifetime_ms: int


def handshake(mechanism: str) -> Call:
    """SaslHandshake v1: what follows are requests, as with all brokers from 1.0 on."""

    def write(writer: Writer, _version: int) -> None:
        writer.string(mechanism)

    return Call(ApiKeys.SASL_HANDSHAKE, versions=range(1, 2), flexible_from=2, write=write)


def read_handshake(response: Reader) -> Handshake:
    return Handshake(response.int16(), tuple(response.string() for _ in response.array()))


def authenticate(payload: bytes) -> Call:
    """SaslAuthenticate v0 to v2; from v1 on the response says how long the login lasts (KIP-368)."""

    def write(writer: Writer, _version: int) -> None:
        writer.blob(payload)
        writer.tags()

    return Call(ApiKeys.SASL_AUTHENTICATE, versions=range(3), flexible_from=2, write=write)


def read_authenticated(response: Reader, version: int) -> Authenticated:
    error, message, challenge = response.int16(), response.string(), response.blob()
    return Authenticated(error, message, challenge, response.int64() if version >= 1 else 0)


def api_versions() -> Call:
    """ApiVersions v0, which every broker speaks."""
    return Call(ApiKeys.API_VERSIONS, versions=range(1), flexible_from=3, write=lambda *_: None)


def read_api_versions(response: Reader) -> dict[int, tuple[int, int]]:
    """The lowest and the highest version by API key."""
    response.skip(2)
    return {response.int16(): (response.int16(), response.int16()) for _ in response.array()}
