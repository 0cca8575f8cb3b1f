"""Logs: one line for what begins and one for its end, and every line in one form, whoever wrote it."""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridge.errors import KafkaFailure, KafkaFault
from bridge.logs.changes import FORGET_SECONDS, Changes
from bridge.logs.forward import Forward, of_line
from bridge.logs.lines import JsonLines
from bridge.logs.repeats import AGAIN_SECONDS, Repeats
from bridge.model.addresses import cluster_name
from bridge.model.values import Side
from bridge.pipeline.driver import jobs
from connectors.cluster_away import Outages
from tests.support.messages import message
from tests.support.processes import descriptors

NOW = 1_800_000_000.25


class Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []
        self.setFormatter(JsonLines("test"))

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    @property
    def messages(self) -> list[str]:
        return [record.getMessage() for record in self.records]

    @property
    def lines(self) -> list[dict[str, str]]:
        return [json.loads(self.format(record)) for record in self.records]


@pytest.fixture
def kept() -> Iterator[Kept]:
    """All that is logged at INFO and above."""
    handler, root = Kept(), logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    yield handler
    root.removeHandler(handler)
    root.setLevel(level)


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


def changes(clock: Clock, calm: float = 0.0) -> Changes:
    return Changes(
        logging.getLogger("bridge.test"), "does not answer", "answers again", calm=calm, clock=clock
    )


def test_what_lasts_is_one_line_and_its_end_another(kept: Kept) -> None:
    clock = Clock()
    seen = changes(clock)
    for _ in range(100):
        seen.failed("cluster A", f"refused {clock.now}", "groups", connector="groups")
        clock.now += 1
    seen.succeeded("cluster A", "groups", connector="groups")
    seen.succeeded("cluster A", "groups")
    assert kept.messages == [
        f"cluster A does not answer: refused {NOW}",
        "cluster A answers again after 100 s",
    ]
    assert kept.lines[1]["since"] == "2027-01-15T08:00:00.250Z"
    assert [line["connector"] for line in kept.lines] == ["groups", "groups"]
    seen.failed("cluster A", "again")
    assert len(kept.messages) == 3


def test_it_is_over_when_nobody_meets_with_it_any_more(kept: Kept) -> None:
    clock = Clock()
    seen = changes(clock)
    assert seen.failed("A", "refused", "one")
    assert not seen.failed("A", "refused", "two")
    seen.succeeded("A", "two")
    assert len(kept.messages) == 1
    seen.succeeded("A", "one")
    assert kept.messages[1:] == ["A answers again after 0 s"]


def test_who_tries_no_more_neither_ends_it_nor_keeps_it(kept: Kept) -> None:
    clock = Clock()
    seen = changes(clock)
    seen.failed("A", "refused", "one")
    seen.forget("one")
    clock.now += 60
    assert not seen.failed("A", "refused", "two"), "it goes on"
    seen.succeeded("A", "two")
    assert kept.messages[1:] == ["A answers again after 60 s"]
    seen.failed("A", "refused", "one")
    seen.forget("one")
    clock.now += FORGET_SECONDS + 1
    seen.succeeded("A", "two")
    assert len(kept.messages) == 3, "nobody knows when it ended"


def test_what_is_well_for_a_moment_only_goes_on(kept: Kept) -> None:
    clock = Clock()
    seen = changes(clock, calm=5)
    seen.failed("A", "refused")
    clock.now += 10
    seen.succeeded("A")
    clock.now += 4
    seen.failed("A", "refused")
    clock.now += 10
    for _ in range(6):
        seen.succeeded("A")
        clock.now += 1
    assert kept.messages[1:] == ["A answers again after 24 s"], "until it went well, without the calm"


def test_a_cluster_that_is_away_is_one_line_for_all_connectors(kept: Kept) -> None:
    # A target of its own: outages of a cluster are shared by all connectors of a process, tests before this one too.
    props = {
        "source.cluster.alias": "east",
        "source.cluster.bootstrap.servers": "east-1:9092,east-2:9092",
        "target.cluster.alias": "west",
    }
    away = KafkaFailure(KafkaFault.UNREACHABLE, "refused")
    all_of_them = [Outages(f"c{number}", props) for number in range(20)]
    for _ in range(10):
        for each in all_of_them:
            each.cluster_failed(Side.SOURCE, away)
    cluster = "source cluster east (east-1:9092,east-2:9092)"
    assert kept.messages == [message("logs.away", cluster=cluster, why="refused")]
    for each in all_of_them:
        each.well()
    assert kept.messages[1:] == [message("logs.back", cluster=cluster, seconds=0)]


