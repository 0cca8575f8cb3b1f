"""Records, store of offset syncs, checkpoint rule and group sync against stock's own classes, at random."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import pytest

from bridge.mm2.checkpoints import CheckpointStore, emit
from bridge.mm2.offset_sync_store import OffsetSyncStore
from bridge.mm2.records import Checkpoint, Heartbeat, OffsetSync, SchemaError
from bridge.mm2.replication_policy import (
    DefaultReplicationPolicy,
    IdentityReplicationPolicy,
    ReplicationPolicy,
    counterpart,
)
from bridge.model.values import Committed, GroupState, Judgement, TopicPartition, Verdict
from bridge.translation.plan import TargetGroup, Translated, plan_group
from tests.integration.comparison import Comparison, answers_of, b64, place
from tests.support.java import RECORDED_OR_LIVE, Oracle

LONGEST = 2**63 - 1
STORE_COMPARISONS, RULE_COMPARISONS, SYNC_COMPARISONS, RECORDS = 100_000, 20_000, 20_000, 20_000

Offsets = Mapping[TopicPartition, Committed | None]


@pytest.fixture(scope="module", params=RECORDED_OR_LIVE)
def stock(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Oracle:
    source, main = Path(__file__).with_name("StockStore.java"), "org.apache.kafka.connect.mirror.StockStore"
    return Oracle(source, tmp_path_factory.mktemp("stock"), main, live=request.param == "live")


def offsets_as_fields(offsets: Offsets) -> Iterator[object]:
    for topic_partition, committed in offsets.items():
        yield from place(topic_partition)
        yield from ("-", "") if committed is None else (committed.offset, b64(committed.metadata))


class History:
    """Syncs of one partition as a mirror may write them, and then some: either log cut back, syncs sent again,
    offsets up to the largest."""

    def __init__(self, rng: random.Random, topic_partition: TopicPartition) -> None:
        self._rng, self.topic_partition = rng, topic_partition
        self._upstream = rng.choice(
            [0, 0, rng.randrange(10**6), 2**62, LONGEST - rng.randrange(2**20), LONGEST]
        )
        self._downstream = rng.choice(
            [0, self._upstream, rng.randrange(10**6), LONGEST - rng.randrange(2**10)]
        )
        bits = rng.choice([1, 2, 4, 7, 10, 20, 40, 61])
        spacing = rng.choice([1, 10, 100, 101])
        steps: list[Callable[[], int]] = [
            lambda: spacing,
            lambda: rng.randrange(1 << bits),
            lambda: rng.choice([100, 200]),
        ]
        self._step = rng.choice(steps)
        self._seen = [0, LONGEST]

    def next(self) -> OffsetSync:
        rng, event, step = self._rng, self._rng.random(), self._step()
        if event < 0.03:
            step = 0
        elif event < 0.05:
            step = -min(
                self._upstream, rng.choice([1, step, self._upstream, rng.randrange(self._upstream + 1)])
            )
        moved = rng.choice([step, step, abs(step) + rng.randrange(3), 0])
        if event > 0.97:
            moved = -rng.choice([1, self._downstream, rng.randrange(self._downstream + 1)])
        self._upstream = min(self._upstream + step, LONGEST)
        self._downstream = min(max(self._downstream + moved, 0), LONGEST)
        self._seen.append(self._upstream)
        return OffsetSync(self.topic_partition, self._upstream, self._downstream)

    def offset(self) -> int:
        """One that a group may have committed: near a sync, between two, anywhere."""
        near = self._rng.choice(self._seen[-64:])
        return min(max(near + self._rng.choice([-100, -1, 0, 0, 1, 100, -near // 2]), 0), LONGEST)


def partitions(rng: random.Random, *topics: str) -> list[TopicPartition]:
    return [TopicPartition(topic, rng.randrange(3)) for topic in topics]


def tell_sync(comparison: Comparison, store: OffsetSyncStore, history: History) -> None:
    sync = history.next()
    store.apply(sync)
    comparison.tell("sync", *place(sync.topic_partition), sync.upstream_offset, sync.downstream_offset)


def ask_answer(comparison: Comparison, store: OffsetSyncStore, history: History) -> None:
    offset = history.offset()
    ours = store.translate(history.topic_partition, offset)
    comparison.ask("-" if ours is None else str(ours), "ask", *place(history.topic_partition), offset)


def ask_state(comparison: Comparison, store: OffsetSyncStore, topic_partition: TopicPartition) -> None:
    """Each distinct sync and the first slot that holds it."""
    shown = (f"{slot}:{sync[1]}:{sync[2]}" for slot, sync in store.kept(topic_partition))
    comparison.ask(" ".join(shown), "state", *place(topic_partition))


def test_store(stock: Oracle) -> None:
    """Answers before, in and after the start-up, and the state after syncs, in random histories."""
    comparison = Comparison(stock)
    rng = comparison.rng
    while comparison.count < stock.scaled(STORE_COMPARISONS):
        histories = [History(rng, each) for each in partitions(rng, *rng.choice([["t"], ["t", "é.u"]]))]
        must_read_to_end = rng.random() < 0.5
        store = OffsetSyncStore(must_read_to_end)
        comparison.tell("store", int(must_read_to_end))
        for _ in range(rng.choice([0, 1, 3, 40])):
            tell_sync(comparison, store, rng.choice(histories))
            ask_answer(comparison, store, rng.choice(histories))
        comparison.tell("started")
        store.finish_start()
        for _ in range(rng.choice([1, 10, 60, 120])):
            history = rng.choice(histories)
            ask_answer(comparison, store, history)
            tell_sync(comparison, store, history)
            for _ in range(3):
                ask_answer(comparison, store, history)
            ask_state(comparison, store, history.topic_partition)
    comparison.settle()
    assert len(comparison.answers) > comparison.count // 10


@pytest.mark.parametrize("policy_name", ["default", "identity"])
def test_checkpoint_rule(stock: Oracle, policy_name: str) -> None:
    """Whole rounds: what is emitted, as bytes of keys and values, while syncs come and groups move either way."""
    comparison = Comparison(stock)
    rng = comparison.rng
    policy = IdentityReplicationPolicy() if policy_name == "identity" else DefaultReplicationPolicy()
    policy.configure({"source.cluster.alias": "A"})
    while comparison.count < stock.scaled(RULE_COMPARISONS // 2):
        histories = [
            History(rng, each) for each in partitions(rng, "t", "B.u", "C.v", "heartbeats", "B.heartbeats")
        ]
        histories = rng.sample(histories, 3)
        syncs, checkpoints = OffsetSyncStore(False), CheckpointStore()
        comparison.tell("store", 0)
        comparison.tell("started")
        syncs.finish_start()
        comparison.tell("task", policy_name, b64("A"), b64("B"))
        for _ in range(40):
            if rng.random() < 0.6:
                tell_sync(comparison, syncs, rng.choice(histories))
            group = rng.choice(["g", "ü"])
            committed = {
                each.topic_partition: rng.choice(
                    [None, *[Committed(each.offset(), rng.choice(["", "md", "µ\t\n"]))] * 9]
                )
                for each in rng.sample(histories, rng.randrange(1, 4))
            }
            result = emit(
                group, committed, syncs.translate, partial(renamed, policy), checkpoints.of_group(group)
            )
            for checkpoint in result:
                checkpoints.apply(checkpoint)
            records = sorted(f"{each.key().hex()}:{each.value().hex()}" for each in result)
            comparison.ask(" ".join(records), "checkpoints", b64(group), *offsets_as_fields(committed))
    comparison.settle()
    assert len(comparison.answers) > comparison.count // 10


def renamed(policy: ReplicationPolicy, topic: str) -> str:
    result = counterpart(policy, topic, "A", "B", reverse=True)
    assert result is not None
    return result


def asked_once(topics: list[TopicPartition]) -> list[str]:
    """What a group of stock's that reads these topics gets, each with a sync of its own."""
    lines = ["store\t0", "started", "\t".join(["task", "default", b64("A"), b64("B")])]
    lines += ["\t".join(map(str, ("sync", *place(each), 5, 50))) for each in topics]
    committed = {each: Committed(5) for each in topics}
    return [*lines, "\t".join(map(str, ("checkpoints", b64("g"), *offsets_as_fields(committed))))]


