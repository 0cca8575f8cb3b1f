"""One round: read what groups have committed on the source, translate, plan, commit on the target.

Reads come first and touch nothing; then the plans (pure, bridge.translation.plan); then the commits. Trouble with one
group, topic or partition stays with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bridge.errors import KafkaFailure, KafkaFault
from bridge.model.values import (
    Committed,
    GroupListing,
    GroupState,
    Reason,
    Side,
    TopicPartition,
)
from bridge.translation.plan import GroupPlan, TargetGroup, Translated, Written
from connectors.cluster_away import ask, reason_of
from connectors.group_translation.backlog import Behind
from connectors.group_translation.checks import GroupOptions
from connectors.group_translation.commits import Commits
from connectors.group_translation.furthest import FurthestOffsets
from connectors.group_translation.last_commits import LastCommits
from connectors.group_translation.reverse_flow import Opposite
from connectors.group_translation.strategies import Way
from connectors.group_translation.verdicts import Groups, Judge
from connectors.ports import Cluster


@dataclass(slots=True)
class Outcome:
    """What a round came to. `troubles`: groups that could not be looked at, and why."""

    plans: dict[str, GroupPlan] = field(default_factory=dict)
    troubles: dict[str, Reason] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    lookups: int = 0
    writes: int = 0
    checkpoints: int = 0


class Rounds:
    """The rounds of one connector over the two clusters, and what it remembers between them."""

    def __init__(
        self,
        options: GroupOptions,
        source: Cluster,
        target: Cluster,
        way: Way,
        *,
        reverse: bool = False,
        opposite: Opposite | None = None,
    ) -> None:
        """`reverse`: see Judge. `opposite`: the flow whose groups come back by this one."""
        self._options, self._source, self._target = options, source, target
        self._judge = Judge(options, source, target, way, reverse=reverse)
        self._commits, self._opposite = Commits(options, target), opposite
        self.furthest: FurthestOffsets | None = None
        """Where what is committed is kept before."""
        self._last = LastCommits()
        """Where groups were when the source was last asked, and answered."""
        self._known = LastCommits()
        """The same with what the source hides by now."""
        self._states: Mapping[str, GroupListing] | None = None
        self.source_away: KafkaFailure | None = None
        """Set for a round without the source, which did not answer: groups then are where they were seen last."""

    @property
    def remembered(self) -> int:
        """Partitions that it knows anything of, and offsets that it has written."""
        return self._judge.remembered + self._commits.remembered

    @property
    def go_on_alone(self) -> bool:
        """Whether a round without the source can say anything."""
        return self._judge.goes_on_alone

    @property
    def unfinished(self) -> bool:
        """Whether some verdicts get closer in the next round, by more of the target than this one has read."""
        return self._judge.unfinished

    def end(self, *, whole: bool = True) -> None:
        """Ends a round: lets go of what it read. `whole`: it did not break off."""
        self._judge.end(whole=whole)
        self._states, self.source_away = None, None

    def forget_group(self, group: str) -> None:
        self._commits.forget(group)
        self._last.forget(group)
        self._known.forget(group)

    def recall(
        self,
        group: str,
        committed: Mapping[TopicPartition, Committed],
        written: Mapping[TopicPartition, Written],
    ) -> None:
        """Where the group was committed on the source, and what was written for that, before this instance began."""
        known = {place: at for place, at in committed.items() if self._judge.pair(place)}
        self._last.keep(group, known)
        self._known.keep(group, known)
        self._commits.recall(group, written)

    async def run(self, groups: Sequence[str]) -> Outcome:
        """A portion of a round: some of the groups. Raises ClusterAway."""
        outcome = Outcome()
        translated = await self.translated(groups, outcome)
        await self.write(translated, outcome)
        return outcome

    async def translated(self, groups: Sequence[str], outcome: Outcome) -> dict[str, list[Translated]]:
        """What the groups have committed, with a verdict on each; groups without any of it are left out, as stock
        does. Raises ClusterAway."""
        lookups = self._judge.lookups
        committed: Groups
        if self.source_away is not None:
            committed = self._last.of(groups)
            verdicts = await self._judge.judged_alone(committed, self.source_away)
        else:
            committed = await self._committed(groups, outcome)
            verdicts = await self._judge.judged(committed)
        outcome.lookups += self._judge.lookups - lookups
        found = {
            group: [
                Translated(*pair, position, verdicts[pair, position.offset])
                for place, position in positions.items()
                if (pair := self._judge.pair(place))
            ]
            for group, positions in committed.items()
        }
        if self._opposite is None:
            return found
        return {group: self._opposite.guarded(group, rows, self.source_end) for group, rows in found.items()}

    @property
    def behind(self) -> Mapping[TopicPartition, Behind]:
        """How far the copies of this round's partitions are behind the source."""
        return self._judge.behind

    def source_end(self, place: TopicPartition) -> int | None:
        """The end of a source partition as this round has seen it."""
        return self._judge.source_ends.get(place)

    def target_end(self, place: TopicPartition) -> int | None:
        """The end of a target partition as this round has seen it."""
        return self._judge.target_ends.get(place)

    async def write(
        self, translated: Mapping[str, list[Translated]], outcome: Outcome, *, commit: bool = True
    ) -> None:
        """Plans from what stands on the target, and commits (`commit`). Raises ClusterAway."""
        writes, wait = self._commits.writes, self._options.admin_timeout_ms
        if self._states is None:
            self._states = await ask(Side.TARGET, self._target.list_groups(), wait)
        offsets = await ask(Side.TARGET, self._target.committed(list(translated), right="READ"), wait)
        if commit and self.furthest is not None:
            await self.furthest.keep(translated, offsets)
        for group, rows in translated.items():
            there = offsets[group]
            if isinstance(there, KafkaFailure):
                self._trouble(outcome, group, Side.TARGET, there)
                continue
            listing = self._states.get(group, GroupListing(group, GroupState.NOT_FOUND, "classic"))
            target = TargetGroup(listing.state, listing.type, there)
            outcome.plans[group] = self._commits.plan(group, rows, target)
        if commit:
            outcome.plans |= await self._commits.apply(outcome.plans, translated)
            outcome.writes += self._commits.writes - writes

    async def _committed(
        self, groups: Sequence[str], outcome: Outcome
    ) -> dict[str, dict[TopicPartition, Committed]]:
        found: dict[str, dict[TopicPartition, Committed]] = {}
        asked = self._source.committed(groups)
        for group, offsets in (await ask(Side.SOURCE, asked, self._options.admin_timeout_ms)).items():
            if isinstance(offsets, KafkaFailure):
                self._trouble(outcome, group, Side.SOURCE, offsets)
                if offsets.fault is KafkaFault.NOT_AUTHORIZED:
                    self._last.forget(group)  # where it is now nobody tells us
                continue
            found[group] = {pair[0]: at for place, at in offsets.items() if (pair := self._judge.pair(place))}
        hidden = await self._hidden(found)
        for group, kept in found.items():
            unseen = hidden.get(group, {})
            if unseen:
                self._last.forget(group)
            elif self._judge.goes_on_alone:
                self._last.keep(group, kept)
            kept |= unseen
            self._known.keep(group, kept)
        return {group: kept for group, kept in found.items() if kept}

    async def _hidden(
        self, found: Mapping[str, Mapping[TopicPartition, Committed]]
    ) -> dict[str, dict[TopicPartition, Committed]]:
        """Offsets of topics that we may not describe any more: a broker leaves them out, as if there were none."""
        gone: dict[str, dict[TopicPartition, Committed]] = {}
        for group, known in self._known.of(list(found)).items():
            for place in known.keys() - found[group].keys():
                gone.setdefault(group, {})[place] = known[place]
        topics = sorted({place.topic for places in gone.values() for place in places})
        if not topics:
            return {}
        told = await ask(Side.SOURCE, self._source.topics(topics), self._options.admin_timeout_ms)
        denied = {
            topic
            for topic, answer in told.items()
            if isinstance(answer, KafkaFailure) and answer.fault is KafkaFault.NOT_AUTHORIZED
        }
        hidden = {
            group: {place: at for place, at in places.items() if place.topic in denied}
            for group, places in gone.items()
        }
        return {group: places for group, places in hidden.items() if places}

    def _trouble(self, outcome: Outcome, group: str, side: Side, failure: KafkaFailure) -> None:
        outcome.troubles[group] = reason_of(side, failure)
        outcome.errors.append(str(failure))
