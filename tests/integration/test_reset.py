"""A stopped connector copies again, or skips, from where an operator says; runs and answers stay true."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bridge.cli import app
from bridge.errors import OperationRefused
from bridge.local import Cluster
from bridge.model.copying import PipelineState, Transform
from bridge.model.values import CopyId, TopicPartition
from bridge.pipeline.positions import reset as carry_out
from bridge.translation.runs.reset_positions import Destination, PartitionReset, destination
from bridge.translation.runs.run_evidence import ConsistentRuns, read_runs
from tests.integration.copy_flow import Answers, CopyFlow, gaps_of
from tests.integration.drivers import config
from tests.support import Record, bounds, create_topic, delete_topic, numbered, produce, read, unique
from tests.support.messages import message_pattern
from tests.support.records import varied


@pytest.fixture
def flow(source: Cluster, target: Cluster) -> CopyFlow:
    return CopyFlow(source, target)


def place(topic: str, partition: int = 0) -> TopicPartition:
    return TopicPartition(topic, partition)


def reset(flow: CopyFlow, to: str, *, force: bool = False, dry_run: bool = False) -> list[PartitionReset]:
    def choose(copied: Mapping[TopicPartition, object]) -> dict[TopicPartition, Destination]:
        return dict.fromkeys(copied, destination(to))

    def remote(topic: str) -> str | None:
        return flow.remote(topic) if topic in flow.topics else None

    return asyncio.run(carry_out(flow.spec, remote, choose, force=force, dry_run=dry_run))


def values(records: list[Record]) -> list[bytes | None]:
    return [each.value for each in records]


def answers(flow: CopyFlow, topic: str) -> dict[int, bytes | None]:
    """By offset of the source, the record that a group reads first which is committed there, by the runs."""
    copies = {each.offset: each.value for each in flow.copies(topic)}
    known = flow.known(place(topic))
    end = max(copies) + 1
    collected = {}
    for each in flow.original(topic):
        answer = known.answer(each.offset, end)
        collected[each.offset] = next((copies[at] for at in sorted(copies) if at >= answer), None)
    return collected


def test_everything_is_copied_again_and_groups_get_the_newer_copy(flow: CopyFlow) -> None:
    topic = flow.topic()
    produce(flow.source.bootstrap, topic, numbered(300))
    flow.copy()
    before = len(flow.copies(topic))
    (row,) = reset(flow, "earliest")
    assert (row.position, row.to, row.outcome.value) == (300, 0, "copied again")
    status = flow.copy()
    assert (status.state, gaps_of(status)) == (PipelineState.CAUGHT_UP, [])
    copies = flow.copies(topic)
    assert values(copies) == values(numbered(300)) * 2
    newer = [each.offset for each in copies][before:]
    known = flow.known(place(topic))
    assert [known.answer(offset, newer[-1] + 1) for offset in range(300)] == newer
    produce(flow.source.bootstrap, topic, numbered(50, start=300))
    flow.copy()
    assert values(flow.copies(topic))[-50:] == values(numbered(50, start=300))


def test_from_an_offset_on_it_is_copied_again_and_what_lies_before_stays(flow: CopyFlow) -> None:
    topic = flow.topic()
    for at in range(3):
        produce(flow.source.bootstrap, topic, numbered(100, start=100 * at))
        flow.copy()
    reset(flow, "150")
    flow.copy()
    assert values(flow.copies(topic)) == values(numbered(300)) + values(numbered(150, start=150))
    assert answers(flow, topic) == {offset: b"value-%d" % offset for offset in range(300)}


@pytest.mark.long
def test_what_transforms_sent_elsewhere_is_sent_there_again_and_counts_no_longer_where_it_was(
    flow: CopyFlow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[2])
    topic, other = flow.topic(), create_topic(flow.target.bootstrap, unique("other"))
    routes = "tests.own_transforms.routes"
    flow.also, flow.transforms = [other], [Transform("routes", routes, {"to": other}, (other,))]
    records = [Record(b"%s %d" % ((b"ours", b"other")[number % 2], number)) for number in range(60)]
    for half in (records[:30], records[30:]):
        produce(flow.source.bootstrap, topic, half)
        flow.copy()
    sent = values(records[1::2])
    assert values(read(flow.target.bootstrap, other, committed_only=True)) == sent
    copy, end = CopyId(place(topic), other), bounds(flow.target.bootstrap, other)[0][1]
    assert [row.to for row in reset(flow, "20")] == [20]
    answered = Answers(ConsistentRuns(read_runs(flow.state(flow.spec.runs_topic))[copy].runs))
    assert all(answered.answer(offset, end) >= end for offset in range(20, 60)), "never to the older copies"
    flow.copy()
    copies = read(flow.target.bootstrap, other, committed_only=True)
    assert values(copies) == sent + sent[10:]
    answered = Answers(ConsistentRuns(read_runs(flow.state(flow.spec.runs_topic))[copy].runs))
    newer = [each.offset for each in [*copies[:10], *copies[30:]]]
    expected = [newer[offset // 2] for offset in range(60)]
    assert [answered.answer(offset, newer[-1] + 1) for offset in range(60)] == expected


@pytest.mark.long
def test_by_time_each_partition_goes_on_at_its_first_record_of_then(flow: CopyFlow) -> None:
    topic = flow.topic(2)
    begin = 1_700_000_000_000
    for partition, shift in ((0, 0), (1, 40)):
        produce(
            flow.source.bootstrap,
            topic,
            numbered(100, timestamp=begin + shift, partition=partition),
        )
    flow.copy()
    rows = reset(flow, "2023-11-14T22:13:20.050Z")
    assert [(row.source.partition, row.to) for row in rows] == [(0, 50), (1, 10)]
    flow.copy()
    assert [len(flow.copies(topic, partition)) for partition in (0, 1)] == [150, 190]


@pytest.mark.long
def test_what_is_skipped_is_in_the_ledger(flow: CopyFlow) -> None:
    topic = flow.topic()
    produce(flow.source.bootstrap, topic, numbered(100))
    flow.copy()
    produce(flow.source.bootstrap, topic, numbered(100, start=100))
    (row,) = reset(flow, "latest")
    assert row.outcome.value == "skipped"
    produce(flow.source.bootstrap, topic, numbered(10, start=200))
    assert gaps_of(flow.copy()) == [("skipped", 100, 200)]
    assert values(flow.copies(topic)) == values(numbered(100)) + values(numbered(10, start=200))


@pytest.mark.long
def test_of_a_copy_that_was_deleted_as_much_is_copied_again_as_an_operator_says(flow: CopyFlow) -> None:
    topic, other = flow.topic(), flow.topic()
    for each in (topic, other):
        produce(flow.source.bootstrap, each, numbered(100))
    flow.copy()
    for each in (topic, other):
        delete_topic(flow.target.bootstrap, flow.remote(each))
    rows = {row.source.topic: row for row in reset(flow, "earliest")}
    assert [(rows[each].position, rows[each].outcome.value) for each in (topic, other)] == [
        (0, "unchanged")
    ] * 2
    flow.topics = [topic]
    (row,) = reset(flow, "100")
    assert (row.position, row.to, row.outcome.value) == (0, 100, "skipped")
    flow.topics = [topic, other]
    for each in (topic, other):
        create_topic(flow.target.bootstrap, flow.remote(each))
        produce(flow.source.bootstrap, each, numbered(10, start=100))
    assert sorted(gaps_of(flow.copy())) == [
        ("skipped", 0, 100),
        ("target_recreated", -1, 100),
        ("target_recreated", 0, 0),
    ]
    assert values(flow.copies(topic)) == values(numbered(10, start=100))
    assert values(flow.copies(other)) == values(numbered(110))


def test_a_dry_run_and_an_offset_that_is_not_there_change_nothing(flow: CopyFlow) -> None:
    topic = flow.topic()
    produce(flow.source.bootstrap, topic, varied(100))
    flow.copy()
    (row,) = reset(flow, "earliest", dry_run=True)
    assert (row.to, row.changes) == (0, True)
    said = message_pattern("copying.no_offset", partition=f"{topic}-0", offset=101, start=0, end=100)
    with pytest.raises(OperationRefused, match=said):
        reset(flow, "101")
    flow.copy()
    flow.assert_copied()


def test_while_records_are_copied_nothing_is_changed(flow: CopyFlow) -> None:
    topic = flow.topic()
    with flow.pipeline() as running:
        produce(flow.source.bootstrap, topic, varied(100))
        running.wait_position({place(topic): 100})
        with pytest.raises(OperationRefused, match=r"layout 1 of .* has not been stopped"):
            reset(flow, "earliest")
        produce(flow.source.bootstrap, topic, varied(100, 100))
        running.wait_position({place(topic): 200})
    flow.assert_copied()
    flow.assert_runs_true()


def test_the_command_by_topic_and_partition(flow: CopyFlow, tmp_path: Path) -> None:
    topic, other = flow.topic(2), flow.topic()
    for partition in (0, 1):
        produce(flow.source.bootstrap, topic, numbered(50, partition=partition))
    produce(flow.source.bootstrap, other, numbered(50))
    flow.copy()
    file = tmp_path / "connector.json"
    file.write_text(json.dumps({"config": config(flow, f"{topic},{other}")}))
    common = ["reset", flow.spec.name, "--config", str(file), "-o", "json"]
    wrong = CliRunner().invoke(app, [*common, "--to", "earliest", "--topic", "nope"])
    assert (wrong.exit_code, "nothing of topic nope was copied" in wrong.output) == (1, True)
    done = CliRunner().invoke(app, [*common, "--to", "20", "--topic", topic, "--partition", "1"])
    assert done.exit_code == 0, done.output
    (row,) = json.loads(done.stdout)
    assert row == {
        "topic": topic,
        "partition": 1,
        "target_topic": flow.remote(topic),
        "position": 50,
        "to": 20,
        "outcome": "copied again",
    }
    flow.copy()
    assert [len(flow.copies(topic, partition)) for partition in (0, 1)] == [50, 80]
    assert len(flow.copies(other)) == 50
