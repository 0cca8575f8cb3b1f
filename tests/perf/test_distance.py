"""`distance`: rows of `replicate` when one of the clusters is a round trip of 50 ms away: the source, as it should be
(a mirror belongs beside its target), or the target. The way is long, not narrow. `ratio` is the worse of the two with
batches of 16 KB."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from bridge.local import ConnectWorker, LocalStack
from bridge.local.jars import DEFAULT_KAFKA, kafka_jars
from tests.integration.far import far_cluster
from tests.perf.jvms import BROKER_HEAP, FULL, WORKER_HEAP, full_jvms
from tests.perf.loads import SCALE, Load, filled
from tests.perf.mirrors import Scene, broker_pids, in_turns, ours, stock, warm
from tests.perf.results import write
from tests.perf.watched_copy import Copy
from tests.support import delete_topic

ONE_WAY_MS = 25.0
LOADS = (Load(int(2_000_000 * SCALE), 120, "16 KB"), Load(int(500_000 * SCALE), 120, "4"))


@pytest.mark.timeout(7200)
def test_distance(copy_stack: LocalStack, least_once: ConnectWorker, tmp_path: Path) -> None:
    source, target = copy_stack.source, copy_stack.target
    rows: list[dict[str, object]] = []
    compared: list[tuple[float, float]] = []
    with ExitStack() as closing:
        with full_jvms():
            near, far = closing.enter_context(far_cluster(tmp_path, ONE_WAY_MS, heap=BROKER_HEAP))
        # Stock writes to the cluster of its worker.
        jars = kafka_jars(DEFAULT_KAFKA)
        far_worker = ConnectWorker(
            "far", jars, tmp_path, bootstrap=far.bootstrap, heap=WORKER_HEAP, environment=FULL
        )
        from_afar = Scene(far, target, near.bootstrap, target.bootstrap, broker_pids(near, target))
        to_afar = Scene(source, far, source.bootstrap, near.bootstrap, broker_pids(source, near))
        try:
            far_worker.start()
            for where, scene, worker in (
                ("source", from_afar, least_once),
                ("target", to_afar, far_worker),
            ):
                warm(scene, worker)
                for load in LOADS:
                    result = _compare(scene, worker, load)
                    rates = {name: copy.rate for name, copy in result.items()}
                    if load is LOADS[0]:
                        compared.append((rates["ours"], rates["stock"]))
                    for name, copy in result.items():
                        rows.append({"side": name, "far": where, **load.row(), **copy.row()})
                        print(rows[-1], flush=True)
        finally:
            far_worker.close()
    our_rate, stock_rate = min(compared, key=lambda pair: pair[0] / pair[1])
    write("distance", ours=our_rate, other=stock_rate, unit="records/s", better="more", rows=rows)


def _compare(scene: Scene, worker: ConnectWorker, load: Load) -> dict[str, Copy]:
    topic = filled(scene.near_source, load)
    result = in_turns(
        {
            "ours": lambda: ours(scene, topic, load),
            "stock": lambda: stock(scene, worker, topic, load, once=False),
        }
    )
    delete_topic(scene.near_source, topic)
    return result
