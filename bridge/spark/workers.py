"""The daemon that Spark may fork its Python workers from (spark.python.daemon.module): its own, with all imported that
reading and writing need. So that is imported once for all workers of a machine, and their memory for it is the same."""

from __future__ import annotations

from bridge.pipeline.slices.workers import run_daemon
from bridge.spark import decoding, internal_topics, records
from bridge.spark.writing import tasks

__all__ = ["decoding", "internal_topics", "records", "tasks"]

if __name__ == "__main__":
    run_daemon()
