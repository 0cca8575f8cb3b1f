"""`scale_start`: a flow of 1,000, 5,000 and 10,200 partitions, ours beside stock's connect-mirror-maker where that
starts: seconds from its start until a record of each partition is there, until a group that has read them stands on the
target, and until one more record is there; memory of all its processes (RSS, added up), and processor time at default
intervals when all is copied. Ours tells too when the group is ready. `ratio` is that of the first figure at 5,000.

Topics have 50 partitions each. Stock is given WITHIN seconds to have everything there.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin._listoffsets import OffsetSpec
from confluent_kafka.cimpl import NewTopic

from bridge.local import LocalStack, ManagedProcess
from bridge.local.broker import write_properties
from tests.perf.dedicated_mirrors import ONE_REPLICA, ours_at, stock
from tests.perf.loads import SCALE
from tests.perf.processes import Meter, resident, tree
from tests.perf.results import write
from tests.support import admin, commit, produce, unique
from tests.support.records import Record

PARTITIONS = 50
"""Of each topic."""
SIZES = (20, 100, 204)
"""Topics."""
COMPARED = 100
WITHIN = 900.0
IDLE_SECONDS, SETTLED_SECONDS = 60.0, 20.0
_LOOK = 0.5
_AT_A_TIME = 20
"""Topics that are made, or deleted, by one request."""


class NotThere(Exception):
    """What was waited for has not come in time."""


def filled(bootstrap: str, topics: Sequence[str]) -> None:
    """Makes topics with a record in each partition."""
    for first in range(0, len(topics), _AT_A_TIME):
        new = [NewTopic(topic, PARTITIONS, 1) for topic in topics[first : first + _AT_A_TIME]]
        for made in admin(bootstrap).create_topics(new).values():
            made.result(60)
    for topic in topics:
        produce(bootstrap, topic, [Record(b"one", partition=number) for number in range(PARTITIONS)])


def delete(bootstrap: str, topics: Sequence[str]) -> None:
    for first in range(0, len(topics), _AT_A_TIME):
        for gone in admin(bootstrap).delete_topics(list(topics[first : first + _AT_A_TIME])).values():
            try:
                gone.result(60)
            except KafkaException as error:
                print(f"not deleted: {error}")


def records_of(bootstrap: str, topics: Sequence[str]) -> Callable[[], int]:
    """Counts partitions of the copies that hold something; those that hold it need not be asked again."""
    missing = {TopicPartition(topic, number) for topic in topics for number in range(PARTITIONS)}
    total = len(missing)

    def count() -> int:
        asked = admin(bootstrap).list_offsets(dict.fromkeys(missing, OffsetSpec.latest()))
        for partition, future in asked.items():
            try:
                if future.result(60).offset > 0:
                    missing.discard(partition)
            except KafkaException:
                pass  # it is not made yet
        return total - len(missing)

    return count


def committed(bootstrap: str, group: str) -> int:
    (future,) = admin(bootstrap).list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
    try:
        return sum(each.offset >= 0 for each in future.result(60).topic_partitions)
    except KafkaException:
        return 0


def wait(holds: Callable[[], bool], process: ManagedProcess, began: float) -> float:
    """Returns the seconds since it began. Raises NotThere."""
    while not holds():
        assert not process.died(), process.obituary()
        if time.monotonic() - began > WITHIN:
            raise NotThere
        time.sleep(_LOOK)
    return round(time.monotonic() - began, 1)


class Flow:
    """Topics and a group on A, and the file of a flow that copies them to B under aliases of its own."""

    def __init__(self, stack: LocalStack, folder: Path, topics: Sequence[str], group: str) -> None:
        self.source, self.target = stack.source.bootstrap, stack.target.bootstrap
        self.topics, self.group = topics, group
        alias, other = unique("a"), unique("b")
        self.copies = [f"{alias}.{topic}" for topic in topics]
        self.path = folder / f"{unique('mm2')}.properties"
        flow = f"{alias}->{other}"
        write_properties(
            self.path,
            {
                "clusters": f"{alias}, {other}",
                f"{alias}.bootstrap.servers": self.source,
                f"{other}.bootstrap.servers": self.target,
                f"{flow}.enabled": "true",
                f"{flow}.topics": ",".join(topics),
                f"{flow}.groups": group,
                f"{flow}.sync.group.offsets.enabled": "true",
                "tasks.max": "2",
                **ONE_REPLICA,
            },
        )

    def measure(
        self, process: ManagedProcess, began: float, ready: Callable[[], bool] | None
    ) -> dict[str, object]:
        """Raises NotThere."""
        total = len(self.copies) * PARTITIONS
        count = records_of(self.target, self.copies)
        row: dict[str, object] = {"all_there_s": wait(lambda: count() == total, process, began)}
        row["group_there_s"] = wait(lambda: committed(self.target, self.group) == total, process, began)
        if ready is not None:
            row["ready_s"] = wait(ready, process, began)
        last = TopicPartition(self.copies[-1], PARTITIONS - 1)

        def end() -> int:
            return int(admin(self.target).list_offsets({last: OffsetSpec.latest()})[last].result(60).offset)

        before, produced = end(), time.monotonic()
        produce(self.source, self.topics[-1], [Record(b"more", partition=PARTITIONS - 1)])
        row["one_more_s"] = wait(lambda: end() > before, process, produced)
        time.sleep(SETTLED_SECONDS)
        meter, since = Meter(lambda: [process.pid]), time.monotonic()
        time.sleep(IDLE_SECONDS * min(1.0, SCALE))
        row["idle_cpu_percent"] = round(100 * meter.seconds() / (time.monotonic() - since), 1)
        row["memory_mb"] = round(resident(tree(process.pid))["sum"])
        return row


def asks(url: str, group: str) -> Callable[[], bool]:
    def ready() -> bool:
        try:
            answer = httpx.get(f"{url}/v1/groups/{group}", timeout=60).json()
            return bool(answer.get("readiness") == "ready")
        except httpx.HTTPError:
            return False

    return ready


@contextmanager
def running(
    side: str, folder: Path, flow: Flow
) -> Iterator[tuple[ManagedProcess, Callable[[], bool] | None]]:
    if side == "stock":
        with stock(folder, flow.path) as process:
            yield process, None
    else:
        with ours_at(folder, flow.path) as (process, url):
            yield process, asks(url, flow.group)


@pytest.mark.timeout(7200)
def test_scale_start(copy_stack: LocalStack, tmp_path: Path) -> None:
    source, target = copy_stack.source.bootstrap, copy_stack.target.bootstrap
    topics = [unique(f"scale-{number:03}") for number in range(max(SIZES))]
    filled(source, topics)
    rows: list[Mapping[str, object]] = []
    there: dict[tuple[str, int], float] = {}
    for size in SIZES:
        group = unique("reader")
        commit(source, group, {(topic, number): 1 for topic in topics[:size] for number in range(PARTITIONS)})
        for side in ("stock", "ours"):
            flow, began = Flow(copy_stack, tmp_path, topics[:size], group), time.monotonic()
            with running(side, tmp_path, flow) as (process, ready):
                try:
                    row = flow.measure(process, began, ready)
                    there[side, size] = float(str(row["all_there_s"]))
                except NotThere:
                    row = {"not_there_s": WITHIN}
            rows.append({"side": side, "partitions": size * PARTITIONS, **row})
            print(rows[-1], flush=True)
            delete(target, flow.copies)
    unit = f"seconds until all of {COMPARED * PARTITIONS} partitions are there"
    mine, theirs = there["ours", COMPARED], there.get(("stock", COMPARED), WITHIN)
    write("scale_start", ours=mine, other=theirs, unit=unit, better="less", rows=rows)
