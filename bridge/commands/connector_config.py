"""Configurations of connectors that are given to commands as files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from bridge.commands.exit_status import BAD_SETTINGS, end
from bridge.connector_files import load_connector, unresolved
from bridge.java_properties import PropertiesProblem

if TYPE_CHECKING:
    from connectors.base import Kind


def read_connector(path: Path) -> dict[str, str]:
    """Loads a configuration whose values are all written out; ends the command where it can't."""
    try:
        config = load_connector(path)
    except PropertiesProblem as problem:
        end(str(problem), BAD_SETTINGS)
    if any("->" in key for key in config):
        end(
            f"{path} is a file of mirror-bridge mirror, with all connectors of its flows; this command takes the "
            "configuration of one. Write that one's keys into a file of its own, as docs/dedicated.md derives them, "
            "or, for doctor, ask the node: mirror-bridge doctor --connector 'A->B.MirrorSourceConnector' --url NODE",
            BAD_SETTINGS,
        )
    if left := unresolved(config):
        end(
            f"{path}: {', '.join(left)} refer to config providers, which only Connect can read: write the values out",
            BAD_SETTINGS,
        )
    return config


def copying_kind(config: Mapping[str, str], where: str = "") -> Kind:
    """Returns the kind of a connector that copies; without a class the source connector. Ends the command for another
    one; `where`: what its message begins with."""
    from connectors.registry import KINDS, kind_of_class

    copying = KINDS["source"], KINDS["sink"]
    given = config.get("connector.class")
    kind = copying[0] if given is None else kind_of_class(given)
    if kind not in copying:
        names = " or ".join(each.connector_class for each in copying)
        end(
            f"{where}connector.class is {given}; it must be {names}; without the key it is the first",
            BAD_SETTINGS,
        )
    assert kind is not None
    return kind
