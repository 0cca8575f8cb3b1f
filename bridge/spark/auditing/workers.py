"""The daemon that Spark forks its Python workers from (spark.python.daemon.module): its own, with all imported that a
comparison needs."""

from __future__ import annotations

import sys

from bridge.logs.setup import WORKER, set_up_logs
from bridge.pipeline.slices.workers import without_zips
from bridge.spark.auditing import comparing

__all__ = ["comparing"]

if __name__ == "__main__":
    sys.path[:] = without_zips(sys.path)
    set_up_logs(WORKER, "warning", "json")
    from pyspark.daemon import manager

    manager()
