"""Bearer tokens for OAUTHBEARER that this process gets itself, each kept once for all clients that log in with it.

Tokens in a file that somebody else keeps up to date, as Java's FileJwtRetriever reads them.

Tokens by a function of the user's own: `sasl.login.callback.handler.class=python:module.function`.
"""

from __future__ import annotations

import base64
import binascii
import importlib
import inspect
import json
import logging
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.config.files import Files, UnreadableFile
from bridge.kafka.config.property_names import SECRET

log = logging.getLogger(__name__)


SECONDS = 10.0
"""How long a client waits for a token."""
REFRESH_AT = 0.8
"""A token is used for this part of its life, as Java's login does (sasl.login.refresh.window.factor)."""
_RETRY_SECONDS = 5.0
"""Between attempts to replace a token that is still valid."""
_LONGEST_LIFE = 10 * 365 * 86_400.0
"""Seconds. An expiry later than that was given in milliseconds by mistake."""
_LONGEST = 32 << 10
"""Characters of a token. Those of providers have one or two thousand; each is kept as long as it lives."""
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")
_EXTENSION = re.compile(r"[A-Za-z]+")
_EXTENSION_VALUE = re.compile(r"[\x21-\x7e \t\r\n]*")
"""Of RFC 7628, as brokers read them."""
_keepers: dict[Source, TokenKeeper] = {}
_MOST_KEEPERS = 256
_lock = threading.Lock()
TOKEN_FILE_BYTES = 64 << 10
"""Of a file with a token, at most."""
PYTHON = "python:"
_LEAST_SECRET = 4
"""Shorter values are not hidden in texts: `a` would hide every a."""
_FORM = "it must return a tuple (token, expires_at), with principal and extensions as two more items or not"


class NoToken(Exception):
    """Raised where there is no token; a sentence without its end and without any secret. `passing`: where tokens come
    from may only be away, so that a connector waits for it; otherwise somebody has to correct something."""

    def __init__(self, why: str, *, passing: bool = False) -> None:
        super().__init__(why)
        self.passing = passing


@dataclass(frozen=True, slots=True)
class Token:
    """A bearer token. `expires_at`: in Unix seconds; `principal`: whom it is for, where that is known."""

    value: str = field(repr=False)
    expires_at: float
    principal: str = ""
    extensions: Mapping[str, str] = field(default_factory=dict)


class Source(Protocol):
    """A source of tokens. Equal sources share their tokens."""

    def obtain(self) -> Token:
        """A token. May block; raises NoToken."""

    @property
    def name(self) -> str:
        """The name in errors: `no token from NAME: why`."""

    @property
    def keeps(self) -> bool:
        """Whether a token is kept until it is to be refreshed; otherwise each login asks again."""

    def identity(self) -> object:
        """Returns what distinguishes this source from others, as JSON has it; with all secrets."""


