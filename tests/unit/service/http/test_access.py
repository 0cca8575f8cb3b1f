"""Who may talk to the service: settings that are refused; hosts, tokens and their roles over the ASGI transport."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from fastapi.routing import _IncludedRouter
from starlette.routing import BaseRoute, Route

from bridge.errors import Forbidden, TooManyFailedLogins
from bridge.service.http.access import (
    CERTIFICATE,
    ROLES,
    Access,
    Caller,
    Credential,
    FailedLogins,
    Role,
    role_of,
)
from bridge.service.http.app import create_app
from bridge.service.http.connections import ConnectionLimits, Login
from bridge.settings import SettingsRejected, load_settings
from bridge.tokens import Tokens
from tests.unit.service.service_fakes import ROOT, fake_service

DOCS = ROOT / "docs" / "security.md"
OK, FORBIDDEN, UNAUTHORIZED, MISDIRECTED = 200, 403, 401, 421


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("MIRROR_BRIDGE_")]:
        monkeypatch.delenv(name)


# -- at start ------------------------------------------------------------------------------------------------------


def serve(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "bridge", "serve", *arguments],
        cwd=ROOT,
        env=os.environ | env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_off_loopback_nothing_starts_that_asks_nobody_who_they_are() -> None:
    host = "0.0.0.0"
    ended = serve(MIRROR_BRIDGE_HOST=host)
    assert ended.returncode == 2
    (line,) = ended.stderr.splitlines()
    assert line.startswith(f"mirror-bridge: bad settings: host {host} is not loopback")
    for setting in ("AUTH_TOKEN_FILE", "TLS_CLIENT_CA", "INSECURE_NO_AUTH"):
        assert f"MIRROR_BRIDGE_{setting}" in line


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "bridge.example.com"])
def test_hosts_off_loopback_are_refused(host: str) -> None:
    with pytest.raises(SettingsRejected, match=f"host {re.escape(host)} is not loopback"):
        load_settings(host=host)


def test_a_token_or_saying_so_is_enough_off_loopback(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("a-token\n")
    assert load_settings(host="0.0.0.0", auth_token_file=file).insecure() == ()
    assert load_settings(host="0.0.0.0", insecure_no_auth=True).insecure() == ("insecure_no_auth",)
    assert load_settings(host="127.0.0.1", insecure_no_auth=True).insecure() == ()
    assert "insecure_no_auth" in str(load_settings(host="0.0.0.0", insecure_no_auth=True).exposed())


@pytest.mark.parametrize("path", ["", "health", "/", "/health/", " /health"])
def test_a_path_that_would_open_something_else_is_refused(path: str) -> None:
    """An empty one opened everything."""
    with pytest.raises(SettingsRejected, match="open_paths"):
        load_settings(open_paths=("/metrics", path))


@pytest.mark.parametrize("name", ["", "http://a", "a:8900", "a/b", "*.example.com"])
def test_allowed_hosts_are_names(name: str) -> None:
    with pytest.raises(SettingsRejected, match="allowed_hosts"):
        load_settings(allowed_hosts=f"bridge,{name}")


def test_tokens_that_would_not_do_what_they_say_are_refused(tmp_path: Path) -> None:
    three, empty, binary = (tmp_path / name for name in ("three", "empty", "binary"))
    three.write_text("a\nb\nc\n")
    empty.write_text("\n\n")
    binary.write_bytes(b"\xff\xfe")
    for wrong, word in (
        ({"auth_token_file": three}, "3 tokens"),
        ({"auth_token_file": empty}, "0 tokens"),
        ({"auth_token_file": binary}, "UTF-8"),
        ({"auth_token_file": tmp_path}, "can't be read"),
        ({"read_token": "r"}, "read_token needs auth_token"),
        ({"read_token": "same", "auth_token": "same"}, "another one"),
        ({"auth_token": "a", "read_token": "r", "read_token_file": three}, "not both"),
    ):
        with pytest.raises(SettingsRejected, match=word) as refused:
            load_settings(**wrong)
        assert "same" not in str(refused.value)


def test_what_is_weak_about_tokens_is_told_and_shows_none(tmp_path: Path) -> None:
    strong, file = "0123456789abcdef0123456789abcdef", tmp_path / "token"
    file.write_text(f"{strong}\n")
    file.chmod(0o600)
    assert load_settings(auth_token_file=file).token_remarks() == []
    assert load_settings(auth_token=strong).token_remarks() == []
    file.write_text(f"{strong}\nshort-one\n")
    file.chmod(0o640)
    short, open_ = load_settings(auth_token_file=file).token_remarks()
    assert short.startswith(f"auth_token_file {file} has a token of 9 character(s)")
    assert "mode 0640" in open_
    (told,) = load_settings(auth_token=strong, read_token="planted").token_remarks()
    assert told.startswith("read_token has a token of 7")
    assert not any("short-one" in each or "planted" in each for each in (short, open_, told))


# -- hosts ---------------------------------------------------------------------------------------------------------


def app(access: Access) -> FastAPI:
    return create_app(fake_service(), access=access)


def ask(
    to: Access | FastAPI,
    method: str = "GET",
    path: str = "/v1/version",
    client: tuple[str, int] = ("127.0.0.1", 1),
    **headers: str,
) -> httpx.Response:
    async def go() -> httpx.Response:
        transport = httpx.ASGITransport(app(to) if isinstance(to, Access) else to, client=client)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as asking:
            return await asking.request(method, path, headers=headers)

    return asyncio.run(go())


@pytest.fixture(scope="module")
def named() -> FastAPI:
    return app(Access(hosts=load_settings(allowed_hosts="Bridge.internal").hosts()))


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8900", OK),
        ("localhost:8900", OK),
        ("LOCALHOST", OK),
        ("localhost.", OK),
        ("[::1]:8900", OK),
        # Probes of Kubernetes ask at the pod's address.
        ("10.1.2.3:8900", OK),
        ("[2001:db8::1]", OK),
        ("bridge.internal:1234", OK),
        ("evil.example:8900", MISDIRECTED),
        ("127.0.0.1.evil.example", MISDIRECTED),
        ("localhost.evil.example", MISDIRECTED),
        ("evil.example:127.0.0.1", MISDIRECTED),
        ("[evil.example]", MISDIRECTED),
        ("", MISDIRECTED),
        ("x" * 10_000, MISDIRECTED),
    ],
)
def test_a_name_that_is_not_ours_is_not_answered(host: str, status: int, named: FastAPI) -> None:
    for path in ("/v1/version", "/health/live"):
        answer = ask(named, path=path, host=host)
        assert answer.status_code == status
    if status == MISDIRECTED:
        assert answer.json()["error_code"] == "misdirected"
        assert "MIRROR_BRIDGE_ALLOWED_HOSTS" in answer.json()["message"]
        assert len(answer.content) < 1000


def test_hosts_are_checked_where_nobody_is_asked_for_a_token_and_where_they_are_given() -> None:
    assert load_settings().hosts() is not None
    assert load_settings(host="0.0.0.0", insecure_no_auth=True).hosts() is not None
    assert load_settings(auth_token="t").hosts() is None
    assert load_settings(auth_token="t", allowed_hosts="a").hosts() == frozenset(
        ("a", "127.0.0.1", "localhost", "localhost.localdomain", "ip6-localhost")
    )
    assert load_settings(allowed_hosts="*").hosts() is None


def test_a_page_in_a_browser_changes_nothing() -> None:
    """A POST without a content type needs no leave of ours before a browser sends it; the answer alone is kept back."""
    access = app(Access(hosts=load_settings().hosts()))
    for method, path in (
        ("POST", "/v1/failover"),
        ("POST", "/v1/connectors/c/refresh"),
        ("DELETE", "/v1/connectors/c"),
    ):
        refused = ask(access, method, path, origin="http://evil.example")
        assert (refused.status_code, refused.json()["error_code"]) == (FORBIDDEN, "forbidden")
        assert ask(access, method, path).status_code != FORBIDDEN
    assert ask(access, "GET", "/v1/version", origin="http://evil.example").status_code == OK


# -- roles ---------------------------------------------------------------------------------------------------------


def routes(of: Sequence[BaseRoute]) -> Iterator[tuple[str, str]]:
    """Of an application, those of the routers that it includes among them."""
    for route in of:
        if isinstance(route, Route):
            yield from ((method, route.path) for method in (route.methods or set()) - {"HEAD"})
        else:
            assert isinstance(route, _IncludedRouter)
            yield from routes(route.original_router.routes)


def test_every_route_has_a_role_and_every_role_a_route() -> None:
    assert sorted(routes(app(Access()).routes)) == sorted(ROLES)


TOKENS = Tokens(changing=("change",), reading=("read", "next-read"))


@pytest.fixture(scope="module")
def guarded() -> FastAPI:
    return app(Access(lambda: TOKENS, open_paths=()))


@pytest.mark.parametrize(("method", "path"), sorted(ROLES))
def test_what_a_read_token_may_do(method: str, path: str, guarded: FastAPI) -> None:
    """Through the access check, with names that look like other routes."""
    asked = path
    for part, value in {
        "name": "x%2Fstatus",
        "group": "x%2Fexplain",
        "n": "0",
        "side": "target",
        "kind": "fake",
    }.items():
        asked = asked.replace(f"{{{part}}}", value)
    role = ROLES[method, path]
    for token in TOKENS.reading:
        answer = ask(guarded, method, asked, authorization=f"Bearer {token}")
        assert (answer.status_code == FORBIDDEN) == (role is Role.CHANGE), answer.text
        assert answer.status_code != UNAUTHORIZED
    if role is Role.CHANGE:
        assert "read token" in answer.json()["message"]
    assert ask(guarded, method, asked, authorization="Bearer change").status_code not in (
        UNAUTHORIZED,
        FORBIDDEN,
    )
    assert ask(guarded, method, asked, authorization="Bearer other").status_code == UNAUTHORIZED
    assert ask(guarded, method, asked).status_code == UNAUTHORIZED


def test_what_only_reads_is_all_that_get_is_but_for_configurations() -> None:
    assert {path for (method, path), role in ROLES.items() if method == "GET" and role is Role.CHANGE} == {
        "/v1/connectors/{name}/doctor"
    }
    assert {method for (method, _), role in ROLES.items() if role is Role.READ} == {"GET"}


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/nothing"),
        ("GET", "/v1/groups/a/b/c"),
        ("POST", "/v1/groups"),
        ("OPTIONS", "/v1/groups"),
        ("GET", ""),
    ],
)
def test_what_the_table_does_not_have_is_not_for_the_read_token(method: str, path: str) -> None:
    assert role_of(method, path) is Role.CHANGE


def test_who_tries_tokens_waits_for_the_next_minute_and_nobody_else() -> None:
    access = app(Access(lambda: TOKENS, open_paths=("/health",), most_failed=3))
    for token in ("stale", "stale", "stale", "stale", "b", "c"):
        assert ask(access, authorization=f"Bearer {token}").status_code == UNAUTHORIZED
    for token in ("d", "stale", "change", "read"):
        refused = ask(access, authorization=f"Bearer {token}")
        assert (refused.status_code, refused.json()["retriable"]) == (429, True)
        assert 1 <= int(refused.headers["retry-after"]) <= 60
        assert "max_failed_logins" in refused.json()["message"]
    assert ask(access).status_code == UNAUTHORIZED
    assert ask(access, path="/health/live").status_code == OK
    assert ask(access, client=("10.1.2.3", 1), authorization="Bearer change").status_code == OK


def test_a_connection_goes_on_with_what_it_has_logged_in_by_and_a_minute_ends() -> None:
    limits, now = ConnectionLimits(), [0.0]
    failed = FailedLogins(1, lambda: now[0])
    known, other = Login(limits, ("2001:db8::1", 1)), Login(limits, ("2001:db8::2", 2))
    known.done(Credential.READ)
    wrong = Caller(Credential.WRONG, None, "2001:db8::2", other)
    failed.check(wrong, b"x")
    right = Caller(Credential.READ, None, "2001:db8::1", known)
    failed.check(right, b"y")
    for refused in (
        replace(right, login=other),
        replace(right, shown=Credential.AUTH),  # guessed on a connection of the read token
        replace(right, shown=Credential.WRONG),
    ):
        with pytest.raises(TooManyFailedLogins):
            failed.check(refused, b"z")
    now[0] = 60.0
    failed.check(replace(right, login=other), b"y")


def test_however_many_addresses_try_each_is_counted() -> None:
    failed = FailedLogins(2, lambda: 0.0)
    for number in range(5_000):
        failed.check(Caller(Credential.WRONG, None, f"2001:db8:0:{number:x}::1", None), b"x")
    last = Caller(Credential.WRONG, None, "10.0.0.1", None)
    for token in (b"a", b"b"):
        failed.check(last, token)
    with pytest.raises(TooManyFailedLogins):
        failed.check(last, b"c")


@pytest.mark.parametrize("tokens", [Tokens(), TOKENS])
def test_a_certificate_that_is_not_named_may_read(tokens: Tokens) -> None:
    access = Access(lambda: tokens, changing=frozenset({"O=Example,CN=ops", "CN=x"}))
    headers = {b"authorization": b"Bearer change"}
    for subject in ("CN=other,O=Example", None):
        caller = access.caller({"state": {CERTIFICATE: subject}}, headers)
        access.check("GET", "/v1/groups", headers, caller)
        with pytest.raises(Forbidden, match="tls_changing_subjects"):
            access.check("POST", "/v1/failover", headers, caller)
    named = access.caller({"state": {CERTIFICATE: "O=Example,CN=ops"}}, headers)
    access.check("POST", "/v1/failover", headers, named)
    if tokens.changing:
        read = {b"authorization": b"Bearer read"}
        with pytest.raises(Forbidden, match="read token"):
            access.check("POST", "/v1/failover", read, replace(named, shown=Credential.READ))


def test_open_paths_are_open_for_reading_only() -> None:
    access = app(Access(lambda: Tokens(("change",)), open_paths=("/v1/connectors", "/health")))
    assert ask(access, "GET", "/v1/connectors").status_code == OK
    assert ask(access, "GET", "/health/live").status_code == OK
    for method in ("PUT", "DELETE"):
        assert ask(access, method, "/v1/connectors/c").status_code == UNAUTHORIZED
    assert ask(access, "GET", "/v1/connectorsx").status_code == UNAUTHORIZED


def test_the_docs_have_the_table() -> None:
    """docs/security.md shows what the read token may not do, and nothing else of the table."""
    text = DOCS.read_text("utf-8")
    for (method, path), role in ROLES.items():
        line = f"| `{method} {path}` |"
        assert (line in text) == (role is Role.CHANGE), line
