"""Configurations of connectors that are given to commands as files."""

from __future__ import annotations

from pathlib import Path

from bridge.commands.exit_status import BAD_SETTINGS, end
from bridge.connector_files import load_connector, unresolved
from bridge.java_properties import PropertiesProblem


def read_connector(path: Path) -> dict[str, str]:
    """Loads a configuration whose values are all written out; ends the command where it can't."""
    try:
        config = load_connector(path)
    except PropertiesProblem as problem:
        end(str(problem), BAD_SETTINGS)
    if left := unresolved(config):
        end(
            f"{path}: {', '.join(left)} refer to config providers, which only Connect can read: write the values out",
            BAD_SETTINGS,
        )
    return config
