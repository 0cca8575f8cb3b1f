"""One round: read what groups have committed on the source, translate, plan, commit on the target.

Reads come first and touch nothing; then the plans (pure, bridge.translation.plan); then the commits, with the state of
each group asked again right before. Trouble with one group, topic or partition stays with it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from bridge.errors import KafkaFailure, KafkaFault
from bridge.translation.bracketing import bracket
from bridge.translation.model import (
    Bounds,
    Committed,
    GroupListing,
    GroupState,
    Judgement,
    Reason,
    Side,
    TopicInfo,
    TopicPartition,
    Verdict,
)
from bridge.translation.naming import is_cycle
from bridge.translation.plan import GroupPlan, TargetGroup, Translated, Written, plan_group
from bridge.translation.stretch import LogBounds
from bridge.translation.timestamps import by_timestamp
from connectors.group_offset.options import GroupOffsetOptions, Rewind
from connectors.group_offset.translate import ClusterAway, Job, reason_of, translate_all
from connectors.group_offset.verdicts import Identity, Verdicts
from connectors.ports import Cluster

log = logging.getLogger(__name__)

_APPLY_AT_ONCE = 200
"""Groups whose state is asked together before their commits: few enough that the answer is fresh."""
_COMMITS_AT_ONCE = 10
"""Commits under way at a time. More make a round hardly shorter, and the coordinators busy all at once: what else
runs beside them, probes and polls not least, would wait for a processor."""

T = TypeVar("T")

Pair = tuple[TopicPartition, TopicPartition]
Place = tuple[Pair, int]


@dataclass(slots=True)
class Outcome:
    """What a round came to. `troubles`: groups that could not be looked at, and why."""

    plans: dict[str, GroupPlan] = field(default_factory=dict)
    troubles: dict[str, Reason] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    lookups: int = 0
    writes: int = 0


class Rounds:
    """The rounds of one connector, and what it remembers between them."""

    def __init__(self, options: GroupOffsetOptions, source: Cluster, target: Cluster) -> None:
        self._options, self._source, self._target = options, source, target
        self._verdicts = Verdicts()
        self._written: dict[str, dict[TopicPartition, Written]] = {}
        self._pairs: dict[TopicPartition, Pair] = {}
        self._seen: dict[Pair, set[int]] = {}
        self._states: Mapping[str, GroupListing] | None = None

    def end(self) -> None:
        """Ends a round: lets go of what it read, and of what it remembered of offsets that no group is at any more."""
        self._verdicts.keep(self._seen)
        self._seen, self._states = {}, None
        self._source.forget_windows()
        self._target.forget_windows()

    async def ask(self, side: Side, work: Coroutine[Any, Any, T]) -> T:
        """What a cluster answers, within admin.timeout.ms: one that hangs must not stop the rounds for ever."""
        try:
            return await asyncio.wait_for(work, self._options.admin_timeout_ms / 1000)
        except TimeoutError:
            failure = KafkaFailure(KafkaFault.TIMEOUT, "no answer within admin.timeout.ms")
            raise ClusterAway(side, failure) from None
        except KafkaFailure as failed:
            raise ClusterAway(side, failed) from None

    def forget_group(self, group: str) -> None:
        self._written.pop(group, None)

    async def run(self, groups: Sequence[str]) -> Outcome:
        """A portion of a round: some of the groups. Raises ClusterAway."""
        outcome = Outcome()
        if self._states is None:
            self._states = await self.ask(Side.TARGET, self._target.list_groups())
        committed = await self._committed(groups, outcome)
        verdicts = await self._judged(committed, outcome)
        offsets = await self.ask(Side.TARGET, self._target.committed(list(committed)))
        for group, positions in committed.items():
            there = offsets[group]
            if isinstance(there, KafkaFailure):
                self._trouble(outcome, group, Side.TARGET, there)
                continue
            translated = [
                Translated(*pair, position, verdicts[pair, position.offset])
                for place, position in positions.items()
                if (pair := self._pair(place))
            ]
            listing = self._states.get(group, GroupListing(group, GroupState.NOT_FOUND, "classic"))
            target = TargetGroup(listing.state, listing.type, there)
            outcome.plans[group] = self._plan(group, translated, target)
        await self._apply(outcome)
        return outcome

    # -- reading --------------------------------------------------------------------------------------------------

    async def _committed(
        self, groups: Sequence[str], outcome: Outcome
    ) -> dict[str, dict[TopicPartition, Committed]]:
        """Committed offsets of topics that the filter lets through; groups without any are left out, as stock does."""
        found = {}
        chosen: dict[str, bool] = {}
        for group, offsets in (await self.ask(Side.SOURCE, self._source.committed(groups))).items():
            if isinstance(offsets, KafkaFailure):
                self._trouble(outcome, group, Side.SOURCE, offsets)
                continue
            for place in offsets:
                if place.topic not in chosen:
                    chosen[place.topic] = self._chosen(place.topic)
            kept = {place: position for place, position in offsets.items() if chosen[place.topic]}
            if kept:
                found[group] = kept
        return found

    def _chosen(self, topic: str) -> bool:
        options = self._options
        return (
            options.topic_filter.should_replicate_topic(topic)
            and not options.policy.is_internal_topic(topic)
            and not is_cycle(options.policy, topic, options.target_alias)
        )

    def _pair(self, place: TopicPartition) -> Pair:
        """The partition and its remote one; the same objects each time, for there are many groups to a partition."""
        pair = self._pairs.get(place)
        if pair is None:
            topic = self._options.policy.format_remote_topic(self._options.source_alias, place.topic)
            pair = self._pairs[place] = (place, TopicPartition(topic, place.partition))
        return pair

    # -- judging --------------------------------------------------------------------------------------------------

    async def _judged(
        self, committed: Mapping[str, Mapping[TopicPartition, Committed]], outcome: Outcome
    ) -> dict[Place, Verdict]:
        """A verdict for every offset that some group is committed at."""
        offsets: dict[Pair, set[int]] = {}
        for positions in committed.values():
            for place, position in positions.items():
                offsets.setdefault(self._pair(place), set()).add(position.offset)
        found: dict[Place, Verdict] = {}
        jobs: dict[Place, Job] = {}
        ends: dict[Pair, int] = {}
        identities = await self._identities(list(offsets), found, offsets)
        for pair, (identity, bounds, late) in identities.items():
            ends[pair] = bounds[1].end
            for offset in offsets[pair]:
                known = self._verdicts.recall(*pair, identity, offset, bounds)
                if known is not None:
                    found[pair, offset] = known
                elif late and not self._options.verify:
                    found[pair, offset] = Verdict.pending(Reason.TARGET_TIMESTAMP_TYPE)
                else:
                    jobs[pair, offset] = self._job(pair, identity, offset, bounds)
        outcome.lookups += len(jobs)
        judged = await translate_all(
            jobs, self._source, self._target, source_committed_only=self._options.source_committed_only
        )
        for (pair, offset), verdict in judged.items():
            identity, _, late = identities[pair]
            if late and verdict.reason is Reason.COPY_NOT_FOUND:
                verdict = replace(verdict, reason=Reason.TARGET_TIMESTAMP_TYPE)
            if verdict.judgement is Judgement.PENDING:
                log.debug("%s-%d offset %d is not synced: %s", *pair[0], offset, verdict.reason)
            found[pair, offset] = verdict
            self._verdicts.remember(*pair, identity, offset, verdict, ends[pair])
        for pair, some in offsets.items():
            self._seen.setdefault(pair, set()).update(some)
        return found

    def _job(self, pair: Pair, identity: Identity, offset: int, bounds: tuple[Bounds, Bounds]) -> Job:
        source, target = (LogBounds(each.start, each.end) for each in bounds)
        if self._options.verify:
            memory = self._verdicts.memory(*pair, identity)
            return Job(*pair, offset, bracket(offset, source, target, memory))
        return Job(*pair, offset, by_timestamp(offset, source, target))

    async def _identities(
        self, pairs: Sequence[Pair], found: dict[Place, Verdict], offsets: Mapping[Pair, set[int]]
    ) -> dict[Pair, tuple[Identity, tuple[Bounds, Bounds], bool]]:
        """Ids, epochs and bounds of both sides, and whether the target overwrites timestamps; a pair that lacks one of
        them gets its reason as verdict."""

        def reject(pair: Pair, reason: Reason, said: str) -> None:
            found.update({(pair, offset): Verdict.pending(reason, said=said) for offset in offsets[pair]})

        source_topics, target_topics = await asyncio.gather(
            self.ask(Side.SOURCE, self._source.topics(sorted({pair[0].topic for pair in pairs}))),
            self.ask(Side.TARGET, self._target.topics(sorted({pair[1].topic for pair in pairs}))),
        )
        there: dict[Pair, tuple[TopicInfo, TopicInfo]] = {}
        for pair in pairs:
            infos = []
            for side, place, topics in zip(Side, pair, (source_topics, target_topics), strict=True):
                info = topics[place.topic]
                if isinstance(info, KafkaFailure):
                    reject(pair, reason_of(side, info), str(info))
                    break  # what the source lacks is the cause of what the target lacks
                if place.partition >= info.partitions:
                    missing = side is Side.TARGET
                    reason = Reason.TARGET_PARTITION_MISSING if missing else Reason.SOURCE_TOPIC_MISSING
                    reject(pair, reason, f"{place.topic} has {info.partitions} partitions")
                    break
                infos.append(info)
            if len(infos) == 2:
                there[pair] = (infos[0], infos[1])
        committed_only = self._options.source_committed_only
        source_bounds, target_bounds = await asyncio.gather(
            self.ask(Side.SOURCE, self._source.bounds([p[0] for p in there], committed_only=committed_only)),
            self.ask(Side.TARGET, self._target.bounds([p[1] for p in there], committed_only=True)),
        )
        ready: dict[Pair, tuple[Identity, tuple[Bounds, Bounds], bool]] = {}
        for pair, (source, target) in there.items():
            left, right = source_bounds[pair[0]], target_bounds[pair[1]]
            if isinstance(left, KafkaFailure):
                reject(pair, reason_of(Side.SOURCE, left), str(left))
            elif isinstance(right, KafkaFailure):
                reject(pair, reason_of(Side.TARGET, right), str(right))
            else:
                identity = Identity(source.topic_id, left.leader_epoch, target.topic_id, right.leader_epoch)
                ready[pair] = (identity, (left, right), target.log_append_time)
        return ready

    # -- writing --------------------------------------------------------------------------------------------------

    def _plan(self, group: str, translated: list[Translated], target: TargetGroup) -> GroupPlan:
        rewind = self._options.rewind is Rewind.EMPTY_GROUPS
        written = self._written.get(group, {})
        return plan_group(group, translated, target, written, rewind=rewind, dry_run=self._options.dry_run)

    async def _apply(self, outcome: Outcome) -> None:
        due = [group for group, plan in outcome.plans.items() if plan.writes]
        for at in range(0, len(due), _APPLY_AT_ONCE):
            part = due[at : at + _APPLY_AT_ONCE]
            states = await self.ask(Side.TARGET, self._target.group_states(part))
            for few in range(0, len(part), _COMMITS_AT_ONCE):
                some = part[few : few + _COMMITS_AT_ONCE]
                await asyncio.gather(*(self._commit(group, states[group], outcome) for group in some))

    async def _commit(self, group: str, state: GroupState, outcome: Outcome) -> None:
        plan = outcome.plans[group]
        if state not in (GroupState.EMPTY, GroupState.DEAD, GroupState.NOT_FOUND):
            translated = [Translated(row.source, row.target, row.committed, row.verdict) for row in plan.rows]
            offsets = {r.target: Committed(r.standing) for r in plan.rows if r.standing is not None}
            outcome.plans[group] = self._plan(group, translated, TargetGroup(state, "classic", offsets))
            return
        results = await self._target.alter(group, plan.writes)
        rows = []
        for row in plan.rows:
            failed = results.get(row.target) if row.write else None
            if row.write is not None and failed is None:
                outcome.writes += 1
                self._written.setdefault(group, {})[row.target] = Written(row.committed.offset, row.verdict)
                row = row._replace(standing=row.write.offset)
            elif failed is not None:
                active = failed.fault is KafkaFault.GROUP_ACTIVE
                reason = Reason.GROUP_ACTIVE_ON_TARGET if active else Reason.COMMIT_FAILED
                if failed.fault is KafkaFault.NOT_AUTHORIZED:
                    reason = Reason.TARGET_NOT_AUTHORIZED
                detail = row.verdict.detail | {"said": str(failed)}
                verdict = replace(row.verdict, judgement=Judgement.PENDING, reason=reason, detail=detail)
                row = row._replace(verdict=verdict)
            rows.append(row)
        outcome.plans[group] = replace(plan, rows=tuple(rows))

    def _trouble(self, outcome: Outcome, group: str, side: Side, failure: KafkaFailure) -> None:
        outcome.troubles[group] = reason_of(side, failure)
        outcome.errors.append(str(failure))
