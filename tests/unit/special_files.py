"""Makes what a path can name beside regular files."""

from __future__ import annotations

import os
from pathlib import Path

SPECIAL_FILES = ["fifo", "folder", "/dev/zero"]


def special_file(path: Path, kind: str) -> None:
    """Makes one of SPECIAL_FILES at the path; a device by a link to it."""
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to(kind)
