"""The daemon that Spark forks its Python workers from (spark.python.daemon.module): its own, with all imported that a
comparison needs."""

from __future__ import annotations

from bridge.logs.setup import WORKER, set_up_logs
from bridge.pipeline.slices.workers import run_daemon
from bridge.spark.auditing import comparing

__all__ = ["comparing"]

if __name__ == "__main__":
    set_up_logs(WORKER, "warning", "json")
    run_daemon()
