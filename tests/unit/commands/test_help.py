"""`--help` shows without what commands need to run: whoever looks up an option does not wait for it to load."""

from __future__ import annotations

import json
import subprocess
import sys

MOST_MODULES = 280
"""For the list of commands; rich would be 60 more, pydantic 60, asyncio 30."""
HEAVY = {
    "aiokafka",
    "asyncio",
    "bridge.protocol.base",
    "confluent_kafka",
    "connectors",
    "fastapi",
    "httpx",
    "numba",
    "numpy",
    "pyarrow",
    "pyspark",
    "regex",
    "rich",
}
SHOW_HELP = """
import json, sys
from typer.main import get_command
from bridge.cli import app

root = get_command(app)

def show(command, *names):
    root.main([*names, "--help"], standalone_mode=False)
    shown.append((" ".join(names), sorted(sys.modules)))
    for name, below in getattr(command, "commands", {}).items():
        show(below, *names, name)

shown = []
show(root)
print(json.dumps(shown), file=sys.stderr)
"""


def test_help_of_every_command_loads_little() -> None:
    """In one process: what one command loads is there for the next as well."""
    command = [sys.executable, "-c", SHOW_HELP]
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    loaded: dict[str, list[str]] = dict(json.loads(result.stderr))
    assert {"", "serve", "read checkpoints"} <= loaded.keys()
    heavy = {name: HEAVY.intersection(modules) for name, modules in loaded.items()}
    assert {name: packages for name, packages in heavy.items() if packages} == {}
    # For a subcommand typer itself loads pydantic, by which it converts options.
    assert "pydantic" not in loaded[""]
    assert len(loaded[""]) <= MOST_MODULES