class TokenKeeper:
    """The token of one source, for any thread. Asks for a new one at 80 % of its life; where none comes, the old one
    is used until it expires."""

    def __init__(
        self, source: Source, clock: Callable[[], float] = time.time, seconds: float = SECONDS
    ) -> None:
        self._source, self._clock, self._seconds = source, clock, seconds
        self._lock = threading.Lock()
        self._kept: Token | None = None
        self._refresh_at = 0.0
        self._asking: threading.Thread | None = None

    def ready(self) -> Token | None:
        """The token if there is one that needs no refresh. Never blocks."""
        kept = self._kept
        return kept if kept is not None and self._clock() < self._refresh_at else None

    def token(self) -> Token:
        """Blocks, for twice the time limit at most. Raises KafkaFailure."""
        if not self._lock.acquire(timeout=self._seconds):
            waited = f"another client has waited for it for {self._seconds:g} s"
            raise self._failure(NoToken(waited, passing=True))
        try:
            return self.ready() or self._renewed()
        finally:
            self._lock.release()

    def _renewed(self) -> Token:
        try:
            token = self._checked(self._obtain())
        except NoToken as problem:
            now, kept = self._clock(), self._kept
            if kept is None or kept.expires_at <= now:
                failure = self._failure(problem)
            else:
                log.warning(
                    "no new token from %s: %s; the old one is used until it expires, in %.0f s",
                    *(self._source.name, problem, kept.expires_at - now),
                )
                self._refresh_at = now + _RETRY_SECONDS
                return kept
        else:
            now = self._clock()
            self._kept = token
            self._refresh_at = now + (token.expires_at - now) * REFRESH_AT if self._source.keeps else 0.0
            return token
        # Outside of the handler: a traceback of what happened there could show the token.
        raise failure

    def _obtain(self) -> Token:
        """In a thread of its own, as what is called may never return."""
        if self._asking is not None and self._asking.is_alive():
            raise NoToken("an earlier call has not returned yet", passing=True)
        results: list[Token | NoToken] = []

        def ask() -> None:
            try:
                results.append(self._source.obtain())
            except NoToken as problem:
                results.append(problem)
            except Exception as error:  # its text may hold anything
                results.append(NoToken(type(error).__name__, passing=True))

        self._asking = threading.Thread(target=ask, name="token", daemon=True)
        self._asking.start()
        self._asking.join(self._seconds)
        if not results:
            raise NoToken(f"no answer within {self._seconds:g} s", passing=True)
        if isinstance(results[0], NoToken):
            raise results[0]
        return results[0]

    def _checked(self, token: Token) -> Token:
        if len(token.value) > _LONGEST:
            raise NoToken(f"the token has {len(token.value):,} characters; {_LONGEST:,} is the limit")
        if _TOKEN.fullmatch(token.value) is None:
            raise NoToken("the token must be of letters, digits and - . _ ~ + / only, with = at its end")
        for name, value in token.extensions.items():
            if name == "auth" or _EXTENSION.fullmatch(name) is None:
                raise NoToken(f"the extension {name!r} must have a name of letters, and not auth")
            if _EXTENSION_VALUE.fullmatch(value) is None:
                raise NoToken(f"the extension {name} must have a value of printable ASCII")
        life = token.expires_at - self._clock()
        if life <= 0:
            raise NoToken(f"the token expired {abs(life):.0f} s ago", passing=True)
        if life > _LONGEST_LIFE:
            raise NoToken("the token's expiry is more than ten years away: it is given in seconds since 1970")
        return token

    def _failure(self, problem: NoToken) -> KafkaFailure:
        fault = KafkaFault.UNREACHABLE if problem.passing else KafkaFault.CREDENTIALS
        return KafkaFailure(fault, f"no token from {self._source.name}: {problem}")


def keeper(source: Source) -> TokenKeeper:
    """Returns this process's keeper for the source."""
    with _lock:
        found = _keepers.pop(source, None) or TokenKeeper(source)
        _keepers[source] = found
        while len(_keepers) > _MOST_KEEPERS:
            del _keepers[next(iter(_keepers))]
        return found


@dataclass(frozen=True, slots=True)
class LibraryTokens:
    """librdkafka's `oauth_cb`, which it calls in a thread of its own, again at 80 % of the life of each token."""

    source: Source

    def __call__(self, config: str) -> tuple[str, float, str, dict[str, str]]:
        token = keeper(self.source).token()
        return token.value, token.expires_at, token.principal, dict(token.extensions)


def obtain_first(settings: Mapping[str, object]) -> None:
    """Gets the token that librdkafka's settings need, before a client is made of them: its constructor would wait 10 s
    and not say why there is none. Blocks; raises KafkaFailure."""
    tokens = settings.get("oauth_cb")
    if isinstance(tokens, LibraryTokens):
        keeper(tokens.source).token()


def claims(token: str) -> Mapping[str, Any]:
    """Reads the claims of a JWT without verifying it, which is the broker's part. Raises NoToken."""
    parts = token.split(".")
    if len(parts) != 3:
        raise NoToken("it is no JWT, which has three parts with dots between them")
    try:
        payload = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, binascii.Error):
        payload = None
    if not isinstance(payload, dict):
        raise NoToken("it is no JWT: its second part is no JSON object in base64url")
    return payload


def expiry(payload: Mapping[str, Any]) -> float:
    """Returns when a JWT with these claims expires. Raises NoToken."""
    expires_at = payload.get("exp")
    if isinstance(expires_at, bool) or not isinstance(expires_at, int | float):
        raise NoToken("the JWT has no claim exp with the time when it expires")
    return float(expires_at)


def principal(payload: Mapping[str, Any]) -> str:
    """Returns whom a JWT with these claims names; "" where it names nobody."""
    subject = payload.get("sub")
    return subject if isinstance(subject, str) else ""