def test_another_fault_is_a_line_of_its_own_for_each_connector(kept: Kept) -> None:
    # Clusters of its own: see above.
    props = {"source.cluster.alias": "south", "target.cluster.alias": "north"}
    one, other = Outages("one", props), Outages("other", props)
    denied = KafkaFailure(KafkaFault.NOT_AUTHORIZED, "denied")
    for _ in range(10):
        one.cluster_failed(Side.TARGET, denied)
        other.failed("no such topic", "sync of topic configs")
    one.well()
    other.well("sync of topic configs")
    assert kept.messages == [
        message("logs.failed", what="round of one", why="target cluster north: denied"),
        message("logs.failed", what="sync of topic configs of other", why="no such topic"),
        message("logs.recovered", what="round of one", seconds=0),
        message("logs.recovered", what="sync of topic configs of other", seconds=0),
    ]


def test_a_cluster_is_named_by_side_alias_and_addresses() -> None:
    assert cluster_name(Side.TARGET, {}) == "target cluster target"
    props = {"target.cluster.alias": "west", "target.cluster.bootstrap.servers": "w:9092"}
    assert cluster_name(Side.TARGET, props) == "target cluster west (w:9092)"


# -- lines of others ---------------------------------------------------------------------------------------------------


def test_a_line_of_a_child_stays_what_it_is() -> None:
    line = {
        "time": "2026-11-23T05:27:14.069Z",
        "level": "WARN",
        "process": "jvm",
        "logger": "org.apache.spark.Executor",
        "message": "lost",
        "traceback": "java.lang.Error: x",
        "task": 3,
    }
    decoded = json.loads(JsonLines("http").format(of_line(json.dumps(line), "driver", NOW)))
    assert decoded == {**line, "level": "WARNING"}


@pytest.mark.parametrize(
    ("line", "level"),
    [
        ("Exception in thread main", "WARNING"),
        ("26/11/23 ERROR Executor: lost", "ERROR"),
        ("%3|1795|FAIL| refused", "WARNING"),
        ('{"message": "no time"}', "WARNING"),
        ('{"time": "yesterday", "level": "INFO", "logger": "x", "message": "y"}', "INFO"),
        ("[1, 2]", "WARNING"),
        ("\ufffd\x00", "WARNING"),
    ],
)
def test_any_other_line_becomes_one(line: str, level: str) -> None:
    decoded = json.loads(JsonLines("http").format(of_line(line, "driver", NOW)))
    assert decoded == {
        "time": "2027-01-15T08:00:00.250Z",
        "level": level,
        "process": "driver",
        "logger": "stderr",
        "message": line,
    }


CHILD = r"""
import json, os, sys, time
def ours(message, level="INFO"):
    print(json.dumps({"time": "2026-11-23T05:27:14.069Z", "level": level, "process": "worker", "logger": "bridge.x",
                      "message": message}), file=sys.stderr, flush=True)
ours("hidden", "DEBUG")
ours("one")
sys.stderr.write("Traceback (most recent call last):\n  File x\nValueError: boom\n"); sys.stderr.flush()
ours("two")
for number in range(50):
    print(f"Unable to connect to node {number}", file=sys.stderr, flush=True)
    ours(f"step {number}")
os.write(2, b"x" * 200_000 + b"\n")
os.write(2, b"no end of line")
"""


def test_a_childs_standard_error_is_lines_of_our_log(kept: Kept) -> None:
    async def run() -> None:
        forward = Forward("driver", "c1")
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", CHILD, stderr=forward.fileno)
        forward.started()
        assert await process.wait() == 0
        await forward.ended()

    asyncio.run(run())
    lines = kept.lines
    assert {line["connector"] for line in lines} == {"c1"}
    messages = [line["message"] for line in lines]
    assert messages[:3] == ["one", "Traceback (most recent call last):", "two"]
    assert lines[1]["traceback"] == "  File x\nValueError: boom"
    assert sum(message.startswith("Unable") for message in messages) == 1
    assert sum(message.startswith("step") for message in messages) == 50, "ours are never left out"
    assert messages[-1] == "no end of line"
    assert max(map(len, messages)) <= 1 << 17


