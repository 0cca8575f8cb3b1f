"""MBeans of our connectors beside those of stock's, read over JMX from the same worker after the same copy: as they
are, by the Prometheus JMX exporter with rules of users, and by the queries of a dashboard."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from bridge.local import NO_AUTHORITIES
from bridge.local.jars import exporter_jar
from tests.e2e.control import aliased, our_control
from tests.e2e.flow import Flow, exactly
from tests.e2e.mbeans import Beans, MBeanReader, run_on
from tests.support import Record, commit, connector, create_topic, eventually, produce, stock_config, unique
from tests.support.batches import data_batches
from tests.support.java import compiled
from tests.support.waiting import wait_equal
from tests.support.waits import WAIT

pytestmark = pytest.mark.long

HERE = Path(__file__).parent
RULES = (HERE.parents[1] / "deploy" / "jmx-exporter.yaml", *sorted((HERE / "jmx_exporter").glob("*.yaml")))
KINDS = ("Source", "Checkpoint")
CODECS = ("none", "lz4")
"""Of each partition."""
PARTITIONS = len(CODECS)
COUNT = 500
"""Records of each partition."""
VALUE_BYTES = 100
STEP_MS = 100
"""Between the timestamps of two records."""
SPAN_MS = STEP_MS * (COUNT - 1)
OLD_MS = 60_000
"""How old the newest record is when it is produced."""
WINDOW = (30.0, 60.0)
"""Seconds that a rate of a Java client is over."""
NEW = "kafka.connect:type=plugins,*"
LATENCY = ("", "-min", "-max", "-avg")

Labels = frozenset[tuple[str, str]]
Series = Mapping[tuple[str, Labels], float]
"""Values by the name of a metric and its labels."""


@dataclass(frozen=True)
class Readers:
    """Of the worker's MBeans: as they are, and as the exporter shows them by rules."""

    beans: Callable[..., Beans]
    exported: Callable[[Sequence[Path]], list[Series]]


@pytest.fixture(scope="module")
def readers(flow: Flow, tmp_path_factory: pytest.TempPathFactory) -> Readers:
    classes = tmp_path_factory.mktemp("java")
    plain = MBeanReader(classes)
    exporter = compiled(HERE / "JmxExporter.java", classes, "JmxExporter", exporter_jar())
    process = flow.worker.process.pid

    def read(*patterns: str) -> Beans:
        return plain.read(process, *patterns)

    def export(rules: Sequence[Path]) -> list[Series]:
        return [series(page) for page in run_on(exporter, process, *map(str, rules)).split("\f")[:-1]]

    return Readers(read, export)


def series(page: str) -> Series:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(page)
        for sample in family.samples
    }


@dataclass(frozen=True)
class Both:
    """The same topic and groups, mirrored by stock's connectors and by ours under other aliases; in one worker."""

    stock: Flow
    ours: Flow
    topic: str
    groups: tuple[str, str]
    names: Mapping[str, str]
    """Of ours by their kind, and of stock's."""
    readers: Readers
    oldest_ms: int
    """The timestamp of each partition's first record."""
    produced_ms: int
    """When they were not yet produced."""

    def beans(self, *patterns: str) -> tuple[Beans, Beans]:
        """Of stock and ours, with the names of ours as stock would have them."""
        return self.of_both(self.readers.beans(*patterns))

    def of_both(self, values: Beans) -> tuple[Beans, Beans]:
        theirs = {name: each for name, each in values.items() if f"source={self.stock.source.name}," in name}
        ours = {
            self.as_stock(name): each
            for name, each in values.items()
            if f"source={self.ours.source.name}," in name
        }
        return theirs, ours

    def copies(self) -> tuple[Beans, Beans]:
        """MBeans of copying; ours have heartbeats too."""
        pattern = f"kafka.connect.mirror:type=MirrorSourceConnector,topic=*.{self.topic},*"
        return self.beans(pattern)

    def checkpoints(self) -> tuple[Beans, Beans]:
        return self.beans("kafka.connect.mirror:type=MirrorCheckpointConnector,*")

    def as_stock(self, name: str) -> str:
        renamed = {
            self.ours.source.name: self.stock.source.name,
            self.ours.target.name: self.stock.target.name,
            **{self.names[kind]: self.names[f"stock {kind}"] for kind in KINDS if kind in self.names},
        }
        for mine, theirs in renamed.items():
            name = name.replace(mine, theirs)
        return name


