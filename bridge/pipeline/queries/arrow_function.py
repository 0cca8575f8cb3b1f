"""The function that DataFrame.mapInArrow gets. It is pickled by value, so that a worker which does not have our modules
yet, as one of a Spark Connect server, can call it and then find them where Spark has unpacked them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyarrow import RecordBatch

    Function = Callable[[Iterator[RecordBatch]], Iterator[RecordBatch]]


def arrow_function(name: str, key: bytes, archive: str = "") -> Function:
    """Returns a function for DataFrame.mapInArrow. `name`: shown in plans of queries. `archive`: what our modules were
    unpacked to, below the job's files; "" where they are on the search path."""

    def copy(batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
        # Whatever is named here has to be imported here: of this module a worker may have nothing else.
        import os
        import sys

        from pyspark import SparkFiles

        root = SparkFiles.getRootDirectory() if archive else ""
        for own in (os.path.join(root, archive), os.path.join(root, "archives", archive)):
            if archive and os.path.isdir(own) and own not in sys.path:
                sys.path.insert(0, own)
        from bridge.pipeline.queries.sealing import run_sealed

        yield from run_sealed(key, batches)

    copy.__name__ = copy.__qualname__ = name
    return copy
