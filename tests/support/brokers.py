"""Brokers of a test's own, with listeners, users and rules that the shared stack does not have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from bridge.local.broker import Broker
from bridge.local.jars import kafka_jars
from bridge.local.security import Security


@contextmanager
def secured_broker(
    directory: Path, security: Security, properties: Mapping[str, str] | None = None
) -> Iterator[Broker]:
    """Runs a broker with these settings for the time of the block."""
    broker = Broker("secured", kafka_jars(), directory, security=security, properties=properties)
    broker.start()
    try:
        yield broker
    finally:
        broker.close()