class Copied(NamedTuple):
    """MBeans of both when all was copied, and when they had been read."""

    theirs: Beans
    ours: Beans
    read_ms: int


def made(partition: int, oldest_ms: int) -> list[Record]:
    return [
        Record(
            b"%0*d" % (VALUE_BYTES, number),
            key=b"key-%04d" % number,
            timestamp=oldest_ms + STEP_MS * number,
            partition=partition,
        )
        for number in range(COUNT)
    ]


@pytest.fixture(scope="module")
def both(flow: Flow, readers: Readers) -> Iterator[Both]:
    stock, ours = aliased(flow), aliased(flow)
    topic, mark = create_topic(flow.source.bootstrap, unique("measured"), PARTITIONS), unique("measured")
    groups = (f"{mark}-1", f"{mark}-2")
    names: dict[str, str] = {}
    with ExitStack() as stack:
        # Connect's own producer writes to the worker's cluster, which is the target.
        beats = our_control(
            "Heartbeat",
            ours.reversed(),
            emit_heartbeats_interval_seconds=1,
            producer_override_bootstrap_servers=ours.source.bootstrap,
        )
        names["Heartbeat"] = stack.enter_context(connector(flow.worker, beats, unique("beats")))

        def start(kind: str) -> None:
            settings: dict[str, object] = {
                "topics": topic,
                "groups": f"{exactly(mark)}.*",
                "offset_lag_max": 0,
                # Stock's checkpoints throw with the new names (B41).
                "metric_names_formats": "legacy,new" if kind == "Source" else "legacy",
            }
            own: dict[str, object] = {"metric_names_formats": "legacy,new"}
            if kind == "Source":
                own |= {"spark_master": "local[2]", "topics": f"{topic},heartbeats"}
            config = stock_config(kind, stock.source, stock.target, **settings)
            names[f"stock {kind}"] = stack.enter_context(connector(flow.worker, config, unique("stock")))
            config = our_control(kind, ours, **{**settings, **own})
            names[kind] = stack.enter_context(connector(flow.worker, config, unique("ours")))

        start("Source")
        now = int(time.time() * 1000)
        result = Both(stock, ours, topic, groups, names, readers, now - OLD_MS - SPAN_MS, now)

        def running() -> None:
            """Both know the partitions: what is produced now is in the same window of their rates."""
            for beans in result.copies():
                assert [each["record-count"] for each in beans.values()] == [0.0] * PARTITIONS, beans

        eventually(running, WAIT, what="both wait for records", watched=ours.watched)
        for partition, codec in enumerate(CODECS):
            records = made(partition, result.oldest_ms)
            produce(flow.source.bootstrap, topic, records, compression=codec)
        for group in groups:
            commit(flow.source.bootstrap, group, {(topic, number): COUNT for number in range(PARTITIONS)})
        # Stock's has MBeans of what its task has written: one that is restarted for another group writes that one only.
        start("Checkpoint")
        yield result


def partition_of(bean: str) -> int:
    return int(bean.rpartition("partition=")[2])


@pytest.fixture(scope="module")
def copied(both: Both) -> Copied:
    """MBeans as soon as all is copied."""

    def there() -> Copied:
        theirs, ours = both.copies()
        for beans in (theirs, ours):
            assert [each["record-count"] for each in beans.values()] == [COUNT] * PARTITIONS, beans
        return Copied(theirs, ours, int(time.time() * 1000))

    return eventually(there, WAIT, what="both have copied", watched=both.ours.watched)


