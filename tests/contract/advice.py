"""What the advice in an error or a warning asks for, to the letter."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from tests.contract.wild_configs import Legacy

_KEY = r"(?:[\w-]+->\w[\w.-]*|[a-zA-Z][\w-]*(?:\.[\w-]+)+)"
_INSTEAD = re.compile(
    r"did you mean '([^']+)'|its name is ([\w.-]+)|is read as (\S+): write that"
    rf"|(?:^|[;:] )give ({_KEY})(?: or |$)|write .* before it, as in ({_KEY})$"
)
"""Another key for the value."""
_REMOVED = re.compile(
    r"\b(?:remove|leave) it\b|\bremove (\S+)|leave one of them|give only one of the two"
    r"|take out the keys that begin with (\S+) or (\S+)\."
)
_VALUE = re.compile(
    r"String must be one of(?: \(case insensitive\))?: ([\w.]+)|use (?:one of )?(org\.apache\.[\w.$]+)"
    r"|\bgive (org\.apache\.[\w.$]+)|must be (?!at|excluded|non)(\w[\w.]*)(?:,| or)|only (\w+) is supported"
    r"|, as in (TLS\S+?);|give (true), and|or (\.\*) for all|write (\$\{\S+\})|as in clusters = (\w+, \w+)"
    r"|: (\w+) for true"
)
"""Another value for the key."""
_SET = re.compile(
    rf"\b(?:use|give|set|with|Enable one, as in|needs) ({_KEY}) ?= ?([^\s,;)]+)"
    r"|(?:^|[; ])(\S+->\S+?\.[\w.]+) = (\S+) gives"
)
"""Something for another key."""
_POLICY = re.compile(r"give (?:both|all) (\w+Policy)")
_LISTED = re.compile(rf"name it in ({_KEY})|([\w.]+) must be excluded")
_PLACE = re.compile(r"write (\S+->\S+\.) before it|use ([\w.]+\.)\*|put ([\w.]+\.), ")
"""Another beginning of the key."""
_FUNCTIONS = {"callback": "python:tests.contract.advice.token", "": "python:tests.own_transforms.upper"}
"""In place of `python:module.function`, by what a key has in its name."""


def token(properties: Mapping[str, str], options: Mapping[str, str]) -> str:
    return ""


_SETTING = re.compile(r"(MIRROR_BRIDGE_\w+)(?:=([^\s,;]+))?")
_SUBJECT = re.compile(r"does not load ([\w.]+);|[;,] (\S+) needs|: (\S+) is none of")


def setting(message: str) -> tuple[str, str] | None:
    """Returns the setting of the service that an error names, and the value by which it would allow what it refuses."""
    named = _SETTING.search(message)
    value = named and (named[2] or _first(_SUBJECT, message))
    return (named[1], value) if named and value else None


class Edit(NamedTuple):
    """Sets a key, or removes it."""

    key: str
    value: str | None


def edits(key: str, message: str, value: str) -> Iterator[Edit]:
    """Yields what to do for an error or a warning about this key, which has this value now."""
    advice = message.rpartition(f" for configuration {key}:")[2]
    unknown = advice.startswith("Unknown configuration")
    if instead := _first(_INSTEAD, advice):
        yield from (Edit(key, None), Edit(instead, value))
        return
    if (place := _first(_PLACE, advice)) is not None:
        name = key.removeprefix("consumer.override.").removeprefix("admin.override.")
        yield from (Edit(key, None), Edit(place + (name.partition(".")[2] if "->" in place else name), value))
        return
    removed = _REMOVED.search(advice)
    if removed is not None or unknown:
        beginnings = removed.groups()[1:] if removed is not None and removed[2] else ()
        yield from (Edit(f"{each}*", None) for each in beginnings)
        if not beginnings:
            named = removed[1] if removed is not None else None
            yield Edit(named.rstrip(",") if named and "." in named else key, None)
    elif chosen := _first(_VALUE, advice):
        yield Edit(key, chosen)
    if (listed := _LISTED.search(advice)) is not None:
        yield Edit(listed[1], value) if listed[1] else Edit(key, f"{value},{listed[2]}")
    for found in _SET.finditer(advice):
        other, text = filter(None, found.groups())
        # Of a client's property the name alone is said, and the error's key says where it stands.
        prefix = key[: key.index("sasl.")] if other.startswith("sasl.") else ""
        yield Edit(prefix + other, _filled_in(other, text.rstrip("."), value))
    if (policy := _first(_POLICY, advice)) is not None:
        yield Edit("replication.policy.class", policy)


def _filled_in(key: str, text: str, value: str) -> str:
    if text.startswith("python:module"):
        return next(function for part, function in _FUNCTIONS.items() if part in key)
    return text.replace("[N]", f"[{value}]")


def _first(pattern: re.Pattern[str], text: str) -> str | None:
    found = pattern.search(text)
    return next(filter(None, found.groups()), None) if found is not None else None


def followed(config: Mapping[str, str], changes: Iterable[Edit]) -> dict[str, str]:
    changed = dict(config)
    for key, value in changes:
        for each in [
            each for each in changed if each == key or (key.endswith("*") and each.startswith(key[:-1]))
        ]:
            del changed[each]
        if value is not None:
            changed[key] = value
    return changed


# -- of kafka-mirror-maker.sh: options, and properties of two files ----------------------------------------------------

Change = Callable[[Legacy, re.Match[str]], Legacy]


def _file(name: str, change: Callable[[str], str], given: Legacy) -> Legacy:
    text = change(given.consumer if name == "consumer" else given.producer)
    return replace(given, consumer=text) if name == "consumer" else replace(given, producer=text)


def _without_key(name: str, key: str, given: Legacy) -> Legacy:
    return _file(name, lambda text: re.sub(rf"(?m)^{re.escape(key)} *=.*\n?", "", text), given)


def _with(name: str, line: str, given: Legacy) -> Legacy:
    return _file(name, lambda text: f"{text.rstrip()}\n{line}\n", given)


def _renamed(given: Legacy, of: re.Match[str]) -> Legacy:
    return _file(of[1], lambda text: re.sub(rf"(?m)^{re.escape(of[2])}(?= *=)", of[3], text), given)


def _option(name: str, value: str | None, given: Legacy) -> Legacy:
    """Sets an option, or removes it with its value."""
    words: list[str] = []
    skipped = False
    for word in given.words:
        if skipped and not word.startswith("--"):
            skipped = False
            continue
        skipped = word == name
        if not skipped and not word.startswith(f"{name}="):
            words.append(word)
    return replace(given, words=words if value is None else [*words, name, value])


_LEGACY: tuple[tuple[str, Change], ...] = (
    (r"--(\w+)\.config has (\S+): its name is (\S+)", _renamed),
    (
        r"--(\w+)\.config has \S+: give (bootstrap\.servers)",
        lambda given, of: _with(of[1], f"{of[2]}=kafka:9092", given),
    ),
    (r"--(\w+)\.config has no (\S+?)(?::|$)", lambda given, of: _with(of[1], f"{of[2]}=kafka:9092", given)),
    (
        r"--(\w+)\.config has (\S+)=\S+: it is called (\S+)",
        lambda given, of: _with(of[1], f"{of[2]}={of[3]}", given),
    ),
    (
        r"configuration (\S+) of --(\w+)\.config: .*remove it",
        lambda given, of: _without_key(of[2], of[1], given),
    ),
    (
        r"configuration (\S+) of --(\w+)\.config: .*must be (?:one of[^:]*: |from |at least )(\S+?)(?:,| |$)",
        lambda given, of: _with(of[2], f"{of[1]}={of[3]}", given),
    ),
    (
        r"--(\w+)\.config: .*configuration (\S+): Value must be at least (\S+)",
        lambda given, of: _with(of[1], f"{of[2]}={of[3]}", given),
    ),
    (
        r"(--\S+) is not supported.*remove it(?:, and exclude topics in --include, as in (\S+))?",
        lambda given, of: _option("--include", of[2] or ".*", _option(of[1], None, given)),
    ),
    (r"(--\S+) is missing", lambda given, of: _option(of[1], ".*", given)),
    (r"(--\S+) is \S+; it must be (?:from )?(\w+)", lambda given, of: _option(of[1], of[2], given)),
    (r"(--\S+) is \S+ .*it takes python:module", lambda given, of: _option(of[1], _FUNCTIONS[""], given)),
    (
        r"--message\.handler\.args needs (\S+)",
        lambda given, of: _option(of[1], "python:tests.own_transforms.takes_any", given),
    ),
    (r"(--\S+) is given \d+ times.*give it once", lambda given, of: _option(of[1], "one.properties", given)),
)


def command_after(given: Legacy, message: str) -> Legacy | None:
    """Returns the command and its files as the message asks for; None for one that asks for nothing."""
    for pattern, change in _LEGACY:
        if (found := re.search(pattern, message)) is not None:
            return change(given, found)
    return None
