"""Transforms between two real brokers: what arrives, what the runs say of it, and what a broken transform does."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from bridge.kafka.cluster import KafkaClusters
from bridge.local import Cluster, eventually
from bridge.model.copying import PipelineState, Transform
from bridge.model.values import Evidence, Judgement, Side, TopicPartition, Verdict
from bridge.pipeline.slices.transaction import TransactionClock
from bridge.translation.records.log_window import LogBounds
from bridge.translation.runs.run_evidence import ConsistentRuns, read_runs
from connectors.group_offset.options import GroupOffsetOptions
from connectors.group_translation.round import GroupRounds
from connectors.group_translation.translating.followed_topics import FollowedRuns
from connectors.group_translation.translating.strategies import ByRecords, ByRuns
from tests.integration.copy_flow import COMPACTED, CopyFlow, gaps_of
from tests.integration.failover import AnyClient
from tests.support import (
    Record,
    bounds,
    commit,
    committed,
    compact,
    create_topic,
    delete_topic,
    numbered,
    produce,
    produce_transaction,
    read,
    unique,
)
from tests.support.forms import mostly_long
from tests.support.messages import message
from tests.support.records import varied
from tests.support.waits import WAIT

NOW = int(time.time() * 1000)
ONE_BATCH = 5000
"""Milliseconds in which a busy machine produces some hundred records. Nobody waits for them: a flush sends at once."""


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[2])


@pytest.fixture
def flow(source: Cluster, target: Cluster) -> CopyFlow:
    return CopyFlow(source, target)


def own(function: str, **parameters: str) -> Transform:
    return Transform(function, f"tests.own_transforms.{function}", parameters)


def ready(function: str, **parameters: str) -> Transform:
    return Transform(function, f"bridge.transforms.{function}", parameters)


def contents(records: Sequence[Record]) -> list[tuple[object, ...]]:
    return [each.content for each in records]


def caught_up(flow: CopyFlow) -> None:
    status = flow.copy()
    assert (status.state, status.failure) == (PipelineState.CAUGHT_UP, None)


def assert_exact(flow: CopyFlow, topic: str, kept: Sequence[Record], partition: int = 0) -> None:
    """Wherever a group is committed on the source, the runs alone say where the first record is that it has not read,
    and say so exactly."""
    (copied,) = (each for each in flow.partitions() if each.source == TopicPartition(topic, partition))
    runs = ConsistentRuns(flow.runs()[copied.source].runs)
    copies = flow.copies(topic, partition)
    target = LogBounds(*bounds(flow.target.bootstrap, copied.target_topic)[partition])
    source = LogBounds(*bounds(flow.source.bootstrap, topic)[partition])
    assert len(copies) == len(kept)
    for offset in range(source.start, kept[-1].offset + 1):
        verdict = runs.translate(offset, copied.target_topic_id, target, copied.source_topic_id, source)
        unread = next(there.offset for here, there in zip(kept, copies, strict=True) if here.offset >= offset)
        assert verdict is not None, offset
        assert (verdict.offset, verdict.bound) == (unread, 0), (offset, verdict)


@pytest.mark.parametrize("codec", mostly_long(["none", "lz4"]))
def test_what_a_transform_leaves_alone_arrives_bit_for_bit(flow: CopyFlow, codec: str) -> None:
    flow.transforms = [own("prints")]
    topic = flow.topic(2)
    produce(flow.source.bootstrap, topic, varied(300), compression=codec)
    produce_transaction(flow.source.bootstrap, topic, varied(50, 300), commit=False)
    produce_transaction(flow.source.bootstrap, topic, varied(50, 350))
    caught_up(flow)
    flow.assert_copied()
    flow.assert_runs_true()


def test_masked_fields_arrive_masked_and_dropped_records_are_holes(flow: CopyFlow) -> None:
    flow.transforms = [
        ready("drop_where", field="country", equals="DE"),
        ready("mask_fields", fields="email", replacement="***"),
    ]
    topic = flow.topic()
    produce(
        flow.source.bootstrap,
        topic,
        [
            Record(
                json.dumps(
                    {"n": number, "country": "DE" if number % 3 == 0 else "FR", "email": "a@b.c"}
                ).encode(),
                b"key-%d" % number,
                NOW + number,
                (("h", b"1"),),
            )
            for number in range(300)
        ],
        linger_ms=ONE_BATCH,
    )
    with flow.pipeline() as running:
        running.wait_position({TopicPartition(topic, 0): 300})
        produce(flow.source.bootstrap, topic, [Record(b'{"country":"DE"}')] * 5)
        produce(flow.source.bootstrap, topic, [Record(b'{"country":"AT","email":null}', timestamp=NOW)])
        running.wait_position({TopicPartition(topic, 0): 306})
    copies = flow.copies(topic)
    assert contents(copies[:-1]) == [
        (
            b"key-%d" % number,
            b'{"n":%d,"country":"FR","email":"***"}' % number,
            NOW + number,
            (("h", b"1"),),
        )
        for number in range(300)
        if number % 3
    ]
    assert copies[-1].value == b'{"country":"AT","email":null}'
    here = flow.original(topic)
    assert_exact(flow, topic, [each for each in here if b'"DE"' not in (each.value or b"")])


@pytest.mark.long
def test_where_all_is_dropped_copying_comes_to_the_end(flow: CopyFlow) -> None:
    flow.transforms = [own("nothing")]
    topic = flow.topic()
    produce(flow.source.bootstrap, topic, varied(100))
    caught_up(flow)
    assert flow.copies(topic) == []
    (runs,) = flow.runs().values()
    assert runs.position == 100
    flow.transforms = []
    produce(flow.source.bootstrap, topic, varied(10, 100))
    caught_up(flow)
    assert contents(flow.copies(topic)) == contents(varied(10, 100))


@pytest.mark.long
def test_a_compacted_source_goes_through_transforms(flow: CopyFlow) -> None:
    flow.transforms = [own("even")]
    topic = flow.topic()
    for at in range(3):
        records = [
            Record(b"%d-%d" % (at, number), b"key-%d" % number, NOW) for number in range(0, 40, at + 1)
        ]
        produce(flow.source.bootstrap, topic, records, compression="zstd")
    compact(flow.source.bootstrap, topic)
    caught_up(flow)
    kept = [each for each in flow.original(topic) if each.offset % 2 == 0]
    assert contents(flow.copies(topic)) == contents(kept)
    assert_exact(flow, topic, kept)


# -- other topics ------------------------------------------------------------------------------------------------------


def routed(flow: CopyFlow, partitions: int = 1, remote: Mapping[str, str] | None = None) -> str:
    """Another topic of the target, to which the flow sends what begins with `other`."""
    other = create_topic(flow.target.bootstrap, unique("routed"), partitions, remote or {})
    flow.also = [other]
    flow.transforms = [own("routes", to=other)._replace(to=(other,))]
    return other


def assert_routed(flow: CopyFlow, topic: str, other: str, kept: Sequence[Record], partition: int = 0) -> None:
    """Both topics hold their records, in order and once, and the runs of each copy know where, and up to where."""
    end = bounds(flow.source.bootstrap, topic)[partition][1]
    theirs = [each for each in kept if (each.value or b"").startswith(b"other")]
    ours = [each for each in kept if each not in theirs]
    ids = {each.source: each for each in flow.partitions()}
    for expected_records, copied in zip(
        (ours, theirs), ids[TopicPartition(topic, partition)].copies, strict=True
    ):
        there = read(flow.target.bootstrap, copied.target_topic, partition, committed_only=True)
        assert contents(there) == contents(expected_records), copied.target_topic
        runs = ConsistentRuns(read_runs(flow.state(flow.spec.runs_topic))[copied.id].runs)
        target = LogBounds(*bounds(flow.target.bootstrap, copied.target_topic)[partition])
        for offset in range(end + 1):
            later = (to.offset for at, to in zip(expected_records, there, strict=True) if at.offset >= offset)
            expected = next(later, there[-1].offset + 1)
            verdict = runs.translate(offset, copied.target_topic_id, target)
            assert verdict is not None, (copied.target_topic, offset)
            assert (verdict.offset, verdict.bound) == (expected, 0), (copied.target_topic, offset, verdict)


def mixed(count: int, start: int = 0, partition: int = 0) -> list[Record]:
    return [
        Record(
            b"%s %d" % (b"other" if number % 3 == 1 else b"ours", number), timestamp=NOW, partition=partition
        )
        for number in range(start, start + count)
    ]


def test_records_may_go_to_another_topic_and_each_copy_has_runs_of_its_own(flow: CopyFlow) -> None:
    topic, other = flow.topic(2), routed(flow, 3)
    for start in (0, 40):
        for partition in (0, 1):
            produce(flow.source.bootstrap, topic, mixed(40, start, partition), linger_ms=ONE_BATCH)
        caught_up(flow)
    produce(flow.source.bootstrap, topic, [Record(b"ours", timestamp=NOW)] * 5)
    caught_up(flow)
    produce(flow.source.bootstrap, topic, mixed(10, 80), linger_ms=ONE_BATCH)
    caught_up(flow)
    produce(flow.source.bootstrap, topic, [Record(b"ours, and it ends", timestamp=NOW)] * 5)
    caught_up(flow)
    for partition in (0, 1):
        assert_routed(flow, topic, other, flow.original(topic, partition), partition)
    assert read(flow.target.bootstrap, other, 2) == []


@pytest.mark.long
def test_what_the_other_topic_refuses_is_left_out_of_it(flow: CopyFlow) -> None:
    flow.settings = {"fail_on_refused_record": False}
    topic, other = flow.topic(), routed(flow, remote={"max.message.bytes": "20000"})
    records = mixed(30)
    records[10] = Record(b"other" + b"x" * 30_000, timestamp=NOW)
    records[12] = Record(b"ours" + b"x" * 30_000, timestamp=NOW)
    produce(flow.source.bootstrap, topic, records, linger_ms=ONE_BATCH)
    status = flow.copy()
    assert status.state is PipelineState.CAUGHT_UP
    assert gaps_of(status) == [("record_refused", 10, 11)]
    assert [each.target_topic for each in status.gaps] == [other]
    assert_routed(flow, topic, other, [each for each in flow.original(topic) if each.offset != 10])
    flow.settings = {}
    produce(flow.source.bootstrap, topic, [records[10]])
    status = flow.copy()
    assert status.state is PipelineState.FAILED
    assert f"the target rejects the record of {topic}-0 at offset 30 for {other}" in (status.failure or "")


@pytest.mark.long
def test_another_topic_that_is_made_anew_is_told_of_and_goes_on(flow: CopyFlow) -> None:
    topic, other = flow.topic(), routed(flow)
    produce(flow.source.bootstrap, topic, mixed(30), linger_ms=ONE_BATCH)
    caught_up(flow)
    delete_topic(flow.target.bootstrap, other)
    create_topic(flow.target.bootstrap, other)
    produce(flow.source.bootstrap, topic, mixed(30, 30), linger_ms=ONE_BATCH)
    status = flow.copy()
    assert status.state is PipelineState.CAUGHT_UP
    assert gaps_of(status) == [("target_recreated", -1, 30)]
    assert [each.target_topic for each in status.gaps] == [other]
    later = [each for each in flow.original(topic) if each.offset >= 30 and each.offset % 3 == 1]
    assert contents(read(flow.target.bootstrap, other, committed_only=True)) == contents(later)


@pytest.mark.long
def test_a_copy_that_was_deleted_is_copied_again_once_all_topics_of_its_records_are_empty(
    flow: CopyFlow,
) -> None:
    topic, other = flow.topic(), routed(flow)
    produce(flow.source.bootstrap, topic, mixed(30), linger_ms=ONE_BATCH)
    caught_up(flow)
    for made_again in ([flow.remote(topic)], [flow.remote(topic), other]):
        for each in made_again:
            delete_topic(flow.target.bootstrap, each)
            create_topic(flow.target.bootstrap, each)
        status = flow.copy()
        assert status.state is PipelineState.CAUGHT_UP
        seen_ms = max(gap.seen_at_ms for gap in status.gaps)
        newest, *others = [gap for gap in status.gaps if gap.seen_at_ms == seen_ms]
        ranges = [(gap.upstream_from, gap.upstream_to) for gap in (newest, *others)]
        if len(made_again) == 1:
            assert ranges == [(-1, 30)]
            assert f"not copied again: {other}-0 is not empty" in newest.detail
            assert flow.copies(topic) == []
            produce(flow.source.bootstrap, topic, mixed(3, 30), linger_ms=ONE_BATCH)
            caught_up(flow)
        else:
            assert ranges == [(0, 0), (0, 0)]
            assert_routed(flow, topic, other, flow.original(topic))


@pytest.mark.long
def test_what_goes_to_several_topics_at_once_is_committed_together(
    flow: CopyFlow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However slow the target is: no position lies between the batches of the one topic and those of the other."""
    monkeypatch.setattr(TransactionClock, "overdue", lambda clock: clock.began)
    flow.settings = {"batch_size": 256}
    topic, other = flow.topic(), routed(flow)
    produce(flow.source.bootstrap, topic, mixed(600), linger_ms=100)
    status = flow.copy()
    assert (status.state, status.restarts) == (PipelineState.CAUGHT_UP, 0)
    assert set(status.unreadable.values()) == {0}
    assert_routed(flow, topic, other, flow.original(topic))


