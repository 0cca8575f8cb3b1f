"""Checkpoints and heartbeats beside stock: it reads ours, and both write at once."""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from bridge.client import MirrorClient
from bridge.local import Cluster
from bridge.mm2.java_regex import compile_java
from bridge.mm2.records import Checkpoint
from bridge.model.values import TopicPartition
from tests.e2e.control import (
    beats,
    checkpointing,
    checkpoints_topic,
    latest,
    our_control,
    syncs_topic,
    wait_checkpoint,
)
from tests.e2e.flow import SHIFT, Flow
from tests.support import (
    Record,
    commit,
    connector,
    eventually,
    produce,
    read,
    stock_config,
    unique,
)
from tests.support.java import Ask, Field, Oracle, asking, kafka_class
from tests.support.waits import WAIT

SIDE_INTERVAL = 2
HARNESS = Path(__file__).parents[1] / "integration" / "JavaMirrorClient.java"


# -- stock reads what we write --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def written(unique_flow: Flow, mirrored: str) -> dict[str, int]:
    """Groups by our checkpoint connector, with the offset of each on the target; and heartbeats by ours in both
    directions: those from the source to itself come to the target through the mirror, and are what hops are counted
    by. All is stopped again."""
    mark = unique("read")
    groups = {f"{mark}-{number}": 230 * number + 7 for number in range(1, 5)}
    for group, offset in groups.items():
        commit(unique_flow.source.bootstrap, group, {(mirrored, 0): offset})
    fast = {"emit_heartbeats_interval_seconds": 1}
    back = our_control("Heartbeat", unique_flow.reversed(), **fast)
    back["producer.override.bootstrap.servers"] = unique_flow.source.bootstrap
    with (
        checkpointing(unique_flow, f"{mark}.*"),
        connector(unique_flow.worker, our_control("Heartbeat", unique_flow, **fast)),
        connector(unique_flow.worker, back),
    ):
        for group, offset in groups.items():
            wait_checkpoint(unique_flow, group, mirrored, offset + SHIFT)
        copy = unique_flow.remote("heartbeats")

        def arrived() -> None:
            assert len(beats(unique_flow)) >= 2
            assert read(unique_flow.target.bootstrap, copy), f"nothing in {copy}"

        eventually(arrived, WAIT, what=f"heartbeats, and their copies in {copy}", watched=unique_flow.watched)
    return {group: offset + SHIFT for group, offset in groups.items()}


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> Ask:
    return asking(Oracle(HARNESS, tmp_path_factory.mktemp("java"), "JavaMirrorClient", live=True))


def as_lines(group: str, offsets: Any) -> list[str]:
    return [
        f"{group} {place.topic} {place.partition} {at.offset} {at.metadata}" for place, at in offsets.items()
    ]


@pytest.mark.long
def test_mirror_client_answers_the_same_as_ours(
    unique_flow: Flow, mirrored: str, written: dict[str, int], java: Ask
) -> None:
    alias, props = unique_flow.source.name, {"bootstrap.servers": unique_flow.target.bootstrap}
    one, pattern = next(iter(written)), next(iter(written)).rpartition("-")[0] + "-[2-4]"
    questions: list[list[Field]] = [
        ["hops", alias],
        ["hops", "nobody"],
        ["heartbeat_topics"],
        ["checkpoint_topics"],
        ["upstream_clusters"],
        ["remote_topics", None],
        ["remote_topics", alias],
        ["group", one, alias],
        ["group", "nobody", alias],
        ["pattern", pattern, alias],
    ]
    text = f"bootstrap.servers={unique_flow.target.bootstrap}\n"
    theirs = java([["client", text, *question] for question in questions])

    async def ours() -> list[list[str]]:
        async with MirrorClient(props) as client:
            several = await client.remote_consumer_offsets(compile_java(pattern), alias, 30)
            return [
                [str(await client.replication_hops(alias))],
                [str(await client.replication_hops("nobody"))],
                sorted(await client.heartbeat_topics()),
                sorted(await client.checkpoint_topics()),
                sorted(await client.upstream_clusters()),
                sorted(await client.remote_topics()),
                sorted(await client.remote_topics(alias)),
                as_lines(one, await client.remote_consumer_offsets(one, alias, 30)),
                as_lines("nobody", await client.remote_consumer_offsets("nobody", alias, 30)),
                [line for group, some in several.items() for line in as_lines(group, some)],
            ]

    for question, answer, their in zip(questions, asyncio.run(ours()), theirs, strict=True):
        if len(question) > 1 and question[1] is not None:
            assert sorted(answer) == sorted(their), question
        else:  # of the whole cluster, to which other tests add topics between the two answers
            assert sorted(each for each in answer if alias in each) == sorted(
                each for each in their if alias in each
            ), question
    assert theirs[:2] == [["1"], ["-1"]]
    assert unique_flow.remote("heartbeats") in theirs[2]
    assert checkpoints_topic(unique_flow) in theirs[3]
    assert alias in theirs[4]
    assert unique_flow.remote(mirrored) in theirs[6]
    expected = [f"{group} {unique_flow.remote(mirrored)} 0 {offset} " for group, offset in written.items()]
    assert theirs[7] == expected[:1]
    assert sorted(theirs[9]) == expected[1:]


