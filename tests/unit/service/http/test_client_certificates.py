"""How long a client's certificate counts: to the end of its own time, of the revocation lists, and of the files that
the handshake began with."""

from __future__ import annotations

import math
import ssl
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from bridge.service.http.tls import CurrentContext, Rotating, client_certificate, lists_problem
from bridge.settings import ServerContext


def certificate(seconds: float) -> bytes:
    """One that is valid for so long yet."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "worker")])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    valid = builder.not_valid_before(now - timedelta(days=1)).not_valid_after(
        now + timedelta(seconds=seconds)
    )
    return valid.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.DER)


class Connection:
    """Of TLS, resumed or new."""

    def __init__(self, shown: bytes | None, context: ssl.SSLContext) -> None:
        self._shown, self.context = shown, context

    def getpeercert(self, *, binary_form: bool) -> bytes | None:
        assert binary_form
        return self._shown


def shown(connection: Any, current: ServerContext) -> Any:
    return client_certificate(connection, CurrentContext(lambda: current))


@pytest.mark.parametrize(
    ("own", "lists", "least", "most"),
    [
        (3600, math.inf, 3500, 3600),
        (3600, 600, 500, 600),
        (-10, math.inf, -3600, 0),
        (3600, -10, -3600, 0),
    ],
)
def test_it_counts_until_the_first_of_them_ends(own: float, lists: float, least: float, most: float) -> None:
    context = ServerContext(ssl.PROTOCOL_TLS_SERVER)
    context.lists_end = time.time() + lists
    found = shown(Connection(certificate(own), context), context)
    assert found.subject == "CN=worker"
    assert least < found.seconds <= most


def test_it_does_not_count_where_the_handshake_began_with_other_files() -> None:
    old, new = (ServerContext(ssl.PROTOCOL_TLS_SERVER) for _ in range(2))
    connection = Connection(certificate(3600), old)
    assert shown(connection, old).seconds > 0
    assert shown(connection, new).seconds <= 0


def test_without_a_certificate_there_is_none() -> None:
    context = ServerContext(ssl.PROTOCOL_TLS_SERVER)
    assert shown(Connection(None, context), context) is None


def test_lists_that_have_ended_are_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    context = ServerContext(ssl.PROTOCOL_TLS_SERVER)
    rotating = Rotating("the TLS certificate", (), lambda: context, lists_problem)
    now = time.time()
    for end, told in ((now + 3600, 0), (now - 5, 1), (now - 5, 1), (now + 3600, 1), (now - 5, 2)):
        context.lists_end = end
        rotating.tell()
        assert len(caplog.messages) == told
    assert "tls_client_crl has ended" in caplog.messages[0]
