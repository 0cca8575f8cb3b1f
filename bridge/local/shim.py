"""The Java shim as a plugin directory: finds its zip, or builds it from the sources, and unpacks it."""

from __future__ import annotations

import zipfile
from pathlib import Path

from bridge import VERSION
from bridge.local.errors import LocalStackError
from bridge.local.jars import locked
from bridge.local.java import run_maven

SHIM = Path(__file__).resolve().parents[2] / "java-shim"


def check_sources() -> None:
    """Raises LocalStackError without the sources, which an installed package does not have."""
    if not (SHIM / "pom.xml").exists():
        raise LocalStackError(f"No shim sources at {SHIM}: run from a checkout of the repository.")


def shim_zip() -> Path:
    """The zip of this version; built when there is none or a source is newer."""
    check_sources()
    archive = SHIM / "target" / f"mirror-bridge-connect-{VERSION}.zip"
    with locked(SHIM / "target" / "build"):
        if not archive.exists() or archive.stat().st_mtime < _newest_source():
            run_maven(["-f", str(SHIM / "pom.xml"), "package", "-DskipTests"], purpose="build the shim")
    if not archive.exists():
        raise LocalStackError(f"The build of {SHIM} did not leave {archive.name}; is its version {VERSION}?")
    return archive


def unpack_shim(directory: Path) -> Path:
    """Unpacks the zip below `directory`, and returns that as an entry for a worker's plugin.path."""
    directory.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(shim_zip()) as archive:
        archive.extractall(directory)
    return directory


def _newest_source() -> float:
    sources = [SHIM / "pom.xml", *(path for path in (SHIM / "src" / "main").rglob("*") if path.is_file())]
    return max(path.stat().st_mtime for path in sources)
