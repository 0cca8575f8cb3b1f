"""MBeans of our connectors beside those of stock's, read over JMX from the same worker after the same copy."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.control import aliased, our_control
from tests.e2e.flow import WAIT, Flow, exactly
from tests.support import commit, connector, create_topic, eventually, numbered, produce, stock_config, unique
from tests.support.java import compiled

KINDS = ("Source", "Checkpoint")
PARTITIONS = 2
COUNT = 500
"""Records of each partition."""
OLD_MS = 20_000
"""How old the records are when they are produced: more than copying them takes."""
LATE_MS = 60_000
"""Within which they are copied, on a busy machine too."""
LEGACY = "kafka.connect.mirror:type=Mirror{},*"
NEW = "kafka.connect:type=plugins,*"

Beans = Mapping[str, Mapping[str, float]]
"""Attributes by the name of the MBean."""


@pytest.fixture(scope="module")
def read_beans(flow: Flow, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Beans]:
    command = compiled(Path(__file__).with_name("MBeans.java"), tmp_path_factory.mktemp("java"), "MBeans")

    def read(*patterns: str) -> Beans:
        asked = [*command, str(flow.worker.process.pid), *patterns]
        ran = subprocess.run(asked, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr[-2000:]
        beans: dict[str, dict[str, float]] = {}
        for line in ran.stdout.splitlines():
            name, attribute, value = line.split("\t")
            beans.setdefault(name, {})[attribute] = float(value)
        return beans

    return read


@dataclass(frozen=True)
class Both:
    """The same topic and group, mirrored by stock's connectors and by ours under other aliases; in one worker."""

    stock: Flow
    ours: Flow
    topic: str
    group: str
    names: Mapping[str, str]
    """Of ours by their kind, and of stock's."""
    read: Callable[..., Beans]

    def beans(self, *patterns: str) -> tuple[Beans, Beans]:
        """Of stock and ours, with the names of ours as stock would have them."""
        values = self.read(*patterns)
        theirs = {name: each for name, each in values.items() if f"source={self.stock.source.name}," in name}
        ours = {
            self._as_stock(name): each
            for name, each in values.items()
            if f"source={self.ours.source.name}," in name
        }
        return theirs, ours

    def _as_stock(self, name: str) -> str:
        renamed = {
            self.ours.source.name: self.stock.source.name,
            self.ours.target.name: self.stock.target.name,
            **{self.names[kind]: self.names[f"stock {kind}"] for kind in KINDS},
        }
        for mine, theirs in renamed.items():
            name = name.replace(mine, theirs)
        return name


@pytest.fixture(scope="module")
def both(flow: Flow, read_beans: Callable[..., Beans]) -> Iterator[Both]:
    stock, ours = aliased(flow), aliased(flow)
    topic, group = create_topic(flow.source.bootstrap, unique("measured"), PARTITIONS), unique("measured")
    names: dict[str, str] = {}
    with ExitStack() as stack:
        for kind in KINDS:
            settings: dict[str, object] = {
                "topics": topic,
                "groups": exactly(group),
                "offset_lag_max": 0,
                # Stock's checkpoints throw with the new names (B41).
                "metric_names_formats": "legacy,new" if kind == "Source" else "legacy",
            }
            own = {"spark_master": "local[2]"} if kind == "Source" else {}
            config = stock_config(kind, stock.source, stock.target, **settings)
            names[f"stock {kind}"] = stack.enter_context(connector(flow.worker, config, unique("stock")))
            config = our_control(kind, ours, **settings, **own)
            names[kind] = stack.enter_context(connector(flow.worker, config, unique("ours")))
        began = int(time.time() * 1000) - OLD_MS
        records = [
            record
            for partition in range(PARTITIONS)
            for record in numbered(COUNT, timestamp=began, partition=partition)
        ]
        produce(flow.source.bootstrap, topic, records)
        commit(flow.source.bootstrap, group, {(topic, number): COUNT for number in range(PARTITIONS)})
        yield Both(stock, ours, topic, group, names, read_beans)


