"""The text of `sasl.jaas.config`: one login module with its options. Errors never show a value. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""(?P<skip>\s+|//[^\n]*)
      | (?P<comment>/\*)
      | "(?P<double>(?:\\.|[^"\\])*)"
      | '(?P<single>(?:\\.|[^'\\])*)'
      | (?P<mark>[=;])
      | (?P<word>[^\s=;"']+)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "a": "\a", "v": "\v"}
_FLAGS = frozenset({"required", "requisite", "sufficient", "optional"})


class JaasProblem(ValueError):
    """Raised for a text that is no JAAS configuration. Its message has no full stop and no value of the text."""


@dataclass(frozen=True, slots=True)
class LoginModule:
    name: str
    options: Mapping[str, str]

    @property
    def simple_name(self) -> str:
        return self.name.rpartition(".")[2]

    def __repr__(self) -> str:
        return f"LoginModule({self.name}, options {', '.join(self.options)})"


def parse_jaas(text: str) -> LoginModule:
    """Parses `module flag name="value" ... ;`."""
    tokens = _tokens(text)
    if len(tokens) < 2 or tokens[0][1]:
        raise JaasProblem(
            "it must begin with a login module and a flag, as in org...PlainLoginModule required"
        )
    name, flag = tokens[0][0], tokens[1][0]
    if flag.lower() not in _FLAGS:
        raise JaasProblem(
            "the flag after the login module must be required, requisite, sufficient or optional"
        )
    options: dict[str, str] = {}
    position = 2
    while position < len(tokens) and tokens[position] != (";", True):
        if (
            position + 2 >= len(tokens)
            or tokens[position][1]
            or tokens[position + 1] != ("=", True)
            or tokens[position + 2][1]
        ):
            raise JaasProblem(f'option {len(options) + 1} is not of the form name="value"')
        options[tokens[position][0]] = tokens[position + 2][0]
        position += 3
    if position >= len(tokens):
        raise JaasProblem("it must end with ;")
    if position + 1 < len(tokens):
        raise JaasProblem("it must hold one login module, nothing may follow the ;")
    return LoginModule(name, options)


def _tokens(text: str) -> list[tuple[str, bool]]:
    """Tokens, each with whether it is one of the marks = and ;"""
    tokens: list[tuple[str, bool]] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise JaasProblem("a quote is not closed")
        position = match.end()
        if match.lastgroup == "comment":
            # Looked for once: a text of comments that are not closed is no slower than another.
            position = text.find("*/", position) + 2
            if position < 2:
                raise JaasProblem("a comment is not closed")
        elif match.lastgroup == "mark":
            tokens.append((match.group(), True))
        elif match.lastgroup == "word":
            tokens.append((match.group(), False))
        elif match.lastgroup != "skip":
            quoted = match.group("double") if match.group("double") is not None else match.group("single")
            tokens.append((_ESCAPE.sub(lambda escape: _ESCAPES.get(escape[1], escape[1]), quoted), False))
    return tokens