@pytest.mark.long
def test_runs_that_were_lost_are_told_of_for_another_topic_too(flow: CopyFlow) -> None:
    topic, other = flow.topic(), routed(flow)
    produce(flow.source.bootstrap, topic, [Record(b"other", timestamp=NOW)] * 10)
    caught_up(flow)
    delete_topic(flow.target.bootstrap, flow.spec.runs_topic)
    create_topic(flow.target.bootstrap, flow.spec.runs_topic, 1, COMPACTED)
    status = flow.copy()
    assert gaps_of(status) == [("target_not_empty", 0, -1)]
    assert [each.target_topic for each in status.gaps] == [other]
    assert len(read(flow.target.bootstrap, other, committed_only=True)) == 20


@pytest.mark.long
def test_a_topic_that_is_not_named_is_an_error(flow: CopyFlow) -> None:
    topic = flow.topic()
    flow.transforms = [own("routes", to="nowhere")]
    produce(flow.source.bootstrap, topic, mixed(3))
    status = flow.copy()
    assert status.state is PipelineState.FAILED
    assert message("copying.not_named", topic="nowhere") in (status.failure or "")


# -- groups ------------------------------------------------------------------------------------------------------------


def translated(flow: CopyFlow, groups: Sequence[str], **given: str) -> dict[str, Verdict]:
    """One round of the group-offset connector."""
    props = {
        "source.cluster.alias": flow.alias,
        "target.cluster.alias": "B",
        "source.cluster.bootstrap.servers": flow.source.bootstrap,
        "target.cluster.bootstrap.servers": flow.target.bootstrap,
        **{key.replace("_", "."): value for key, value in given.items()},
    }
    options = GroupOffsetOptions.from_props(props, AnyClient())

    async def go() -> dict[str, Verdict]:
        clusters = KafkaClusters()
        try:
            source, target = (clusters.open(side, props) for side in (Side.SOURCE, Side.TARGET))
            runs = FollowedRuns(options, target)
            await runs.follow()
            rounds = GroupRounds(options, source, target, ByRuns(runs, ByRecords()))
            outcome = await rounds.run(groups)
            rounds.end()
            assert not outcome.failures, outcome
            return {group: outcome.plans[group].rows[0].verdict for group in groups}
        finally:
            await clusters.close()

    return asyncio.run(go())


