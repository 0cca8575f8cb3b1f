"""From a stock connect-mirror-maker.sh to ours with the same file: never both at once, and on from where it stopped."""

from __future__ import annotations

from pathlib import Path

from bridge.local import DEFAULT_KAFKA, ManagedProcess, kafka_jars
from tests.e2e.dedicated import WAIT, dedicated_stack, health, mm2, running, runs, some, wait_values
from tests.support import admin, create_topic, eventually, produce, unique


def test_the_place_of_stocks_is_taken_when_it_has_stopped(tmp_path: Path) -> None:
    with dedicated_stack(tmp_path / "stack") as stack:
        stack.start_clusters()
        clusters = {name: stack.cluster(name) for name in ("A", "B")}
        file = mm2(
            tmp_path / "mm2.properties",
            clusters,
            ["A->B"],
            {"topics": "taken-.*", "B->A.emit.heartbeats.enabled": "false"},
        )
        topic = create_topic(clusters["A"].bootstrap, unique("taken"))
        copy = f"A.{topic}"
        produce(clusters["A"].bootstrap, topic, some(500))
        command = kafka_jars(DEFAULT_KAFKA).command("org.apache.kafka.connect.mirror.MirrorMaker", str(file))
        stock = ManagedProcess("stock", command, tmp_path / "stock.log")
        stock.start()
        try:
            there = admin(clusters["B"].bootstrap)
            eventually(lambda: copy in there.list_topics(timeout=10).topics, WAIT, what=copy, watched=[stock])
            wait_values(clusters["B"], copy, [each.value for each in some(500)])
            with running(tmp_path, file) as node:

                def waits() -> None:
                    (flow,) = health(node)["flows"]
                    assert flow["state"] == "waiting", flow
                    assert "a connect-mirror-maker.sh of this flow runs" in (flow["detail"] or ""), flow

                eventually(waits, WAIT, what="ours waits", watched=[node.process])
                stock.stop(timeout=60.0)
                produce(clusters["A"].bootstrap, topic, some(500, start=500))
                eventually(lambda: runs(node) == {"A->B"}, WAIT, what="ours runs", watched=[node.process])
                wait_values(clusters["B"], copy, [each.value for each in some(1000)], node)
                assert "a stock mirror has left the offsets of 1 partition(s)" in node.process.log.read_text()
        finally:
            stock.stop()
