"""Files that a configuration names: read once, within a size, and below folders that the service allows."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass

from bridge.environment import kept_folders

LIMIT = 10 * 1024 * 1024
ALLOWED_FOLDERS = "MIRROR_BRIDGE_ALLOWED_FOLDERS"
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC
"""For a path that is resolved: a link at its end was put there since."""


class UnreadableFile(ValueError):
    """Why a file is not read; begins as the rest of "the service can't read the file: "."""


@dataclass(frozen=True, slots=True)
class Files:
    """Where files may lie. `folders`: below one of them, links followed; none: below one of those that the process has
    (bridge.environment), or anywhere where it has none."""

    folders: tuple[str, ...] = ()
    most: int = LIMIT

    def read(self, location: str) -> bytes:
        """The whole file. Never blocks: only regular files are read. Raises Unreadable."""
        try:
            real = os.path.realpath(location)
            self._check_folder(real)
            # Before it is opened as well: there are devices that act when they are opened.
            _check_kind(os.stat(real))
            descriptor = os.open(real, _FLAGS)
            try:
                _check_kind(status := os.fstat(descriptor))
                # Files of /proc have a size of 0, whatever they hold.
                data = b"" if status.st_size > self.most else _up_to(descriptor, self.most + 1)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise UnreadableFile(error.strerror or str(error)) from error
        except ValueError as error:
            raise error if isinstance(error, UnreadableFile) else UnreadableFile(str(error)) from error
        if status.st_size > self.most or len(data) > self.most:
            raise UnreadableFile(f"it is larger than {self.most} bytes")
        return data

    def _check_folder(self, real: str) -> None:
        folders = self.folders or kept_folders()
        if not folders:
            return
        for folder in folders:
            above = os.path.realpath(folder)
            if os.path.commonpath((above, real)) == above and real != above:
                return
        raise UnreadableFile(
            f"it lies below no folder that this service allows; {ALLOWED_FOLDERS} is {', '.join(folders)}"
        )


def _check_kind(status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise UnreadableFile("it is no regular file")


def _up_to(descriptor: int, most: int) -> bytes:
    parts, left = [], most
    while left and (part := os.read(descriptor, min(left, 1 << 20))):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)