def test_groups_resume_at_the_exact_record_whatever_was_masked_and_dropped(flow: CopyFlow) -> None:
    """By runs: no copy equals its record, and every third one has none."""
    flow.transforms = [own("upper"), ready("drop_where", column="value", matches="DROP.*")]
    topic = flow.topic()
    for first in (0, 40):
        records = [
            Record(b"drop" if number % 3 == 0 else b"value %d" % number, timestamp=NOW + number)
            for number in range(first, first + 40)
        ]
        produce(flow.source.bootstrap, topic, records, linger_ms=ONE_BATCH)
        caught_up(flow)
    kept = [each for each in flow.original(topic) if each.value != b"drop"]
    copies = flow.copies(topic)
    assert [each.value for each in copies] == [(each.value or b"").upper() for each in kept]
    groups = {unique("g"): offset for offset in range(0, 79, 3)} | {
        unique("g"): at for at in (1, 2, 38, 77, 80)
    }
    for group, offset in groups.items():
        commit(flow.source.bootstrap, group, {(topic, 0): offset})
    for group, verdict in translated(flow, list(groups)).items():
        later = (
            there.offset for here, there in zip(kept, copies, strict=True) if here.offset >= groups[group]
        )
        expected = next(later, copies[-1].offset + 1)
        assert (verdict.judgement, verdict.offset, verdict.evidence) == (
            Judgement.EXACT,
            expected,
            Evidence.RUN,
        ), (groups[group], verdict)
        assert committed(flow.target.bootstrap, group) == {(flow.remote(topic), 0): expected}


