"""Pairs source partitions with the target partitions that hold their copies, and keeps what is known of each pair.

Finds the partitions that groups have yet to begin: they read them from the log's start, whatever their other offsets
are.

Remembers between rounds what was seen of pairs of partitions, as long as what it rests on holds.

Keyed by topic ids and leader epochs: when one changes, all is dropped. An exact verdict whose ids,
epochs and offset have not moved costs no look-up. No answer depends on it: after a restart the look-ups are made again.

What both clusters answer about a pair of partitions, topic ids and log bounds, as one state of the pair. Pure.

A failure of one topic or partition is a pending verdict on that pair, and holds up no other one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import NamedTuple

from bridge.errors import KafkaFailure
from bridge.mm2.replication_policy import counterpart
from bridge.model.values import (
    Bounds,
    Committed,
    CopyId,
    Evidence,
    Judgement,
    Reason,
    Side,
    TopicInfo,
    TopicPartition,
    Verdict,
)
from bridge.translation.plan import NotBegun
from bridge.translation.records.log_window import LogBounds
from bridge.translation.records.other_mirror import AnotherMirror, Extent
from bridge.translation.records.partition_cache import PartitionMemory
from connectors.cluster_away import reason_of
from connectors.group_translation.options import GroupOptions

PartitionPair = tuple[TopicPartition, TopicPartition]
"""A source partition and its counterpart on the target."""
GroupOffsets = Mapping[str, Mapping[PartitionPair, Committed]]
"""What groups have committed on the source."""


class PartitionPairs:
    """The pairs of one connector. Returns the same objects each time, for there are many groups to a partition."""

    def __init__(
        self,
        options: GroupOptions,
        *,
        reverse: bool,
        was_copied: Callable[[CopyId], bool] = lambda _: False,
    ) -> None:
        """`reverse`: copies of the target's own topics are paired with those (failback). `was_copied`: whether a topic
        that the filter leaves out is paired all the same."""
        self._options, self._reverse, self._was_copied = options, reverse, was_copied
        self._pairs: dict[TopicPartition, PartitionPair | None] = {}
        self._older: dict[TopicPartition, PartitionPair | None] = {}
        """Those that were asked for in the last whole round."""

    def __len__(self) -> int:
        return len(self._pairs) + len(self._older)

    def end_round(self, *, whole: bool) -> None:
        """Forgets partitions that no group asked for in the last two rounds. `whole`: the round did not break off."""
        self._older, self._pairs = self._pairs if whole else self._older | self._pairs, {}

    def paired(self, offsets: Mapping[TopicPartition, Committed]) -> dict[PartitionPair, Committed]:
        """Returns a group's offsets by pair, without partitions that are not to be synced."""
        return {pair: committed for tp, committed in offsets.items() if (pair := self._pair(tp))}

    def _pair(self, tp: TopicPartition) -> PartitionPair | None:
        if tp not in self._pairs:
            self._pairs[tp] = self._older[tp] if tp in self._older else self._paired(tp)
        return self._pairs[tp]

    def _paired(self, tp: TopicPartition) -> PartitionPair | None:
        options = self._options
        if options.policy.is_internal_topic(tp.topic):
            return None
        chosen = options.topic_filter.should_replicate_topic(tp.topic)
        aliases = options.source_alias, options.target_alias
        topic = counterpart(options.policy, tp.topic, *aliases, reverse=self._reverse)
        if topic is None or not (chosen or self._was_copied(CopyId(tp, topic))):
            return None
        return tp, TopicPartition(topic, tp.partition)


@dataclass(frozen=True, slots=True)
class PairIdentity:
    """Topic ids and leader epochs of a pair of partitions."""

    source_id: str
    source_epoch: int
    target_id: str
    target_epoch: int


class BehindRuns(NamedTuple):
    """What stood on the target behind our newest run once the runs had been read so many times; `others`: what of it
    stood there when they were read the time before, so that it is no copy of ours."""

    reads: int
    place: LogBounds
    others: LogBounds | None = None


