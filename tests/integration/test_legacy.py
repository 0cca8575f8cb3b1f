"""`mirror-bridge legacy` on real clusters and real Spark: an upgrade from kafka-mirror-maker.sh, and back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from bridge.local import Cluster, eventually
from tests.support import Record, create_topic, produce, read, unique
from tests.support.groups import commit, committed
from tests.support.waits import WAIT

pytestmark = pytest.mark.long

HANDLER = """
import pyarrow as pa


def marked(batch, args):
    values = [args.encode() + value for value in batch.column("value").to_pylist()]
    return batch.set_column(batch.schema.get_field_index("value"), "value", pa.array(values, pa.binary()))
"""


@dataclass(frozen=True)
class Legacy:
    """The command while it runs."""

    process: subprocess.Popen[bytes]
    folder: Path

    @property
    def output(self) -> str:
        return (self.folder / "output").read_text()

    @property
    def log(self) -> str:
        path = self.folder / "log"
        return path.read_text() if path.exists() else ""

    def interrupt(self) -> None:
        """SIGINT, and the end in good order."""
        self.process.send_signal(signal.SIGINT)
        assert self.process.wait(WAIT) == 0, self.output + self.log

    def ended(self) -> int:
        """Its exit status, once it has ended by itself."""
        return self.process.wait(WAIT)


FULL_NAMES = ("--consumer.config", "--producer.config")
KIPS_NAMES = ("--consumer", "--producer")
"""Of the same options, in KIP-382's walk-through."""


@contextmanager
def started(
    folder: Path,
    source: Cluster,
    target: Cluster,
    *options: str,
    names: tuple[str, str] = FULL_NAMES,
    **consumer: str,
) -> Iterator[Legacy]:
    """The command; killed behind the block if it still runs."""
    folder.mkdir(exist_ok=True)
    of_consumer = {key.replace("_", "."): value for key, value in consumer.items()}
    files: Mapping[str, Mapping[str, str]] = {
        "consumer": {"bootstrap.servers": source.bootstrap, **of_consumer},
        "producer": {"bootstrap.servers": target.bootstrap, "acks": "all"},
    }
    for name, props in files.items():
        (folder / name).write_text("".join(f"{key}={value}\n" for key, value in props.items()))
    given = (word for name, file in zip(names, files, strict=True) for word in (name, str(folder / file)))
    command = [sys.executable, "-m", "bridge", "legacy", "--log", str(folder / "log"), *given, *options]
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=output, env=os.environ | {"PYTHONPATH": str(folder)}
        )
        try:
            yield Legacy(process, folder)
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()


@contextmanager
def legacy(
    folder: Path,
    source: Cluster,
    target: Cluster,
    *options: str,
    names: tuple[str, str] = FULL_NAMES,
    **consumer: str,
) -> Iterator[Legacy]:
    """The command, for the time of the block; ended by SIGINT."""
    with started(folder, source, target, *options, names=names, **consumer) as running:
        yield running
        running.interrupt()


def values(cluster: Cluster, topic: str, partition: int = 0) -> list[bytes | None]:
    return [each.value for each in read(cluster.bootstrap, topic, partition, committed_only=True)]


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
    ) as running:
        eventually(lambda: len(values(target, topic)) >= 100, WAIT, what="the rest is copied")
        produce(source.bootstrap, topic, numbered(100, 120))
        eventually(lambda: len(values(target, topic)) >= 120, WAIT, what="new records are copied")
        eventually(
            lambda: committed(source.bootstrap, group).get((topic, 0)) == 120,
            WAIT,
            what="the group's offset is committed",
        )
        assert "--whitelist is called --include" in running.output
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


LARGE = Record(b"x" * 5_000)


