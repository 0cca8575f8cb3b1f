"""`dedicated`: two flows both ways in one command, ours beside stock's connect-mirror-maker in the same run: how soon
after its start the first record is copied, how fast a backlog is, and what the process costs once all is copied.

Each copies a topic of each cluster, of 120 bytes in 16 KB batches; ours exactly once, stock at least once, both with
two tasks for each flow. Memory is that of all their processes, added up (RSS): ours are Python, and a Spark driver for
each flow.
`MIRROR_BRIDGE_BENCH_SCALE=0.1` takes a tenth of the records and of the idle time.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from bridge.local import LocalStack, ManagedProcess
from bridge.local.broker import write_properties
from tests.perf.dedicated_mirrors import ONE_REPLICA, ours, stock
from tests.perf.loads import SCALE, Load, filled
from tests.perf.mirrors import broker_pids
from tests.perf.processes import Meter, resident, tree
from tests.perf.results import write
from tests.perf.watched_copy import Watch
from tests.support import create_topic, delete_topic, unique

RUNS = 3
RECORDS = 2_000_000
"""In each direction."""
IDLE_SECONDS = 30.0
SETTLED_SECONDS = 10.0
"""After the last record: the JVMs still compile, and groups are looked at for the first time."""
WITHIN = 900.0


class Figures(NamedTuple):
    """Seconds to the first record of the slower flow; records per second of both flows; of idle processors, the share
    of one; MB."""

    first: float
    rate: float
    mirror_cpu: float
    idle_cpu: float
    memory: float

    def row(self) -> dict[str, object]:
        return {
            "first_record_s": round(self.first, 1),
            "rate": round(self.rate),
            "cpu_s_per_million": round(self.mirror_cpu, 2),
            "idle_cpu_percent": round(100 * self.idle_cpu, 1),
            "memory_mb": round(self.memory),
        }


def file(folder: Path, bootstraps: Mapping[str, str], topics: Mapping[str, str]) -> Path:
    """mm2.properties of two flows, east->west and back; `topics` by where they are."""
    east, west = bootstraps
    path = folder / f"{unique('mm2')}.properties"
    write_properties(
        path,
        {
            "clusters": f"{east}, {west}",
            **{f"{alias}.bootstrap.servers": bootstrap for alias, bootstrap in bootstraps.items()},
            f"{east}->{west}.enabled": "true",
            f"{east}->{west}.topics": topics[east],
            f"{west}->{east}.enabled": "true",
            f"{west}->{east}.topics": topics[west],
            "tasks.max": "2",
            **ONE_REPLICA,
        },
    )
    return path


def measure(
    stack: LocalStack,
    folder: Path,
    load: Load,
    sources: Mapping[str, str],
    mirror: Callable[[Path, Path], AbstractContextManager[ManagedProcess]],
) -> Figures:
    """`sources`: the loaded topics of A and of B."""
    aliases = {name: unique(name.lower()) for name in ("A", "B")}
    at = {name: stack.cluster(name).bootstrap for name in aliases}
    properties = file(
        folder,
        {aliases[name]: at[name] for name in aliases},
        {aliases[name]: sources[name] for name in aliases},
    )
    remote = {there: f"{aliases[here]}.{sources[here]}" for here, there in (("A", "B"), ("B", "A"))}
    for name, topic in remote.items():
        create_topic(at[name], topic, load.partitions)
    pids: list[int] = []
    with ExitStack() as closing:
        watches = [
            closing.enter_context(
                Watch(at[name], topic, load.partitions, lambda: pids, broker_pids(stack.cluster(name)))
            )
            for name, topic in remote.items()
        ]
        began = time.monotonic()
        with mirror(folder, properties) as process:
            pids.append(process.pid)

            def alive() -> None:
                assert not process.died(), process.obituary()

            first = max(watch.wait_grown(1, WITHIN, alive) for watch in watches)
            for watch in watches:
                watch.wait_grown(load.total, WITHIN, alive)
            time.sleep(SETTLED_SECONDS)
            meter, since = Meter(lambda: pids), time.monotonic()
            time.sleep(IDLE_SECONDS * min(1.0, SCALE))
            idle = meter.seconds() / (time.monotonic() - since)
            memory = resident(tree(process.pid))["sum"]
    copies = [watch.copied(load.total) for watch in watches]
    for name, topic in remote.items():
        delete_topic(at[name], topic)
    return Figures(
        first - began,
        sum(each.rate for each in copies),
        statistics.mean(each.mirror_cpu for each in copies),
        idle,
        memory,
    )


@pytest.mark.timeout(7200)
def test_dedicated(copy_stack: LocalStack, tmp_path: Path) -> None:
    load = Load(int(RECORDS * SCALE), 120)
    sources = {name: filled(copy_stack.cluster(name).bootstrap, load) for name in ("A", "B")}
    taken: dict[str, list[Figures]] = {"ours": [], "stock": []}
    for _ in range(RUNS):
        for name, mirror in (("stock", stock), ("ours", ours)):
            taken[name].append(measure(copy_stack, tmp_path, load, sources, mirror))
            print(name, taken[name][-1].row(), flush=True)
    figures_of = {
        name: Figures(*(statistics.median(values) for values in zip(*runs, strict=True)))
        for name, runs in taken.items()
    }
    rows = [{"side": name, **load.row(), **figures.row()} for name, figures in figures_of.items()]
    write(
        "dedicated",
        ours=figures_of["ours"].rate,
        other=figures_of["stock"].rate,
        unit="records/s (two flows both ways, 120 B, 16 KB)",
        better="more",
        rows=rows,
    )
