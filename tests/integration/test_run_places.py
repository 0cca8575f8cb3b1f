"""Merged runs settled by batch headers, of a real broker's log: markers, aborted records, and records of others."""

from __future__ import annotations

import asyncio

import pytest

from bridge.kafka.client_config import client_settings
from bridge.kafka.cluster import KafkaCluster
from bridge.local import Cluster
from bridge.translation.lookups import Read, Scan, Scanned
from bridge.translation.model import Bounds, CopyId, Judgement, Side, TopicPartition, Verdict
from bridge.translation.run_evidence import KnownRuns
from bridge.translation.runs import OffsetRun
from bridge.translation.stretch import LogBounds
from connectors.groups import scanning
from connectors.groups.translate import Job, translate_all
from connectors.groups.ways import ByRecords, ByRuns
from tests.support import create_topic, numbered, produce, produce_transaction, read, unique

SOURCE = TopicPartition("orders", 0)


class Runs:
    known = True

    def __init__(self, run: OffsetRun) -> None:
        self._runs = KnownRuns([run])

    def of(self, _copy: CopyId) -> KnownRuns:
        return self._runs


@pytest.mark.parametrize("others", [False, True], ids=["alone", "with others"])
def test_headers_tell_every_copys_place(
    target: Cluster, others: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five transactions of 20 copies each in compressed batches, with one aborted between; read a batch or two at a
    time. A record of somebody else leaves a bound of one."""
    monkeypatch.setattr(scanning, "READ_BYTES", 400)
    topic = create_topic(target.bootstrap, unique("copies"), 1)
    place = TopicPartition(topic, 0)
    produce(target.bootstrap, topic, numbered(3))
    for at in range(5):
        copies = numbered(20, start=100 + 20 * at)
        produce_transaction(target.bootstrap, topic, copies, compression="lz4")
        if at == 2:
            produce_transaction(target.bootstrap, topic, numbered(6, start=900), commit=False)
            if others:
                produce(target.bootstrap, topic, numbered(1, start=950))
    log = read(target.bootstrap, topic, 0, committed_only=True)
    copied = [
        each.offset for each in log[3:] if each.value not in {one.value for one in numbered(1, start=950)}
    ]
    assert len(copied) == 100
    start, end = copied[0], copied[-1] + 1
    extra = end - start - 100
    assert extra == 4 + 7 + others  # markers between, the aborted records with theirs, and what is not ours

    async def go() -> tuple[list[Verdict], int]:
        cluster = KafkaCluster(
            client_settings(Side.TARGET, {"target.cluster.bootstrap.servers": target.bootstrap})
        )
        try:
            info = (await cluster.topics([topic]))[topic]
            bounds = (await cluster.bounds([place], committed_only=True))[place]
            assert isinstance(bounds, Bounds)
            topic_id = info.topic_id  # type: ignore[union-attr]
            run = OffsetRun(SOURCE, "s", topic, topic_id, 0, 0, start, 100, 0, extra, 0, 100, -1, 5000)
            way = ByRuns(Runs(run), ByRecords())
            there = LogBounds(bounds.start, bounds.end)
            copy = CopyId(SOURCE, place.topic)
            jobs = {
                offset: Job(SOURCE, place, offset, way.without_source(copy, offset, topic_id, there))  # type: ignore[arg-type]
                for offset in range(100)
            }
            found = await translate_all(jobs, cluster, cluster, source_committed_only=True)
            # Together with another need, and past the end of the log.
            needs = [
                Scan(Side.TARGET, bounds.end, 400),
                Scan(Side.TARGET, 0, 1 << 20),
                Read(Side.TARGET, 0, 400),
            ]
            answers = (await cluster.answer({place: needs}, committed_only=True))[place]
            assert answers[needs[0]] is None
            whole = answers[needs[1]]
            assert isinstance(whole, Scanned)
            assert (whole.start, whole.end) == (0, bounds.end)
            without = [at for first, last in whole.without_data for at in range(first, last)]
            assert without == [at for at in range(bounds.end) if at not in {each.offset for each in log}]
            return [found[offset] for offset in range(100)], cluster.fetches
        finally:
            await cluster.close()

    verdicts, fetches = asyncio.run(go())
    assert fetches <= 1  # no records were looked at but by the Read
    for offset, verdict in enumerate(verdicts):
        assert verdict.offset is not None
        assert verdict.bound is not None
        assert verdict.offset <= copied[offset] <= verdict.offset + verdict.bound
        if not others:
            assert (verdict.judgement, verdict.offset) == (Judgement.EXACT, copied[offset])
    if others:
        # One place is not found: every answer may be one record too low, and the bound counts what lies between.
        assert sum(verdict.bound == 1 for verdict in verdicts) == 99 - 4