def test_the_mbeans_of_copying_have_stocks_names_tags_and_values(both: Both) -> None:
    def copied() -> tuple[Beans, Beans]:
        theirs, ours = both.beans(LEGACY.format("SourceConnector"))
        for beans in (theirs, ours):
            assert [each["record-count"] for each in beans.values()] == [COUNT] * PARTITIONS, beans
        return theirs, ours

    theirs, ours = eventually(copied, 2 * WAIT, what="both have copied", watched=both.ours.watched)
    stock = both.stock
    assert (
        ours.keys()
        == theirs.keys()
        == {
            f"kafka.connect.mirror:type=MirrorSourceConnector,source={stock.source.name},"
            f"target={stock.target.name},topic={stock.remote(both.topic)},partition={partition}"
            for partition in range(PARTITIONS)
        }
    )
    for name, stocks in theirs.items():
        mine = ours[name]
        assert mine.keys() == stocks.keys()
        assert mine["record-rate"] > 0
        # Stock counts values alone, ours batches with keys, headers and all.
        assert stocks["byte-count"] < mine["byte-count"] < 20 * stocks["byte-count"]
        assert mine["byte-rate"] > 0
        for metric in ("record-age-ms", "replication-latency-ms"):
            for beans in (stocks, mine):
                least, average, most = (beans[f"{metric}-{each}"] for each in ("min", "avg", "max"))
                assert OLD_MS - COUNT <= least <= average <= most < OLD_MS + LATE_MS, (metric, beans)
                assert least <= beans[metric] <= most
        for beans in (stocks, mine):
            assert beans["record-age-ms-avg"] <= beans["replication-latency-ms-avg"] + 1, beans


def test_the_mbeans_of_checkpoints_have_stocks_names_and_tags_and_are_of_each_group(both: Both) -> None:
    def written() -> tuple[Beans, Beans]:
        theirs, ours = both.beans(LEGACY.format("CheckpointConnector"))
        assert len(theirs) == len(ours) == PARTITIONS
        return theirs, ours

    theirs, ours = eventually(written, 2 * WAIT, what="checkpoints are written", watched=both.ours.watched)
    assert ours.keys() == theirs.keys()
    for name, stocks in theirs.items():
        assert f",group={both.group}," in name
        assert ours[name].keys() == stocks.keys()
        for beans in (stocks, ours[name]):
            least, average, most = (beans[f"checkpoint-latency-ms-{each}"] for each in ("min", "avg", "max"))
            assert 0 <= least <= average <= most < LATE_MS, beans
            assert least <= beans["checkpoint-latency-ms"] <= most


def test_the_workers_own_metrics_of_plugins_are_the_same_by_the_new_names(both: Both) -> None:
    def copied() -> tuple[Beans, Beans]:
        theirs, ours = both.beans(NEW)
        theirs = {name: each for name, each in theirs.items() if "record-count" in each}
        ours = {name: each for name, each in ours.items() if "record-count" in each}
        assert [each["record-count"] for each in ours.values()] == [COUNT] * PARTITIONS, ours
        return theirs, ours

    theirs, ours = eventually(copied, 2 * WAIT, what="ours has copied", watched=both.ours.watched)
    assert ours.keys() == theirs.keys()
    for name, stocks in theirs.items():
        assert f"connector={both.names['stock Source']},task=0," in name
        assert ours[name].keys() == stocks.keys()


def test_what_is_deleted_leaves_no_mbean(flow: Flow, read_beans: Callable[..., Beans]) -> None:
    ours = aliased(flow)
    topic = create_topic(flow.source.bootstrap, unique("unmeasured"))
    config = our_control("Source", ours, topics=topic, spark_master="local[1]")
    pattern = f"kafka.connect.mirror:type=MirrorSourceConnector,source={ours.source.name},*"
    with connector(flow.worker, config, unique("ours")):
        # Known before a record is copied, as stock's: an empty partition has them too.
        def there() -> None:
            assert [each["record-count"] for each in read_beans(pattern).values()] == [0.0]

        eventually(there, 2 * WAIT, what="the MBean is there", watched=flow.watched)

    def gone() -> None:
        assert not read_beans(pattern)

    eventually(gone, WAIT, what="the MBean is gone", watched=flow.watched)