class Lacked(NamedTuple):
    """Records that a copy was past and the target did not hold when the source answered last, None for not known, and
    both log starts then. `target_id`: "" for not known."""

    records: int | None
    target_start: int | None
    source_start: int = 0
    target_id: str = ""

    def lost_since(self, target_id: str, target: Bounds) -> bool:
        """Whether the target has lost records since."""
        made_again = bool(self.target_id) and target_id != self.target_id
        return made_again or target.start > (self.target_start or 0)


@dataclass(slots=True)
class PairMemory:
    """What is remembered of one pair of partitions."""

    identity: PairIdentity
    records: PartitionMemory = field(default_factory=PartitionMemory)
    extents: dict[tuple[LogBounds, LogBounds], Extent | None] = field(default_factory=dict)
    """What another mirror has copied where no run of ours covers the source, by the bounds of both logs there."""
    source_start: int | None = None
    target_start: int | None = None
    """The log starts when the source last answered."""
    behind_runs: BehindRuns | None = None
    not_ours: tuple[LogBounds, bool] | None = None
    """The newest place without a copy of ours when records of others were last looked at, and whether what stands
    behind our runs was settled."""
    looks: int = 0
    """How often they were looked at since that is the newest one."""
    turn: int = 0
    """How often at all."""
    another: AnotherMirror = field(default_factory=AnotherMirror)
    """What another mirror has copied beside ours."""
    nothing_in: dict[LogBounds, bool] = field(default_factory=dict)
    """Whether stretches of the target between an answer and a group that stands beyond it hold no record."""
    _verdicts: dict[int, tuple[Verdict, int]] = field(default_factory=dict)
    """Exact verdicts by source offset, with the target's end then."""

    def recall(self, offset: int, source: Bounds, target: Bounds) -> Verdict | None:
        """Returns the exact verdict on an offset, if it still holds; the bounds are those of now."""
        return self._held(offset, target) if source.start <= offset <= source.end else None

    def recall_without_source(self, offset: int, target_id: str, target: Bounds) -> Verdict | None:
        """Returns the same while the source can't be asked, unless it rests on runs, which are translated by again."""
        if (self.identity.target_id, self.identity.target_epoch) != (target_id, target.leader_epoch):
            return None
        verdict = self._held(offset, target)
        return None if verdict is None or verdict.evidence is Evidence.RUN else verdict

    def remember(self, offset: int, verdict: Verdict, target_end: int) -> None:
        # One that lacks records is looked up again: they may arrive, or go from the source.
        if verdict.judgement is Judgement.EXACT and verdict.not_on_target == 0:
            self._verdicts[offset] = (verdict, target_end)

    def forget_all_but(self, offsets: Collection[int]) -> None:
        """Forgets the verdicts on offsets that no group is committed at."""
        if len(self._verdicts) > len(offsets):
            self._verdicts = {offset: kept for offset, kept in self._verdicts.items() if offset in offsets}

    def _held(self, offset: int, target: Bounds) -> Verdict | None:
        verdict, end = self._verdicts.get(offset, (None, 0))
        if verdict is None:
            return None
        assert verdict.offset is not None
        if not target.start <= verdict.offset <= target.end or target.start >= target.end:
            return None
        if "next_copy" not in verdict.detail and end != target.end:
            return None  # it was exact because nothing had come yet; something has
        return verdict


class _TargetEnd(NamedTuple):
    """How far a log of the target has reached; `cut_off`: it has ended before that since the source answered last."""

    target_id: str
    end: int
    cut_off: bool = False


