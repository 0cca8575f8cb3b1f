"""Reads a connector's configuration from a file: the JSON that is PUT to Connect, or Java .properties."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

from bridge.java_properties import PropertiesProblem, load_properties
from bridge.model.java_values import given

_REFERENCE = re.compile(r"\$\{[^}:]+:[^}]*\}")


def load_connector(path: Path) -> dict[str, str]:
    """The configuration of a .properties file, or of JSON: {"name": …, "config": {…}}, whose name becomes a key as in
    Connect, or the config alone. Raises PropertiesProblem."""
    if path.suffix.lower() != ".json":
        return given(load_properties(path))
    try:
        # Connect takes a number as the text that was written.
        document = json.loads(
            path.read_text("utf-8"), parse_int=str, parse_float=str, parse_constant=_no_number
        )
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
    return given({key: _text(value) for key, value in {**config, **named}.items()})


def unresolved(config: Mapping[str, str]) -> list[str]:
    """Keys with references to config providers, ${file:…}, which only a Connect worker can resolve."""
    return sorted(key for key, value in config.items() if _REFERENCE.search(value))


def _text(value: object) -> str | None:
    """A value as Connect reads it, which takes unquoted numbers and booleans as text."""
    return value if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _no_number(text: str) -> str:
    raise ValueError(f"{text} is no value")
