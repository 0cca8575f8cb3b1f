"""Who may import whom: the table of CONTRIBUTING.md, read against every import of every file.

Imports under TYPE_CHECKING and inside functions count too: needing a name for a type is needing the room.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OURS = ("bridge", "connectors")


@dataclass(frozen=True)
class Room:
    """What a room may import beside itself and the standard library."""

    ours: frozenset[str] = frozenset()
    """Rooms of ours."""
    others: frozenset[str] = frozenset()
    """Third-party packages."""
    not_stdlib: frozenset[str] = frozenset()
    """Modules of the standard library that it must do without."""
    anything: bool = False


def names(text: str) -> frozenset[str]:
    return frozenset(text.split())


IMPURE = names(
    "asyncio concurrent ctypes glob io logging multiprocessing os pathlib queue random sched secrets "
    "selectors shutil signal socket ssl subprocess tempfile threading time urllib uuid"
)
WEB = names("fastapi starlette uvicorn h11 pydantic prometheus_client")
ROOMS = {
    "bridge": Room(),
    "bridge.errors": Room(),
    "bridge.backoff": Room(),
    "bridge.logs": Room(),
    "bridge.policy": Room(),
    "bridge.policy_settings": Room(ours=names("bridge.policy"), others=names("pydantic pydantic_settings")),
    "bridge.limit_settings": Room(others=names("pydantic pydantic_settings")),
    "bridge.environment": Room(),
    "bridge.tokens": Room(others=names("pydantic")),
    "bridge.settings": Room(
        ours=names("bridge.errors bridge.limit_settings bridge.policy_settings bridge.tokens"),
        others=names("pydantic pydantic_settings"),
    ),
    "bridge.patterns": Room(others=names("regex")),
    "bridge.translation": Room(ours=names("bridge.patterns"), not_stdlib=IMPURE),
    "bridge.protocol": Room(ours=names("bridge bridge.errors"), others=names("pydantic")),
    "bridge.kafka": Room(
        ours=names("bridge.backoff bridge.translation bridge.errors"),
        # jks and cryptography read key stores, httpx fetches tokens; the rest is what a raw batch takes.
        others=names(
            "confluent_kafka aiokafka jks cryptography httpx crc32c cramjam lz4 zstandard llvmlite numba numpy"
        ),
    ),
    "connectors": Room(
        ours=names(
            "bridge.backoff bridge bridge.translation bridge.transforms "
            "bridge.protocol bridge.errors bridge.logs bridge.policy"
        )
    ),
    "bridge.transforms": Room(
        ours=names("bridge.translation bridge.transforms.masks"), others=names("msgspec numpy pyarrow")
    ),
    "bridge.transforms.masks": Room(ours=names("bridge.kafka"), others=names("numpy pyarrow")),
    "bridge.pipeline": Room(
        ours=names(
            "bridge.backoff bridge.translation bridge.kafka "
            "bridge.environment bridge.errors bridge.logs bridge.pipeline.transforming"
        ),
        others=names("pyspark"),
    ),
    "bridge.pipeline.transforming": Room(
        ours=names(
            "bridge.pipeline bridge.transforms bridge.translation bridge.kafka bridge.environment bridge.errors"
        ),
        others=names("numpy pyarrow"),
    ),
    "bridge.service": Room(
        ours=names(
            "bridge.backoff bridge bridge.protocol bridge.translation "
            "bridge.environment bridge.errors bridge.logs bridge.settings "
            "bridge.policy bridge.tokens connectors"
        ),
        others=WEB,
    ),
    # A process of its own: code of others is loaded in it.
    "bridge.service.loading": Room(
        ours=names(
            "bridge.service bridge.service.wiring bridge.errors bridge.policy bridge.transforms "
            "bridge.translation connectors"
        )
    ),
    # The one module where the service meets its adapters.
    "bridge.service.wiring": Room(
        ours=names(
            "bridge.service bridge.kafka bridge.pipeline bridge.client bridge.doctor bridge.protocol bridge.errors "
            "bridge.translation bridge.settings bridge.policy connectors"
        )
    ),
    "bridge.doctor": Room(
        ours=names("bridge.kafka bridge.pipeline bridge.translation bridge.errors connectors"),
    ),
    "bridge.client": Room(
        ours=names("bridge.kafka bridge.translation bridge.errors connectors"),
    ),
    "bridge.commands": Room(anything=True),
    "bridge.local": Room(anything=True),
    "bridge.cli": Room(anything=True),
    "bridge.demo": Room(anything=True),
    "bridge.__main__": Room(ours=names("bridge.cli")),
}
LATE = {
    "bridge.cli": names("pyspark bridge.pipeline bridge.local bridge.service bridge.demo"),
    "bridge.commands": names(
        "pyspark bridge.pipeline bridge.local bridge.service bridge.kafka bridge.client "
        "bridge.doctor.collecting"
    ),
    "bridge.local": names("pyspark"),
    "bridge.pipeline": names("bridge.pipeline.transforming"),
    "bridge.transforms": names("bridge.transforms.masks"),
    "connectors": names("bridge.transforms"),
}
"""What these may import only inside a function: a subcommand must not pay for another, nor a copy for transforms that
it does not have."""


def room_of(module: str) -> str:
    """The longest entry of the table that the module lies in."""
    module = module.removesuffix(".__init__")
    found = [room for room in ROOMS if room != "bridge" and (module + ".").startswith(room + ".")]
    if found:
        return max(found, key=len)
    return "bridge" if module == "bridge" else f"no room for {module}"


def imports(module: str, source: str) -> Iterator[tuple[str, bool]]:
    """Every imported module, absolute, and whether the import stands inside a function."""
    tree = ast.parse(source)
    inside = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, id(node) in inside) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = module.split(".")[: -node.level]
                base = ".".join([*package, *([base] if base else [])])
            for alias in node.names:
                # `from bridge import VERSION` is of bridge itself, `from bridge import errors` of a room.
                deeper = f"{base}.{alias.name}"
                yield (deeper if base in OURS and is_module(deeper) else base, id(node) in inside)


def is_module(name: str) -> bool:
    path = ROOT / name.replace(".", "/")
    return path.is_dir() or path.with_suffix(".py").is_file()


def violations(module: str, source: str) -> list[str]:
    """One line for each import that the table forbids."""
    where = room_of(module)
    if where not in ROOMS:
        return [f"{module} is in no room: give it one here and in CONTRIBUTING.md"]
    return [
        f"{module} ({where}) must not import {name}{'' if inside else ' at its top'}"
        for name, inside in imports(module, source)
        if not allowed(where, name, inside)
    ]


def allowed(where: str, name: str, inside: bool) -> bool:
    room, top = ROOMS[where], name.partition(".")[0]
    if not inside and any((name + ".").startswith(late + ".") for late in LATE.get(where, ())):
        return False
    if room.anything or name == where or name.startswith(where + "."):
        return True
    if top in OURS:
        return room_of(name) in room.ours
    if top in sys.stdlib_module_names:
        return top not in room.not_stdlib
    return top in room.others


def modules() -> list[tuple[str, Path]]:
    files = [path for package in OURS for path in sorted((ROOT / package).rglob("*.py"))]
    return [(".".join(path.relative_to(ROOT).with_suffix("").parts), path) for path in files]


def test_every_import_is_one_that_its_room_may_have() -> None:
    found = [line for module, path in modules() for line in violations(module, path.read_text("utf-8"))]
    assert found == []


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("bridge.translation.plan", "import confluent_kafka"),
        ("bridge.translation.plan", "import time"),
        ("bridge.translation.plan", "from concurrent.futures import Future"),
        ("bridge.translation.plan", "from bridge.errors import BridgeError"),
        ("bridge.translation.plan", "from bridge import errors"),
        ("bridge.translation.plan", "from .. import errors"),
        ("bridge.translation.plan", "from ..kafka import admin"),
        ("bridge.translation.__init__", "from ..kafka import admin"),
        ("bridge.translation.plan", "if TYPE_CHECKING:\n    from bridge.kafka.admin import Admin"),
        ("bridge.translation.plan", "def late():\n    import pydantic"),
        ("bridge.protocol.messages", "from connectors.base import Kind"),
        ("bridge.kafka.admin", "from connectors import ports"),
        ("bridge.kafka.admin", "import fastapi.responses"),
        ("connectors.source.connector", "import confluent_kafka.admin as admin"),
        ("connectors.source.connector", "from pyspark.sql import SparkSession"),
        ("bridge.pipeline.copy", "import connectors"),
        ("bridge.service.routes.tasks", "from bridge.kafka.admin import Admin"),
        ("bridge.service.wiring", "import pyspark"),
        ("bridge.service.wiring", "import confluent_kafka"),
        ("bridge.local.stack", "import pyspark"),
        ("bridge.pipeline.slices", "from bridge.pipeline.transforming import calls"),
        ("bridge.pipeline.slices", "def late():\n    import pyarrow"),
        ("bridge.transforms.ready", "from bridge.kafka.records import Records"),
        ("connectors.source.transforms", "from bridge.transforms.contract import call"),
        ("bridge.cli", "from bridge.local import LocalStack"),
        ("bridge.commands.read", "from bridge.kafka.cluster import KafkaCluster"),
        ("bridge.client.once", "import typer"),
        ("bridge.attic.old", ""),
    ],
)
def test_a_forbidden_import_is_seen(module: str, source: str) -> None:
    assert violations(module, source)


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("bridge.translation.plan", "import re, dataclasses\nfrom bridge.translation.model import Side"),
        ("bridge.translation.plan", "from .model import Side\nfrom . import model"),
        ("bridge.translation.__init__", "from .model import Side"),
        ("bridge.protocol.messages", "from pydantic import BaseModel\nfrom bridge import PROTOCOL"),
        ("bridge.kafka.admin", "import confluent_kafka\nfrom bridge.translation import model"),
        (
            "bridge.service.wiring",
            "from bridge.kafka.admin import Admin\nfrom bridge.service.app import create_app",
        ),
        ("bridge.service.app", "from bridge.service.wiring import wire"),
        ("bridge.cli", "def demo():\n    from bridge.local import LocalStack"),
        ("bridge.local.broker", "from confluent_kafka.admin import AdminClient"),
        ("bridge.pipeline.slices", "def late():\n    from bridge.pipeline.transforming import calls"),
    ],
)
def test_an_allowed_import_is_left_alone(module: str, source: str) -> None:
    assert violations(module, source) == []
