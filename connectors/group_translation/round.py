"""Runs one round: reads what groups have committed on the source, translates, plans, commits on the target.

Reads come first and touch nothing; then the plans (pure, bridge.translation.plan); then the commits. A failure of one
group, topic or partition stays with it.

Keeps where groups were committed when the source last answered, for rounds in which it does not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from bridge.errors import KafkaFailure, KafkaFault
from bridge.model.values import (
    Committed,
    GroupListing,
    GroupState,
    Reason,
    Side,
    TopicPartition,
    Verdict,
)
from bridge.translation.plan import GroupPlan, NotBegun, OwnCommit, TargetGroup, Translated
from bridge.translation.records.log_window import LogBounds
from connectors.cluster_away import ask, reason_of
from connectors.group_translation.commits import Commits
from connectors.group_translation.options import GroupOptions
from connectors.group_translation.other_sources import OtherSources
from connectors.group_translation.stored import FurthestOffsets, StoredState
from connectors.group_translation.translating.followed_topics import ReverseFlow
from connectors.group_translation.translating.group_verdicts import GroupVerdicts, Verdicts
from connectors.group_translation.translating.not_copied_topics import NotCopiedTopics
from connectors.group_translation.translating.pairs import (
    GroupOffsets,
    Lacked,
    PartitionPair,
    PartitionPairs,
    not_begun_of,
)
from connectors.group_translation.translating.proof import Behind
from connectors.group_translation.translating.strategies import Strategy
from connectors.ports import Cluster

MOST = 200_000
"""Offsets that are kept at most, of some 150 bytes each. Groups beyond that are not ready while the source is away."""
_NOT_COMMITTED = Verdict.pending(Reason.NOT_LOOKED_AT_YET)
_NOT_READ = KafkaFailure(KafkaFault.OTHER, "it is not asked what the groups have committed on the target")


class LastCommits:
    """Committed offsets by group. No verdict needs them to be right: a restart loses them until the source answers."""

    def __init__(self) -> None:
        self._groups: dict[str, Mapping[PartitionPair, Committed]] = {}
        self._count = 0

    def keep(self, group: str, offsets: Mapping[PartitionPair, Committed]) -> None:
        self.forget(group)
        if offsets and self._count + len(offsets) <= MOST:
            self._groups[group] = offsets
            self._count += len(offsets)

    def forget(self, group: str) -> None:
        self._count -= len(self._groups.pop(group, ()))

    def get(self, groups: Sequence[str]) -> dict[str, Mapping[PartitionPair, Committed]]:
        """Returns the offsets of those of the groups that it has."""
        return {group: self._groups[group] for group in groups if group in self._groups}


@dataclass(slots=True)
class RoundOutcome:
    """The result of a round. `failures`: groups that could not be read, and why."""

    plans: dict[str, GroupPlan] = field(default_factory=dict)
    failures: dict[str, Reason] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    lookups: int = 0
    writes: int = 0
    checkpoints: int = 0


class GroupRounds:
    """The rounds of one connector over the two clusters, and what it remembers between them."""

    def __init__(
        self,
        options: GroupOptions,
        source: Cluster,
        target: Cluster,
        strategy: Strategy,
        *,
        reverse: bool = False,
        reverse_flow: ReverseFlow | None = None,
    ) -> None:
        """`reverse`: see PartitionPairs. `reverse_flow`: the flow whose groups come back by this one."""
        self._options, self._source, self._target = options, source, target
        self._verdicts = GroupVerdicts(options, source, target, strategy)
        self._left_out = NotCopiedTopics(options, self._verdicts.has_runs)
        self._pairs = PartitionPairs(options, reverse=reverse, was_copied=self._left_out.was_copied)
        self.others = OtherSources(options, target)
        """What flows of other sources say, whose copies share partitions with those of this one."""
        self._commits, self._reverse_flow = Commits(options, target, self.others), reverse_flow
        self.furthest: FurthestOffsets | None = None
        """Where offsets are noted before they are committed."""
        self._commits.told_before = lambda group: (
            {} if self.furthest is None else self.furthest.own_commits(group)
        )
        self._last = LastCommits()
        """Where groups were when the source last answered."""
        self._before = LastCommits()
        """The same, with offsets that the source hides by now."""
        self._states: Mapping[str, GroupListing] | None = None
        self.source_failure: KafkaFailure | None = None
        """Set for a round without the source, which did not answer: groups then are where they were seen last."""
        self._source_ends: dict[TopicPartition, int] = {}
        self._target_ends: dict[TopicPartition, int] = {}
        self._behind: dict[TopicPartition, Behind] = {}
        self._not_begun: dict[str, tuple[NotBegun, ...]] = {}

    def note_furthest(self, store: StoredState) -> FurthestOffsets:
        """Notes in `store` the furthest offsets of each group before they are committed, from now on."""
        self.furthest = FurthestOffsets(self._options, self._target, store)
        return self.furthest

    def take_over(self, written: Callable[[str], Mapping[TopicPartition, OwnCommit] | None]) -> None:
        """Has what other instances have committed for a group known from now on."""
        self._commits.written_before = written

    @property
    def remembered(self) -> int:
        """Partitions that it knows anything of, and offsets that it has written."""
        return len(self._pairs) + self._verdicts.remembered + self._commits.remembered

    @property
    def unfinished(self) -> bool:
        """Whether some verdicts get closer in the next round, by more of the target than this one has read."""
        return self._verdicts.unfinished

    @property
    def behind(self) -> Mapping[TopicPartition, Behind]:
        """How far the copies of this round's partitions are behind the source."""
        return self._behind

    def source_end(self, tp: TopicPartition) -> int | None:
        """Returns the end of a source partition as this round has seen it."""
        return self._source_ends.get(tp)

    def target_end(self, tp: TopicPartition) -> int | None:
        """Returns the end of a target partition as this round has seen it."""
        return self._target_ends.get(tp)

    def end(self, *, whole: bool = True) -> None:
        """Ends a round: drops what it read. `whole`: it did not break off."""
        self._pairs.end_round(whole=whole)
        self._verdicts.end_round(whole=whole)
        self._source_ends, self._target_ends, self._behind, self._not_begun = {}, {}, {}, {}
        self._states, self.source_failure = None, None

    def forget_written(self, group: str) -> None:
        """Drops what was committed for a group that another instance has; where it was on the source still counts when
        its task comes back while the source is away."""
        self._commits.forget(group)

    def forget_group(self, group: str) -> None:
        self._commits.forget(group)
        self._left_out.forget(group)
        self._last.forget(group)
        self._before.forget(group)

    def recall(
        self,
        group: str,
        committed: Mapping[TopicPartition, Committed],
        written: Mapping[TopicPartition, OwnCommit],
        not_begun: Sequence[NotBegun] = (),
    ) -> None:
        """Takes over where the group was committed on the source, what was written for that, and what the target lacked
        of partitions that it has yet to begin, before this instance began."""
        offsets = self._pairs.paired(committed)
        for topic, partition, records, target_start in not_begun:
            place = TopicPartition(topic, partition)
            for pair in self._pairs.paired({place: Committed(0)}):
                self._verdicts.recall_lacked(pair, Lacked(records, target_start))
        self._last.keep(group, offsets)
        self._before.keep(group, offsets)
        self._commits.recall(group, written)

    async def run(self, groups: Sequence[str]) -> RoundOutcome:
        """Runs a portion of a round: some of the groups. Raises ClusterAway."""
        outcome = RoundOutcome()
        translated = await self.translated(groups, outcome)
        await self.write(translated, outcome)
        return outcome

    async def translated(self, groups: Sequence[str], outcome: RoundOutcome) -> dict[str, list[Translated]]:
        """Returns what the groups have committed, with a verdict on each; groups without any of it are left out, as
        stock does. Raises ClusterAway."""
        committed: GroupOffsets
        if self.source_failure is None:
            committed = await self._committed(groups, outcome)
            if self._reverse_flow is not None:
                # Behind the offsets: what the reverse flow commits it has noted before.
                await self._reverse_flow.follow()
        else:
            committed = self._last.get(groups)
        verdicts = await self._verdicts.translate(committed, self.source_failure)
        outcome.lookups += verdicts.lookups
        outcome.errors += verdicts.errors
        self._source_ends |= verdicts.source_ends
        self._target_ends |= verdicts.target_ends
        self._behind |= verdicts.behind
        self._not_begun |= not_begun_of(committed, verdicts.lacked)
        behind = None if self.source_failure is not None else verdicts.behind
        translated = {
            group: kept
            for group, rows in _translated(committed, verdicts).items()
            if (kept := self._left_out.guarded(group, rows, behind))
        }
        for place in self._left_out.gone & self._behind.keys():
            del self._behind[place]
        if self._reverse_flow is not None:
            translated = {
                group: self._reverse_flow.guarded(group, rows, self.source_end)
                for group, rows in translated.items()
            }
        await self.others.look()
        return {
            group: [self.others.together(group, self.others.shared(row)) for row in rows]
            for group, rows in translated.items()
        }

    async def write(
        self, translated: Mapping[str, list[Translated]], outcome: RoundOutcome, *, commit: bool = True
    ) -> None:
        """Plans from what stands on the target, and commits unless `commit` is false. Raises ClusterAway."""
        writes, wait = self._commits.writes, self._options.admin_timeout_ms
        if self._states is None:
            self._states = await ask(Side.TARGET, self._target.list_groups(), wait)
        right = "DESCRIBE" if self._options.dry_run else "READ"
        offsets = await ask(Side.TARGET, self._target.committed(list(translated), right=right), wait)
        await self.others.follow()  # behind the offsets: what another flow commits it has told before
        if commit and self.furthest is not None:
            together = {
                group: self._commits.together(
                    group, rows, {} if isinstance(committed, KafkaFailure) else committed, self._target_ends
                )
                for group, rows in translated.items()
                for committed in (offsets[group],)
            }
            await self.furthest.keep(together, offsets)
        # A coordinator that has just started lists no groups until it has loaded them: one with offsets exists, and may
        # have members.
        unlisted = [
            group
            for group, committed in offsets.items()
            if group not in self._states and committed and not isinstance(committed, KafkaFailure)
        ]
        states = await ask(Side.TARGET, self._target.group_states(unlisted), wait) if unlisted else {}
        targets: dict[str, TargetGroup] = {}
        for group, rows in translated.items():
            committed = offsets[group]
            if isinstance(committed, KafkaFailure):
                self._failed(outcome, group, Side.TARGET, committed)
                continue
            absent = GroupListing(group, states.get(group, GroupState.NOT_FOUND), "classic")
            listing = self._states.get(group, absent)
            targets[group] = TargetGroup(listing.state, listing.type, committed, self._target_ends)
            outcome.plans[group] = self._commits.plan(group, rows, targets[group])
        behind_markers = await self._behind_markers(translated, outcome.plans)
        for group, rows in behind_markers.items():
            outcome.plans[group] = self._commits.plan(group, rows, targets[group])
        translated = {**translated, **behind_markers}
        if commit:
            outcome.plans |= await self._commits.apply(outcome.plans, translated, self._target_ends)
            outcome.writes += self._commits.writes - writes
        self.name_left(outcome.plans)

    def name_left(self, plans: dict[str, GroupPlan]) -> None:
        """Adds to plans what groups read that no row is made of."""
        for group, plan in plans.items():
            not_copied, not_begun = self._left_out.not_copied(group), self._not_begun.get(group, ())
            if not_copied or not_begun:
                topics = {row.source.topic for row in plan.rows}
                kept = tuple(begun for begun in not_begun if begun.topic in topics)
                plans[group] = replace(plan, not_copied=not_copied, not_begun=kept)

    async def _behind_markers(
        self, translated: Mapping[str, list[Translated]], plans: Mapping[str, GroupPlan]
    ) -> dict[str, list[Translated]]:
        """Returns the groups that stand further on the target than their answers with nothing but markers between: a
        consumer that has read nothing there, or all of it, commits the offset behind the marker of the last copy. That
        is the same place, and becomes the answer."""
        ahead = {
            group: places for group, plan in plans.items() if (places := self._ahead(translated[group], plan))
        }
        if not ahead:
            return {}
        stretches = {stretch for places in ahead.values() for stretch in places.items()}
        nothing = await self._verdicts.holding_nothing(stretches)
        return {
            group: [
                row._replace(verdict=replace(row.verdict, offset=places[pair].end))
                if (pair := (row.source, row.target)) in places and (pair, places[pair]) in nothing
                else row
                for row in translated[group]
            ]
            for group, places in ahead.items()
        }

    def _ahead(self, rows: Sequence[Translated], plan: GroupPlan) -> dict[PartitionPair, LogBounds]:
        """Returns the stretches of the target's logs between the answers and where the group stands beyond them."""
        answers = {(row.source, row.target): row.verdict.offset for row in rows if row.alone is None}
        return {
            (row.source, row.target): LogBounds(answer, row.standing)
            for row in plan.rows
            if row.verdict.reason is Reason.TARGET_AHEAD
            and (answer := answers.get((row.source, row.target))) is not None
            and row.standing is not None
            and row.standing <= self._target_ends.get(row.target, 0)
        }

    async def tell(self, translated: Mapping[str, Sequence[Translated]]) -> None:
        """Tells flows of other sources what this one translates, where it commits nothing itself."""
        shared = {
            group: [row._replace(verdict=_NOT_COMMITTED) for row in rows]
            for group, rows in translated.items()
            if any(row.alone is not None for row in rows)
        }
        if shared and self.furthest is not None:
            await self.furthest.keep(shared, dict.fromkeys(shared, _NOT_READ))

    async def _committed(
        self, groups: Sequence[str], outcome: RoundOutcome
    ) -> dict[str, dict[PartitionPair, Committed]]:
        """Returns what the groups have committed on the source, of partitions that are synced."""
        answers = await ask(Side.SOURCE, self._source.committed(groups), self._options.admin_timeout_ms)
        committed: dict[str, dict[PartitionPair, Committed]] = {}
        for group, offsets in answers.items():
            if isinstance(offsets, KafkaFailure):
                self._failed(outcome, group, Side.SOURCE, offsets)
                if offsets.fault is KafkaFault.NOT_AUTHORIZED:
                    self._last.forget(group)  # the source does not tell any more where it is
                continue
            committed[group] = self._pairs.paired(offsets)
            if len(committed[group]) < len(offsets):
                self._left_out.note(group, offsets, [source for source, _ in committed[group]])
        hidden = await self._hidden(committed)
        for group, paired in committed.items():
            if group in hidden:
                self._last.forget(group)
            else:
                self._last.keep(group, paired)
            paired |= hidden.get(group, {})
            self._before.keep(group, paired)
        return {group: offsets for group, offsets in committed.items() if offsets}

    async def _hidden(self, committed: GroupOffsets) -> dict[str, dict[PartitionPair, Committed]]:
        """Returns the last offsets of topics that we may not describe any more: a broker leaves them out of its answer,
        as if there were none."""
        gone = {
            group: {pair: before[pair] for pair in before.keys() - committed[group].keys()}
            for group, before in self._before.get(list(committed)).items()
        }
        topics = sorted({source.topic for offsets in gone.values() for source, _ in offsets})
        if not topics:
            return {}
        answers = await ask(Side.SOURCE, self._source.topics(topics), self._options.admin_timeout_ms)
        denied = {
            topic
            for topic, answer in answers.items()
            if isinstance(answer, KafkaFailure) and answer.fault is KafkaFault.NOT_AUTHORIZED
        }
        hidden = {
            group: {pair: at for pair, at in offsets.items() if pair[0].topic in denied}
            for group, offsets in gone.items()
        }
        return {group: offsets for group, offsets in hidden.items() if offsets}

    def _failed(self, outcome: RoundOutcome, group: str, side: Side, failure: KafkaFailure) -> None:
        outcome.failures[group] = reason_of(side, failure)
        outcome.errors.append(str(failure))


def _translated(committed: GroupOffsets, verdicts: Verdicts) -> dict[str, list[Translated]]:
    return {
        group: [
            Translated(*pair, position, verdicts.by_offset[pair, position.offset])
            for pair, position in positions.items()
        ]
        for group, positions in committed.items()
    }
