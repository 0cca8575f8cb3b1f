"""A worker and the service over mutual TLS, with a token: all of it is replaced while a connector runs."""

from __future__ import annotations

import shutil
import ssl
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from bridge.local import LocalStack
from bridge.local.security import TlsFiles, make_tls
from tests.e2e.flow import SHIFT, Flow, ServiceClient
from tests.support import commit, eventually, unique
from tests.support.waits import WAIT

pytestmark = pytest.mark.long

OLD_TOKEN, NEW_TOKEN = "old-t0ken-4711", "new-t0ken-0815"
IN_USE = "changed and is in use"


def client(trusted: TlsFiles, shown: TlsFiles) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=trusted.authority)
    context.load_cert_chain(shown.client)
    return context


def test_certificates_and_token_are_replaced_while_a_connector_runs(
    flow: Flow, stack: LocalStack, tmp_path: Path
) -> None:
    old, new = make_tls(tmp_path / "old", "old"), make_tls(tmp_path / "new", "new")
    both = old.authority.read_bytes() + new.authority.read_bytes()
    token, ca, server = tmp_path / "token", tmp_path / "client-ca.pem", tmp_path / "server.pem"
    trust, store = tmp_path / "trust.pem", tmp_path / "store.pem"
    token.write_text(f"{OLD_TOKEN}\n")
    for source, copy in (
        (old.authority, ca),
        (old.server, server),
        (old.authority, trust),
        (old.client, store),
    ):
        shutil.copy(source, copy)
    given = {"TLS_CERT": server, "TLS_KEY": server, "TLS_CLIENT_CA": ca, "AUTH_TOKEN_FILE": token}
    environment = {f"MIRROR_BRIDGE_{name}": str(path) for name, path in given.items()}
    guarded = stack.service(unique("access"), environment=environment, tls=client(old, old))
    unique_flow = replace(flow, process=guarded)
    topic, group = unique_flow.topic(), unique("group")

    def complaints() -> list[str]:
        """Of the worker, about this service: others of its connectors may have lost theirs."""
        lines = unique_flow.worker.process.log.read_text().splitlines()
        return [line for line in lines if "the service is not available" in line and guarded.url in line]

    def wait_in_use(where: Path, count: int) -> None:
        def there() -> None:
            assert where.read_text().count(IN_USE) >= count

        eventually(there, WAIT, what=f"{count} files are in use", watched=unique_flow.watched)

    def moves_on(offset: int) -> None:
        commit(unique_flow.source.bootstrap, group, {(topic, 0): offset})
        unique_flow.wait_there(group, {(topic, 0): offset + SHIFT})

    commit(unique_flow.source.bootstrap, group, {(topic, 0): 10})
    log = unique_flow.worker.process.log
    before = log.read_text().count(IN_USE)
    keys = {
        "bridge.auth.token": OLD_TOKEN,
        "bridge.ssl.truststore.type": "PEM",
        "bridge.ssl.truststore.location": str(trust),
        "bridge.ssl.keystore.type": "PEM",
        "bridge.ssl.keystore.location": str(store),
    }
    with unique_flow.connector(group, **keys) as name:
        unique_flow.wait_there(group, {(topic, 0): 10 + SHIFT})
        first, earlier = ServiceClient(guarded.url, client(old, old), OLD_TOKEN), complaints()
        sessions = first.sessions(name)
        # Each side trusts both, then shows the new one, and then the service trusts the new one only.
        ca.write_bytes(both)
        trust.write_bytes(both)
        wait_in_use(guarded.process.log, 1)
        wait_in_use(log, before + 1)
        moves_on(20)
        shutil.copy(new.server, server)
        shutil.copy(new.client, store)
        wait_in_use(guarded.process.log, 2)
        wait_in_use(log, before + 2)
        moves_on(30)
        ca.write_bytes(new.authority.read_bytes())
        wait_in_use(guarded.process.log, 3)
        moves_on(40)
        second = ServiceClient(guarded.url, client(new, new), OLD_TOKEN)
        assert second.sessions(name) == sessions, "nothing was started again"
        assert complaints() == earlier, "and nothing was noticed"
        for refused in (client(new, old), client(old, new)):
            assert not answers(guarded.url, refused, OLD_TOKEN)
        # The token: both are good, Connect gets the new one, the old one goes.
        token.write_text(f"{OLD_TOKEN}\n{NEW_TOKEN}\n")
        wait_in_use(guarded.process.log, 4)
        unique_flow.worker.rest.put(
            name, {**unique_flow.config(group), **keys, "bridge.auth.token": NEW_TOKEN}
        )
        token.write_text(f"{NEW_TOKEN}\n")
        wait_in_use(guarded.process.log, 5)
        unique_flow.worker.rest.wait_running(name)
        moves_on(50)
        assert not answers(guarded.url, client(new, new), OLD_TOKEN)
        assert answers(guarded.url, client(new, new), NEW_TOKEN)
    for written in (log, guarded.process.log):
        assert all(token_ not in written.read_text() for token_ in (OLD_TOKEN, NEW_TOKEN))
    guarded.close()


def answers(url: str, tls: ssl.SSLContext, token: str) -> bool:
    try:
        given = {"Authorization": f"Bearer {token}"}
        return httpx.get(f"{url}/v1/version", verify=tls, headers=given, timeout=10).is_success
    except httpx.TransportError:
        return False
