"""Reads a connector's configuration from a file: the JSON that is PUT to Connect, or Java .properties."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

from bridge.java_properties import PropertiesProblem, load_properties

_REFERENCE = re.compile(r"\$\{[^}:]+:[^}]*\}")


def load_connector(path: Path) -> dict[str, str]:
    """The configuration of a .properties file, or of JSON: {"name": …, "config": {…}}, whose name becomes a key as in
    Connect, or the config alone. Raises PropertiesProblem."""
    if path.suffix.lower() != ".json":
        return load_properties(path)
    try:
        document = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise PropertiesProblem(f"can't read {path}: {error.strerror}") from None
    except ValueError as error:
        raise PropertiesProblem(f"{path} is not JSON: {error}") from None
    config = document.get("config", document) if isinstance(document, dict) else document
    if not isinstance(config, Mapping):
        raise PropertiesProblem(f"{path} holds no connector's configuration: it must be a JSON object")
    wrong = [key for key, value in config.items() if isinstance(value, list | dict)]
    if wrong:
        raise PropertiesProblem(f"{path}: {wrong[0]} must be text")
    named = (
        {"name": document["name"]} if config is not document and isinstance(document.get("name"), str) else {}
    )
    return {key: _text(value) for key, value in {**config, **named}.items() if value is not None}


def unresolved(config: Mapping[str, str]) -> list[str]:
    """Keys with references to config providers, ${file:…}, which only a Connect worker can resolve."""
    return sorted(key for key, value in config.items() if _REFERENCE.search(value))


def _text(value: object) -> str:
    """A value as Connect reads it, which takes unquoted numbers and booleans as text."""
    return value if isinstance(value, str) else json.dumps(value)