@pytest.mark.long
def test_groups_resume_in_the_topic_that_their_connectors_policy_names(flow: CopyFlow) -> None:
    """One connector for each: in its own topic a group passes over what went to the other one."""
    topic = flow.topic()
    other = create_topic(flow.target.bootstrap, f"{flow.alias}_audit_{topic}")
    flow.also, flow.transforms = [other], [own("routes", to=other)._replace(to=(other,))]
    produce(flow.source.bootstrap, topic, mixed(30), linger_ms=ONE_BATCH)
    caught_up(flow)
    produce(flow.source.bootstrap, topic, [Record(b"ours, and it ends", timestamp=NOW)] * 5)
    caught_up(flow)
    groups = {unique("g"): offset for offset in range(36)}
    for group, offset in groups.items():
        commit(flow.source.bootstrap, group, {(topic, 0): offset})
    here = flow.original(topic)
    theirs = [each for each in here if (each.value or b"").startswith(b"other")]
    policy = {
        "replication_policy_separator": "_audit_",
        "replication_policy_internal_topic_separator_enabled": "false",
    }
    for remote, kept, given in (
        (flow.remote(topic), [each for each in here if each not in theirs], {}),
        (other, theirs, policy),
    ):
        copies = read(flow.target.bootstrap, remote, committed_only=True)
        for group, verdict in translated(flow, list(groups), **given).items():
            later = (to.offset for at, to in zip(kept, copies, strict=True) if at.offset >= groups[group])
            expected = next(later, copies[-1].offset + 1)
            result = verdict.judgement, verdict.offset, verdict.evidence
            assert result == (Judgement.EXACT, expected, Evidence.RUN), (remote, groups[group], verdict)
            assert committed(flow.target.bootstrap, group)[remote, 0] == expected


