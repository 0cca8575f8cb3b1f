"""Whole tables of positions: any order, any number of times, of any topics."""

from __future__ import annotations

import asyncio

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.positions.translator import (
    REASONS,
    VERDICTS,
    PositionColumns,
    PositionTranslator,
    TranslatedPositions,
)
from tests.support.forms import examples
from tests.unit.connectors.fake_clusters import JUNK, FakeClusters, mirrored
from tests.unit.positions.worlds import flow

TOPICS = ["orders", "heartbeats", "invoices", "nowhere", "mm2-offset-runs.A.internal"]


def translated(rows: list[tuple[int, int, int]]) -> TranslatedPositions:
    source, target = mirrored(20, topics=("orders", "invoices"), partitions=2)
    topic, partition, offset = (np.array([row[at] for row in rows], np.int64) for at in range(3))

    async def go() -> TranslatedPositions:
        translator = PositionTranslator(flow(topics_exclude="heartbeats"), FakeClusters(source, target), {})
        translator.use(await translator.load())
        positions = PositionColumns(TOPICS, topic.astype(np.int32), partition.astype(np.int32), offset)
        try:
            return await translator.translate(positions)
        finally:
            await translator.close()

    return asyncio.run(go())


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2), st.integers(0, 22)), min_size=1, max_size=60))
@settings(max_examples=examples(40, 60), deadline=None)
def test_answers_stand_in_the_order_of_the_positions(rows: list[tuple[int, int, int]]) -> None:
    said = translated(rows)
    for at, (topic, partition, offset) in enumerate(rows):
        verdict, reason = VERDICTS[said.answers.verdict[at]], REASONS[said.answers.reason[at]]
        if topic in (1, 4):
            assert (verdict, reason, said.target[at]) == ("pending", "topic_not_selected", -1)
            continue
        assert said.target_topics[said.target[at]] == f"A.{TOPICS[topic]}"
        if topic == 3 or partition == 2:
            assert (verdict, reason) == ("pending", "source_topic_missing")
        elif offset > 20:
            assert (verdict, reason) == ("pending", "offset_beyond_end")
        else:
            assert (verdict, said.answers.offset[at]) == ("exact", offset + JUNK)


def test_no_position_is_no_error() -> None:
    assert len(translated([]).answers.offset) == 0
