"""Our code and what it needs, packed for executors on other machines (spark.archives).

Packed is what a slice imports, found by importing it: whole distributions, with their C extensions, as they are
installed here. So executors need the same minor version of Python, and the same platform; nothing else of ours.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
from collections.abc import Iterator
from importlib.metadata import distribution, packages_distributions
from pathlib import Path

NAME = "mirror-bridge"
"""The directory that Spark unpacks the archive to, in an executor's working directory."""
_SLICE = "bridge.pipeline.slices"
_OURS = Path(__file__).parents[1]


def settings(archive: Path) -> dict[str, str]:
    """What makes executors unpack the archive and find it."""
    return {"spark.archives": f"{archive}#{NAME}", "spark.executorEnv.PYTHONPATH": NAME}


def python() -> str:
    """The interpreter that executors look for on their own PATH."""
    return f"python{sys.version_info.major}.{sys.version_info.minor}"


def build(archive: Path) -> None:
    """Writes a tar.gz, of some 110 MB. Takes some seconds: most of it is what compiles loops (numba)."""
    with tarfile.open(archive, "w:gz", compresslevel=1) as packed:
        for path, name in sorted(_files()):
            packed.add(path, name, recursive=False)


def _files() -> Iterator[tuple[Path, str]]:
    """Files, and the names that they have in the archive."""
    for path in _OURS.rglob("*"):
        if path.is_file() and path.suffix != ".pyc":
            yield path, str(path.relative_to(_OURS.parent))
    owners = packages_distributions()
    distributions = {name for module in _imported() for name in owners.get(module, ())}
    for name in distributions - {NAME, "mirror_bridge"}:
        for file in distribution(name).files or ():
            path = Path(str(file.locate()))
            # What lies outside of site-packages are commands.
            if path.is_file() and not str(file).startswith("..") and path.suffix != ".pyc":
                yield path, str(file)


def _imported() -> set[str]:
    """Top-level modules that a slice imports; asked of a fresh interpreter, because ours may have imported more."""
    ask = f"import sys, {_SLICE}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    answer = subprocess.run(
        [sys.executable, "-c", ask], check=True, capture_output=True, text=True, cwd=_OURS.parent
    )
    return set(answer.stdout.split())
