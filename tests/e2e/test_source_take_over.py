"""Take-over of the records' mirror: ours goes on where stock stopped, by the same name, and stock where ours handed
back, while a producer goes on. Every record is on the target once, and in order."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from bridge.cli import app
from bridge.local import ConnectFailed, GivenCluster
from bridge.local.processes import ReservedPort
from tests.e2e.flow import Flow
from tests.e2e.taken_mirror import PARTITIONS, Mirror
from tests.support import (
    numbered,
    produce,
    unique,
)
from tests.support.background import in_background
from tests.support.indexing import InProcess
from tests.support.records import producer

PAUSE = 0.1
"""Seconds between two records of each partition."""


def producing(bootstrap: str, topic: str) -> AbstractContextManager[None]:
    """A record to each partition now and then, for the time of the block."""

    def go_on(end: threading.Event) -> None:
        number = 0
        with producer(bootstrap) as sink:
            while not end.wait(PAUSE):
                for partition in range(PARTITIONS):
                    (record,) = numbered(1, start=number, timestamp=1_700_000_000_000 + number)
                    sink.produce(topic, record.value, record.key, partition, timestamp=record.timestamp or 0)
                sink.poll(0)
                number += 1

    return in_background(go_on, f"producer of {topic}")


@pytest.mark.usefixtures("sparking")
def test_ours_goes_on_where_stock_stopped_and_stock_where_ours_did_and_ours_again(unique_flow: Flow) -> None:
    mirror = Mirror(unique_flow)
    try:
        with producing(unique_flow.source.bootstrap, mirror.topic):
            mirror.stock()
            mirror.copies_on()
            code, _, message = mirror.hand_back()
            assert (code, "is RUNNING and has 1 task(s)" in message) == (1, True), message
            mirror.stop()
            by_stock = mirror.stored()
            assert len(by_stock) == PARTITIONS
            code, _, message = mirror.hand_back()
            assert (code, "hand back before its class is changed" in message) == (1, True), message

            mirror.ours()
            mirror.copies_on()
            mirror.stop()
            assert mirror.stored() == by_stock, "ours keeps its positions elsewhere"
            rows = mirror.handed_back()
            handed = {row["partition"]: row["position"] for row in rows}
            for partition, last in by_stock.items():
                first = mirror.runs(partition)[0]
                # What stock has copied is not known to us: no hole.
                assert first.covered_from >= last + 1
                assert first.covered_from == first.upstream_start
                assert handed[partition] > last + 1
            assert mirror.stored() == {partition: at - 1 for partition, at in handed.items()}
            code, rows, message = mirror.hand_back()
            assert (code, {row["outcome"] for row in rows}) == (0, {"handed back before"}), message

            mirror.stock()
            mirror.copies_on()
            mirror.stop()
            again = mirror.stored()
            assert all(again[partition] >= at for partition, at in handed.items())

            mirror.ours()
            mirror.copies_on()
        mirror.copies_on()
        for partition in range(PARTITIONS):
            assert mirror.copies(partition) == mirror.originals(partition)
            since = [run for run in mirror.runs(partition) if run.upstream_start >= handed[partition]]
            assert since[0].covered_from == again[partition] + 1
            assert not any(run.handed_back for run in mirror.runs(partition))
    finally:
        mirror.delete()


@pytest.mark.long
def test_before_a_take_over_the_index_answers_and_after_it_our_runs(
    unique_flow: Flow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Offsets of every kind without the source: what stock has copied and the index covers, what stock copied after
    that, and what ours has copied."""
    indexed, by_stock, by_ours = 60, 80, 110
    monkeypatch.setattr("bridge.pipeline.driver.jobs.SparkJobs", lambda *_: InProcess())
    mirror = Mirror(unique_flow)
    file = tmp_path / "index.json"
    file.write_text(json.dumps({**mirror.config, "name": "index"}))

    def more(begin: int, end: int) -> None:
        for partition in range(PARTITIONS):
            some = numbered(
                end - begin, start=begin, timestamp=1_700_000_000_000 + begin, partition=partition
            )
            produce(unique_flow.source.bootstrap, mirror.topic, some)

    try:
        more(0, indexed)
        mirror.stock()
        mirror.copies_on()
        done = CliRunner().invoke(app, ["index", "--config", str(file), "-o", "json"])
        assert done.exit_code == 0, done.output
        more(indexed, by_stock)
        mirror.copies_on()
        mirror.stop()
        mirror.ours()
        more(by_stock, by_ours)
        mirror.copies_on()
        done = CliRunner().invoke(app, ["index", "--config", str(file)])
        assert (done.exit_code, f"connector {mirror.name} copies it" in done.output) == (1, True), done.output
        mirror.stop()
        unique_flow.wait_copying_stopped(mirror.name)
        for partition in range(PARTITIONS):
            assert mirror.copies(partition) == mirror.originals(partition)
            runs = mirror.runs(partition)
            for one, other in pairwise(runs):
                assert one.upstream_end <= other.upstream_start, "no record is in two runs"
                assert one.downstream_end <= other.downstream_start
            assert {run.upstream_start for run in runs if not run.found} >= {by_stock}
            assert (runs[0].found, runs[0].upstream_start) == (True, 0)
            assert not any(run.handed_back for run in runs), "nobody else goes on"
        for row in without_the_source(unique_flow, mirror.topic, range(by_ours), tmp_path):
            offset, copies = int(row["offset"]), mirror.places(int(row["partition"]))
            least = copies[offset - 1] + 1 if offset else 0
            # Whether all that stock has copied after the index is there only a look at the source shows.
            known = ("exact", "") if offset >= by_stock else ("pending", "copies_unknown")
            assert (row["verdict"], row["reason"] or "") == known, row
            if indexed <= offset < by_stock:
                # Neither knows of these: lower, and by how much at most is said.
                assert row["target_offset"] <= copies[offset] <= row["target_offset"] + row["bound"], row
            else:
                assert (row["evidence"], row["bound"]) == ("run", 0), row
                assert least <= row["target_offset"] <= copies[offset], row
    finally:
        mirror.delete()