@pytest.mark.long
@pytest.mark.parametrize("kind", ["checkpoints", "heartbeats", "offset-syncs"])
def test_stocks_formatters_print_our_records_as_we_do(
    unique_flow: Flow, written: dict[str, int], kind: str
) -> None:
    """In a console consumer, as operators look at them; `mirror-bridge read` prints the same bytes."""
    cluster, topic, formatter, options = {
        "checkpoints": (
            unique_flow.target,
            checkpoints_topic(unique_flow),
            "Checkpoint",
            ["--source-alias", unique_flow.source.name],
        ),
        "heartbeats": (unique_flow.target, "heartbeats", "Heartbeat", []),
        "offset-syncs": (
            unique_flow.source,
            syncs_topic(unique_flow),
            "OffsetSync",
            ["--target-alias", unique_flow.target.name],
        ),
    }[kind]
    count = str(len(read(cluster.bootstrap, topic)))
    given = ["--bootstrap-server", cluster.bootstrap, "--from-beginning", "--max-messages", count]
    console = kafka_class("org.apache.kafka.tools.consumer.ConsoleConsumer")
    formatting = ["--formatter", f"org.apache.kafka.connect.mirror.formatters.{formatter}Formatter"]
    theirs = printed([*console, "--topic", topic, *given, *formatting])
    ours = printed([sys.executable, "-m", "bridge", "read", kind, *options, *given])
    assert ours == theirs
    assert theirs.count(b"\n") == int(count) > 0
    if kind == "checkpoints":
        assert all(group.encode() in theirs for group in written)


def printed(command: Sequence[str]) -> bytes:
    return subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=180).stdout


# -- both at once ---------------------------------------------------------------------------------------------------


def marked(config: dict[str, str]) -> dict[str, str]:
    """Stock's records with a header that says so: the topic does not tell who wrote what."""
    return config | {
        "transforms": "by",
        "transforms.by.type": "org.apache.kafka.connect.transforms.InsertHeader",
        "transforms.by.header": "by",
        "transforms.by.value.literal": "stock",
    }


def history(cluster: Cluster, alias: str, group: str) -> list[tuple[bool, Checkpoint, int]]:
    """Checkpoints of a group in the log's order: whether stock wrote it, what it says, and when (ms)."""
    collected = []
    for record in read(cluster.bootstrap, f"{alias}.checkpoints.internal"):
        checkpoint = Checkpoint.decode(record.key, record.value)
        if checkpoint.group == group:
            assert record.timestamp is not None
            collected.append((bool(record.headers), checkpoint, record.timestamp))
    return collected


@pytest.mark.long
def test_with_both_at_once_ours_lowers_nothing_and_comes_back_where_stock_does(
    unique_flow: Flow, mirrored: str
) -> None:
    """Each writes checkpoints and group offsets for the same groups. Stock's are lower: it re-reads half the lag."""
    mark = unique("both")
    offsets = {f"{mark}-{number}": 150 * number for number in range(1, 6)}
    place = TopicPartition(unique_flow.remote(mirrored), 0)
    for group, offset in offsets.items():
        commit(unique_flow.source.bootstrap, group, {(mirrored, 0): offset})
    both = {
        "groups": f"{mark}.*",
        "sync_group_offsets_enabled": "true",
        "emit_checkpoints_interval_seconds": SIDE_INTERVAL,
    }
    seen: dict[str, list[int]] = {group: [] for group in offsets}

    def exact() -> None:
        for group, offset in offsets.items():
            seen[group].extend(unique_flow.there(group).values())
            assert (
                latest(unique_flow.target, unique_flow.source.name, group)[place].downstream_offset
                == offset + SHIFT
            )
            assert seen[group][-1] >= offset + SHIFT

    def wait_exact() -> None:
        eventually(exact, WAIT, what="every group stands exactly", watched=unique_flow.watched)

    with connector(
        unique_flow.worker, marked(stock_config("Checkpoint", unique_flow.source, unique_flow.target, **both))
    ):

        def stock_wrote() -> None:
            for group in offsets:
                assert latest(unique_flow.target, unique_flow.source.name, group)
                seen[group].extend(unique_flow.there(group).values())
                assert seen[group]

        eventually(
            stock_wrote, WAIT, what="stock's checkpoints and group offsets", watched=unique_flow.watched
        )
        with connector(unique_flow.worker, our_control("Checkpoint", unique_flow, **both)):
            wait_exact()
            # Forward: each of the two answers first at times.
            for step in (20, 40):
                for group in offsets:
                    offsets[group] += step
                    commit(unique_flow.source.bootstrap, group, {(mirrored, 0): offsets[group]})
                wait_exact()
            # Back: both follow, in whatever order, and stock's answer is lower.
            back = f"{mark}-5"
            offsets[back] = 420
            commit(unique_flow.source.bootstrap, back, {(mirrored, 0): 420})
            wait_exact()
            # As stock does when it has lost what it knew of its checkpoints.
            lowered = f"{mark}-4"
            low = Checkpoint(lowered, place, offsets[lowered], 100, "")
            record = Record(low.value(), key=low.key(), headers=(("by", b"stock"),))
            produce(unique_flow.target.bootstrap, checkpoints_topic(unique_flow), [record])
            wait_exact()

    for group in offsets:
        assert seen[group] == sorted(seen[group]), f"{group} was moved back on the target"
        rows = history(unique_flow.target, unique_flow.source.name, group)
        assert {stocks for stocks, _, _ in rows} == {True, False}
        for (_, before, _), (stocks, after, _) in itertools.pairwise(rows):
            if not stocks and after.upstream_offset >= before.upstream_offset:
                assert after.downstream_offset >= before.downstream_offset, (
                    f"ours went back: {before}, {after}"
                )
        for at, (stocks, checkpoint, lowered_ms) in enumerate(rows):
            own = [each for theirs, each, _ in rows[:at] if not theirs]
            if stocks and own and checkpoint.upstream_offset == own[-1].upstream_offset:
                (mended_ms, *_) = [ms for theirs, _, ms in rows[at:] if not theirs]
                assert mended_ms - lowered_ms <= 2 * SIDE_INTERVAL * 1000, rows[at:]
