"""Processes whose time of day is wrong, by a library that is compiled here and loaded before libc."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

_SOURCE = Path(__file__).with_suffix(".c")
COMPILER = shutil.which("cc")


def clock_library(directory: Path) -> Path:
    """Compiles it; takes a C compiler."""
    library = directory / "wrong_clock.so"
    subprocess.run([COMPILER or "cc", "-shared", "-fPIC", "-O2", "-o", library, _SOURCE, "-ldl"], check=True)
    return library


def shifted(library: Path, seconds: int) -> dict[str, str]:
    """Returns the variables that a process needs, for its time of day to be so many seconds ahead."""
    return {"LD_PRELOAD": str(library), "CLOCK_SHIFT_SECONDS": str(seconds)}
