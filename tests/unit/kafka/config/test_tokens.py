"""Tokens that a process gets itself: from a function of the user's, from a file; kept, refreshed, checked."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.config.token_provider import provider
from bridge.kafka.config.tokens import (
    LibraryTokens,
    NoToken,
    Token,
    TokenFile,
    TokenFunction,
    TokenKeeper,
    keeper,
    path_of,
)
from tests.support import eventually, unique
from tests.support.jwts import unsigned
from tests.support.messages import message

SECRET = "geheim-und-lang"


@dataclass(eq=False)
class Scripted:
    """A Source that returns or raises what is next."""

    answers: list[Token | NoToken | Callable[[], Token]]
    asked: int = 0
    name: str = "the script"
    keeps: bool = True

    def obtain(self) -> Token:
        self.asked += 1
        answer = self.answers.pop(0)
        if isinstance(answer, NoToken):
            raise answer
        return answer if isinstance(answer, Token) else answer()

    def identity(self) -> object:
        return id(self)


@dataclass
class Clock:
    now: float = field(default_factory=time.time)

    def __call__(self) -> float:
        return self.now


def test_a_token_is_asked_for_again_at_80_percent_of_its_life() -> None:
    clock = Clock(1000.0)
    source = Scripted([Token("a", 1100.0), Token("b", 1200.0)])
    tokens = TokenKeeper(source, clock)
    assert tokens.ready() is None
    assert tokens.token().value == "a"
    clock.now = 1079.0
    assert tokens.token().value == "a"
    assert tokens.ready() is not None
    clock.now = 1081.0
    assert tokens.ready() is None
    assert tokens.token().value == "b"
    assert source.asked == 2


def test_the_old_token_is_used_until_it_expires(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock(1000.0)
    source = Scripted(
        [Token("a", 1100.0), NoToken("away"), NoToken("away"), NoToken("still away"), Token("b", 1300.0)]
    )
    tokens = TokenKeeper(source, clock)
    assert tokens.token().value == "a"
    clock.now = 1090.0
    with caplog.at_level(logging.WARNING):
        assert tokens.token().value == "a"
        assert tokens.token().value == "a"
    assert source.asked == 2, "it is not asked again at once"
    said = message("kafka.old_token", source="the script", why="away", seconds=10)
    assert said in caplog.text
    clock.now = 1096.0
    assert tokens.token().value == "a"
    clock.now = 1101.0
    with pytest.raises(KafkaFailure, match="no token from the script: still away") as caught:
        tokens.token()
    assert caught.value.fault is KafkaFault.CREDENTIALS
    assert tokens.token().value == "b"


def test_what_may_pass_fails_no_connector() -> None:
    tokens = TokenKeeper(Scripted([NoToken("away", passing=True), Token("a", 990.0)]), Clock(1000.0))
    for _ in range(2):
        with pytest.raises(KafkaFailure) as caught:
            tokens.token()
        assert caught.value.fault is KafkaFault.UNREACHABLE


@pytest.mark.parametrize(
    ("token", "why"),
    [
        (Token(f"{SECRET} x", 2000.0), "letters, digits"),
        (Token(f"{SECRET}\x01auth=x", 2000.0), "letters, digits"),
        (Token("", 2000.0), "letters, digits"),
        (Token(SECRET, 990.0), "expired 10 s ago"),
        (Token(SECRET, 1000.0), "expired 0 s ago"),
        (Token(SECRET, 2000.0 * 1000 * 1e6), "seconds since 1970"),
        (Token(SECRET, 2000.0, "", {"auth": "x"}), "and not auth"),
        (Token(SECRET, 2000.0, "", {"a-b": "x"}), "a name of letters"),
        (Token(SECRET, 2000.0, "", {"pool": "x\x01y"}), "printable ASCII"),
    ],
)
def test_a_token_that_no_broker_would_take_is_an_error(token: Token, why: str) -> None:
    with pytest.raises(KafkaFailure, match=why) as caught:
        TokenKeeper(Scripted([token]), Clock(1000.0)).token()
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    assert SECRET not in repr(token)


def test_what_does_not_return_holds_up_nobody() -> None:
    release = threading.Event()

    def hang() -> Token:
        release.wait(60)
        return Token("late", 2000.0)

    source = Scripted([hang, Token("b", 2000.0)])
    tokens = TokenKeeper(source, Clock(1000.0), seconds=0.05)
    with pytest.raises(KafkaFailure, match=r"no answer within 0\.05 s"):
        tokens.token()
    with pytest.raises(KafkaFailure, match="an earlier call has not returned yet"):
        tokens.token()
    release.set()
    eventually(lambda: tokens.token().value == "b", 60.0, what="the earlier call has returned")
    assert source.asked == 2


def test_one_call_serves_all_that_wait() -> None:
    source = Scripted([Token("a", 2000.0)])
    tokens = TokenKeeper(source, Clock(1000.0))
    results: list[str] = []
    threads = [threading.Thread(target=lambda: results.append(tokens.token().value)) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60)
    assert results == ["a"] * 4
    assert source.asked == 1


# -- functions -------------------------------------------------------------------------------------------------------


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], str]]:
    """Makes a module of this body; returns its name."""
    monkeypatch.syspath_prepend(tmp_path)
    made: list[str] = []

    def make(body: str) -> str:
        name = unique("own_tokens").replace("-", "_")
        (tmp_path / f"{name}.py").write_text(body)
        made.append(name)
        return name

    yield make
    for name in made:
        sys.modules.pop(name, None)


def obtained(body: str, module: Callable[[str], str], **options: str) -> Token:
    properties = {"bootstrap.servers": "a:1", "sasl.oauthbearer.client.credentials.client.secret": SECRET}
    return TokenFunction(f"{module(body)}.token", properties, options, {"pool": "p"}).obtain()


def test_a_function_gets_properties_and_options(module: Callable[[str], str]) -> None:
    body = (
        "def token(properties, options):\n    return properties['bootstrap.servers'][0] + options['x'], 2000"
    )
    assert obtained(body, module, x="yz") == Token("ayz", 2000.0, "", {"pool": "p"})


def test_what_a_function_may_return(module: Callable[[str], str]) -> None:
    def returning(what: str) -> Token:
        return obtained(f"def token(p, o):\n    return {what}", module)

    jwt = unsigned("mirror", 3000.0)
    assert returning("('t', 2000.5, 'who')") == Token("t", 2000.5, "who", {"pool": "p"})
    extensions = {"pool": "q", "more": "r"}
    assert returning(f"['t', 2000, None, {extensions}]").extensions == extensions
    assert returning(f"({jwt!r}, None)") == Token(jwt, 3000.0, "mirror", {"pool": "p"})


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("def token(p, o): return 'bare'", r"must return a tuple \(token, expires_at\)"),
        ("def token(p, o): return ()", "must return a tuple"),
        ("def token(p, o): return (b't', 1)", "must be a str"),
        ("def token(p, o): return ('t', 'soon')", "seconds since 1970"),
        ("def token(p, o): return ('t', True)", "seconds since 1970"),
        ("def token(p, o): return ('t', None)", "no JWT"),
        ("def token(p, o): return ('t', 1, 7)", "principal must be a str"),
        ("def token(p, o): return ('t', 1, '', {'a': 1})", "dict of str to str"),
        ("async def token(p, o): return ('t', 1)", "must be a plain function"),
        ("def token(p): return ('t', 1)", "failed with TypeError"),
        (
            "def token(p, o): raise ValueError('no ' + o['password'])",
            r"failed with ValueError: no \[hidden\]",
        ),
        (
            "def token(p, o):\n  raise KeyError(*(v for k, v in p.items() if 'secret' in k))",
            r"KeyError: '\[hidden\]'",
        ),
        ("import no_such_module", "failed to load with ModuleNotFoundError.*of every executor"),
        ("x = 1", "has no function token"),
    ],
)
def test_what_is_wrong_with_a_function(body: str, why: str, module: Callable[[str], str]) -> None:
    with pytest.raises(NoToken, match=why) as caught:
        obtained(body, module, password=SECRET + "-of-jaas")
    assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_both_clients_share_the_token_of_a_function(module: Callable[[str], str]) -> None:
    counting = "def token(p, o):\n    calls.append(1)\n    return f't{len(calls)}', time.time() + 60"
    name = module(f"import time\ncalls = []\n{counting}")

    def source() -> TokenFunction:
        return TokenFunction(f"{name}.token", {"a": "b"}, {}, {"pool": "p"})

    async def by_aiokafka() -> tuple[str, dict[str, str]]:
        one = provider(source())
        return await one.token(), one.extensions()

    began = time.time()
    assert asyncio.run(by_aiokafka()) == ("t1", {"pool": "p"})
    value, expires_at, principal, extensions = LibraryTokens(source())("")
    assert (value, principal, extensions) == ("t1", "", {"pool": "p"})
    assert began + 60 <= expires_at <= time.time() + 60
    assert keeper(source()) is keeper(source())
    assert keeper(TokenFunction(f"{name}.token", {"a": "c"})) is not keeper(source())


# -- files -----------------------------------------------------------------------------------------------------------


def test_a_file_is_read_again_for_each_login(tmp_path: Path) -> None:
    file = tmp_path / "token"
    first, second = (unsigned(name, time.time() + 60) for name in ("one", "two"))
    file.write_text(f"{first}\n")
    tokens = TokenKeeper(TokenFile(str(file), {"pool": "p"}))
    token = tokens.token()
    assert (token.value, token.principal, token.extensions) == (first, "one", {"pool": "p"})
    file.write_text(second)
    assert tokens.token().value == second
    file.write_text("half of a")
    assert tokens.token().value == second, "the old one counts"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "can't be read: No such file"),
        ("", "no JWT"),
        (f"{SECRET}.x.y", "no JSON object in base64url"),
        (f"{SECRET}.W10.y", "no JSON object"),
        (f"{SECRET}.e30.y", "no claim exp"),
        (SECRET, "no JWT, which has three parts"),
        ("\N{SNOWMAN}", "something else than a token"),
        (unsigned("me", 1000.0), "expired"),
    ],
)
def test_what_is_wrong_with_a_file(text: str | None, why: str, tmp_path: Path) -> None:
    file = tmp_path / "token"
    if text is not None:
        file.write_text(text)
    with pytest.raises(KafkaFailure, match=f"no token from {file}: .*{why}") as caught:
        TokenKeeper(TokenFile(str(file))).token()
    assert SECRET not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("file:///var/run/token", "/var/run/token"),
        ("file:/var/run/token", "/var/run/token"),
        ("file://localhost/a%20b", "/a b"),
        ("FILE:///x", "/x"),
        ("file://host/x", None),
        ("file:x", None),
        ("file:///x?y", None),
        ("file://[/x", None),
    ],
)
def test_which_file_a_url_names(url: str, path: str | None) -> None:
    assert path_of(url) == path