def test_a_topic_of_several_hops_goes_back_one_hop_where_stock_takes_all(stock: Oracle) -> None:
    """B13: on A, `B.C.w` is a copy of B's `C.w`; stock's checkpoint is for `w`, which B has not, or it is another."""
    topic = TopicPartition("B.C.w", 0)
    (result,) = answers_of(stock, asked_once([topic]))
    key, value = map(bytes.fromhex, result.split(":"))
    assert Checkpoint.decode(key, value).topic_partition == TopicPartition("w", 0)
    assert renamed(DefaultReplicationPolicy(), topic.topic) == "C.w"


def test_two_topics_with_one_remote_topic_end_a_round_of_stock(stock: Oracle) -> None:
    """`B.a` and `B.C.a` both came from `a` once; ours gives the lower answer (test_checkpoints)."""
    topics = [TopicPartition("B.a", 0), TopicPartition("B.C.a", 0)]
    assert answers_of(stock, asked_once(topics)) == ["IllegalStateException"]


def test_group_sync(stock: Oracle) -> None:
    """What is committed on the target for a group that is Empty there (it is in stock's snapshot) or does not exist."""
    comparison = Comparison(stock)
    rng = comparison.rng
    while comparison.count < stock.scaled(SYNC_COMPARISONS):
        remotes = rng.sample([TopicPartition(topic, part) for topic in ("A.t", "é") for part in (0, 1)], 3)
        offsets = [rng.choice([0, 1, 100, 101, LONGEST]) for _ in remotes]
        rows = [
            Checkpoint("g", remote, rng.randrange(200), offset, rng.choice(["", "md", "µ\t\n"]))
            for remote, offset in zip(remotes[: rng.randrange(1, 4)], offsets, strict=False)
        ]
        idle: dict[TopicPartition, Committed | None] | None = None
        if rng.random() < 0.8:
            standing = [
                rng.choice([None, *[Committed(max(0, at + by), "theirs") for by in (-1, 0, 1, -99)]])
                for at in offsets
            ]
            standing = [each and each._replace(offset=min(each.offset, LONGEST)) for each in standing]
            kept = [pair for pair in zip(remotes, standing, strict=True) if rng.random() < 0.8]
            idle = dict(kept)
        fields = [
            field for row in rows for field in (*place(row.topic_partition), *row[2:4], b64(row.metadata))
        ]
        snapshot = [0] if idle is None else [1, *offsets_as_fields(idle)]
        comparison.ask(committed_by_us(rows, idle), "groupsync", b64("g"), len(rows), *fields, *snapshot)
    comparison.settle()
    assert len(comparison.answers) > 50


