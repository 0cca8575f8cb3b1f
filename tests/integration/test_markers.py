"""Merged runs settled by batch headers, of real brokers' logs: markers, aborted records, and records of others."""

from __future__ import annotations

import asyncio

import pytest

from bridge.kafka.cluster import KafkaCluster
from bridge.kafka.config.settings import client_settings
from bridge.local import Cluster
from bridge.model.lookups import Need, Read, Scan, Scanned
from bridge.model.values import (
    Bounds,
    CopyId,
    Judgement,
    Reason,
    Side,
    TopicPartition,
    Verdict,
)
from bridge.translation.records.log_window import LogBounds
from bridge.translation.records.partition_cache import PartitionMemory
from bridge.translation.runs.run_evidence import ConsistentRuns
from bridge.translation.runs.runs import OffsetRun
from connectors.group_translation.translating import strategies
from connectors.group_translation.translating.driver import Job, translate_all
from connectors.group_translation.translating.pairs import PairIdentity
from connectors.group_translation.translating.strategies import ByRecords, ByRuns, ByTimestamp, Question
from tests.support import create_topic, numbered, produce, produce_transaction, read, unique
from tests.support.forms import mostly_long

SOURCE = TopicPartition("orders", 0)


class Runs:
    reads = 1

    def __init__(self, run: OffsetRun) -> None:
        self._runs = ConsistentRuns([run])

    def get_runs(self, _copy: CopyId) -> ConsistentRuns:
        return self._runs


@pytest.mark.parametrize("others", mostly_long([False, True]), ids=["alone", "with others"])
def test_headers_tell_every_copys_place(
    target: Cluster, others: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five transactions of 20 copies each in compressed batches, with one aborted between; read a batch or two at a
    time. A record of somebody else leaves a bound of one."""
    monkeypatch.setattr(strategies, "READ_BYTES", 400)
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
            strategy = ByRuns(Runs(run), ByRecords())
            there = LogBounds(bounds.start, bounds.end)
            copy = CopyId(SOURCE, place.topic)
            jobs = {
                offset: Job(SOURCE, place, offset, strategy.without_source(copy, offset, topic_id, there))
                for offset in range(100)
            }
            result = await translate_all(jobs, cluster, cluster, source_committed_only=True)
            # Together with another need, and past the end of the log.
            needs: list[Need] = [
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
            verdicts = [verdict for offset in range(100) if (verdict := result[offset]) is not None]
            assert len(verdicts) == 100
            return verdicts, cluster.fetches
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


def written(bootstrap: str, topic: str, each: int, first: int) -> list[int]:
    """100 records in transactions of so many, one that is aborted between, and after `first` records of others; where
    they stand."""
    produce(bootstrap, topic, numbered(first, start=1000))
    for at in range(0, 100, each):
        if at == 40:
            produce_transaction(bootstrap, topic, numbered(6, start=900), commit=False)
        produce_transaction(bootstrap, topic, numbered(each, start=at), compression="lz4")
    return [one.offset for one in read(bootstrap, topic, 0, committed_only=True)[first:]]


def test_runs_written_before_lists_are_exact_and_stay_so_without_the_source(
    source: Cluster, target: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both logs have holes, of which the run has nothing but the numbers, and the target overwrites timestamps. Five
    rounds read a part each; none without the source reads anything."""
    monkeypatch.setattr(strategies, "READ_BYTES", 400)
    monkeypatch.setattr(strategies, "ROUND_BYTES", 3000)
    topics = [create_topic(each.bootstrap, unique("before"), 1) for each in (source, target)]
    here = written(source.bootstrap, topics[0], 20, 0)
    there = written(target.bootstrap, topics[1], 10, 3)
    place, remote = (TopicPartition(topic, 0) for topic in topics)

    async def go() -> tuple[int, list[Verdict], list[Verdict], int]:
        clusters = [
            KafkaCluster(
                client_settings(side, {f"{side.value}.cluster.bootstrap.servers": cluster.bootstrap})
            )
            for side, cluster in ((Side.SOURCE, source), (Side.TARGET, target))
        ]
        try:
            ids, ends = [], []
            for cluster, each in zip(clusters, (place, remote), strict=True):
                ids.append((await cluster.topics([each.topic]))[each.topic].topic_id)  # type: ignore[union-attr]
                bounds = (await cluster.bounds([each], committed_only=True))[each]
                assert isinstance(bounds, Bounds)
                ends.append(LogBounds(bounds.start, bounds.end))
            count, places = here[-1] + 1 - here[0], there[-1] + 1 - there[0]
            run = OffsetRun(
                place,
                ids[0],
                remote.topic,
                ids[1],
                *(here[0], here[0], there[0], count, count - 100, places - 100, 0, here[-1] + 1, -1, 5000),
            )
            strategy = ByRuns(Runs(run), ByTimestamp())
            identity = PairIdentity(ids[0], 0, ids[1], 0)
            source_ends, target_ends = ends
            rounds, result = 0, {0: Verdict.pending(Reason.TARGET_TIMESTAMP_TYPE)}
            while rounds < 20 and any(each.judgement is not Judgement.EXACT for each in result.values()):
                strategy.end_round()
                asked = [
                    Question(
                        place,
                        remote.topic,
                        offset,
                        source_ends,
                        target_ends,
                        log_append_time=True,
                        identity=identity,
                    )
                    for offset in here
                ]
                at_once = {each.offset: strategy.at_once(each, None) for each in asked}
                jobs = {
                    each.offset: Job(place, remote, each.offset, strategy.steps(each, PartitionMemory()))
                    for each in asked
                    if at_once[each.offset] is None
                }
                steps = await translate_all(jobs, *clusters, source_committed_only=True)
                result = {offset: verdict for offset, verdict in at_once.items() if verdict} | steps
                rounds += 1
            strategy.end_round()
            before = clusters[1].fetches
            copy = CopyId(place, remote.topic)
            alone = {
                offset: Job(place, remote, offset, strategy.without_source(copy, offset, ids[1], ends[1]))
                for offset in here
            }
            gone = await translate_all(alone, *clusters, source_committed_only=True)
            read_more = clusters[1].fetches - before
            alone_now = [verdict for at in here if (verdict := gone[at]) is not None]
            assert len(alone_now) == len(here)
            return rounds, [result[at] for at in here], alone_now, read_more
        finally:
            for cluster in clusters:
                await cluster.close()

    rounds, outcome, gone, read_more = asyncio.run(go())
    assert 1 < rounds < 20
    assert read_more == 0
    for verdicts in (outcome, gone):
        assert [(each.judgement, each.offset) for each in verdicts] == [
            (Judgement.EXACT, offset) for offset in there
        ]
