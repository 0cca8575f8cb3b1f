"""A stream that is killed at random, tasks and whole queries, writes every record once."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from bridge.local import Cluster
from tests.integration.sink_query import OFFSETS_A_BATCH
from tests.support import Record, create_topic, eventually, produce, read, unique

pytestmark = pytest.mark.long

PARTITIONS = 3
TIME = 1_700_000_000_000
KILLS = int(os.environ.get("MIRROR_BRIDGE_SINK_KILLS", "2"))
EPOCHS_A_KILL = 2
WAIT = 300.0
_WORKERS = "-m bridge.spark.workers"


def parents() -> dict[int, tuple[int, str]]:
    """Parent and command line of each process of this machine."""
    found = {}
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, IndexError, ValueError):
            stat = (entry / "stat").read_text().rpartition(")")[2].split()
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if stat[0] != "Z":
                found[int(entry.name)] = (int(stat[1]), command)
    return found


def below(root: int) -> dict[int, str]:
    """The process and all that it has started, with their command lines."""
    everyone = parents()
    known = {root} & everyone.keys()
    while more := {each for each, (parent, _) in everyone.items() if parent in known} - known:
        known |= more
    return {each: everyone[each][1] for each in known}


def kill(processes: list[int]) -> None:
    for each in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(each, signal.SIGKILL)


class Query:
    """The program that copies, as a process of its own."""

    def __init__(self, *arguments: str, log: Path) -> None:
        with log.open("ab") as out:
            command = [sys.executable, "-m", "tests.integration.sink_query", *arguments]
            self._process = subprocess.Popen(command, stdout=out, stderr=out)

    @property
    def status(self) -> int | None:
        return self._process.poll()

    def kill_worker(self, choice: random.Random) -> bool:
        """Kills one of its Python workers, if there is one: what runs a task, or plans and commits for the query."""
        processes = below(self._process.pid)
        workers = sorted(each for each, command in processes.items() if _WORKERS in command)
        if workers:
            kill([choice.choice(workers)])
        return bool(workers)

    def kill(self) -> None:
        """Kills all of it at once: the driver, its JVM and workers."""
        kill(sorted(below(self._process.pid)))
        self._process.wait(WAIT)


def test_nothing_is_lost_and_nothing_is_there_twice(source: Cluster, target: Cluster, tmp_path: Path) -> None:
    topic = create_topic(source.bootstrap, unique("kills"), PARTITIONS)
    create_topic(target.bootstrap, topic, PARTITIONS)
    total = OFFSETS_A_BATCH * EPOCHS_A_KILL * (KILLS + 2)
    records = [
        Record(
            b"%d" % number,
            b"key %d" % (number % 100),
            TIME + number,
            (("number", b"%d" % number),),
            number % PARTITIONS,
        )
        for number in range(total)
    ]
    produce(source.bootstrap, topic, records)
    seed = random.randrange(1 << 32)
    choice = random.Random(seed)
    log, commits = tmp_path / "log", tmp_path / "checkpoint" / "offsets"
    arguments = (source.bootstrap, target.bootstrap, topic, str(tmp_path))
    done: list[str] = []
    query = Query(*arguments, log=log)

    def epochs() -> int:
        return sum(each.name.isdecimal() for each in commits.iterdir()) if commits.exists() else 0

    def reached(epoch: int) -> None:
        what = f"epoch {epoch} begins after {done}"
        eventually(lambda: epochs() >= epoch or query.status is not None, WAIT, what=what)

    try:
        while len(done) < KILLS and query.status is None:
            reached(epochs() + choice.randint(1, EPOCHS_A_KILL))
            time.sleep(choice.uniform(0, 0.4))  # not a wait: what is killed is to be anywhere in an epoch
            if choice.random() < 0.35 or len(done) == KILLS - 1:
                query.kill()
                done.append("the query")
                query = Query(*arguments, log=log)
            elif query.kill_worker(choice):
                done.append("a worker")
        eventually(lambda: query.status is not None, WAIT, what="the query ends")
    finally:
        query.kill()
    errors = (tmp_path / "errors").read_text() if (tmp_path / "errors").exists() else ""
    print(f"seed {seed}: killed {dict(Counter(done))}; errors: {errors[:3000]}")
    assert query.status == 0, log.read_text()[-4000:]
    assert len(done) == KILLS
    for partition in range(PARTITIONS):
        written = read(target.bootstrap, topic, partition, committed_only=True)
        expected = [each for each in records if each.partition == partition]
        # A partition that is read in several parts has no order between them (docs/spark.md).
        assert Counter(each.content for each in written) == Counter(each.content for each in expected), seed