@pytest.fixture(scope="module")
def checkpointed(both: Both, copied: Copied) -> tuple[Beans, Beans]:
    """MBeans as soon as each group has checkpoints."""

    def there() -> tuple[Beans, Beans]:
        theirs, ours = both.checkpoints()
        assert len(theirs) == len(ours) == PARTITIONS * len(both.groups)
        return theirs, ours

    return eventually(there, WAIT, what="checkpoints are written", watched=both.ours.watched)


def test_the_mbeans_of_copying_have_stocks_names_tags_and_values(both: Both, copied: Copied) -> None:
    theirs, ours, read_ms = copied
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
        assert_bytes(both, partition_of(name), stocks, mine)
        for beans in (stocks, mine):
            assert_rates(beans)
            assert_latencies(both, beans, read_ms)
        for rate in ("record-rate", "byte-rate"):
            # In bytes of the same kind: ours are those of batches.
            scale = stocks["byte-count"] / mine["byte-count"] if rate == "byte-rate" else 1.0
            assert 0.5 < mine[rate] * scale / stocks[rate] < 2.0, (rate, mine, stocks)


def assert_bytes(both: Both, partition: int, stocks: Mapping[str, float], mine: Mapping[str, float]) -> None:
    """Stock counts values, uncompressed and without keys; ours are the batches in the target's log, to the byte."""
    flow, values = both.ours, COUNT * VALUE_BYTES
    assert stocks["byte-count"] == values
    batches = data_batches(flow.target.bootstrap, flow.remote(both.topic), partition)
    assert mine["byte-count"] == sum(len(each.data) for each in batches)
    if CODECS[partition] == "none":
        assert values < mine["byte-count"] < 1.3 * values
    else:
        assert mine["byte-count"] < values


def assert_rates(beans: Mapping[str, float]) -> None:
    """All were copied within one window, and those of bytes are to those of records as the counts are."""
    shortest, longest = WINDOW
    assert COUNT / longest * 0.9 <= beans["record-rate"] <= COUNT / shortest * 1.1, beans
    each = beans["byte-count"] / beans["record-count"]
    assert beans["byte-rate"] / beans["record-rate"] == pytest.approx(each, rel=0.05), beans


def assert_latencies(both: Both, beans: Mapping[str, float], read_ms: int) -> None:
    """No record was fetched or committed before it was produced, or after it was read how long that took."""
    ages = {"-min": OLD_MS, "-max": OLD_MS + SPAN_MS, "-avg": OLD_MS + SPAN_MS / 2}
    took = read_ms - both.produced_ms
    for metric in ("record-age-ms", "replication-latency-ms"):
        for kind, age in ages.items():
            # A compressed batch is read by its headers only: its records count as spread evenly.
            assert age - STEP_MS <= beans[metric + kind] <= age + took + STEP_MS, (metric + kind, took, beans)
        assert OLD_MS <= beans[metric] <= OLD_MS + took, (metric, beans)
    for kind in LATENCY:
        age, latency = beans[f"record-age-ms{kind}"], beans[f"replication-latency-ms{kind}"]
        assert -1 <= latency - age <= took, (kind, beans)


