"""Reads a file of dedicated mode, and what its config providers refer to: all of this room's I/O is here.

References to config providers, `${provider:path:key}`, found and replaced as Kafka's ConfigTransformer does it.

Looks references up as Kafka's config providers do: in properties files, directories of files, the environment.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from bridge.dedicated.config import stock
from bridge.dedicated.config.plan import MirrorPlan
from bridge.dedicated.config.planning import plan_of
from bridge.errors import ConfigError, ConfigRejected
from bridge.java_properties import PropertiesProblem, load_properties, parse_properties
from bridge.mm2.java_regex import PatternProblem, compile_java
from bridge.model.java_values import given, split_list, trimmed
from connectors.config.configdef import invalid
from connectors.ports import ClientCheck

_REFERENCE = re.compile(r"\$\{(?P<provider>[^}]*?):(?:(?P<path>[^}]*?):)?(?P<name>[^}]*?)\}")
_PACKAGE = "org.apache.kafka.common.config.provider."
FILE, DIRECTORY, ENVIRONMENT = (f"{_PACKAGE}{kind}ConfigProvider" for kind in ("File", "Directory", "EnvVar"))
_CLASSES = (FILE, DIRECTORY, ENVIRONMENT)
_ALLOWED, _PATTERN = "allowed.paths", "allowlist.pattern"


class Reference(NamedTuple):
    provider: str
    path: str
    """Empty where there is none."""
    name: str

    def __str__(self) -> str:
        return f"${{{self.provider}:{self.path + ':' if self.path else ''}{self.name}}}"


class Provider(NamedTuple):
    """A config provider of a file. `parameters`: `config.providers.NAME.param.*`."""

    class_name: str
    parameters: Mapping[str, str]


def providers(file: Mapping[str, str]) -> tuple[dict[str, Provider], list[ConfigError]]:
    """Returns the providers that a file names, and what is wrong with them."""
    by_name: dict[str, Provider] = {}
    errors: list[ConfigError] = []
    for name in dict.fromkeys(split_list(file.get(stock.PROVIDERS, ""))):
        key = f"{stock.PROVIDERS}.{name}.class"
        text = file.get(key)
        if text is None:
            why = f"Missing configuration {key}: {stock.PROVIDERS} names {name}; give {', '.join(_CLASSES[:2])} or "
            errors.append(ConfigError(key, why + ENVIRONMENT))
            continue
        chosen = next(
            (
                class_name
                for class_name in _CLASSES
                if trimmed(text) in (class_name, class_name.rpartition(".")[2])
            ),
            None,
        )
        if chosen is None:
            why = f"there is no JVM to load it; the providers here are {', '.join(_CLASSES)}"
            errors.append(ConfigError(key, invalid(key, text, why)))
            continue
        prefix = f"{stock.PROVIDERS}.{name}.param."
        options = {key.removeprefix(prefix): value for key, value in file.items() if key.startswith(prefix)}
        by_name[name] = Provider(chosen, options)
    return by_name, errors


def references(file: Mapping[str, str]) -> Iterator[tuple[str, Reference]]:
    """Yields every reference with the key that has it. Those among the providers' own keys stay as they are."""
    for key, value in file.items():
        if not key.startswith(stock.PROVIDERS):
            yield from ((key, _reference(match)) for match in _REFERENCE.finditer(value))


def replaced(file: Mapping[str, str], data: Mapping[Reference, str]) -> dict[str, str]:
    """Returns the file with values for references; what is not in `data` stays."""

    def value_of(match: re.Match[str]) -> str:
        return data.get(_reference(match), match[0])

    return {
        key: value if key.startswith(stock.PROVIDERS) else _REFERENCE.sub(value_of, value)
        for key, value in file.items()
    }


def _reference(match: re.Match[str]) -> Reference:
    return Reference(match["provider"], match["path"] or "", match["name"])


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
        Path(os.path.normpath(text)) for text in provider.parameters.get(_ALLOWED, "").split(",") if text
    ]
    if allowed and not any(path.is_relative_to(folder) for folder in allowed):
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


def read_plan(path: Path, clients: ClientCheck, environment: Mapping[str, str] = os.environ) -> MirrorPlan:
    """Returns the plan of a file. Raises ConfigRejected with every error at once, and PropertiesProblem for a file that
    can't be read."""
    return plan_of_properties(load_properties(path), clients, environment)


def plan_of_properties(
    file: Mapping[str, str], clients: ClientCheck, environment: Mapping[str, str] = os.environ
) -> MirrorPlan:
    """Returns the plan of the properties of a file. Raises ConfigRejected with every error at once."""
    data, errors = resolved(file, environment)
    try:
        plan = plan_of(given(replaced(file, data)), clients, frozenset(map(trimmed, data.values())))
    except ConfigRejected as rejected:
        # What is said of a value that still has its reference helps nobody.
        left = {key for key, reference in references(file) if reference not in data}
        raise ConfigRejected(
            [*errors, *(error for error in rejected.errors if error.key not in left)]
        ) from None
    if errors:
        raise ConfigRejected(errors)
    return plan


def resolved(
    file: Mapping[str, str], environment: Mapping[str, str]
) -> tuple[dict[Reference, str], list[ConfigError]]:
    """Returns the values of a file's references, and what is wrong with the others."""
    named, errors = providers(file)
    look_ups = {name: look_up(provider, environment) for name, provider in named.items()}
    wrong = {error.key for error in errors}
    data: dict[Reference, str] = {}
    for key, reference in references(file):
        if reference.provider not in look_ups:
            if f"config.providers.{reference.provider}.class" not in wrong:
                why = f"config.providers does not name {reference.provider}"
                errors.append(ConfigError(key, f"{key} refers to {reference}: {why}"))
            continue
        try:
            data[reference] = look_ups[reference.provider](reference)
        except NotFound as problem:
            errors.append(ConfigError(key, f"{key} refers to {reference}: {problem}"))
    return data, list(dict.fromkeys(errors))
