"""Access to the service on a real socket: tokens and certificates that are replaced while it runs, what its children
inherit, and what a health check of a browser's page gets."""

from __future__ import annotations

import os
import shutil
import socket
import ssl
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from bridge.local.security import TlsFiles, make_tls
from tests.unit.service.service_process import Running, service

TOKEN = "t0ken-of-the-environment"
FILE_CHANGED = "the token file changed"


def answer(at: Running, token: str, path: str = "/v1/version") -> int:
    return at.client.get(path, headers={"Authorization": f"Bearer {token}"}).status_code


@dataclass(frozen=True)
class TokenFiles:
    changing: Path
    reading: Path


@pytest.fixture(scope="module")
def with_tokens(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, TokenFiles]]:
    folder = tmp_path_factory.mktemp("tokens")
    files = TokenFiles(folder / "token", folder / "read")
    files.changing.write_text("first\n")
    files.reading.write_text("reader\n")
    env = {
        "MIRROR_BRIDGE_AUTH_TOKEN_FILE": str(files.changing),
        "MIRROR_BRIDGE_READ_TOKEN_FILE": str(files.reading),
    }
    with service(folder, env) as at:
        yield at, files


def begin(at: Running, files: TokenFiles) -> None:
    files.changing.write_text("first\n")
    files.reading.write_text("reader\n")
    at.eventually(lambda: (answer(at, "first"), answer(at, "reader")) == (200, 200))
    at.forget_log()


def test_tokens_are_replaced_without_a_restart_and_without_a_gap(
    with_tokens: tuple[Running, TokenFiles],
) -> None:
    at, files = with_tokens
    begin(at, files)
    at.eventually(lambda: answer(at, "second") == 401)
    files.changing.write_text("first\nsecond\n")
    at.eventually(lambda: answer(at, "second") == 200)
    assert answer(at, "first") == 200
    files.changing.write_text("second\n")
    at.eventually(lambda: answer(at, "first") == 401)
    assert answer(at, "second") == 200
    # As a secret of Kubernetes is replaced: another file behind the same name.
    new = files.reading.with_name("new")
    new.write_text("later-reader\n")
    os.replace(new, files.reading)
    at.eventually(lambda: answer(at, "later-reader") == 200)
    assert answer(at, "reader") == 401
    assert "second" not in at.text()


def test_a_broken_token_file_leaves_the_old_token_and_one_line(
    with_tokens: tuple[Running, TokenFiles],
) -> None:
    at, files = with_tokens
    begin(at, files)

    def refused_times(count: int) -> bool:
        return at.text().count(f"{FILE_CHANGED} and can't be used: auth_token_file") == count

    for count, broken in enumerate(("", "a\nb\nc\n", "with a space\n", None), 1):
        if broken is None:
            files.changing.unlink()
        else:
            files.changing.write_text(broken)
        at.eventually(partial(refused_times, count))
        assert answer(at, "first") == 200
    files.changing.write_text("second\n")
    at.eventually(lambda: answer(at, "second") == 200)
    assert answer(at, "first") == 401
    assert refused_times(4)


def test_the_token_is_not_inherited(tmp_path: Path) -> None:
    reading = "0123456789-for-reading"
    given = {"MIRROR_BRIDGE_AUTH_TOKEN": TOKEN, "mirror_bridge_read_token": reading}
    with service(tmp_path, given, token=TOKEN) as at:
        inherited = Path(f"/proc/{at.rounds_pid()}/environ").read_bytes()
        assert b"MIRROR_BRIDGE_PORT" in inherited
        assert TOKEN.encode() not in inherited
        assert reading.encode() not in inherited
        # What else its processes are told: which token endpoints they must not ask.
        assert b"MIRROR_BRIDGE_PROCESS_ASKS_NOBODY_NEAR=true" in inherited
        assert answer(at, reading) == 200
        assert "WARNING" not in at.text()


def test_a_weak_token_is_told_at_start(tmp_path: Path) -> None:
    with service(tmp_path, {"MIRROR_BRIDGE_AUTH_TOKEN": "short"}, token="short") as at:
        (warned,) = [line for line in at.text().splitlines() if "WARNING" in line]
    assert "auth_token has a token of 5" in warned


