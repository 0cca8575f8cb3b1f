"""Files and folders that are written whole or not at all: beside their place first, then moved there."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """Opens a temporary file that replaces `path` on success and is deleted on failure. Raises OSError."""
    file = tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False)  # noqa: SIM115
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(file.name, 0o666 & ~_umask())
        os.replace(file.name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(file.name)
        raise


@contextlib.contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """Makes a temporary folder that replaces `path`, or the folder there, on success and is deleted on failure. Raises
    OSError."""
    beside = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))
    made, old = beside / "new", beside / "old"
    try:
        made.mkdir()
        yield made
        if path.exists():
            os.rename(path, old)
        try:
            os.rename(made, path)
        except OSError:
            if old.exists():
                os.rename(old, path)
            raise
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _umask() -> int:
    umask = os.umask(0)
    os.umask(umask)
    return umask