@dataclass(frozen=True, slots=True)
class TokenFile:
    """A Source. The file is read again for each login, so that a token which was replaced early counts at once."""

    path: str
    extensions: Mapping[str, str] = field(default_factory=dict, hash=False)

    def obtain(self) -> Token:
        try:
            text = Files(most=TOKEN_FILE_BYTES).read(self.path).decode("ascii").strip()
        except UnreadableFile as why:
            raise NoToken(f"the file can't be read: {why}", passing=True) from None
        except UnicodeDecodeError:
            raise NoToken("the file holds something else than a token") from None
        payload = claims(text)
        return Token(text, expiry(payload), principal(payload), self.extensions)

    @property
    def name(self) -> str:
        return self.path

    @property
    def keeps(self) -> bool:
        return False

    def identity(self) -> object:
        return ["file", self.path, dict(self.extensions)]


def is_file_url(url: str) -> bool:
    return url.lower().startswith("file:")


def path_of(url: str) -> str | None:
    """The path that a file: URL names; None where it names none of this machine."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    path = unquote(parts.path)
    if parts.netloc not in ("", "localhost") or parts.query or parts.fragment or not path.startswith("/"):
        return None
    return path


@dataclass(frozen=True, slots=True)
class TokenFunction:
    """A Source. `function`: as `module.function`. It is called with the properties of the client and the options of its
    login module, as a Java login callback handler is configured with them."""

    function: str
    properties: Mapping[str, str] = field(default_factory=dict, hash=False, repr=False)
    options: Mapping[str, str] = field(default_factory=dict, hash=False, repr=False)
    extensions: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Of the login module; those that the function returns win."""

    def obtain(self) -> Token:
        function = self._loaded()
        try:
            returned = function(dict(self.properties), dict(self.options))
        except Exception as error:
            why = f"it failed with {type(error).__name__}: {error}"
        else:
            return self._token(returned)
        raise NoToken(self._scrubbed(why), passing=True)

    @property
    def name(self) -> str:
        return PYTHON + self.function

    @property
    def keeps(self) -> bool:
        return True

    def identity(self) -> object:
        return ["function", self.function, dict(self.properties), dict(self.options), dict(self.extensions)]

    def _loaded(self) -> Callable[..., object]:
        module, _, name = self.function.rpartition(".")
        try:
            function = getattr(importlib.import_module(module), name, None)
        except Exception as error:
            why = (
                f"the module {module} failed to load with {type(error).__name__}: {error}; it must be on the search "
                "path of the service, of Spark's driver and of every executor (docs/logins.md)"
            )
        else:
            if callable(function):
                return function  # type: ignore[no-any-return]
            why = f"the module {module} has no function {name}"
        raise NoToken(self._scrubbed(why))

    def _token(self, returned: object) -> Token:
        if inspect.iscoroutine(returned):
            returned.close()
            raise NoToken("it must be a plain function: what it returns is not awaited")
        if not isinstance(returned, tuple | list) or not 2 <= len(returned) <= 4:
            raise NoToken(_FORM)
        value, expires_at, named, extensions = [*returned, None, None][:4]
        if not isinstance(value, str):
            raise NoToken(f"{_FORM}, and the token must be a str")
        if expires_at is None:
            expires_at = expiry(claims(value))
        if isinstance(expires_at, bool) or not isinstance(expires_at, int | float):
            raise NoToken(
                f"{_FORM}, and expires_at must be seconds since 1970, or None for the claim exp of a JWT"
            )
        if not isinstance(named, str | None):
            raise NoToken(f"{_FORM}, and the principal must be a str")
        if extensions is not None and not _texts(extensions):
            raise NoToken(f"{_FORM}, and the extensions must be a dict of str to str")
        return Token(
            value, float(expires_at), named or _subject(value), {**self.extensions, **(extensions or {})}
        )

    def _scrubbed(self, text: str) -> str:
        """The function knows all secrets of the login, and its texts may quote them."""
        secrets = {
            *self.options.values(),
            *(self.properties[name] for name in SECRET & self.properties.keys()),
        }
        for secret in sorted(secrets, key=len, reverse=True):
            if len(secret) >= _LEAST_SECRET:
                text = text.replace(secret, "[hidden]")
        return " ".join(text.split())


def _subject(token: str) -> str:
    try:
        return principal(claims(token))
    except NoToken:  # it is no JWT
        return ""


def _texts(value: object) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(each, str) for pair in value.items() for each in pair
    )