def test_who_is_let_in_without_a_token_is_told_in_log_and_health_and_asks_by_our_names(
    tmp_path: Path,
) -> None:
    open_ = {"MIRROR_BRIDGE_HOST": "0.0.0.0", "MIRROR_BRIDGE_INSECURE_NO_AUTH": "true"}
    with service(tmp_path, open_) as at:
        assert at.health()["insecure"] == ["insecure_no_auth"]
        warned = [line for line in at.text().splitlines() if "WARNING" in line]
        assert len(warned) == 1
        assert "insecure_no_auth" in warned[0]
        port = httpx.URL(at.url).port or 0
        for request, status in (
            (b"GET /v1/version HTTP/1.1\r\nHost: evil.example\r\n", b"421"),
            (b"GET /health/live HTTP/1.1\r\nHost: evil.example\r\n", b"421"),
            (b"GET /v1/version HTTP/1.1\r\nHost: localhost:%d\r\n" % port, b"200"),
            (b"GET /v1/version HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n", b"400"),
            (b"GET http://evil.example/v1/version HTTP/1.1\r\nHost: evil.example\r\n", b"421"),
            (b"GET /v1/version HTTP/1.0\r\n", b"421"),
        ):
            with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
                connection.sendall(request + b"Connection: close\r\n\r\n")
                status_line = connection.makefile("rb").readline()
            assert status_line.split()[1] == status, (request, status_line)


# -- certificates --------------------------------------------------------------------------------------------------


def client(trusted: TlsFiles, shown: TlsFiles | Path | None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=trusted.authority)
    if shown is not None:
        context.load_cert_chain(shown.client if isinstance(shown, TlsFiles) else shown)
    return context


def revocation_list(authority: TlsFiles, clients: Sequence[Path]) -> bytes:
    """A current list of the authority that has these clients in it; those of others mean nothing in it."""
    now = datetime.now(UTC)
    issuer = x509.load_pem_x509_certificate(authority.authority.read_bytes()).subject
    builder = x509.CertificateRevocationListBuilder(issuer, now, now + timedelta(days=1))
    for path in clients:
        serial = x509.load_pem_x509_certificates(path.read_bytes())[0].serial_number
        revoked = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(now).build()
        builder = builder.add_revoked_certificate(revoked)
    key = serialization.load_pem_private_key(authority.authority_key.read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


@dataclass(frozen=True)
class Certificates:
    """`ours`: where the service reads them."""

    old: TlsFiles
    new: TlsFiles
    ours: TlsFiles

    def env(self) -> dict[str, str]:
        server = str(self.ours.server)
        return {
            "MIRROR_BRIDGE_TLS_CERT": server,
            "MIRROR_BRIDGE_TLS_KEY": server,
            "MIRROR_BRIDGE_TLS_CLIENT_CA": str(self.ours.authority),
            "MIRROR_BRIDGE_TLS_CLIENT_CRL": str(self.revoked),
            "MIRROR_BRIDGE_TLS_CHANGING_SUBJECTS": "CN=client",
        }

    @property
    def revoked(self) -> Path:
        """Where the service reads revocation lists."""
        return self.ours.server.with_name("revoked.pem")

    def use(self, files: TlsFiles) -> None:
        shutil.copy(files.server, self.ours.server)
        shutil.copy(files.authority, self.ours.authority)
        self.revoke()

    def revoke(self, *clients: Path) -> None:
        self.revoked.write_bytes(b"".join(revocation_list(each, clients) for each in (self.old, self.new)))


@pytest.fixture(scope="module")
def with_certificates(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, Certificates]]:
    folder = tmp_path_factory.mktemp("certificates")
    old, new = make_tls(folder / "old", "old", ["reader"]), make_tls(folder / "new", "new")
    ours = TlsFiles(folder / "ca.pem", folder / "server.pem", folder / "unused")
    files = Certificates(old, new, ours)
    files.use(old)
    with service(folder, files.env(), tls=client(old, old)) as at:
        yield at, files


@pytest.fixture
def begun(with_certificates: tuple[Running, Certificates]) -> tuple[Running, Certificates]:
    """The service with the old certificates and nobody revoked, for good, and a log that begins with the test."""
    at, files = with_certificates
    at.forget_log()
    files.use(files.old)  # with a list that is another one each time
    at.eventually(lambda: "the TLS certificate changed and is in use" in at.text())
    at.forget_log()
    return at, files


def served(at: Running, tls: ssl.SSLContext) -> bool:
    try:
        return httpx.get(f"{at.url}/v1/version", verify=tls, timeout=10).status_code == 200
    except httpx.TransportError:
        return False


def test_certificates_are_replaced_without_a_restart(begun: tuple[Running, Certificates]) -> None:
    at, files = begun
    old, new, ours = files.old, files.new, files.ours
    assert served(at, client(old, old))
    assert not served(at, client(old, None))
    assert not served(at, client(old, new))
    assert not served(at, client(new, old))
    # A client that has shown a certificate before, and could take up its session again.
    known = client(old, old)
    session, _ = resumable(at, known)
    session, taken_up = resumable(at, known, session)
    assert taken_up
    # The client CA, with both for a while.
    both = old.authority.read_bytes() + new.authority.read_bytes()
    ours.authority.write_bytes(both)
    at.eventually(lambda: served(at, client(old, new)))
    assert served(at, client(old, old))
    ours.authority.write_bytes(new.authority.read_bytes())
    at.eventually(lambda: not served(at, client(old, old)))
    assert served(at, client(old, new))
    with pytest.raises(OSError, match=r"no answer|alert|EOF|reset"):
        resumable(at, known, session)
    # The server's own.
    shutil.copy(new.server, ours.server)
    at.eventually(lambda: served(at, client(new, new)))
    assert not served(at, client(old, new))
    assert "can't be used" not in at.text()