def test_the_mbeans_of_checkpoints_have_stocks_names_and_tags_and_are_of_each_group(
    both: Both, checkpointed: tuple[Beans, Beans]
) -> None:
    flow, (first, second) = both.ours, both.groups
    began_ms = time.time() * 1000
    theirs, ours = checkpointed
    assert ours.keys() == theirs.keys()
    assert {group for group in both.groups for name in ours if f",group={group}," in name} == set(both.groups)
    took = time.time() * 1000 - both.produced_ms
    for name, stocks in theirs.items():
        assert ours[name].keys() == stocks.keys()
        for beans in (stocks, ours[name]):
            least, average, most = (beans[f"checkpoint-latency-ms-{each}"] for each in ("min", "avg", "max"))
            assert 0 <= least <= average <= most <= took, beans
            assert least <= beans["checkpoint-latency-ms"] <= most

    def count(group: str) -> int:
        latency = flow.service.report(group, both.names["Checkpoint"])["checkpoint_latency_ms"]
        return 0 if latency is None else int(latency["count"])

    # More checkpoints of one group change nothing of what the other took, where stock shows one value for both (B40).
    for processed in (COUNT - 300, COUNT - 200, COUNT - 100):
        more = count(second) + PARTITIONS
        places = {(both.topic, number): processed for number in range(PARTITIONS)}
        commit(flow.source.bootstrap, second, places)

        def acknowledged(least: int = more) -> None:
            assert count(second) >= least

        eventually(acknowledged, WAIT, what=f"{second} has checkpoints more", watched=flow.watched)
    wait_equal(lambda: count(first), PARTITIONS, watched=flow.watched)

    def shown() -> None:
        later = both.checkpoints()[1]
        elapsed = time.time() * 1000 - began_ms
        changed = False
        for name, before in ours.items():
            same = [later[name][each] == before[each] for each in before]
            if f",group={first}," in name:
                # The last one stays; the others end with their window.
                assert later[name]["checkpoint-latency-ms"] == before["checkpoint-latency-ms"], (
                    before,
                    later,
                )
                assert all(same) or elapsed > 1000 * WINDOW[0], (before, later)
            else:
                changed = changed or not all(same)
        assert changed, (ours, later)

    eventually(shown, WAIT, what=f"the MBeans of {second} alone change", watched=flow.watched)


def test_ours_have_the_new_names_of_checkpoints_too_of_each_group(
    both: Both, checkpointed: tuple[Beans, Beans]
) -> None:
    """With stock the second group's first checkpoint throws (B41)."""
    new_names = f"kafka.connect:type=plugins,connector={both.names['Checkpoint']},*"
    legacy = both.checkpoints()[1]
    new = both.beans(new_names)[1]
    assert legacy.keys() == checkpointed[1].keys()
    assert len(new) == len(legacy)
    for name, beans in legacy.items():
        tags = name.partition("type=MirrorCheckpointConnector,")[2]
        (found,) = [each for other, each in new.items() if other.endswith(f",{tags}")]
        assert found.keys() == beans.keys()
        assert found["checkpoint-latency-ms"] == beans["checkpoint-latency-ms"]


@pytest.mark.usefixtures("copied")
def test_the_workers_own_metrics_of_plugins_are_the_same_by_the_new_names(both: Both) -> None:
    theirs, ours = (
        {name: each for name, each in beans.items() if "record-count" in each and both.topic in name}
        for beans in both.beans(NEW)
    )
    assert [each["record-count"] for each in ours.values()] == [COUNT] * PARTITIONS, ours
    assert ours.keys() == theirs.keys()
    for name, stocks in theirs.items():
        assert f"connector={both.names['stock Source']},task=0," in name
        assert ours[name].keys() == stocks.keys()


@pytest.mark.usefixtures("checkpointed")
def test_records_of_the_copy_pass_no_task_of_the_worker(both: Both) -> None:
    """What docs/operations.md says has no counterpart."""
    tasks = both.readers.beans("kafka.connect:type=source-task-metrics,*")
    polled = {
        kind: tasks[f"kafka.connect:type=source-task-metrics,connector={name},task=0"][
            "source-record-poll-total"
        ]
        for kind, name in both.names.items()
    }
    assert polled["stock Source"] >= COUNT * PARTITIONS
    assert polled["Source"] == 0
    assert polled["Checkpoint"] >= PARTITIONS * len(both.groups)


