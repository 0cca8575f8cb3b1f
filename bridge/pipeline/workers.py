"""What Spark forks its Python workers from (spark.python.daemon.module): its own daemon, with all imported that a slice
needs. So that is imported once for all workers of a machine, and their memory for it is the same.
"""

from __future__ import annotations

from pyspark.daemon import manager

from bridge.pipeline import slices

__all__ = ["slices"]

if __name__ == "__main__":
    manager()