def test_a_record_that_is_too_large_ends_the_command_or_is_left_out(
    source: Cluster, target: Cluster, tmp_path: Path
) -> None:
    """--abort.on.send.failure true and false, by the KIP's names of the files; and --num.streams."""
    topic, group = unique("legacy"), unique("mirror")
    create_topic(source.bootstrap, topic, 2)
    create_topic(target.bootstrap, topic, 2, {"max.message.bytes": "1000"})
    for partition in range(2):
        small = [Record(each.value, partition=partition) for each in numbered(0, 10)]
        produce(source.bootstrap, topic, small)
    produce(source.bootstrap, topic, [LARGE, *numbered(10, 20)])
    options = ("--include", topic, "--offset.commit.interval.ms", "500")
    abort = ("--abort.on.send.failure", "true")
    with started(
        tmp_path / "abort",
        source,
        target,
        *options,
        *abort,
        names=KIPS_NAMES,
        group_id=group,
        auto_offset_reset="earliest",
    ) as aborting:
        assert aborting.ended() == 1, aborting.output + aborting.log
        assert f"the target rejects the record of {topic}-0 at offset 10 for {topic}" in aborting.output
        assert "change max.message.bytes of the topic" in aborting.output
        assert "or set --abort.on.send.failure to false" in aborting.output
    assert values(target, topic) == [b"%d" % number for number in range(10)][: len(values(target, topic))]
    assert "1 slices" in aborting.log
    on = ("--abort.on.send.failure", "false", "--num.streams", "2")
    with legacy(
        tmp_path / "on",
        source,
        target,
        *options,
        *on,
        names=KIPS_NAMES,
        group_id=group,
        auto_offset_reset="earliest",
    ) as going_on:
        eventually(lambda: len(values(target, topic)) >= 20, WAIT, what="the rest is copied")
        eventually(
            lambda: committed(source.bootstrap, group).get((topic, 0)) == 21,
            WAIT,
            what="the group's offset is behind the record that was left out",
        )
    assert values(target, topic) == [b"%d" % number for number in range(20)]
    assert values(target, topic, 1) == [b"%d" % number for number in range(10)]
    assert "2 partitions in 2 slices" in going_on.log


@pytest.mark.soak
def test_of_two_commands_in_opposite_directions_exactly_one_copies(
    source: Cluster, target: Cluster, tmp_path: Path
) -> None:
    topic, group = unique("legacy"), unique("mirror")
    for cluster in (source, target):
        create_topic(cluster.bootstrap, topic, 1)
    with (
        started(
            tmp_path / "there",
            source,
            target,
            "--include",
            topic,
            group_id=group,
            auto_offset_reset="earliest",
        ) as there,
        started(
            tmp_path / "back",
            target,
            source,
            "--include",
            topic,
            group_id=group,
            auto_offset_reset="earliest",
        ) as back,
    ):

        def one_has_ended() -> Legacy:
            return next(each for each in (there, back) if each.process.poll() is not None)

        refused = eventually(one_has_ended, WAIT, what="one of them is refused")
        copying, (here, other) = (back, (target, source)) if refused is there else (there, (source, target))
        assert refused.ended() == 1, refused.output + refused.log
        assert f"connector {group} copies {topic} to {topic} in the opposite direction" in refused.output
        assert "or leave the topics out of --include" in refused.output
        assert "Traceback" not in refused.output
        produce(here.bootstrap, topic, numbered(0, 50))
        eventually(lambda: len(values(other, topic)) >= 50, WAIT, what="the other one copies")
        copying.interrupt()
    expected = [b"%d" % number for number in range(50)]
    assert (values(source, topic), values(target, topic)) == (expected, expected)


def test_of_two_commands_with_one_group_the_first_ends(
    source: Cluster, target: Cluster, tmp_path: Path
) -> None:
    topic, group = unique("legacy"), unique("mirror")
    for cluster in (source, target):
        create_topic(cluster.bootstrap, topic, 1)
    produce(source.bootstrap, topic, numbered(0, 50))

    def begun(folder: str) -> AbstractContextManager[Legacy]:
        settings = {"group_id": group, "auto_offset_reset": "earliest"}
        return started(tmp_path / folder, source, target, "--include", topic, names=FULL_NAMES, **settings)

    with begun("first") as first:
        eventually(lambda: len(values(target, topic)) == 50, WAIT, what="the first one copies")
        with begun("second") as second:
            assert first.ended() == 1, first.output + first.log
            assert "has taken over, so this one ends" in first.output
            produce(source.bootstrap, topic, numbered(50, 100))
            eventually(lambda: len(values(target, topic)) >= 100, WAIT, what="the second one copies")
            second.interrupt()
    assert values(target, topic) == [b"%d" % number for number in range(100)]
