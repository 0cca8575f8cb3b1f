"""Users and certificates of the shared brokers, and brokers of a test's own with other listeners and settings.

The shared brokers have listeners with logins (SASL_PLAINTEXT), TLS (SSL) and both (SASL_SSL), and an authorizer. Who
comes by the plain listener may do everything. A file of tests has users of its own, since rules are by user.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from bridge.local.broker import Broker
from bridge.local.jars import kafka_jars
from bridge.local.security import Security, TlsFiles, make_tls

USERS = {
    "root": "wonder",
    "bad-input": "wonderland-5521",
    "credentials": "builder",
    "doctor": "wonder-9137",
    "sink": "wonder",
    "tail": "wonder",
}
"""Passwords by user, for PLAIN and SCRAM."""
SUPER_USERS = ("root", "CN=client")
"""The second has the client's certificate."""


def shared_security(directory: Path) -> Security:
    """Makes certificates in the directory; returns what the shared brokers want of clients."""
    return Security(users=USERS, tls=make_tls(directory), authorizer=True, super_users=SUPER_USERS)


def tls_files(directory: Path) -> TlsFiles:
    """The certificates that were made there."""
    return TlsFiles(directory / "authority.pem", directory / "server.pem", directory / "client.pem")


class Secured(Protocol):
    """A broker by its listeners."""

    @property
    def name(self) -> str: ...

    @property
    def bootstrap(self) -> str:
        """The plain listener, by which everything is allowed."""

    def address(self, listener: str) -> str:
        """host:port of a listener: SASL_PLAINTEXT, SSL or SASL_SSL."""


STEADY = {"broker.session.timeout.ms": "30000"}
"""Of brokers that nobody kills: a machine that stands still for some seconds takes no leader away."""
RESTARTED = {"broker.session.timeout.ms": "2000"}
"""Of brokers that a test stops and starts again: they come back only once their old session is over."""
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
