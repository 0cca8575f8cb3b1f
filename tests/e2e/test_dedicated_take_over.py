"""From a stock connect-mirror-maker.sh to ours with one file, and back: each goes on where the other has stopped."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from bridge.cli import app
from bridge.local import DEFAULT_KAFKA, ManagedProcess, MirrorNode, kafka_jars
from tests.e2e.dedicated import dedicated_stack, health, mm2, running, runs, wait_values
from tests.support import admin, create_topic, eventually, numbered, produce, unique
from tests.support.waits import WAIT

pytestmark = pytest.mark.long


@contextmanager
def stock(file: Path) -> Iterator[ManagedProcess]:
    """connect-mirror-maker.sh with the file, for the time of the block."""
    command = kafka_jars(DEFAULT_KAFKA).command("org.apache.kafka.connect.mirror.MirrorMaker", str(file))
    process = ManagedProcess("stock", command, file.parent / f"{unique('stock')}.log")
    process.start()
    try:
        yield process
    finally:
        process.stop(timeout=60.0)


def hand_back(*arguments: str) -> tuple[int, list[dict[str, Any]], str]:
    """The command's exit status, its rows, and what it says beside."""
    done = CliRunner().invoke(app, ["hand-back", *arguments, "-o", "json"])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, json.loads(done.stdout or "[]"), done.stderr


def test_over_from_stock_and_back_and_over_again(tmp_path: Path) -> None:
    """Every record is there once and in order: nothing is lost, and nothing is there twice."""
    with dedicated_stack(tmp_path / "stack") as stack:
        stack.start_clusters()
        clusters = {name: stack.cluster(name) for name in ("A", "B")}
        file = mm2(
            tmp_path / "mm2.properties",
            clusters,
            ["A->B"],
            {"topics": "taken-.*", "B->A.emit.heartbeats.enabled": "false"},
        )
        topic = create_topic(clusters["A"].bootstrap, unique("taken"), 2)
        copy, there = f"A.{topic}", admin(clusters["B"].bootstrap)

        def fill(start: int) -> None:
            for partition in range(2):
                produce(clusters["A"].bootstrap, topic, numbered(500, start=start, partition=partition))

        def wait_copied(count: int, *nodes: MirrorNode) -> None:
            for partition in range(2):
                wait_values(clusters["B"], copy, expected(count, partition), *nodes, partition=partition)

        fill(0)
        with stock(file) as theirs:
            eventually(
                lambda: copy in there.list_topics(timeout=10).topics, WAIT, what=copy, watched=[theirs]
            )
            wait_copied(500)
            with running(tmp_path, file) as node:

                def waits() -> None:
                    (flow,) = health(node)["flows"]
                    assert flow["state"] == "waiting", flow
                    assert "a connect-mirror-maker.sh of this flow runs" in (flow["detail"] or ""), flow

                eventually(waits, WAIT, what="ours waits", watched=[node.process])
                theirs.stop(timeout=60.0)
                fill(500)
                eventually(lambda: runs(node) == {"A->B"}, WAIT, what="ours runs", watched=[node.process])
                wait_copied(1000, node)
                assert "a stock mirror has left the offsets of" in node.process.log.read_text()
                code, _, message = hand_back("--mirror", str(file))
                assert (code, "group A-mm2 on B has members" in message) == (1, True), message

        code, rows, message = hand_back("--mirror", str(file))
        assert code == 0, message
        handed = {(row["flow"], row["topic"], row["partition"]): row["offset"] for row in rows}
        assert {("A->B", topic, 0): 999, ("A->B", topic, 1): 999}.items() <= handed.items()
        fill(1000)
        with stock(file):
            wait_copied(1500)
        code, rows, message = hand_back("A->B", "--mirror", str(file))
        assert (code, {row["outcome"] for row in rows}) == (0, {"handed back before"}), message

        fill(1500)
        with running(tmp_path, file) as node:
            wait_copied(2000, node)


def expected(count: int, partition: int) -> list[bytes | None]:
    return [each.value for each in numbered(count, partition=partition)]
