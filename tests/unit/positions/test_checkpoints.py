"""Checkpoints of Spark queries, as Spark 4.2 writes them: where a query goes on, and what is none."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from bridge.model.values import Evidence, Judgement, Reason, TopicPartition, Verdict
from bridge.positions.checkpoints import (
    CheckpointRejected,
    checkpoint_table,
    read_checkpoint,
    starting_offsets,
)
from bridge.positions.translator import AnswerArrays, TranslatedPositions

A, B = TopicPartition("orders", 0), TopicPartition("orders", 1)
QUERY = '{"batchWatermarkMs":0,"batchTimestampMs":1764000000000,"conf":{}}'
SPARKS = '{"orders":{"0":23,"1":42}}'
OURS = '{"orders": {"id": "its-id", "offsets": {"0": 23, "1": 42}}}'


def checkpoint(folder: Path, offsets: Mapping[int, list[str]], *commits: int) -> str:
    (folder / "metadata").write_text('{"id":"5d1c"}')
    for name in ("offsets", "commits"):
        (folder / name).mkdir()
    for batch, sources in offsets.items():
        (folder / "offsets" / str(batch)).write_text("\n".join(["v1", QUERY, *sources]))
        (folder / "offsets" / f".{batch}.crc").write_bytes(b"crc")
    for batch in commits:
        (folder / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":0}')
    return str(folder)


@pytest.mark.parametrize("end", [SPARKS, OURS, OURS.replace("{", '{"(start)": {}, ', 1)])
def test_a_query_goes_on_behind_the_last_batch_that_it_has_committed(tmp_path: Path, end: str) -> None:
    later = end.replace("23", "99")
    path = checkpoint(tmp_path, {8: ['{"orders":{"0":1,"1":1}}'], 9: [end], 10: [later]}, 8, 9)
    query = read_checkpoint(path)
    assert (query.sources, query.batch, query.planned) == ({0: {A: 23, B: 42}}, 9, True)
    assert read_checkpoint(f"file://{path}/") == query
    (tmp_path / "commits" / "10").write_text("v1\n{}")
    query = read_checkpoint(path)
    assert (query.sources[0][A], query.batch, query.planned) == (99, 10, False)


def test_positions_are_of_the_topic_that_was_read(tmp_path: Path) -> None:
    query = read_checkpoint(checkpoint(tmp_path, {0: [SPARKS, OURS]}, 0))
    assert query.topic_ids == {"orders": "its-id"}
    _, positions = checkpoint_table(query)
    assert positions.topic_ids == query.topic_ids


def test_sources_that_have_read_two_topics_of_one_name_are_refused(tmp_path: Path) -> None:
    path = checkpoint(tmp_path, {0: [OURS, OURS.replace("its-id", "another-id")]}, 0)
    with pytest.raises(CheckpointRejected, match="was deleted and made again, and source 1"):
        read_checkpoint(path)


def test_sources_of_other_kinds_are_passed_over(tmp_path: Path) -> None:
    path = checkpoint(tmp_path, {0: ['{"logOffset":3}', SPARKS, "-", OURS, "17"]}, 0)
    assert read_checkpoint(path).sources == {1: {A: 23, B: 42}, 3: {A: 23, B: 42}}


def test_a_query_that_has_committed_nothing_begins_where_it_began(tmp_path: Path) -> None:
    began = '{"(start)": {"orders": {"id": "i", "offsets": {"0": 5}}}, "orders": {"id": "i", "offsets": {"0": 23}}}'
    path = checkpoint(tmp_path, {0: [began, '{"audit":{"0":23}}']})
    (tmp_path / "sources" / "1").mkdir(parents=True)
    (tmp_path / "sources" / "1" / "0").write_text('0v1\n{"audit":{"0":7}}')
    query = read_checkpoint(path)
    assert (query.batch, query.planned) == (-1, True)
    assert query.sources == {0: {A: 5}, 1: {TopicPartition("audit", 0): 7}}


@pytest.mark.parametrize(
    ("offsets", "commits", "says"),
    [
        ({}, [], "offsets has no file"),
        ({3: [SPARKS]}, [4], "offsets/4 is missing"),
        ({3: ['{"logOffset":3}']}, [3], "has no offsets of topics"),
        ({3: []}, [3], "is not whole"),
        ({3: ['{"orders":{"0":-2}}']}, [3], "has offset -2 for orders-0"),
    ],
)
def test_what_is_no_checkpoint_is_named(
    tmp_path: Path, offsets: dict[int, list[str]], commits: list[int], says: str
) -> None:
    with pytest.raises(CheckpointRejected, match=says):
        read_checkpoint(checkpoint(tmp_path, offsets, *commits))


@pytest.mark.parametrize("location", ["nowhere", "no-such-scheme://a/b"])
def test_a_place_that_can_not_be_read_is_named(tmp_path: Path, location: str) -> None:
    with pytest.raises(CheckpointRejected, match=location.split(":")[0]):
        read_checkpoint(location if "://" in location else str(tmp_path / location))


def test_a_source_goes_on_where_all_of_its_positions_are_known(tmp_path: Path) -> None:
    path = checkpoint(tmp_path, {0: [SPARKS, '{"audit":{"0":3}}']}, 0)
    table, positions = checkpoint_table(read_checkpoint(path))
    assert positions.topics == ["orders", "audit"]
    answers = AnswerArrays.empty(3)
    for row, offset in ((0, 123), (1, 142)):
        answers.set(row, Verdict(Judgement.EXACT, offset, 0, Evidence.RUN, not_on_target=0))
    gone = Reason.RECORDS_NOT_ON_TARGET
    answers.set(2, Verdict(Judgement.PENDING, 9, 0, Evidence.RUN, gone, not_on_target=4))
    translated = TranslatedPositions(["A.orders", "A.audit"], np.array([0, 0, 1], np.int32), answers)
    first, second = starting_offsets(table, translated).values()
    assert json.loads(first or "") == {"A.orders": {"0": 123, "1": 142}}
    assert second is None
