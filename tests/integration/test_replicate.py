"""`mirror-bridge replicate` on real clusters and real Spark, as an operator runs it."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bridge.local import Cluster, eventually
from tests.integration.copy_flow import CopyFlow
from tests.integration.drivers import config
from tests.support import Record, admin, create_topic, produce, read, unique
from tests.support.messages import message_pattern
from tests.support.records import varied
from tests.support.waits import WAIT

COMMAND = (sys.executable, "-m", "bridge", "replicate")


class Terminal:
    """What a process writes to a terminal."""

    def __init__(self) -> None:
        self._ours, self.theirs = pty.openpty()
        self._seen = b""
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        while True:
            try:
                more = os.read(self._ours, 65536)
            except OSError:
                return
            if not more:
                return
            self._seen += more

    @property
    def text(self) -> str:
        return self._seen.decode("utf-8", "replace")

    def close(self) -> None:
        os.close(self.theirs)


@contextmanager
def replicating(file: Path, terminal: Terminal) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [*COMMAND, "--config", str(file), "--log", str(file.with_suffix(".log"))],
        stdout=terminal.theirs,
        stderr=terminal.theirs,
        env=os.environ | {"TERM": "xterm", "COLUMNS": "200", "LINES": "40"},
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        terminal.close()


def test_what_is_there_is_copied_once_and_what_comes_until_it_is_told_to_end(
    source: Cluster, target: Cluster, tmp_path: Path
) -> None:
    flow, mark = CopyFlow(source, target), unique("orders")
    topic = create_topic(source.bootstrap, f"{mark}-1", 2)
    flow.topics.append(topic)
    produce(source.bootstrap, topic, varied(200))
    file = tmp_path / "connector.json"
    sink = dict(config(flow, f"{mark}.*")) | {"connector.class": "BridgeMirrorSinkConnector"}
    sink["topics.regex"] = sink.pop("topics")
    file.write_text(json.dumps({"name": mark, "config": sink}))
    done = subprocess.run(
        [*COMMAND, "--config", str(file), "--until-caught-up"], capture_output=True, text=True, timeout=WAIT
    )
    assert done.returncode == 0, done.stderr
    last = done.stdout.splitlines()[-1]
    counts = {"state": "caught_up", "partitions": 2, "lag": 0, "records": 200}
    sums = message_pattern("commands.progress", source=flow.alias, target="target", **counts)
    assert re.search(sums, last), done.stdout
    flow.assert_copied()
    flow.assert_runs_true()

    # The source connector of that name goes on from there, and is shown on a terminal; Ctrl-C ends it in good order.
    produce(source.bootstrap, topic, varied(100, 200))
    properties = tmp_path / "connector.properties"
    properties.write_text(
        "".join(f"{key}={value}\n" for key, value in config(flow, f"{mark}.*", name=mark).items())
    )
    terminal = Terminal()
    with replicating(properties, terminal) as process:
        eventually(lambda: ", 100 records" in terminal.text, WAIT, what=f"{topic} is shown as copied")
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all that run in it
        assert process.wait(WAIT) == 0, terminal.text
    assert "RECORDS/S" in terminal.text
    assert flow.remote(topic) in terminal.text
    assert f"{flow.alias} -> target stopped" in terminal.text
    log = properties.with_suffix(".log").read_text()
    assert "Traceback" not in terminal.text + log
    assert "is killed" not in log
    flow.assert_copied()
    flow.assert_runs_true()


@pytest.mark.long
def test_nothing_is_copied_into_the_source_itself(source: Cluster, tmp_path: Path) -> None:
    alias, topic = unique("src"), create_topic(source.bootstrap, unique("orders"))
    file = tmp_path / "connector.properties"
    props = {
        "connector.class": "BridgeMirrorSourceConnector",
        "name": alias,
        "source.cluster.alias": alias,
        "target.cluster.alias": "target",
        "source.cluster.bootstrap.servers": source.bootstrap,
        "target.cluster.bootstrap.servers": source.bootstrap,
        "topics": topic,
        "spark.master": "local[1]",
    }
    file.write_text("".join(f"{key}={value}\n" for key, value in props.items()))
    done = subprocess.run(
        [*COMMAND, "--config", str(file), "--until-caught-up"], capture_output=True, text=True, timeout=WAIT
    )
    assert done.returncode == 1, done.stdout
    assert "it is the source cluster" in done.stderr
    assert not [name for name in admin(source.bootstrap).list_topics().topics if alias in name]


@pytest.mark.long
def test_records_go_through_the_transforms_that_are_configured(
    source: Cluster, target: Cluster, tmp_path: Path
) -> None:
    flow, mark = CopyFlow(source, target), unique("orders")
    masked, plain = (create_topic(source.bootstrap, f"{mark}-{name}") for name in ("masked", "plain"))
    value = b'{"email": "a@b.c", "n": 1.10}'
    produce(
        source.bootstrap, masked, [Record(value), Record(b"drop me"), Record(value), Record(None, b"key")]
    )
    produce(source.bootstrap, plain, [Record(value), Record(b"audit"), Record(value)])
    (tmp_path / "own_transforms.py").write_text(
        "import pyarrow.compute as pc\n\n"
        "def drop(batch):\n"
        "    dropped = pc.equal(batch.column('value'), b'drop me')\n"
        "    return batch.filter(pc.fill_null(pc.invert(dropped), True))\n\n"
        "def split(batch, audit):\n"
        "    there = pc.fill_null(pc.equal(batch.column('value'), b'audit'), False)\n"
        "    return batch.set_column(0, 'topic', pc.if_else(there, audit, batch.column('topic')))\n"
    )
    transforms = {
        "bridge.transforms": "python:own_transforms.drop,mask,split",
        "bridge.transforms.split.type": "python:own_transforms.split",
        "bridge.transforms.split.topics": ".*-plain",
        "bridge.transforms.split.to": f"{mark}-audit",
        "bridge.transforms.split.audit": f"{mark}-audit",
        "bridge.transforms.mask.type": "python:bridge.transforms.mask_fields",
        "bridge.transforms.mask.topics": ".*-masked",
        "bridge.transforms.mask.fields": "email",
    }
    file = tmp_path / "connector.json"
    file.write_text(json.dumps({"name": mark, "config": config(flow, f"{mark}.*", **transforms)}))

    def replicate() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*COMMAND, "--config", str(file), "--until-caught-up"],
            capture_output=True,
            text=True,
            timeout=WAIT,
            env=os.environ | {"PYTHONPATH": str(tmp_path)},
        )

    done = replicate()
    assert done.returncode == 0, done.stderr
    assert [each.value for each in flow.copies(masked)] == [b'{"email":"","n":1.10}'] * 2 + [None]
    assert [each.value for each in flow.copies(plain)] == [value, value]
    # The topic was made as remote topics are.
    assert [each.value for each in read(target.bootstrap, f"{mark}-audit", committed_only=True)] == [b"audit"]
    produce(source.bootstrap, masked, [Record(b"no JSON")])
    failed = replicate()
    assert failed.returncode == 1
    for words in (
        f"the record of {masked}-0 at offset 4 can't be copied to {flow.remote(masked)}: ",
        "transform mask: it failed with ValueError: it is neither a JSON object nor a list",
        "set source.record.policy to report",
    ):
        assert words in failed.stderr
    assert "Traceback" not in failed.stdout + failed.stderr
