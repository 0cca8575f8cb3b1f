"""Our code and what it needs, packed for executors on other machines (spark.archives).

Packed is what a slice imports, found by importing it: whole distributions, with their C extensions, as they are
installed here. So executors need the same minor version of Python, and the same platform; nothing else of ours.
"""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterator, Sequence
from importlib.metadata import distribution, packages_distributions
from pathlib import Path

NAME = "mirror-bridge"
"""The directory that Spark unpacks the archive to, in an executor's working directory."""
_SLICE, _PATTERNS = "bridge.pipeline.slices.tasks", "bridge.patterns"
"""Patterns are of tables and audits, which find the same archive."""
_TRANSFORMS = ("bridge.pipeline.slices.transforming.steps", "bridge.pipeline.slices.transforming.child")
_OURS = Path(__file__).parents[2]
_STDLIB = Path(sysconfig.get_path("stdlib"))


def settings(archive: Path) -> dict[str, str]:
    """The Spark settings that make executors unpack the archive and find it."""
    return {"spark.archives": f"{archive}#{NAME}", "spark.executorEnv.PYTHONPATH": NAME}


def python() -> str:
    """The interpreter that executors look for on their own PATH."""
    return f"python{sys.version_info.major}.{sys.version_info.minor}"


def build(archive: Path, functions: Sequence[str] = (), modules: Sequence[str] = ()) -> None:
    """Writes a tar.gz, of some 110 MB; with transforms (`functions`, as `module.function`) of some 160 MB, with Arrow,
    their modules, and what those import; `modules`: others, of logins. Takes some seconds: most of it is what compiles
    loops (numba)."""
    with tarfile.open(archive, "w:gz", compresslevel=1) as packed:
        for path, name in sorted(set(files(functions, modules))):
            packed.add(path, name, recursive=False)


def files(functions: Sequence[str] = (), modules: Sequence[str] = ()) -> Iterator[tuple[Path, str]]:
    """Files, and the names that they have in the archive."""
    yield from _tree(_OURS)
    transforms = (*_TRANSFORMS, *(function.rpartition(".")[0] for function in functions)) if functions else ()
    plain, imported = _imported([_SLICE, _PATTERNS], [*transforms, *modules])
    for name in imported.keys() - plain.keys() - sys.stdlib_module_names:
        yield from _own_files(imported[name])
    owners = packages_distributions()
    distributions = {name for module in imported for name in owners.get(module, ())}
    for name in distributions - {NAME, "mirror_bridge"}:
        for file in distribution(name).files or ():
            path = Path(str(file.locate()))
            # What lies outside of site-packages are commands.
            if path.is_file() and not str(file).startswith("..") and path.suffix != ".pyc":
                yield path, str(file)


def _own_files(places: Sequence[str]) -> Iterator[tuple[Path, str]]:
    """The files of a module that may belong to no distribution, or to one that is installed as a link to its
    sources."""
    for path in map(Path, places):
        if path.parent == _STDLIB:
            continue  # Python's own, under a name that the list of its modules does not have
        if path.is_dir():
            yield from _tree(path)
        else:
            yield path, path.name


def _tree(directory: Path) -> Iterator[tuple[Path, str]]:
    for path in directory.rglob("*"):
        if path.is_file() and path.suffix != ".pyc":
            yield path, str(path.relative_to(directory.parent))


_LOADED = """
import importlib, json, sys

def loaded(modules):
    for name in modules:
        importlib.import_module(name)
    return {
        name: list(getattr(module, "__path__", ())) or [module.__file__]
        for name, module in list(sys.modules.items())
        if "." not in name and (hasattr(module, "__path__") or getattr(module, "__file__", None))
    }

print(json.dumps([loaded(modules) for modules in json.loads(sys.argv[1])]))
"""


def _imported(*steps: Sequence[str]) -> list[dict[str, list[str]]]:
    """Returns, for each step, the top-level modules that are loaded once it has imported its modules, with the
    directories of packages and the files of others; asked of a fresh interpreter, because ours may have imported
    more."""
    process = subprocess.run(
        [sys.executable, "-c", _LOADED, json.dumps(steps)],
        check=True,
        capture_output=True,
        text=True,
        cwd=_OURS.parent,
    )
    loaded: list[dict[str, list[str]]] = json.loads(process.stdout.splitlines()[-1])
    return loaded
