"""Which checkpoints are emitted: stock's own cases by their names, and the vectors that its classes gave."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.mm2.checkpoints import CheckpointStore, emit, is_more_recent
from bridge.mm2.offset_sync_store import OffsetSyncStore
from bridge.mm2.records import Checkpoint, OffsetSync, SchemaError
from bridge.mm2.replication_policy import (
    DefaultReplicationPolicy,
    IdentityReplicationPolicy,
    ReplicationPolicy,
    counterpart,
)
from bridge.model.values import Committed, GroupState, Judgement, TopicPartition, Verdict
from bridge.translation.plan import TargetGroup, Translated, plan_group

DEFAULT, IDENTITY = DefaultReplicationPolicy(), IdentityReplicationPolicy()
IDENTITY.configure({"source.cluster.alias": "source1"})
T1, REMOTE = TopicPartition("topic1", 0), TopicPartition("source1.topic1", 0)


class Task:
    """Syncs in, committed offsets in, checkpoints out: the rules in the order in which a round follows them."""

    def __init__(self, *, must_read_to_end: bool = True, started_with: Iterable[OffsetSync] = ()) -> None:
        self.syncs, self.checkpoints = OffsetSyncStore(must_read_to_end), CheckpointStore()
        for sync in started_with:
            self.syncs.apply(sync)
        self.syncs.finish_start()

    def sync(self, topic: str, partition: int, upstream: int, downstream: int) -> None:
        self.syncs.apply(OffsetSync(TopicPartition(topic, partition), upstream, downstream))

    def round(self, group: str, committed: dict[TopicPartition, Committed | None]) -> list[Checkpoint]:
        result = emit(group, committed, self.syncs.translate, rename, self.checkpoints.of_group(group))
        for checkpoint in result:
            self.checkpoints.apply(checkpoint)
        return result

    def at(self, offset: int) -> list[tuple[int, int]]:
        """What is emitted, upstream and downstream, for one group that committed `offset` of `topic1-0`."""
        return [
            (each.upstream_offset, each.downstream_offset)
            for each in self.round("g1", {T1: Committed(offset)})
        ]


def rename(topic: str) -> str:
    result = counterpart(DEFAULT, topic, "source1", "target2", reverse=True)
    assert result is not None
    return result


@pytest.mark.parametrize(
    ("policy", "topic", "remote"),
    [
        pytest.param(
            DEFAULT, topic, remote, id=f"MirrorCheckpointTaskTest.testDownstreamTopicRenaming-{topic}"
        )
        for topic, remote in {
            "topic3": "source1.topic3",
            "target2.topic3": "topic3",
            "source6.topic7": "source1.source6.topic7",
        }.items()
    ]
    + [
        pytest.param(DEFAULT, "target2.source6.topic7", "source6.topic7", id="one hop is taken off (B13)"),
        pytest.param(IDENTITY, "topic3", "topic3", id="identity"),
        pytest.param(IDENTITY, "heartbeats", "source1.heartbeats", id="identity renames heartbeats"),
        pytest.param(IDENTITY, "target2.heartbeats", "heartbeats", id="identity takes heartbeats back"),
    ],
)
def test_remote_topic(policy: ReplicationPolicy, topic: str, remote: str) -> None:
    assert counterpart(policy, topic, "source1", "target2", reverse=True) == remote


@pytest.mark.parametrize(
    ("group", "source", "offset", "expected"),
    [
        (
            "group9",
            TopicPartition("topic1", 2),
            10,
            Checkpoint("group9", TopicPartition("source1.topic1", 2), 10, 5, ""),
        ),
        (
            "group11",
            TopicPartition("target2.topic5", 6),
            12,
            Checkpoint("group11", TopicPartition("topic5", 6), 12, 9, ""),
        ),
        (
            "group13",
            TopicPartition("target2.topic5", 6),
            7,
            Checkpoint("group13", TopicPartition("topic5", 6), 7, 8, ""),
        ),
    ],
    ids="MirrorCheckpointTaskTest.testCheckpoint-{}".format,
)
def test_checkpoint(group: str, source: TopicPartition, offset: int, expected: Checkpoint) -> None:
    task = Task()
    task.sync("topic1", 2, 3, 4)
    task.sync("target2.topic5", 6, 7, 8)
    assert task.round(group, {source: Committed(offset)}) == [expected]


@pytest.mark.parametrize(
    ("committed", "remotes"),
    [
        pytest.param(
            {TopicPartition("topic1", 1): Committed(10), T1: Committed(10)},
            [REMOTE],
            id="MirrorCheckpointTaskTest.testNoCheckpointForTopicWithoutOffsetSyncs",
        ),
        pytest.param(
            {T1: None}, [], id="MirrorCheckpointTaskTest.testNoCheckpointForTopicWithNullOffsetAndMetadata"
        ),
        pytest.param({T1: Committed(2)}, [], id="older than the oldest sync"),
        pytest.param({}, [], id="nothing committed"),
    ],
)
def test_no_checkpoint(
    committed: dict[TopicPartition, Committed | None], remotes: list[TopicPartition]
) -> None:
    task = Task()
    task.sync("topic1", 0, 3, 4)
    assert [each.topic_partition for each in task.round("g1", committed)] == remotes


def test_no_checkpoint_before_the_syncs_are_read() -> None:
    syncs = OffsetSyncStore(must_read_to_end=False)
    syncs.apply(OffsetSync(T1, 3, 4))
    assert emit("g1", {T1: Committed(10)}, syncs.translate, rename, {}) == []


def test_metadata_goes_along() -> None:
    task = Task()
    task.sync("topic1", 0, 3, 4)
    assert task.round("g1", {T1: Committed(3, "md", 7)}) == [Checkpoint("g1", REMOTE, 3, 4, "md")]


def test_monotonic_if_store_rewinds() -> None:
    """MirrorCheckpointTaskTest.testCheckpointRecordsMonotonicIfStoreRewinds"""
    task = Task()
    task.sync("topic1", 0, 11, 4)
    task.sync("topic1", 0, 12, 5)
    assert task.at(13) == [(13, 6)]
    for upstream, downstream in zip(range(13, 18), range(6, 11), strict=True):
        task.sync("topic1", 0, upstream, downstream)
    assert task.syncs.translate(T1, 13) == 5
    assert task.at(13) == []
    assert task.at(12) == [(12, 5)]


def test_restart_uses_existing_checkpoints() -> None:
    """MirrorCheckpointTaskTest.testCheckpointsTaskRestartUsesExistingCheckpoints"""

    def started(*offsets: int) -> Task:
        return Task(must_read_to_end=False, started_with=[OffsetSync(T1, each, each) for each in offsets])

    before = started(100, 200, 300)
    assert before.at(250) == [(250, 201)]
    after = started(175, 275, 375, 475)
    for checkpoint in before.checkpoints.of_group("g1").values():
        after.checkpoints.apply(Checkpoint.decode(checkpoint.key(), checkpoint.value()))
    assert [after.syncs.translate(T1, offset) for offset in (250, 370)] == [176, 176]
    assert (after.at(250), after.at(370)) == ([], [])
    assert after.round("g1", {T1: Committed(400)}) == [Checkpoint("g1", REMOTE, 400, 376, "")]


def test_sequence_of_one_group() -> None:
    task = Task()
    task.sync("topic1", 0, 100, 1000)
    task.sync("topic1", 0, 200, 1100)
    seen = [(offset, task.at(offset)) for offset in (50, 100, 150, 150, 199, 200, 250, 120, 110, 130, 60)]
    assert seen == [
        (50, []),
        (100, [(100, 1000)]),
        (150, [(150, 1001)]),
        (150, []),
        (199, []),
        (200, [(200, 1100)]),
        (250, [(250, 1101)]),
        (120, [(120, 1001)]),
        (110, [(110, 1001)]),
        (130, []),
        (60, []),
    ]
    assert task.checkpoints.get("g1", REMOTE) == Checkpoint("g1", REMOTE, 110, 1001, "")


def test_two_topics_with_one_remote_topic_give_the_lower_answer_each_time() -> None:
    task = Task()
    task.sync("target2.source1.a", 0, 10, 50)
    task.sync("a", 0, 5, 60)
    both = {TopicPartition(topic, 0): Committed(10) for topic in ("a", "target2.source1.a")}
    assert task.round("g1", dict(both)) == [Checkpoint("g1", TopicPartition("source1.a", 0), 10, 50, "")]
    assert task.round("g1", dict(both)) == []


CHECKPOINTS = st.builds(
    Checkpoint,
    st.just("g"),
    st.just(REMOTE),
    st.integers(0, 5),
    st.integers(0, 5),
    st.sampled_from(["", "md"]),
)


@given(st.lists(CHECKPOINTS))
def test_downstream_goes_back_only_with_upstream(checkpoints: list[Checkpoint]) -> None:
    last: Checkpoint | None = None
    for new in checkpoints:
        more_recent = is_more_recent(last, new)
        if last is not None and not more_recent:
            assert new.downstream_offset <= last.downstream_offset
            assert new.upstream_offset >= last.upstream_offset
        if last is not None and more_recent and new.downstream_offset <= last.downstream_offset:
            assert new.upstream_offset < last.upstream_offset
        if more_recent:
            assert not is_more_recent(new, new)
            last = new


def test_store_of_a_read_topic() -> None:
    """CheckpointStoreTest.testReadCheckpointsTopic; stock drops `group2` there, ours keeps it apart."""
    remote = TopicPartition("t1", 0)
    written = [
        Checkpoint("group1", remote, 0, 0, ""),
        Checkpoint("group2", remote, 0, 0, ""),
        Checkpoint("group1", remote, 1, 1, ""),
    ]
    records = [(each.key(), each.value()) for each in written]
    records.insert(2, (b"", b""))
    store, refused = CheckpointStore(), 0
    for key, value in records:
        try:
            store.apply(Checkpoint.decode(key, value))
        except SchemaError:
            refused += 1
    assert refused == 1
    assert dict(store.of_group("group1")) == {remote: Checkpoint("group1", remote, 1, 1, "")}
    assert store.get("group2", remote) == Checkpoint("group2", remote, 0, 0, "")


@pytest.mark.parametrize(
    ("standing", "written"),
    [
        pytest.param({REMOTE: Committed(100)}, 101, id="MirrorCheckpointTaskTest.testSyncOffset"),
        pytest.param({REMOTE: Committed(101)}, None, id="the same"),
        pytest.param({REMOTE: Committed(150)}, None, id="ahead"),
        # A null value is an offset that another client reset to -1; the admin port has no entry for it.
        pytest.param(
            {},
            101,
            id="MirrorCheckpointTaskTest.testSyncOffsetForTargetGroupWithNullOffsetAndMetadata",
        ),
        pytest.param({TopicPartition("other", 0): Committed(150)}, 101, id="another partition only"),
        pytest.param(None, 101, id="no group"),
    ],
)
def test_sync_offset(standing: dict[TopicPartition, Committed] | None, written: int | None) -> None:
    state = GroupState.NOT_FOUND if standing is None else GroupState.EMPTY
    verdict = Verdict(Judgement.BOUNDED, 101)
    plan = plan_group(
        "g1",
        [Translated(T1, REMOTE, Committed(200, "md"), verdict)],
        TargetGroup(state, "consumer", standing or {}),
        {},
    )
    assert plan.writes == ({} if written is None else {REMOTE: Committed(written, "md")})