# -- as users read them ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def exported(both: Both, checkpointed: tuple[Beans, Beans]) -> Mapping[str, tuple[Series, Series]]:
    """Series of stock and of ours by the file of the rules; those of ours with stock's names in their labels."""
    result: dict[str, tuple[Series, Series]] = {}
    for rules, found in zip(RULES, both.readers.exported(RULES), strict=True):
        theirs, ours = (
            {
                (name, frozenset((key, both.as_stock(label)) for key, label in labels)): value
                for (name, labels), value in found.items()
                if any(alias in label for _, label in labels)
                and "heartbeats" not in dict(labels).get("topic", "")
            }
            for alias in (both.stock.source.name, both.ours.source.name)
        )
        result[rules.name] = theirs, ours
    return result


@pytest.mark.parametrize("rules", [path.name for path in RULES])
def test_rules_of_the_prometheus_jmx_exporter_make_the_same_series(
    exported: Mapping[str, tuple[Series, Series]], rules: str
) -> None:
    theirs, ours = exported[rules]
    # Stock has no checkpoints by the new names: the second group's first one throws (B41).
    unpaired = {
        each for each in ours.keys() - theirs.keys() if each[0].startswith("kafka_connect_plugins_checkpoint")
    }
    assert ours.keys() - unpaired == theirs.keys()
    assert bool(unpaired) == (rules == "everything.yaml")
    copied = {name for (name, _), value in theirs.items() if value == COUNT}
    assert any(name.endswith("record_count") for name in copied), sorted(theirs)
    assert any("checkpoint_latency_ms" in name for name, _ in theirs)
    for place, value in theirs.items():
        assert place[0] not in copied or ours[place] == value


MIRROR = "kafka_connect_mirror_mirrorsourceconnector"
CHECKPOINT = "kafka_connect_mirror_mirrorcheckpointconnector"
QUERIES = {
    f'sum({MIRROR}_record_rate{{target="$target"}}) by (topic)': PARTITIONS,
    f'sum({MIRROR}_byte_rate{{source="$source", target="$target"}}) by (source, target)': PARTITIONS,
    f'increase({MIRROR}_record_count{{topic=~"$source[.].*"}}[5m])': PARTITIONS,
    f'max({MIRROR}_replication_latency_ms_max{{source="$source"}}) by (topic, partition)': PARTITIONS,
    f'max({MIRROR}_record_age_ms{{source="$source", partition="0"}}) by (topic)': 1,
    f'avg({MIRROR}_replication_latency_ms_avg{{target!="nobody", source="$source"}}) by (target)': PARTITIONS,
    f'max({CHECKPOINT}_checkpoint_latency_ms_max{{source="$source", group=~".+-1"}}) by (group)': PARTITIONS,
    f'{CHECKPOINT}_checkpoint_latency_ms{{source="$source"}} > 60000': 2 * PARTITIONS,
}
"""Of a dashboard and its alerts, and how many series each has of one flow."""
SELECTOR = re.compile(r"(?P<name>[a-z_]+)\{(?P<matchers>[^}]*)\}")
MATCHER = re.compile(r'(?P<label>\w+)\s*(?P<operator>=~|!=|=)\s*"(?P<value>[^"]*)"')
GROUPED = re.compile(r"\bby \((?P<labels>[^)]*)\)")


def selected(query: str, found: Series) -> list[dict[str, str]]:
    """Labels of the series that the query's selector takes, with all those that it groups by."""
    selector = SELECTOR.search(query)
    assert selector is not None
    grouped = GROUPED.search(query)
    wanted = set(grouped["labels"].split(", ")) if grouped else set[str]()
    result = []
    for (name, labels), _ in found.items():
        by_name = dict(labels)
        if (
            name == selector["name"]
            and wanted <= by_name.keys()
            and all(
                matches(each["operator"], each["value"], by_name.get(each["label"], ""))
                for each in MATCHER.finditer(selector["matchers"])
            )
        ):
            result.append(by_name)
    return result


def matches(operator: str, value: str, label: str) -> bool:
    if operator == "=~":
        return re.fullmatch(value, label) is not None
    return (label == value) == (operator == "=")


