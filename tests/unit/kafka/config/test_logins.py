"""JAAS texts, and tokens from an identity provider (a plain HTTP server here)."""

from __future__ import annotations

import asyncio
import base64
import socket
import threading
import time
import traceback
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import pytest

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.config.oauth import HTTP_HOSTS, ClientCredentials, endpoint_problem, fetch
from bridge.kafka.config.token_provider import provider as shared
from bridge.kafka.config.tokens import LibraryTokens, NoToken, TokenKeeper
from bridge.model.jaas import JaasProblem, parse_jaas

SECRET = "geheim"


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("a.B required;", {}),
        ('a.B REQUIRED x="1" y=two;', {"x": "1", "y": "two"}),
        ("a.B optional x='a\"b' ;", {"x": 'a"b'}),
        (r'a.B required x="a\"b\\c\nd";', {"x": 'a"b\\c\nd'}),
        ('/* c */ a.B // who\n required\n x="; = //" ;  ', {"x": "; = //"}),
        (
            'a.B required useKeyTab=true keyTab="/etc/k.tab" principal="u@R";',
            {"useKeyTab": "true", "keyTab": "/etc/k.tab", "principal": "u@R"},
        ),
    ],
)
def test_jaas(text: str, options: dict[str, str]) -> None:
    module = parse_jaas(text)
    assert (module.name, module.simple_name, dict(module.options)) == ("a.B", "B", options)


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            ";",
            "a.B",
            "a.B;",
            "a.B sometimes;",
            "a.B required",
            "a.B required geheim;",
            "a.B required x=;",
        ),
        *(
            'a.B required x="geheim',
            "a.B required x=geheim; c.D required;",
            "a.B required ==geheim;",
            "= = =",
        ),
    ],
)
def test_what_is_no_jaas_is_said_without_a_value(text: str) -> None:
    with pytest.raises(JaasProblem) as caught:
        parse_jaas(text)
    assert SECRET not in str(caught.value)


def test_a_comment_that_is_not_closed_is_looked_for_once() -> None:
    with pytest.raises(JaasProblem, match="a comment is not closed"):
        parse_jaas("a.B required " + "/* " * 300_000)


def test_a_login_module_hides_its_values() -> None:
    assert SECRET not in repr(parse_jaas(f'a.B required password="{SECRET}";'))


class Provider(BaseHTTPRequestHandler):
    """Answers with what `answers` has next, and keeps what it was asked."""

    answers: list[tuple[int, str]]
    asked: list[tuple[str, str]]
    location: str
    """Where it redirects to."""
    reason: str | None
    """The reason phrase of its answers; None: as HTTP has it."""
    pause: float
    """Seconds before each byte of an answer, while somebody listens."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.asked.append((self.headers["Authorization"], body))
        status, answer = self.answers.pop(0)
        self.send_response(status, self.reason)
        if self.location:
            self.send_header("Location", self.location)
        self.end_headers()
        for byte in answer if self.pause else [answer]:
            time.sleep(self.pause)
            self.wfile.write(byte.encode())

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def provider() -> Iterator[tuple[str, type[Provider]]]:
    handler = type(
        "OwnProvider", (Provider,), {"answers": [], "asked": [], "location": "", "reason": None, "pause": 0.0}
    )
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/token", handler
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_a_token_by_client_credentials(provider: tuple[str, type[Provider]]) -> None:
    url, handler = provider
    handler.answers.append((200, '{"access_token": "t1", "expires_in": 60}'))
    assert asyncio.run(fetch(ClientCredentials(url, "me", SECRET, "kafka all"))) == ("t1", 60.0)
    basic = base64.b64encode(f"me:{SECRET}".encode()).decode()
    assert handler.asked == [(f"Basic {basic}", "grant_type=client_credentials&scope=kafka+all")]


@pytest.mark.parametrize("life", ["NaN", "Infinity", "-1", "0", "1e300"])
def test_a_life_that_no_token_has_is_no_answer(provider: tuple[str, type[Provider]], life: str) -> None:
    url, handler = provider
    handler.answers.append((200, f'{{"access_token": "t1", "expires_in": {life}}}'))
    with pytest.raises(NoToken, match="expires_in of the answer is"):
        asyncio.run(fetch(ClientCredentials(url, "me", SECRET)))


def test_a_token_that_no_provider_gives_is_not_kept(provider: tuple[str, type[Provider]]) -> None:
    url, handler = provider
    handler.answers.append((200, f'{{"access_token": "{"t" * 40_000}", "expires_in": 60}}'))
    with pytest.raises(KafkaFailure, match="40,000 characters"):
        TokenKeeper(ClientCredentials(url, "me", SECRET)).token()


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "::ffff:127.0.0.1", "169.254.169.254", "::1", "fe80::1%eth0", "0.0.0.0"]
)
def test_a_name_of_this_machine_is_not_asked_by_a_service(
    provider: tuple[str, type[Provider]], address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a name in DNS that somebody has pointed here."""
    url, handler = provider
    port = urlsplit(url).port
    look_up = socket.getaddrinfo

    def pointed(host: str, *more: object, **how: object) -> list[tuple[object, ...]]:
        if host == "idp.example.org":
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0))]
        return [*look_up(host, *more, **how)]  # type: ignore[arg-type]

    monkeypatch.setattr(socket, "getaddrinfo", pointed)
    monkeypatch.setenv("MIRROR_BRIDGE_OAUTH_HTTP_HOSTS", "idp.example.org")
    login = ClientCredentials(f"http://idp.example.org:{port}/token", "me", SECRET)
    monkeypatch.setenv("MIRROR_BRIDGE_PROCESS_ASKS_NOBODY_NEAR", "true")
    with pytest.raises(NoToken, match="MIRROR_BRIDGE_ALLOWED_TOKEN_ENDPOINTS"):
        asyncio.run(fetch(login))
    assert handler.asked == []


