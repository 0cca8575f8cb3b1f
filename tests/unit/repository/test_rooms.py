"""Who may import whom: the table of docs/architecture.md, read against every import of every module.

Imports under TYPE_CHECKING and inside functions count too: needing a name for a type is needing the room. They load
nothing with the module, so that both are late.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tests.unit.repository.parsing import parse

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "architecture.md"
OURS = ("bridge", "connectors")
IMPURE = re.findall(
    r"\w+",
    """asyncio concurrent ctypes glob io logging multiprocessing os pathlib queue random sched secrets selectors shutil
    signal socket ssl subprocess tempfile threading time urllib uuid""",
)
"""Modules of the standard library that have effects."""


@dataclass(frozen=True)
class Room:
    """What the modules of a room may import beside itself and the standard library."""

    names: frozenset[str]
    """Rooms of ours, `x.*` for all rooms in x, and third-party packages."""
    late: frozenset[str]
    """These only inside functions or for types, with all that is in them."""
    pure: bool
    anything: bool


@cache
def rooms() -> dict[str, Room]:
    """The table, by the names of its first column."""
    collected: dict[str, Room] = {}
    for row in re.findall(r"^\| (`.+?) \| .+? \|(.*)\|$", PAGE.read_text("utf-8"), re.MULTILINE):
        early, _, late = row[1].partition("*late*")
        room = Room(quoted(early), quoted(late), "*pure*" in early, "*anything*" in early)
        collected |= dict.fromkeys(quoted(row[0]), room)
    return collected


def quoted(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"`([\w.*]+)`", text))


@cache
def room_of(module: str) -> str:
    """The row that the module belongs to: its own, or that of its package. Empty if there is none."""
    module = module.removesuffix(".__init__")
    if module in rooms():
        return module
    package = module.rpartition(".")[0]
    # A module right below `bridge` has a row of its own: `bridge` is its __init__ alone.
    return package if package in rooms() and package != "bridge" else ""


@cache
def imports(module: str, source: str) -> Sequence[tuple[str, bool]]:
    """Every imported module, absolute, and whether the import is late."""
    return list(_imports(module, source))


def _imports(module: str, source: str) -> Iterator[tuple[str, bool]]:
    for node, inside in statements(parse(source)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, inside) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = module.split(".")[: -node.level]
                base = ".".join([*package, *([base] if base else [])])
            for alias in node.names:
                # `from bridge import VERSION` is of bridge itself, `from bridge import errors` of another room.
                deeper = f"{base}.{alias.name}"
                yield (deeper if is_module(deeper) else base, inside)


def statements(node: ast.AST, inside: bool = False) -> Iterator[tuple[ast.AST, bool]]:
    """Every statement below the node, and whether it stands inside a function, or under TYPE_CHECKING."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
            yield child, inside
            late = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) or (
                isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"
            )
            yield from statements(child, inside or late)


@cache
def is_module(name: str) -> bool:
    if name.partition(".")[0] not in OURS:
        return False
    path = ROOT / name.replace(".", "/")
    return path.is_dir() or path.with_suffix(".py").is_file()


def violations(module: str, source: str) -> list[str]:
    """One line for each import that the table forbids."""
    where = room_of(module)
    if not where:
        return [f"{module} is in no room: give it a row in docs/architecture.md"]
    return [
        f"{module} ({where}) must not import {name}{'' if inside else ' at its top'}"
        for name, inside in imports(module, source)
        if not allowed(where, name, inside)
    ]


def allowed(where: str, name: str, inside: bool) -> bool:
    room, top = rooms()[where], name.partition(".")[0]
    late = any((name + ".").startswith(each.removesuffix("*").rstrip(".") + ".") for each in room.late)
    if late:
        return inside
    other = room_of(name) if top in OURS else top
    if room.anything or other == where:
        return True
    if top in sys.stdlib_module_names:
        return not (room.pure and top in IMPURE)
    return other in room.names or any(
        (other + ".").startswith(each.removesuffix("*")) for each in room.names if each.endswith(".*")
    )


def modules() -> list[tuple[str, Path]]:
    files = [path for package in OURS for path in sorted((ROOT / package).rglob("*.py"))]
    return [(".".join(path.relative_to(ROOT).with_suffix("").parts), path) for path in files]


def test_every_import_is_one_that_its_room_may_have() -> None:
    result = [line for module, path in modules() for line in violations(module, path.read_text("utf-8"))]
    assert result == []


def test_every_row_is_a_room_and_says_no_more_than_is_used() -> None:
    """A permission that nobody uses is an arrow that the house does not have."""
    used: dict[str, set[str]] = {}
    for module, path in modules():
        for name, inside in imports(module, path.read_text("utf-8")):
            where = room_of(module)
            for each in rooms()[where].names | (rooms()[where].late if inside else frozenset()):
                within = each.removesuffix(".*")
                if name == within or room_of(name) == within or name.startswith(within + "."):
                    used.setdefault(where, set()).add(each)
    # Several rooms in one row share its permissions.
    rows: dict[Room, set[str]] = {}
    for name, room in rooms().items():
        assert is_module(name), f"{name} is no module"
        rows.setdefault(room, set()).update(used.get(name, ()))
    # What may be imported only late by a room that may import anything is a ban, whether somebody needs it or not.
    unused = {
        name: needless
        for name, room in rooms().items()
        if (needless := (room.names | (frozenset() if room.anything else room.late)) - rows[room])
    }
    assert unused == {}


