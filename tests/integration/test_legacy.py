"""`mirror-bridge legacy` on real clusters and real Spark: an upgrade from kafka-mirror-maker.sh, and back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from bridge.local import Cluster, eventually
from tests.support import Record, create_topic, produce, read, unique
from tests.support.groups import commit, committed

WAIT = 240.0
HANDLER = """
import pyarrow as pa


def marked(batch, args):
    values = [args.encode() + value for value in batch.column("value").to_pylist()]
    return batch.set_column(batch.schema.get_field_index("value"), "value", pa.array(values, pa.binary()))
"""


@contextmanager
def legacy(folder: Path, source: Cluster, target: Cluster, *options: str, **consumer: str) -> Iterator[Path]:
    """The command, for the time of the block; ended by SIGINT. Yields the file of its log."""
    files: Mapping[str, Mapping[str, str]] = {
        "consumer": {
            "bootstrap.servers": source.bootstrap,
            **{key.replace("_", "."): value for key, value in consumer.items()},
        },
        "producer": {"bootstrap.servers": target.bootstrap, "acks": "all"},
    }
    for name, props in files.items():
        (folder / name).write_text("".join(f"{key}={value}\n" for key, value in props.items()))
    log = folder / "log"
    command = [
        *(sys.executable, "-m", "bridge", "legacy", "--log", str(log)),
        *(
            "--consumer.config",
            str(folder / "consumer"),
            "--producer.config",
            str(folder / "producer"),
            *options,
        ),
    ]
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=output, env=os.environ | {"PYTHONPATH": str(folder)}
        )
        try:
            yield folder / "output"
            process.send_signal(signal.SIGINT)
            assert process.wait(WAIT) == 0, (folder / "output").read_text() + log.read_text()
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()


def values(cluster: Cluster, topic: str) -> list[bytes | None]:
    return [each.value for each in read(cluster.bootstrap, topic, committed_only=True)]


def numbered(first: int, last: int) -> list[Record]:
    return [Record(b"%d" % number, key=b"key") for number in range(first, last)]


def test_an_upgrade_goes_on_where_the_group_has_come_to(
    source: Cluster, target: Cluster, tmp_path: Path
) -> None:
    topic, group = unique("legacy"), unique("mirror")
    for cluster in (source, target):
        create_topic(cluster.bootstrap, topic, 1)
    produce(source.bootstrap, topic, numbered(0, 100))
    # What MirrorMaker 1 has copied and committed.
    produce(target.bootstrap, topic, numbered(0, 60))
    commit(source.bootstrap, group, {(topic, 0): 60})
    with legacy(
        tmp_path, source, target, "--whitelist", topic, "--offset.commit.interval.ms", "500", group_id=group
    ) as output:
        eventually(lambda: len(values(target, topic)) >= 100, WAIT, what="the rest is copied")
        produce(source.bootstrap, topic, numbered(100, 120))
        eventually(lambda: len(values(target, topic)) >= 120, WAIT, what="new records are copied")
        eventually(
            lambda: committed(source.bootstrap, group).get((topic, 0)) == 120,
            WAIT,
            what="the group's offset is committed",
        )
        assert "--whitelist is called --include" in output.read_text()
    assert values(target, topic) == [b"%d" % number for number in range(120)]
    # Back at kafka-mirror-maker.sh, which begins at the committed offset; and here again, exactly once, now with a
    # message handler, which nothing that was copied before goes through.
    (tmp_path / "own_handlers.py").write_text(HANDLER)
    handler = ("--message.handler", "python:own_handlers.marked", "--message.handler.args", "seen-")
    produce(source.bootstrap, topic, numbered(120, 130))
    with legacy(tmp_path, source, target, "--include", topic, *handler, group_id=group):
        eventually(lambda: len(values(target, topic)) >= 130, WAIT, what="it goes on")
    marked = [b"seen-%d" % number for number in range(120, 130)]
    assert values(target, topic) == [b"%d" % number for number in range(120)] + marked
    assert committed(source.bootstrap, group)[topic, 0] == 130
