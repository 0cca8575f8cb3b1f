"""Brokers of a test's own, with listeners, users and rules that the shared stack does not have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from bridge.local.broker import Broker
from bridge.local.jars import kafka_jars
from bridge.local.security import Security

STEADY = {"broker.session.timeout.ms": "30000"}
"""Of brokers that nobody kills: a machine that stands still for some seconds takes no leader away. Others have 2 s, so
that they come back soon."""
MORTAL = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "10000"}
"""Of brokers that tests kill: Kafka's default, where others have a second. On a busy machine one needs longer to begin
than a transaction may take. Its coordinator then must not look for such transactions before the broker has partitions
again: it would end them without markers, and they would stay open for good (docs/limits.md)."""


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