def test_no_rooms_import_each_other_in_a_circle() -> None:
    """But for a package and one inside it: routes use what the application around them has."""
    arrows: dict[str, set[str]] = {}
    for module, path in modules():
        where = room_of(module)
        names = {room_of(name) for name, _ in imports(module, path.read_text("utf-8"))} - {"", where}
        arrows.setdefault(where, set()).update(name for name in names if not where.startswith(name + "."))
    TopologicalSorter(arrows).prepare()  # raises CycleError


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
        ("bridge.translation.plan", "from bridge.translation.runs.runs import OffsetRun"),
        ("bridge.translation.records.bracketing", "from bridge.translation.evidence import both"),
        ("bridge.translation.plan", "if TYPE_CHECKING:\n    from bridge.kafka.admin import topic_admin"),
        ("bridge.translation.plan", "def late():\n    import pydantic"),
        ("bridge.model.values", "from bridge.mm2.filters import TopicFilter"),
        ("bridge.protocol.messages", "from connectors.base import Kind"),
        ("bridge.kafka.cluster", "from connectors import ports"),
        ("bridge.kafka.admin.topic_admin", "import fastapi.responses"),
        ("bridge.kafka.record.batch", "from bridge.kafka.network.client import NetworkClient"),
        ("bridge.kafka.config.sasl", "from bridge.kafka.cluster import KafkaCluster"),
        ("bridge.kafka.config.sasl", "import confluent_kafka"),
        ("connectors.source.connector", "import confluent_kafka.admin as admin"),
        ("connectors.source.connector", "from pyspark.sql import SparkSession"),
        ("connectors.base", "from connectors.source import task"),
        ("bridge.pipeline.slices.copier", "import connectors"),
        ("bridge.pipeline.layouts.records", "from bridge.pipeline.slices.gaps import ledger_entry"),
        ("bridge.pipeline.slices.copier", "from bridge.pipeline.driver.frames import read_line"),
        ("bridge.pipeline.slices.copier", "from bridge.pipeline.positions import committed_runs"),
        ("bridge.service.http.routes.tasks", "from bridge.kafka.admin.topic_admin import TopicAdmin"),
        ("bridge.service.state.outbox", "from bridge.service.http.app import create_app"),
        ("bridge.service.wiring", "from bridge.kafka.cluster import KafkaClusters"),
        ("bridge.service.wiring", "import pyspark"),
        ("bridge.service.wiring", "import confluent_kafka"),
        ("bridge.local.stack", "import pyspark"),
        ("bridge.pipeline.slices.running", "from bridge.pipeline.slices.transforming import calls"),
        ("bridge.pipeline.slices.running", "def late():\n    import pyarrow"),
        ("bridge.transforms.ready", "from bridge.kafka.record.columns import Records"),
        ("bridge.transforms.ready", "from bridge.transforms.masks import masking"),
        ("connectors.source.checks", "from bridge.transforms.contract import call"),
        ("bridge.cli", "from bridge.local import LocalStack"),
        ("bridge.commands.read", "from bridge.kafka.cluster import KafkaCluster"),
        ("bridge.client.blocking", "import typer"),
        ("bridge.attic.old", ""),
        ("bridge.loose", ""),
    ],
)
def test_a_forbidden_import_is_seen(module: str, source: str) -> None:
    assert violations(module, source)


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("bridge.translation.plan", "import re, dataclasses\nfrom bridge.model.values import Side"),
        ("bridge.translation.plan", "from .evidence import both\nfrom . import evidence"),
        ("bridge.translation.__init__", "from .plan import plan"),
        ("bridge.protocol.messages", "from pydantic import BaseModel\nfrom bridge import PROTOCOL"),
        ("bridge.kafka.admin.topic_admin", "import confluent_kafka\nfrom bridge.model import values"),
        ("bridge.kafka.config.oauth", "def late():\n    import httpx"),
        (
            "bridge.service.wiring",
            "from bridge.service.http.app import create_app\n"
            "def late():\n    from bridge.kafka.admin.topic_admin import TopicAdmin",
        ),
        ("bridge.service.serve", "from bridge.service.wiring import check_context"),
        ("bridge.cli", "def demo():\n    from bridge.local import LocalStack"),
        ("bridge.local.broker", "from confluent_kafka.admin import AdminClient"),
        (
            "bridge.pipeline.slices.running",
            "def late():\n    from bridge.pipeline.slices.transforming import calls",
        ),
    ],
)
def test_an_allowed_import_is_left_alone(module: str, source: str) -> None:
    assert violations(module, source) == []


def test_tests_stand_where_the_modules_do() -> None:
    """A folder of unit tests is a package of the source, under its name; tests/unit/repository is of the files."""
    tests = ROOT / "tests" / "unit"
    folders = {path.parent.relative_to(tests) for path in tests.rglob("test_*.py")}
    astray = [
        each
        for each in sorted(folders - {Path("repository"), Path()})
        if not any((top / each / "__init__.py").is_file() for top in (ROOT / "bridge", ROOT))
    ]
    assert astray == []
