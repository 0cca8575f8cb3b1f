"""References to config providers, `${provider:path:key}`, found and replaced as Kafka's ConfigTransformer does it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from bridge.dedicated.config import names
from bridge.errors import ConfigError
from bridge.model.java_values import split_list, trimmed
from connectors.config.validators import invalid

_REFERENCE = re.compile(r"\$\{(?P<provider>[^}]*?):(?:(?P<path>[^}]*?):)?(?P<name>[^}]*?)\}")
_PACKAGE = "org.apache.kafka.common.config.provider."
FILE, DIRECTORY, ENVIRONMENT = (f"{_PACKAGE}{kind}ConfigProvider" for kind in ("File", "Directory", "EnvVar"))
_CLASSES = (FILE, DIRECTORY, ENVIRONMENT)


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
    for name in dict.fromkeys(split_list(file.get(names.PROVIDERS, ""))):
        key = f"{names.PROVIDERS}.{name}.class"
        text = file.get(key)
        if text is None:
            why = f"Missing configuration {key}: {names.PROVIDERS} names {name}; give {', '.join(_CLASSES[:2])} or "
            errors.append(ConfigError(key, why + ENVIRONMENT))
            continue
        chosen = next((each for each in _CLASSES if trimmed(text) in (each, each.rpartition(".")[2])), None)
        if chosen is None:
            why = f"there is no JVM to load it; the providers here are {', '.join(_CLASSES)}"
            errors.append(ConfigError(key, invalid(key, text, why)))
            continue
        prefix = f"{names.PROVIDERS}.{name}.param."
        given = {key.removeprefix(prefix): value for key, value in file.items() if key.startswith(prefix)}
        by_name[name] = Provider(chosen, given)
    return by_name, errors


def references(file: Mapping[str, str]) -> Iterator[tuple[str, Reference]]:
    """Yields every reference with the key that has it. Those among the providers' own keys stay as they are."""
    for key, value in file.items():
        if not key.startswith(names.PROVIDERS):
            yield from ((key, _reference(match)) for match in _REFERENCE.finditer(value))


def replaced(file: Mapping[str, str], data: Mapping[Reference, str]) -> dict[str, str]:
    """Returns the file with values for references; what is not in `data` stays."""

    def value_of(match: re.Match[str]) -> str:
        return data.get(_reference(match), match[0])

    return {
        key: value if key.startswith(names.PROVIDERS) else _REFERENCE.sub(value_of, value)
        for key, value in file.items()
    }


def _reference(match: re.Match[str]) -> Reference:
    return Reference(match["provider"], match["path"] or "", match["name"])
