"""A connector's whole configuration from a file: as it is PUT to Connect, or as a .properties file."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

from bridge.commands.properties import PropertiesProblem, load_properties

_REFERENCE = re.compile(r"\$\{[^}:]+:[^}]*\}")


def load_connector(path: Path) -> dict[str, str]:
    """The keys of a .properties file, or of JSON: {"name": …, "config": {…}}, whose name becomes a key as in Connect,
    or the config alone. Raises PropertiesProblem."""
    if path.suffix.lower() != ".json":
        return load_properties(path)
    try:
        said = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise PropertiesProblem(f"can't read {path}: {error.strerror}") from None
    except ValueError as error:
        raise PropertiesProblem(f"{path} is no JSON: {error}") from None
    config = said.get("config", said) if isinstance(said, dict) else said
    if not isinstance(config, Mapping):
        raise PropertiesProblem(f"{path} holds no connector's configuration: it must be a JSON object")
    wrong = [key for key, value in config.items() if isinstance(value, list | dict)]
    if wrong:
        raise PropertiesProblem(f"{path}: {wrong[0]} must be text")
    named = {"name": said["name"]} if config is not said and isinstance(said.get("name"), str) else {}
    return {key: _text(value) for key, value in {**config, **named}.items() if value is not None}


def unresolved(config: Mapping[str, str]) -> list[str]:
    """Keys with references to config providers, ${file:…}, which only a Connect worker can resolve."""
    return sorted(key for key, value in config.items() if _REFERENCE.search(value))


def _text(value: object) -> str:
    """As Connect reads numbers and booleans that are not quoted."""
    return value if isinstance(value, str) else json.dumps(value)
