"""What Spark forks its Python workers from (spark.python.daemon.module): its own daemon, with all imported that a slice
needs. So that is imported once for all workers of a machine, and their memory for it is the same.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from bridge.pipeline import slices

__all__ = ["slices", "without_zips"]


def without_zips(path: Iterable[str]) -> list[str]:
    """A search path without the zips of an installed pyspark, which Spark puts in front of it: the package around them
    has the same modules, and keeps them compiled. From a zip they are compiled at each start, for half a second more of
    processor time. A distribution of Spark has them in zips only."""
    return [each for each in path if not _of_installed(Path(each))]


def _of_installed(path: Path) -> bool:
    """As in pyspark/python/lib/pyspark.zip."""
    package = path.parents[2] if len(path.parents) > 2 else path
    return path.suffix == ".zip" and package.name == "pyspark" and (package / "__init__.py").is_file()


if __name__ == "__main__":
    sys.path[:] = without_zips(sys.path)
    from pyspark.daemon import manager

    manager()