# -- transforms that fail ----------------------------------------------------------------------------------------------


POISONED = [
    Record(b"poison" if number in (11, 12, 40) else b"value %d" % number, timestamp=NOW)
    for number in range(60)
]


@pytest.mark.parametrize("function", mostly_long(["raises", "hangs", "aborts", "grows"]))
def test_report_leaves_out_what_a_transform_fails_with(flow: CopyFlow, function: str) -> None:
    flow.transforms = [own("upper"), own(function, mark="POISON")]
    flow.settings = {
        "fail_on_refused_record": False,
        "transform_timeout": 0.3 if function == "hangs" else 5.0,
        "transform_memory": 64 * 1024 * 1024,
    }
    topic = flow.topic()
    poisoned = POISONED if function == "raises" else POISONED[10:14]
    offsets = [at for at, each in enumerate(poisoned) if each.value == b"poison"]
    produce(flow.source.bootstrap, topic, poisoned, linger_ms=ONE_BATCH)
    status = flow.copy()
    assert status.state is PipelineState.CAUGHT_UP
    assert [each.value for each in flow.copies(topic)] == [
        (each.value or b"").upper() for each in poisoned if each.value != b"poison"
    ]
    gaps = gaps_of(status)
    assert [at for _, first, end in gaps for at in range(first, end)] == offsets
    assert {kind for kind, _, _ in gaps} == {"transform_failed"}
    if function == "raises":
        assert gaps[0] == ("transform_failed", 11, 13), "neighbours are one entry"
    assert all(f"transform {function}: " in gap.detail for gap in status.gaps)


