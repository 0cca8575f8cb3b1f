"""Settings of the service that limit what its clients can use: threads, connections, bytes and time."""

from __future__ import annotations

from pydantic import Field
from pydantic_settings import BaseSettings


class LimitSettings(BaseSettings):
    """A part of the settings of `serve`."""

    pool_size: int = Field(
        2,
        ge=1,
        le=64,
        description="Threads each for checking configurations of what starts, for validations, and for questions.",
    )
    pool_queue: int = Field(32, ge=0, le=10_000, description="Requests that may wait for a thread; then 503.")
    check_seconds: float = Field(
        5.0, ge=0.1, le=60, description="Time that checking a configuration may take; then 503."
    )
    max_body_bytes: int = Field(1 << 20, ge=1024, le=16 << 20, description="Larger request bodies get 413.")
    max_header_bytes: int = Field(
        16 << 10, ge=4096, le=1 << 20, description="Requests with a larger head get 400."
    )
    max_connections: int = Field(
        4096, ge=8, le=60_000, description="Further ones get 503; with TLS they are closed."
    )
    max_connections_per_address: int = Field(
        3072, ge=1, le=60_000, description="Of one address; three quarters of all at most."
    )
    max_failed_logins: int = Field(
        100,
        ge=1,
        le=1_000_000,
        description="Different wrong tokens of one address in a minute; then 429 until it is over.",
    )
    head_seconds: float = Field(
        10.0, ge=0.1, le=600, description="Time for a TLS handshake, and for a request's head; then 408."
    )
    body_seconds: float = Field(30.0, ge=0.1, le=600, description="Time for a request's body; then 408.")