def without_the_source(flow: Flow, topic: str, offsets: Sequence[int], folder: Path) -> list[dict[str, Any]]:
    """What groups at these offsets of each partition get, while the source does not answer."""
    nobody = ReservedPort()
    config = {
        **flow.config("nobody"),
        "source.cluster.bootstrap.servers": nobody.address,
        "admin.timeout.ms": "3000",
    }
    del config["bridge.url"]
    file, asked, answered = (folder / name for name in ("flow.json", "positions.csv", "answers.json"))
    file.write_text(json.dumps(config))
    lines = [f"{topic},{partition},{offset}" for partition in range(PARTITIONS) for offset in offsets]
    asked.write_text("\n".join(["topic,partition,offset", *lines, ""]))
    arguments = ("translate", "--config", file, "--input", asked, "--output", answered)
    done = CliRunner().invoke(app, list(map(str, arguments)))
    nobody.release()
    assert done.exit_code in (0, 3), done.output
    rows: list[dict[str, Any]] = json.loads(answered.read_text())
    assert len(rows) == len(lines)
    return rows


@pytest.mark.long
def test_an_alias_with_a_dot_is_taken_over_once_it_is_named(unique_flow: Flow) -> None:
    """replication.policy.aliases, which stock does not look at: the alias stays, and so do all names that it is in."""
    alias = f"{unique('us')}.west"
    flow = replace(unique_flow, source=GivenCluster(alias, unique_flow.source.bootstrap))
    unnamed = Mirror(flow)
    with pytest.raises(ConnectFailed, match=r"replication\.policy\.aliases"):
        unnamed.ours()
    mirror = Mirror(flow, replication_policy_aliases=alias)
    remote = flow.remote(mirror.topic)
    assert remote.startswith(f"{alias}.")
    try:
        for over in (mirror.stock, mirror.ours):
            for partition in range(PARTITIONS):
                produce(flow.source.bootstrap, mirror.topic, numbered(50, partition=partition))
            over()
            mirror.copies_on()
            mirror.stop()
        for partition in range(PARTITIONS):
            assert mirror.copies(partition) == mirror.originals(partition)
            (first, *_) = mirror.runs(partition)
            assert (first.upstream_start, first.covered_from) == (50, 50), "stock's part is none of ours"
    finally:
        mirror.delete()