def test_fail_stops_right_before_the_record_and_names_it(flow: CopyFlow) -> None:
    flow.transforms = [own("raises")]
    topic = flow.topic()
    produce(flow.source.bootstrap, topic, POISONED, linger_ms=ONE_BATCH)
    status = flow.copy()
    assert status.state is PipelineState.FAILED
    assert status.failure is not None
    for words in (
        f"the record of {topic}-0 at offset 11 can't be copied to {flow.remote(topic)}",
        "transform raises: it failed with KeyError: 'no such country' (own_transforms.py, line ",
        "source.record.policy",
    ):
        assert words in status.failure
    assert contents(flow.copies(topic)) == contents(POISONED[:11])
    flow.transforms = []
    caught_up(flow)
    flow.assert_copied()


@pytest.mark.long
def test_a_transform_that_can_not_be_called_fails_before_anything_is_copied(flow: CopyFlow) -> None:
    flow.transforms = [own("no_such_function")]
    flow.settings = {"fail_on_refused_record": False}
    topic = flow.topic()
    produce(flow.source.bootstrap, topic, numbered(10))
    status = flow.copy()
    assert status.state is PipelineState.FAILED
    assert "bridge.transforms: no_such_function" in (status.failure or "")
    assert flow.copies(topic) == []


@pytest.mark.long
def test_what_the_target_refuses_of_what_a_transform_returns_is_left_out(flow: CopyFlow) -> None:
    """Compacted topics take no records without a key."""
    flow.transforms = [own("even"), own("without_key", at="20")]
    flow.settings = {"fail_on_refused_record": False}
    topic = flow.topic(remote={"cleanup.policy": "compact"})
    produce(flow.source.bootstrap, topic, numbered(60, timestamp=NOW), linger_ms=ONE_BATCH)
    status = flow.copy()
    assert status.state is PipelineState.CAUGHT_UP
    kept = [each for each in flow.original(topic) if each.offset % 2 == 0 and each.offset != 20]
    assert contents(flow.copies(topic)) == contents(kept)
    assert gaps_of(status) == [("record_refused", 20, 21)]
    assert_exact(flow, topic, kept)


@pytest.mark.long
def test_what_a_slow_transform_has_made_is_committed_before_the_rest_is_there(flow: CopyFlow) -> None:
    """Else one fetch would take longer than a transaction may."""
    flow.transforms = [own("slow", per_record="0.02")]
    flow.settings = {"transform_timeout": 1.0}
    topic = flow.topic()
    place = TopicPartition(topic, 0)
    produce(flow.source.bootstrap, topic, numbered(200, timestamp=NOW), linger_ms=ONE_BATCH)
    with flow.pipeline() as running:

        def under_way() -> None:
            progress = running.status.progress.get(place)
            assert progress is not None
            assert 0 < progress.position < 200

        eventually(under_way, WAIT, what="a part is committed")
        running.wait_position({place: 200})
        assert running.status.restarts == 0
    flow.assert_copied()
