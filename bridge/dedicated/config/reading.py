"""Reads a file of dedicated mode, and what its config providers refer to: all of this room's I/O is here and in
`providers`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from bridge.dedicated.config.plan import MirrorPlan
from bridge.dedicated.config.planning import plan_of
from bridge.dedicated.config.providers import NotFound, look_up
from bridge.dedicated.config.references import Reference, providers, references, replaced
from bridge.errors import ConfigError, ConfigRejected
from bridge.java_properties import load_properties
from bridge.model.java_values import given, trimmed
from connectors.ports import ClientCheck


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
        raise ConfigRejected([*errors, *(each for each in rejected.errors if each.key not in left)]) from None
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
