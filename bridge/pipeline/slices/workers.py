"""The daemon that Spark forks its Python workers from (spark.python.daemon.module): its own, with all imported that a
slice needs. So that is imported once for all workers of a machine, and their memory for it is the same.

    python -m bridge.pipeline.slices.workers [DESCRIPTOR]

With the descriptor of a socket it is an early daemon (early_daemon), which the driver starts beside Spark.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from socket import socket

from bridge.logs.setup import WORKER, set_up_logs
from bridge.pipeline.slices.early_daemon import ADDRESS, hand_over, take_over

MODULE = "bridge.pipeline.slices.workers"


def without_zips(path: Sequence[str]) -> list[str]:
    """A search path without the zips of a pyspark that lies on it as it is, too: Spark puts them in front, and from a
    zip modules are compiled at each start, for half a second more of processor time. Elsewhere Spark has them in zips
    only, or its package is not for the Python that an executor has."""
    return [text for text in path if not _beside_package(Path(text), path)]


def _beside_package(zipped: Path, path: Sequence[str]) -> bool:
    """Whether it is such as site-packages/pyspark/python/lib/pyspark.zip, with site-packages on the path."""
    if zipped.suffix != ".zip" or len(zipped.parents) < 4:
        return False
    package, site = zipped.parents[2], zipped.parents[3]
    complete = package.name == "pyspark" and (site / "py4j").is_dir() and (package / "__init__.py").is_file()
    return complete and str(site) in path


def run_daemon() -> None:
    """Runs PySpark's daemon until Spark ends it. A worker that finds Spark's JVM gone when it begins ends in silence:
    PySpark would print a traceback, to whoever has just ended a command."""
    sys.path[:] = without_zips(sys.path)
    from pyspark import daemon

    run: Callable[[socket, bool], int] = daemon.worker

    def worker(sock: socket, authenticated: bool) -> int:
        try:
            return run(sock, authenticated)
        except ConnectionError:
            return 1

    daemon.worker = worker
    daemon.manager()


def _import_tasks() -> None:
    """Imports all that a slice needs; not for a daemon that hands over."""
    import_module("bridge.pipeline.slices.tasks")


def main() -> None:
    # What slices meet with they report through the layout topic, and the driver logs it once for all of them.
    set_up_logs(WORKER, "warning", "json")
    if len(sys.argv) > 1 and sys.argv[1].isdecimal():
        if not take_over(socket(fileno=int(sys.argv[1])), _import_tasks):
            return
    elif hand_over(os.environ.get(ADDRESS, "")):
        return
    else:
        _import_tasks()
    run_daemon()


if __name__ == "__main__":
    main()