def test_a_forward_without_a_child_leaves_nothing_open() -> None:
    before = descriptors()
    asyncio.run(Forward("driver").ended())
    assert descriptors() <= before


def test_repeats_are_counted_and_told_later() -> None:
    repeats = Repeats()

    def line(after: float, name: str = "org.apache", message: str = "lost task 7") -> logging.LogRecord:
        record = logging.LogRecord(name, logging.WARNING, "", 0, message, (), None)
        record.created = NOW + after
        return record

    assert repeats.passes(line(0))
    assert not repeats.passes(line(1, message="lost task 8"))
    assert not repeats.passes(line(2, message="lost task 0x1f"))
    assert repeats.passes(line(3, message="found task 8"))
    assert repeats.passes(line(3, name="org.other"))
    assert all(repeats.passes(line(4, name=name)) for name in ("bridge.x", "connectors.y", "asyncio") * 3)
    again = line(AGAIN_SECONDS + 1)
    assert repeats.passes(again)
    assert again.getMessage() == message("logs.left_out", line="lost task 7", count=2)


PROCESS = r"""
import asyncio, gc, logging, sys, threading, warnings
from bridge.logs.setup import set_up_logs
set_up_logs("rounds", "info", sys.argv[1])
logging.getLogger("aiokafka.client").error("Unable connect to node")
logging.getLogger("httpx").info("HTTP Request: GET http://user:planted@host/")
logging.getLogger("httpcore.connection").info("connect_tcp.started")
warnings.warn("old")
logging.getLogger("uvicorn.access").info("GET /")
thread = threading.Thread(target=lambda: 1 / 0, name="t1"); thread.start(); thread.join()
async def forgotten():
    async def fails(): raise ValueError("nobody waits")
    task = asyncio.create_task(fails()); await asyncio.wait([task]); del task; gc.collect()
    asyncio.get_running_loop().call_soon(lambda: 1 / 0); await asyncio.sleep(0)
asyncio.run(forgotten())
class Bad:
    def __del__(self): raise RuntimeError("in del")
Bad(); gc.collect()
raise SystemError("the end\nof it")
"""


def test_warnings_and_errors_that_nobody_catches_are_lines_too() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", PROCESS, "json"], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout) == (1, "")
    lines = [json.loads(line) for line in ended.stderr.splitlines()]
    assert {line["process"] for line in lines} == {"rounds"}
    result = [(line["level"], line["logger"], line["message"].partition("\n")[0]) for line in lines]
    assert [name for _, name, _ in result] == [
        "py.warnings",
        "uvicorn.access",
        "bridge",
        "asyncio",
        "asyncio",
        "bridge",
        "bridge",
    ]
    said = message("logs.thread_ended", thread="t1", error="division by zero")
    assert result[2] == ("ERROR", "bridge", said)
    assert result[-1] == ("CRITICAL", "bridge", message("logs.process_ends", error="the end"))
    assert all("Error" in line["traceback"] for line in lines[2:])


def test_a_text_line_has_date_level_and_process() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", PROCESS, "text"], capture_output=True, text=True, check=False
    )
    lines = ended.stderr.splitlines()
    assert len(lines) == 7
    for line in lines:
        when, level, process, _ = line.split(maxsplit=3)
        assert when.endswith("Z")
        assert level in ("INFO", "WARNING", "ERROR", "CRITICAL")
        assert process == "rounds"


# -- the JVM -----------------------------------------------------------------------------------------------------------


def test_the_jvm_logs_json_unless_an_operator_chose_otherwise(tmp_path: Path) -> None:
    file = jobs.configuration({}, {}, tmp_path)
    assert file is not None
    assert '"process":"jvm"' in file.read_text()
    own = {"spark.driver.extraJavaOptions": "-Dlog4j2.configurationFile=/etc/log4j2.xml"}
    assert jobs.configuration(own, {}, tmp_path) is None
    assert jobs.configuration({}, {jobs.VARIABLE: "/etc/log4j2.xml"}, tmp_path) is None