class PairMemories:
    """The memories of all pairs of one connector."""

    def __init__(self) -> None:
        self._pairs: dict[PartitionPair, PairMemory] = {}
        self._ends: dict[PartitionPair, _TargetEnd] = {}
        self._lacked: dict[PartitionPair, Lacked] = {}
        self._noted: set[PartitionPair] = set()
        """Pairs of which this round has noted what the target lacks."""

    def __len__(self) -> int:
        return len(self._pairs)

    def get(self, pair: PartitionPair, identity: PairIdentity) -> PairMemory:
        """Returns what is remembered of a pair; empty where it is new, or another one by now."""
        kept = self._pairs.get(pair)
        if kept is None or kept.identity != identity:
            kept = self._pairs[pair] = PairMemory(identity)
        return kept

    def last(self, pair: PartitionPair) -> PairMemory | None:
        """Returns what was remembered last, whichever topics it is of: for while the source does not answer."""
        return self._pairs.get(pair)

    def note_end(self, pair: PartitionPair, target_id: str, end: int) -> None:
        """Notes where the target's log ends while the source answers, which shows what it lacks."""
        self._ends[pair] = _TargetEnd(target_id, end)

    def note_end_alone(self, pair: PartitionPair, target_id: str, end: int, runs_end: int) -> int | None:
        """Notes where the target's log ends while the source does not answer. Returns where it has ended, if a replica
        leads by now that lacks what came last; None if none does. `runs_end`: where our newest copies end."""
        known = self._ends.get(pair)
        if known is None or known.target_id != target_id:
            known = _TargetEnd(target_id, 0)
        highest = max(known.end, runs_end)
        cut_off = known.cut_off or end < highest
        self._ends[pair] = _TargetEnd(target_id, max(highest, end), cut_off)
        return highest if cut_off else None

    def note_lacked(self, pair: PartitionPair, lacked: Lacked) -> None:
        """Notes what the target lacks of a partition that some group has yet to begin."""
        self._lacked[pair] = lacked
        self._noted.add(pair)

    def lacked(self, topics: Collection[str]) -> dict[PartitionPair, Lacked]:
        """Returns that, of these topics of the source."""
        return {pair: lacked for pair, lacked in self._lacked.items() if pair[0].topic in topics}

    def end_round(self, offsets: Mapping[PartitionPair, Collection[int]], *, whole: bool) -> None:
        """Forgets what no group of the round stands at; with `whole`, because it did not break off, whole pairs too."""
        if whole:
            self._pairs = {pair: kept for pair, kept in self._pairs.items() if pair in offsets}
            self._ends = {pair: known for pair, known in self._ends.items() if pair in offsets}
            self._lacked = {pair: self._lacked[pair] for pair in self._noted}
            self._noted = set()
        for pair, kept in self._pairs.items():
            if pair in offsets:
                kept.forget_all_but(offsets[pair])


class BothSides(NamedTuple):
    """A pair of partitions that both clusters answered about."""

    identity: PairIdentity
    source: Bounds
    target: Bounds
    log_append_time: bool
    """The target overwrites timestamps (message.timestamp.type=LogAppendTime)."""
    compacted: bool | None = False
    """See TopicInfo, of the target."""
    partitions: int = 0
    """How many the source's topic has."""


class TargetOnly(NamedTuple):
    """A pair that only the target answered about. `pending`: why the source did not."""

    target_id: str
    target: Bounds
    pending: Verdict


PairState = BothSides | TargetOnly | Verdict
"""A verdict: it is pending, because the target did not answer, or the partition is missing."""


def topics_of(
    pair: PartitionPair,
    originals: Mapping[str, TopicInfo | KafkaFailure],
    copies: Mapping[str, TopicInfo | KafkaFailure],
) -> tuple[TopicInfo, TopicInfo] | Verdict:
    """Returns both topics of a pair, or why it is pending: what the source lacks is the cause of what the target
    lacks."""
    source, target = originals[pair[0].topic], copies[pair[1].topic]
    if isinstance(source, KafkaFailure):
        return pending_verdict(Side.SOURCE, source)
    if pair[0].partition >= source.partitions:
        return missing_partition(Reason.SOURCE_TOPIC_MISSING, pair[0], source)
    if isinstance(target, KafkaFailure):
        return pending_verdict(Side.TARGET, target)
    if pair[1].partition >= target.partitions:
        return missing_partition(Reason.TARGET_PARTITION_MISSING, pair[1], target)
    return source, target


