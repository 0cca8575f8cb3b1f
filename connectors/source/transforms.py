"""Reads and checks `bridge.transforms`: the transforms that records go through (docs/transforms.md)."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from bridge.errors import ConfigError
from bridge.mm2.filters import (
    PatternList,
    pattern_list_problem,
)
from bridge.model.copying import Transform
from bridge.model.java_values import split_list
from connectors.config.configdef import ValidatedConfig
from connectors.config.plugins import load_function
from connectors.config.validators import invalid, list_problem
from connectors.source.definition import TRANSFORMS

_PYTHON = "python:"
_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_INTERNAL = re.compile(r"__|mm2.*internal$")
_OWN = ("type", "topics", "to")
"""Keys of a transform that are no parameters of its function."""
_MOST = 100
"""Each name may have errors of its own: a list of a megabyte had 125,000 of them."""


class ChosenTransform(NamedTuple):
    """A transform that a configuration names. `topics`: of the source, whose records it is for."""

    transform: Transform
    topics: PatternList


def transforms(
    there: Mapping[str, str], config: ValidatedConfig
) -> tuple[list[ChosenTransform], list[ConfigError]]:
    """Returns the transforms of a configuration, in order, and its errors."""
    if not config.good(TRANSFORMS):
        return [], []
    names = config.items(TRANSFORMS) or ()
    if len(names) > _MOST:
        why = f"it names {len(names):,} transforms, and a record goes through {_MOST} at most"
        return [], [ConfigError(TRANSFORMS, invalid(TRANSFORMS, there.get(TRANSFORMS), why))]
    given = {key: value for key, value in there.items() if key.startswith(f"{TRANSFORMS}.")}
    chosen: list[ChosenTransform] = []
    errors = list(_of_no_transform(names, given))
    wrong = {error.key for error in config.errors}
    for name in names:
        if name.startswith(_PYTHON):
            result = _function(name, there)
        else:
            result = _named(name, given, there, loaded=f"{TRANSFORMS}.{name}.type" not in wrong)
        if isinstance(result, ChosenTransform):
            chosen.append(result)
        else:
            errors += result
    return chosen, errors


def _function(name: str, there: Mapping[str, str]) -> ChosenTransform | list[ConfigError]:
    """Reads a function that is in the list itself: for all topics, and without parameters."""
    errors = _errors(TRANSFORMS, name, {}, "", there)
    function = name.removeprefix(_PYTHON)
    return errors or ChosenTransform(Transform(function, function, {}), PatternList((".*",)))


def _named(
    name: str, given: Mapping[str, str], there: Mapping[str, str], *, loaded: bool
) -> ChosenTransform | list[ConfigError]:
    """Reads the transform of this name. `loaded`: whether its function may be; otherwise the configuration has an error
    that says why not."""
    prefix = f"{TRANSFORMS}.{name}."
    own = {key.removeprefix(prefix): value for key, value in given.items() if key.startswith(prefix)}
    parameters = {key: value for key, value in own.items() if key not in _OWN}
    topics, to = split_list(own.get("topics", ".*")), split_list(own.get("to", ""))
    errors = [ConfigError(f"{prefix}to", text) for text in _of_targets(f"{prefix}to", to)]
    if (
        problem := pattern_list_problem(topics)
        if topics
        else "it is empty, so the transform would have no records"
    ):
        errors.append(ConfigError(f"{prefix}topics", invalid(f"{prefix}topics", own.get("topics"), problem)))
    if not loaded:
        return errors
    if "type" in own:
        errors += _errors(f"{prefix}type", own["type"], parameters, prefix, there, to)
    else:
        missing = f'Missing required configuration "{prefix}type" which has no default value.'
        errors.append(ConfigError(f"{prefix}type", missing))
    if errors:
        return errors
    transform = Transform(name, own["type"].removeprefix(_PYTHON), parameters, to)
    return ChosenTransform(transform, PatternList(topics))


def _of_targets(key: str, topics: Sequence[str]) -> Iterator[str]:
    if problem := list_problem(key, topics):
        yield problem
    for topic in topics:
        if topic and (_TOPIC.fullmatch(topic) is None or topic in (".", "..")):
            yield invalid(key, topic, "a topic's name has up to 249 letters, digits, '.', '_' and '-'")
        elif _INTERNAL.match(topic):
            yield invalid(key, topic, "it is the name of an internal topic")


def _of_no_transform(names: tuple[str, ...], given: Mapping[str, str]) -> Iterator[ConfigError]:
    """Yields errors for keys of no transform."""
    for key in given:
        name = key.removeprefix(f"{TRANSFORMS}.").partition(".")[0]
        if name not in names:
            why = f"{TRANSFORMS} names no transform {name}"
            yield ConfigError(key, f"Unknown configuration {key}: {why}")


def _errors(
    key: str,
    name: str,
    parameters: Mapping[str, str],
    prefix: str,
    there: Mapping[str, str],
    to: Sequence[str] = (),
) -> list[ConfigError]:
    """Checks a function and its parameters."""
    wrong: list[ConfigError] = []

    def try_out(function: Callable[..., object]) -> str | None:
        wrong.extend(_of_parameters(function, parameters, prefix))
        return None if wrong else _tried_out(function, parameters, to)

    result = load_function(key, name, there, try_out, "called with a batch without records, it")
    return [result] if isinstance(result, ConfigError) else wrong


def _of_parameters(
    function: Callable[..., object], parameters: Mapping[str, str], prefix: str
) -> Iterator[ConfigError]:
    """Checks parameters against the function's signature; a function without one is only tried out."""
    try:
        _, *takes = inspect.signature(function).parameters.values()
    except ValueError:
        return
    named = {
        each.name: each for each in takes if each.kind in (each.KEYWORD_ONLY, each.POSITIONAL_OR_KEYWORD)
    }
    if not any(each.kind is each.VAR_KEYWORD for each in takes):
        for name in parameters:
            if name not in named:
                known = f"it has {', '.join(named)}" if named else "it has none"
                yield ConfigError(
                    f"{prefix}{name}",
                    f"Unknown configuration {prefix}{name}: the transform has no parameter {name}; {known}",
                )
    for each in named.values():
        if each.default is each.empty and each.name not in parameters:
            key = f"{prefix}{each.name}"
            yield ConfigError(key, f'Missing required configuration "{key}" which has no default value.')


def _tried_out(
    function: Callable[..., object], parameters: Mapping[str, str], to: Sequence[str]
) -> str | None:
    """Calls the function with a batch without records; returns what is wrong with its result. What it raises for its
    parameters is found here, before there are records."""
    from bridge.transforms.contract import ContractBroken, call, nothing

    try:
        call(function, dict(parameters), nothing(), to)
    except ContractBroken as broken:
        return f"called with a batch without records, {broken}"
    return None