@pytest.mark.parametrize("query", QUERIES)
def test_queries_of_a_dashboard_find_the_same_series(
    both: Both, exported: Mapping[str, tuple[Series, Series]], query: str
) -> None:
    stock = both.stock
    asked = query.replace("$source", stock.source.name).replace("$target", stock.target.name)
    theirs, ours = (selected(asked, each) for each in exported["jmx-exporter.yaml"])
    assert len(theirs) == QUERIES[query], theirs
    assert {frozenset(each.items()) for each in ours} == {frozenset(each.items()) for each in theirs}


@pytest.mark.usefixtures("checkpointed")
def test_the_services_own_metrics_tell_of_the_same_copy(both: Both) -> None:
    """Histograms, and those of KIP-382 that stock lacks."""
    flow, name, beats = both.ours, both.names["Source"], both.names["Heartbeat"]
    of_flow = {"connector": name, "source": flow.source.name, "target": flow.target.name}
    of_topic = {**of_flow, "topic": flow.remote(both.topic)}

    def shown(metric: str, labels: Mapping[str, str]) -> float:
        page = httpx.get(f"{flow.process.url}/metrics", timeout=WAIT, verify=NO_AUTHORITIES).text
        return series(page).get((f"mirror_bridge_{metric}", frozenset(labels.items())), math.nan)

    def heartbeats() -> None:
        assert shown("heartbeat_known", of_flow) == 1
        assert 0 <= shown("heartbeat_age_ms", of_flow) < 10_000

    eventually(heartbeats, WAIT, what="heartbeats are copied", watched=flow.watched)
    took = time.time() * 1000 - both.produced_ms
    assert 0 <= shown("heartbeat_lag_ms", of_flow) < took
    assert 0 <= shown("replication_lag_ms", of_flow) < took
    records = COUNT * PARTITIONS
    for metric in ("topic_record_age_ms", "topic_replication_latency_ms"):
        assert shown(f"{metric}_count", of_topic) == records
        mean = shown(f"{metric}_sum", of_topic) / records
        assert OLD_MS + SPAN_MS / 2 - STEP_MS <= mean <= OLD_MS + SPAN_MS / 2 + took
        assert shown(f"{metric}_bucket", {**of_topic, "le": "+Inf"}) == records
        # They are between 60 and 110 s old.
        assert shown(f"{metric}_bucket", {**of_topic, "le": "30000"}) == 0
        assert shown(f"{metric}_bucket", {**of_topic, "le": "300000"}) == records
    checkpoints = {"connector": both.names["Checkpoint"]}
    assert shown("checkpoint_latency_ms_count", checkpoints) >= PARTITIONS * len(both.groups)
    assert 0 <= shown("checkpoint_latency_ms_sum", checkpoints) < took * records

    # Without heartbeats their age grows, and an alert on it goes off.
    flow.worker.rest.pause(beats)
    try:
        begun = shown("heartbeat_age_ms", of_flow)

        def grows() -> None:
            assert shown("heartbeat_age_ms", of_flow) > begun + 3_000

        eventually(grows, WAIT, what="the age of the last heartbeat grows", watched=flow.watched)
    finally:
        flow.worker.rest.resume(beats)


def test_what_is_deleted_leaves_no_mbean(flow: Flow, readers: Readers) -> None:
    ours = aliased(flow)
    topic = create_topic(flow.source.bootstrap, unique("unmeasured"))
    config = our_control("Source", ours, topics=topic, spark_master="local[1]")
    pattern = f"kafka.connect.mirror:type=MirrorSourceConnector,source={ours.source.name},*"
    with connector(flow.worker, config, unique("ours")):
        # Known before a record is copied, as stock's: an empty partition has them too.
        def there() -> None:
            assert [each["record-count"] for each in readers.beans(pattern).values()] == [0.0]

        eventually(there, WAIT, what="the MBean is there", watched=flow.watched)

    def gone() -> None:
        assert not readers.beans(pattern)

    eventually(gone, WAIT, what="the MBean is gone", watched=flow.watched)