def committed_by_us(rows: list[Checkpoint], idle: Offsets | None) -> str:
    """A null value in stock's snapshot is an offset below 0, which the cluster port leaves out."""
    translated = [
        Translated(
            TopicPartition("t", at),
            row.topic_partition,
            Committed(row.upstream_offset, row.metadata, 7),
            Verdict(Judgement.BOUNDED, row.downstream_offset),
        )
        for at, row in enumerate(rows)
    ]
    state = GroupState.NOT_FOUND if idle is None else GroupState.EMPTY
    offsets = {remote: committed for remote, committed in (idle or {}).items() if committed is not None}
    writes = plan_group("g", translated, TargetGroup(state, "consumer", offsets), {}).writes
    return " ".join(
        sorted(
            f"{b64(remote.topic)}:{remote.partition}:{write.offset}:{b64(write.metadata)}:{write.leader_epoch}"
            for remote, write in writes.items()
        )
    )


def test_records(stock: Oracle) -> None:
    """What stock's formatters print of sound and damaged records; what they die of is a SchemaError here."""
    comparison = Comparison(stock)
    rng = comparison.rng
    texts = ["", "topic-1", "é", "a\tb", "\U0001f600", "x" * 300]
    for _ in range(stock.scaled(RECORDS)):
        remote = TopicPartition(rng.choice(texts), rng.choice([0, 7, -1, 2**31 - 1]))
        numbers = [rng.choice([0, 1, -1, LONGEST, -(2**63), rng.randrange(2**40)]) for _ in range(2)]
        records: list[OffsetSync | Checkpoint | Heartbeat] = [
            OffsetSync(remote, *numbers),
            Checkpoint(rng.choice(texts), remote, numbers[0], numbers[1], rng.choice(texts)),
            Heartbeat(rng.choice(texts), rng.choice(texts), numbers[0]),
        ]
        record = rng.choice(records)
        key, value = damaged(rng, record.key()), damaged(rng, record.value())
        if isinstance(record, Heartbeat) and rng.random() < 0.5:
            key = garbled(rng) + garbled(rng)
        try:
            ours = b64(f"{type(record).decode(key, value)}\n")
        except SchemaError:
            ours = "!"
        fields = ("-" if each is None else f"+{each.hex()}" for each in (key, value))
        comparison.ask(ours, "record", type(record).__name__, *fields)
    comparison.settle()
    assert len(comparison.answers) > comparison.count // 20


BREAKING = [0x41, 0x80, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC3, 0xE0, 0xE2, 0xED, 0xEF, 0xF0, 0xF4, 0xF8, 0xFF]
"""Bytes that begin, continue and break UTF-8 sequences."""


def damaged(rng: random.Random, field: bytes) -> bytes | None:
    """As it is, null, cut, longer, or with bytes changed."""
    event = rng.random()
    if event < 0.4:
        return field
    if event < 0.43:
        return None
    if event < 0.5:
        return field[: rng.randrange(len(field) + 1)]
    if event < 0.55:
        return field + rng.randbytes(3)
    changed = bytearray(field)
    for at in rng.sample(range(len(field)), rng.randrange(1, min(5, len(field) + 1))):
        changed[at] = rng.choice([*BREAKING, rng.randrange(256)])
    return bytes(changed)


def garbled(rng: random.Random) -> bytes:
    """A STRING, hardly ever of sound UTF-8."""
    text = bytes(rng.choices(BREAKING, k=rng.randrange(12)))
    return len(text).to_bytes(2, "big") + text