def test_what_stands_at_the_address_is_not_shown(provider: tuple[str, type[Provider]]) -> None:
    """Whoever writes the configuration could read it there, wherever that is."""
    url, handler = provider
    handler.answers.append((404, "root:x:0:0"))
    handler.reason = "Planted-Phrase"
    with pytest.raises(NoToken) as refused:
        asyncio.run(fetch(ClientCredentials(url, "me", SECRET)))
    assert "404" in str(refused.value)
    assert "Planted" not in str(refused.value)
    assert "root" not in str(refused.value)


def test_a_proxy_of_the_environment_sees_no_secret(
    provider: tuple[str, type[Provider]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over http it would be in clear there."""
    url, handler = provider
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.delenv("NO_PROXY", raising=False)
    handler.answers.append((200, '{"access_token": "t1", "expires_in": 60}'))
    assert asyncio.run(fetch(ClientCredentials(url, "me", SECRET)))[0] == "t1"


def test_a_process_asks_once_for_all_clients_of_the_same_credentials(
    provider: tuple[str, type[Provider]],
) -> None:
    """Each connection had a provider of its own before, and each asked."""
    url, handler = provider
    handler.pause = 0.01
    handler.answers += [(200, f'{{"access_token": "t{each}", "expires_in": 60}}') for each in (1, 2)]

    def login(secret: str = SECRET) -> ClientCredentials:
        return ClientCredentials(url, "me", secret, extensions={"pool": "p"})

    async def tokens() -> set[str]:
        clients = [shared(login()) for _ in range(8)]
        got = set(await asyncio.gather(*(client.token() for client in clients)))
        assert all(client.extensions() == {"pool": "p"} for client in clients)
        return got

    began = time.time()
    assert asyncio.run(tokens()) == {"t1"}
    assert asyncio.run(tokens()) == {"t1"}, "another event loop of the process"
    value, expires_at, principal, extensions = LibraryTokens(login())("")
    assert (value, principal, extensions) == ("t1", "me", {"pool": "p"})
    assert began + 60 <= expires_at <= time.time() + 60
    assert len(handler.asked) == 1
    assert asyncio.run(shared(login("another")).token()) == "t2", "other credentials, another token"
    assert len(handler.asked) == 2


def test_a_token_is_asked_for_again_near_the_end_of_its_life(provider: tuple[str, type[Provider]]) -> None:
    url, handler = provider
    handler.answers += [(200, f'{{"access_token": "t{each}", "expires_in": 100}}') for each in (1, 2)]
    ahead = 0.0
    keeper = TokenKeeper(ClientCredentials(url, "me", SECRET), lambda: time.time() + ahead)
    assert keeper.token().value == "t1"
    ahead = 70.0
    assert keeper.token().value == "t1"
    ahead = 81.0
    assert keeper.token().value == "t2"
    assert len(handler.asked) == 2


@pytest.mark.parametrize("answer", [(500, "broken"), (503, "away"), (429, "slower")])
def test_a_provider_in_trouble_is_waited_for(
    provider: tuple[str, type[Provider]], answer: tuple[int, str], caplog: pytest.LogCaptureFixture
) -> None:
    url, handler = provider
    handler.answers += [answer, (200, '{"access_token": "token-very-secret"}'), answer]
    ahead = 0.0
    keeper = TokenKeeper(ClientCredentials(url, "me", SECRET), lambda: time.time() + ahead)
    with pytest.raises(KafkaFailure, match=f"no token from {url}: HTTP {answer[0]}") as caught:
        keeper.token()
    assert caught.value.fault is KafkaFault.UNREACHABLE
    kept = keeper.token()
    ahead = 250.0
    assert keeper.token() is kept
    assert f"no new token from {url}: HTTP {answer[0]}" in caplog.text
    assert SECRET not in caplog.text + repr(kept)
    assert "token-very-secret" not in caplog.text + repr(kept)


@pytest.mark.parametrize("answer", [(401, "no"), (200, "no json"), (200, "{}"), (200, "[]")])
def test_no_token_is_trouble_with_credentials(
    provider: tuple[str, type[Provider]], answer: tuple[int, str]
) -> None:
    url, handler = provider
    handler.answers.append(answer)
    with pytest.raises(KafkaFailure, match="no token from http://") as caught:
        TokenKeeper(ClientCredentials(url, "me", SECRET)).token()
    assert caught.value.fault is KafkaFault.CREDENTIALS
    assert SECRET not in str(caught.value)


def test_a_provider_that_is_not_there() -> None:
    with pytest.raises(KafkaFailure, match="ConnectError") as caught:
        TokenKeeper(ClientCredentials("http://127.0.0.1:9/token", "me", SECRET)).token()
    assert caught.value.fault is KafkaFault.UNREACHABLE


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize(
    "to", ["http://{other}/token", "//{other}/token", "/elsewhere", "http://u:pw@{other}/"]
)
def test_a_redirect_is_refused_and_named(provider: tuple[str, type[Provider]], status: int, to: str) -> None:
    """Also on the same host: what is asked for a token there is not what was configured."""
    url, handler = provider
    handler.location = to.format(other=url.split("/")[2])
    handler.answers += [(status, ""), (200, '{"access_token": "stolen"}')]
    with pytest.raises(NoToken, match=f"redirects to .*HTTP {status}") as caught:
        asyncio.run(fetch(ClientCredentials(url, "me", SECRET)))
    assert len(handler.asked) == 1
    assert "pw@" not in str(caught.value)


def test_an_answer_without_end_is_cut_off(provider: tuple[str, type[Provider]]) -> None:
    url, handler = provider
    handler.answers.append((200, " " * (1 << 21)))
    with pytest.raises(NoToken, match="more than 65536 bytes"):
        asyncio.run(fetch(ClientCredentials(url, "me", SECRET)))


def test_an_answer_byte_by_byte_has_to_end_in_time(provider: tuple[str, type[Provider]]) -> None:
    url, handler = provider
    handler.pause = 0.05
    handler.answers.append((200, '{"access_token": "t1"}' + " " * 10))
    with pytest.raises(NoToken, match=r"no whole answer within 0\.3 s"):
        asyncio.run(fetch(ClientCredentials(url, "me", SECRET), 0.3))


def test_what_a_provider_answers_is_in_no_traceback(provider: tuple[str, type[Provider]]) -> None:
    url, handler = provider
    handler.answers.append((200, '{"access_token": "token-very-secret", "expires_in": "soon"}'))
    with pytest.raises(NoToken) as caught:
        asyncio.run(fetch(ClientCredentials(url, "me", SECRET)))
    shown = "".join(traceback.format_exception(caught.value))
    assert "token-very-secret" not in shown
    assert SECRET not in shown


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("https://idp.example.org/token", None),
        ("http://localhost:8080/token", None),
        ("http://127.0.0.2/token", None),
        ("http://[::1]:80/token", None),
        ("http://inside.example.org/token", None),
        ("http://idp.example.org/token", "MIRROR_BRIDGE_OAUTH_HTTP_HOSTS"),
        ("http://localhost.example.org/token", "MIRROR_BRIDGE_OAUTH_HTTP_HOSTS"),
        ("http://10.0.0.1/token", "MIRROR_BRIDGE_OAUTH_HTTP_HOSTS"),
        ("https://me:geheim@idp.example.org/token", "must not carry credentials"),
        ("http://me:geheim@127.0.0.1/token", "must not carry credentials"),
        ("file:///etc/token", "must be https"),
        ("https:///token", "must be https"),
        ("https://idp:99999/token", "must be https"),
        ("https://[::1/token", "must be https"),
    ],
)
def test_where_a_client_secret_may_go(url: str, problem: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HTTP_HOSTS, "other.example.org, Inside.example.org")
    result = endpoint_problem(url)
    assert (result is None) == (problem is None)
    assert result is None or ((problem or "") in result and SECRET not in result)
    if problem is not None:
        with pytest.raises(NoToken):
            asyncio.run(fetch(ClientCredentials(url, "me", SECRET)))
