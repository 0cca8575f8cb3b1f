"""Looks references up as Kafka's config providers do: in properties files, directories of files, the environment."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from bridge.dedicated.config.references import DIRECTORY, ENVIRONMENT, FILE, Provider, Reference
from bridge.java_properties import PropertiesProblem, parse_properties
from bridge.mm2.java_regex import PatternProblem, compile_java

_ALLOWED, _PATTERN = "allowed.paths", "allowlist.pattern"
LookUp = Callable[[Reference], str]


class NotFound(ValueError):
    """The reference leads nowhere; the text says why, without a value."""


def look_up(provider: Provider, environment: Mapping[str, str]) -> LookUp:
    """Returns how a provider's references are looked up; what it returns raises NotFound."""
    if provider.class_name == ENVIRONMENT:
        return lambda reference: _of_environment(reference, provider, environment)
    read = {FILE: _of_file, DIRECTORY: _of_directory}[provider.class_name]
    return lambda reference: read(reference, _allowed(reference, provider))


def _of_environment(reference: Reference, provider: Provider, environment: Mapping[str, str]) -> str:
    if reference.path:
        raise NotFound(
            f"an environment variable has no path: write ${{{reference.provider}:{reference.name}}}"
        )
    try:
        pattern = compile_java(provider.parameters.get(_PATTERN, ".*"))
    except PatternProblem as problem:
        raise NotFound(f"{_PATTERN} of the provider is no pattern: {problem}") from None
    if not pattern.fullmatch(reference.name):
        raise NotFound(f"{_PATTERN} of the provider does not allow it")
    if reference.name not in environment:
        raise NotFound(f"there is no environment variable {reference.name}")
    return environment[reference.name]


def _allowed(reference: Reference, provider: Provider) -> Path:
    """Returns the path of a reference, if the provider may read it."""
    if not reference.path:
        raise NotFound(f"it names no path: write ${{{reference.provider}:path:{reference.name}}}")
    # As Kafka compares them: by their texts, without `.` and `..`, whatever links there are.
    path = Path(os.path.normpath(reference.path))
    allowed = [
        Path(os.path.normpath(each)) for each in provider.parameters.get(_ALLOWED, "").split(",") if each
    ]
    if allowed and not any(path.is_relative_to(each) for each in allowed):
        raise NotFound(f"{_ALLOWED} of the provider does not allow it")
    return Path(reference.path)


def _of_file(reference: Reference, path: Path) -> str:
    properties = _properties(path)
    if reference.name not in properties:
        raise NotFound(f"{path} has no key {reference.name}")
    return properties[reference.name]


def _properties(path: Path) -> Mapping[str, str]:
    try:
        return parse_properties(path.read_bytes().decode(), str(path))
    except OSError as error:
        raise NotFound(f"can't read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise NotFound(f"{path} is not in UTF-8") from None
    except PropertiesProblem as problem:
        raise NotFound(str(problem)) from None


def _of_directory(reference: Reference, path: Path) -> str:
    if not path.is_dir():
        raise NotFound(f"{path} is no directory")
    # A name is one of the directory's own files: it leads nowhere else.
    if reference.name not in os.listdir(path) or not (path / reference.name).is_file():
        raise NotFound(f"{path} has no file {reference.name}")
    try:
        return (path / reference.name).read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not in UTF-8"
        raise NotFound(f"can't read {path / reference.name}: {why}") from None
