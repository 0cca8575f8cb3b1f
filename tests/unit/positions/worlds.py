"""Clusters in memory with the logs and runs of a random history, and the flow between them."""

from __future__ import annotations

from bridge.kafka.config.settings import StaticClientCheck
from bridge.mm2.records import OffsetSync
from bridge.model.values import TopicPartition
from bridge.positions.flow import Flow
from bridge.translation.runs.runs import OffsetRun
from tests.unit.connectors.fake_clusters import FakeCluster, Log, Row
from tests.unit.translation.copied import CopiedPartition

PROPS = {
    "name": "groups",
    "connector.class": "MirrorGroupOffsetConnector",
    "source.cluster.alias": "A",
    "target.cluster.alias": "B",
    "source.cluster.bootstrap.servers": "a:9092",
    "target.cluster.bootstrap.servers": "b:9092",
}
RUNS_TOPIC = "mm2-offset-runs.A.internal"


def flow(**settings: str) -> Flow:
    props = {**PROPS, **{key.replace("_", "."): value for key, value in settings.items()}}
    return Flow.from_props(props, StaticClientCheck())


def clusters_of(history: CopiedPartition) -> tuple[FakeCluster, FakeCluster]:
    """Records are told apart by their number, which is their value too."""
    source, target = FakeCluster(), FakeCluster()
    originals = [
        row(at, serial)
        for at, serial in enumerate(history.source)
        if serial is not None and at >= history.source_start
    ]
    copies = [
        row(at, origin.serial)
        for at, origin in enumerate(history.target)
        if origin is not None and at >= history.target_start
    ]
    source.topic(
        "orders",
        Log(originals, history.source_start, len(history.source), history.epoch),
        topic_id=history.copied.source_topic_id,
    )
    target.topic(
        "A.orders",
        Log(copies, history.target_start, len(history.target)),
        topic_id=history.copied.target_topic_id,
    )
    hold(target, history.runs())
    syncs = Log()
    for place, origin in enumerate(history.target):
        if origin is not None and history.random.random() < 0.5:
            sync = OffsetSync(TopicPartition("orders", 0), origin.offset, place)
            syncs.rows.append(Row(syncs.end, 0, sync.key(), sync.value()))
            syncs.end += 1
    source.topic("mm2-offset-syncs.B.internal", syncs)
    return source, target


def row(offset: int, serial: int) -> Row:
    return Row(offset, 1000 + serial, b"key", b"%d" % serial)


def hold(target: FakeCluster, runs: list[OffsetRun]) -> None:
    """Writes a runs topic."""
    log = Log()
    for run in runs:
        log.rows.append(Row(log.end, 0, run.key(), run.value()))
        log.end += 1
    target.topic(RUNS_TOPIC, log)
