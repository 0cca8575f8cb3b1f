"""Tokens by a function of the user's own: `sasl.login.callback.handler.class=python:module.function`."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from bridge.kafka.config.property_names import SECRET
from bridge.kafka.config.tokens import NoToken, Token, claims, expiry, principal

PYTHON = "python:"
_LEAST_SECRET = 4
"""Shorter values are not hidden in texts: `a` would hide every a."""
_FORM = "it must return a tuple (token, expires_at), with principal and extensions as two more items or not"


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