def test_the_audit_log_names_the_subject_of_a_clients_certificate(
    begun: tuple[Running, Certificates],
) -> None:
    at, files = begun
    name = f"{at.url}/v1/connectors/nobody"
    assert httpx.delete(name, verify=client(files.old, files.old), timeout=10).status_code == 404
    at.eventually(lambda: '"request": "DELETE /v1/connectors/nobody"' in at.text())
    (line,) = [line for line in at.text().splitlines() if "DELETE /v1/connectors/nobody" in line]
    assert '"certificate": "CN=' in line


def test_a_certificate_that_is_revoked_is_not_accepted(begun: tuple[Running, Certificates]) -> None:
    at, files = begun
    reader = files.old.client_file("reader")
    assert served(at, client(files.old, reader))
    files.revoke(reader)
    at.eventually(lambda: not served(at, client(files.old, reader)))
    assert served(at, client(files.old, files.old))


def test_a_handshake_that_has_begun_before_is_not_a_way_in(begun: tuple[Running, Certificates]) -> None:
    """The rest of it is held back until the lists are in use by which it would be refused."""
    at, files = begun
    reader = files.old.client_file("reader")
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = client(files.old, reader).wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    with socket.create_connection(("127.0.0.1", httpx.URL(at.url).port or 0), timeout=60) as connection:
        with pytest.raises(ssl.SSLWantReadError):
            tls.do_handshake()
        connection.sendall(outgoing.read())
        while True:
            incoming.write(connection.recv(65536))
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                continue
        held_back = outgoing.read()
        files.revoke(reader)
        at.eventually(lambda: not served(at, client(files.old, reader)))
        connection.sendall(held_back)
        tls.write(b"GET /v1/version HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        received = b""
        with suppress(OSError):
            connection.sendall(outgoing.read())
            while data := connection.recv(65536):
                incoming.write(data)
                with suppress(ssl.SSLError):
                    received += tls.read()
    assert received == b""


def test_a_certificate_whose_subject_is_not_named_may_only_read(begun: tuple[Running, Certificates]) -> None:
    at, files = begun
    tls = client(files.old, files.old.client_file("reader"))
    assert httpx.get(f"{at.url}/v1/groups", verify=tls, timeout=10).status_code == 200
    refused = httpx.post(f"{at.url}/v1/failover", json={}, verify=tls, timeout=10)
    assert refused.status_code == 403
    assert "CN=reader" in refused.json()["message"]


def resumable(
    at: Running, tls: ssl.SSLContext, session: ssl.SSLSession | None = None
) -> tuple[ssl.SSLSession, bool]:
    """Asks over TLS, by an older session where one is given; the session to go on by, and whether that one was."""
    port = httpx.URL(at.url).port or 0
    raw = socket.create_connection(("127.0.0.1", port), timeout=60)
    with tls.wrap_socket(raw, server_hostname="127.0.0.1", session=session) as connection:
        connection.sendall(b"GET /v1/version HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        received = connection.recv(4096)
        if not received.startswith(b"HTTP/1.1 200"):
            raise OSError(f"no answer: {received!r}")
        assert connection.session is not None
        return connection.session, connection.session_reused is True


def test_a_connection_ends_when_the_certificates_are_replaced(begun: tuple[Running, Certificates]) -> None:
    """Or who has once shown a certificate would be served for ever, whatever became of its authority."""
    at, files = begun
    old, new, ours = files.old, files.new, files.ours
    port = httpx.URL(at.url).port or 0
    raw = socket.create_connection(("127.0.0.1", port), timeout=60)
    with client(old, old).wrap_socket(raw, server_hostname="127.0.0.1") as connection:
        connection.sendall(b"GET /v1/version HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert connection.recv(4096).startswith(b"HTTP/1.1 200")
        ours.authority.write_bytes(new.authority.read_bytes())
        while connection.recv(4096):
            pass  # to its end, or the timeout
    assert not served(at, client(old, old))


@pytest.mark.long
def test_a_broken_certificate_leaves_the_old_one_and_one_line(begun: tuple[Running, Certificates]) -> None:
    at, files = begun
    old, ours = files.old, files.ours
    ours.server.write_text("no certificate")
    at.eventually(lambda: "the TLS certificate changed and can't be used" in at.text())
    assert served(at, client(old, old))
    shutil.copy(old.server, ours.server)
    at.eventually(lambda: "the TLS certificate changed and is in use" in at.text())
    assert served(at, client(old, old))
    assert at.text().count("changed and can't be used") == 1
