"""The daemon that Spark may fork its Python workers from (spark.python.daemon.module): its own, with all imported that
reading and writing need. So that is imported once for all workers of a machine, and their memory for it is the same."""

from __future__ import annotations

import sys

from bridge.pipeline.slices.workers import without_zips
from bridge.spark import decoding, internal_topics, records
from bridge.spark.writing import tasks

__all__ = ["decoding", "internal_topics", "records", "tasks"]

if __name__ == "__main__":
    sys.path[:] = without_zips(sys.path)
    from pyspark.daemon import manager

    manager()