def both_sides(
    source: TopicInfo,
    target: TopicInfo,
    source_bounds: Bounds | KafkaFailure,
    target_bounds: Bounds | KafkaFailure,
) -> PairState:
    if isinstance(source_bounds, KafkaFailure):
        unanswered = pending_verdict(Side.SOURCE, source_bounds)
        return (
            unanswered
            if isinstance(target_bounds, KafkaFailure)
            else TargetOnly(target.topic_id, target_bounds, unanswered)
        )
    if isinstance(target_bounds, KafkaFailure):
        return pending_verdict(Side.TARGET, target_bounds)
    identity = PairIdentity(
        source.topic_id, source_bounds.leader_epoch, target.topic_id, target_bounds.leader_epoch
    )
    return BothSides(
        identity,
        source_bounds,
        target_bounds,
        target.log_append_time,
        target.compacted,
        source.partitions,
    )


def target_only(info: TopicInfo, bounds: Bounds | KafkaFailure, unanswered: Verdict) -> PairState:
    if isinstance(bounds, KafkaFailure):
        return pending_verdict(Side.TARGET, bounds)
    # A group that stands below has lost what it has not read, whatever its last verdict says; one that stands beyond
    # the end begins anew.
    detail = unanswered.detail | {"target_start": bounds.start, "target_end": bounds.end}
    return TargetOnly(info.topic_id, bounds, replace(unanswered, detail=detail))


def pending_verdict(side: Side, failure: KafkaFailure) -> Verdict:
    return Verdict.pending(reason_of(side, failure), said=str(failure))


def missing_partition(reason: Reason, tp: TopicPartition, info: TopicInfo) -> Verdict:
    return Verdict.pending(reason, said=f"{tp.topic} has {info.partitions} partitions")


def yet_to_begin(committed: GroupOffsets, states: Mapping[PartitionPair, PairState]) -> list[PartitionPair]:
    """Returns the partitions that some group has yet to begin: it has committed in others of their topics."""
    pairs: dict[str, list[PartitionPair]] = {}
    for (source, target), state in states.items():
        if source.topic not in pairs and isinstance(state, BothSides):
            pairs[source.topic] = [
                (TopicPartition(source.topic, number), TopicPartition(target.topic, number))
                for number in range(state.partitions)
            ]
    begun: Counter[PartitionPair] = Counter()
    readers: Counter[str] = Counter()
    for offsets in committed.values():
        topics = {source.topic for source, _ in offsets}
        if topics <= pairs.keys() and sum(len(pairs[topic]) for topic in topics) == len(offsets):
            continue  # it has begun all, as nearly every group has
        begun.update(offsets.keys())
        readers.update(topics)
    return [pair for topic, count in readers.items() for pair in pairs.get(topic, ()) if begun[pair] < count]


def not_begun_of(
    committed: GroupOffsets, lacked_of: Mapping[PartitionPair, Lacked]
) -> dict[str, tuple[NotBegun, ...]]:
    """Returns the partitions that each group has yet to begin."""
    by_topic: dict[str, list[tuple[PartitionPair, NotBegun]]] = {}
    for pair, lacked in sorted(lacked_of.items(), key=itemgetter(0)):
        each = NotBegun(*pair[0], lacked.records, lacked.target_start)
        by_topic.setdefault(pair[0].topic, []).append((pair, each))
    if not by_topic:
        return {}
    return {
        group: tuple(
            begun
            for topic in sorted({source.topic for source, _ in offsets} & by_topic.keys())
            for pair, begun in by_topic[topic]
            if pair not in offsets
        )
        for group, offsets in committed.items()
    }
