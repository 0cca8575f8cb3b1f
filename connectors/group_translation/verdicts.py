"""Verdicts on committed offsets: where each stands on the other cluster, and what is remembered of that."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from bridge.errors import KafkaFailure
from bridge.mm2.replication_policy import counterpart
from bridge.model.values import (
    Bounds,
    Committed,
    CopyId,
    Judgement,
    Reason,
    Side,
    TopicInfo,
    TopicPartition,
    Verdict,
)
from bridge.translation.records.log_window import LogBounds, Steps
from bridge.translation.runs.run_evidence import stronger
from connectors.cluster_away import ask, reason_of
from connectors.group_translation.backlog import Behind, copied_to
from connectors.group_translation.checks import GroupOptions
from connectors.group_translation.driver import Job, translate_all
from connectors.group_translation.strategies import ByRuns, Question, Way
from connectors.group_translation.verdict_cache import Identity, Verdicts
from connectors.ports import Cluster

log = logging.getLogger(__name__)

Pair = tuple[TopicPartition, TopicPartition]
Place = tuple[Pair, int]
Groups = Mapping[str, Mapping[TopicPartition, Committed]]


class _Looked(NamedTuple):
    """A pair of partitions that both clusters have told about."""

    identity: Identity
    bounds: tuple[Bounds, Bounds]
    late: bool
    """The target overwrites timestamps."""


class Judge:
    """The verdicts of one connector, and what it remembers between rounds."""

    def __init__(
        self,
        options: GroupOptions,
        source: Cluster,
        target: Cluster,
        way: Way,
        *,
        reverse: bool = False,
    ) -> None:
        """`reverse`: copies of the target's own topics are translated back to those (failback). A way by runs leads on
        where the source can't be asked."""
        self._options, self._source, self._target, self._way = options, source, target, way
        self._reverse = reverse
        self._by_runs = way if isinstance(way, ByRuns) else None
        self._verdicts = Verdicts()
        self._pairs: dict[TopicPartition, Pair | None] = {}
        self._older: dict[TopicPartition, Pair | None] = {}
        """Those that were asked for in the last whole round."""
        self._seen: dict[Pair, set[int]] = {}
        self.lookups = 0
        self.behind: dict[TopicPartition, Behind] = {}
        """Ends of the source's logs as this round has seen them, and up to where they are copied."""
        self.source_ends: dict[TopicPartition, int] = {}
        self.target_ends: dict[TopicPartition, int] = {}
        """Ends of logs as this round has seen them."""

    @property
    def remembered(self) -> int:
        """Pairs of partitions that it knows anything of."""
        return len(self._pairs) + len(self._older) + len(self._verdicts)

    @property
    def goes_on_alone(self) -> bool:
        """Whether something can be said while the source is away."""
        return self._by_runs is not None and self._by_runs.known

    @property
    def unfinished(self) -> bool:
        """Whether some verdicts get closer in the next round, by more of the target than this one has read."""
        return self._by_runs is not None and self._by_runs.unfinished

    def end(self, *, whole: bool = True) -> None:
        """Ends a round: lets go of what it read, and of what it remembered of offsets that no group is at any more.
        `whole`: it did not break off."""
        self._verdicts.keep(self._seen, whole=whole)
        self._older, self._pairs = self._pairs if whole else self._older | self._pairs, {}
        self._seen, self.behind, self.source_ends, self.target_ends = {}, {}, {}, {}
        if self._by_runs is not None:
            self._by_runs.end_round(whole=whole)
        self._source.forget_windows()
        self._target.forget_windows()

    def pair(self, place: TopicPartition) -> Pair | None:
        """The partition and its counterpart on the target, None where it is not to be synced; the same objects each
        time, for there are many groups to a partition."""
        if place not in self._pairs:
            self._pairs[place] = self._older[place] if place in self._older else self._paired(place)
        return self._pairs[place]

    def _paired(self, place: TopicPartition) -> Pair | None:
        topic = self._counterpart(place.topic)
        return None if topic is None else (place, TopicPartition(topic, place.partition))

    def _counterpart(self, topic: str) -> str | None:
        options = self._options
        if options.policy.is_internal_topic(topic) or not options.topic_filter.should_replicate_topic(topic):
            return None
        aliases = options.source_alias, options.target_alias
        return counterpart(options.policy, topic, *aliases, reverse=self._reverse)

    async def judged(self, committed: Groups) -> dict[Place, Verdict]:
        """A verdict for every offset that some group is committed at; partitions without a counterpart are left out.
        Raises ClusterAway."""
        offsets = self._offsets(committed)
        found: dict[Place, Verdict] = {}
        jobs: dict[Place, Job] = {}
        looked = await self._look(list(offsets), found, offsets, jobs)
        for pair, (identity, (here, there), late) in looked.items():
            memory = self._verdicts.memory(*pair, identity)
            self.source_ends[pair[0]], self.target_ends[pair[1]] = here.end, there.end
            for offset in offsets[pair]:
                bounds = here, self._counted(pair, offset, there)
                source, target = (LogBounds(each.start, each.end) for each in bounds)
                asked = Question(pair[0], pair[1].topic, offset, source, target, late, identity)
                known = self._verdicts.recall(*pair, identity, offset, bounds)
                at_once = self._way.at_once(asked, known)
                if at_once is not None:
                    found[pair, offset] = at_once
                else:
                    jobs[pair, offset] = Job(*pair, offset, self._way.steps(asked, memory))
        self.lookups += len(jobs)
        judged = await self._translate(jobs)
        for (pair, offset), verdict in judged.items():
            if pair not in looked:
                found[pair, offset] = verdict
                continue
            identity, bounds, late = looked[pair]
            if late and verdict.reason is Reason.COPY_NOT_FOUND:
                verdict = replace(verdict, reason=Reason.TARGET_TIMESTAMP_TYPE)
            if verdict.judgement is Judgement.PENDING:
                log.debug("%s-%d offset %d is not synced: %s", *pair[0], offset, verdict.reason)
            found[pair, offset] = verdict
            self._verdicts.remember(*pair, identity, offset, verdict, bounds[1].end)
        for pair, some in offsets.items():
            self._seen.setdefault(pair, set()).update(some)
        for pair, (identity, bounds, _) in looked.items():
            last = None if self._by_runs is None else self._by_runs.last(CopyId(pair[0], pair[1].topic))
            memory = self._verdicts.memory(*pair, identity)
            self.behind[pair[0]] = bounds[0].end, copied_to(last, memory, identity, *bounds)
        return found

    def _counted(self, pair: Pair, offset: int, there: Bounds) -> Bounds:
        """The target's log without copies that were copied again since: they answer no offset of the newer copy."""
        copy = CopyId(pair[0], pair[1].topic)
        start = 0 if self._by_runs is None else self._by_runs.target_from(copy, offset)
        return there if start <= there.start else replace(there, start=min(start, there.end))

    async def judged_alone(self, committed: Groups, failure: KafkaFailure) -> dict[Place, Verdict]:
        """The same while the source as a whole does not answer, as `failure` says: by runs, and by what was exact and
        still is; else pending. Raises ClusterAway for the target."""
        offsets, wait = self._offsets(committed), self._options.admin_timeout_ms
        reason, said = reason_of(Side.SOURCE, failure), str(failure)
        found = {
            (pair, offset): Verdict.pending(reason, said=said)
            for pair, some in offsets.items()
            for offset in some
        }
        asked = self._target.topics(sorted({pair[1].topic for pair in offsets}))
        topics = await ask(Side.TARGET, asked, wait)
        ids: dict[Pair, str] = {}
        jobs: dict[Place, Job] = {}

        def gone(pair: Pair, why: KafkaFailure) -> None:
            lost = Verdict.pending(reason_of(Side.TARGET, why), said=str(why))
            found.update({(pair, offset): lost for offset in offsets[pair]})

        for pair in offsets:
            info = topics[pair[1].topic]
            if isinstance(info, KafkaFailure):
                gone(pair, info)
            elif pair[1].partition < info.partitions:
                ids[pair] = info.topic_id
        bounds = await ask(
            Side.TARGET, self._target.bounds([pair[1] for pair in ids], committed_only=True), wait
        )
        for pair, target_id in ids.items():
            there = bounds[pair[1]]
            if isinstance(there, KafkaFailure):
                gone(pair, there)
            else:
                jobs.update(self._alone(pair, offsets[pair], target_id, there, found))
        return found | await self._translate(jobs)

    async def _translate(self, jobs: Mapping[Place, Job]) -> dict[Place, Verdict]:
        committed_only = self._options.source_committed_only
        return await translate_all(jobs, self._source, self._target, source_committed_only=committed_only)

    def _offsets(self, committed: Groups) -> dict[Pair, set[int]]:
        offsets: dict[Pair, set[int]] = {}
        for positions in committed.values():
            for place, position in positions.items():
                if pair := self.pair(place):
                    offsets.setdefault(pair, set()).add(position.offset)
        return offsets

    async def _look(
        self,
        pairs: Sequence[Pair],
        found: dict[Place, Verdict],
        offsets: Mapping[Pair, set[int]],
        jobs: dict[Place, Job],
    ) -> dict[Pair, _Looked]:
        """Ids, epochs and bounds of both sides; a pair that lacks one of them gets its reason as verdict, or a job that
        does without the source."""

        def reject(pair: Pair, reason: Reason, said: str) -> None:
            found.update({(pair, offset): Verdict.pending(reason, said=said) for offset in offsets[pair]})

        wait = self._options.admin_timeout_ms
        source_topics, target_topics = await asyncio.gather(
            ask(Side.SOURCE, self._source.topics(sorted({pair[0].topic for pair in pairs})), wait),
            ask(Side.TARGET, self._target.topics(sorted({pair[1].topic for pair in pairs})), wait),
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
        left, right = [pair[0] for pair in there], [pair[1] for pair in there]
        source_bounds, target_bounds = await asyncio.gather(
            ask(Side.SOURCE, self._source.bounds(left, committed_only=committed_only), wait),
            ask(Side.TARGET, self._target.bounds(right, committed_only=True), wait),
        )
        looked: dict[Pair, _Looked] = {}
        for pair, (source, target) in there.items():
            here, beyond = source_bounds[pair[0]], target_bounds[pair[1]]
            if isinstance(here, KafkaFailure):
                reject(pair, reason_of(Side.SOURCE, here), str(here))
                if not isinstance(beyond, KafkaFailure):
                    jobs.update(self._alone(pair, offsets[pair], target.topic_id, beyond, found))
            elif isinstance(beyond, KafkaFailure):
                reject(pair, reason_of(Side.TARGET, beyond), str(beyond))
            else:
                identity = Identity(source.topic_id, here.leader_epoch, target.topic_id, beyond.leader_epoch)
                looked[pair] = _Looked(identity, (here, beyond), target.log_append_time)
        return looked

    def _alone(
        self,
        pair: Pair,
        offsets: set[int],
        target_id: str,
        there: Bounds,
        otherwise: Mapping[Place, Verdict],
    ) -> dict[Place, Job]:
        """Jobs for a partition whose source does not answer; where nothing is known of it the verdict is that of
        `otherwise`."""
        if self._by_runs is None:
            return {}
        self.target_ends[pair[1]] = there.end
        told = target_id, there
        return {
            (pair, at): Job(*pair, at, self._known(self._by_runs, pair, at, *told, otherwise[pair, at]))
            for at in offsets
        }

    def _known(
        self, by_runs: ByRuns, pair: Pair, offset: int, target_id: str, there: Bounds, otherwise: Verdict
    ) -> Steps[Verdict]:
        there = self._counted(pair, offset, there)
        bounds = LogBounds(there.start, there.end)
        found = yield from by_runs.without_source(CopyId(pair[0], pair[1].topic), offset, target_id, bounds)
        kept = self._verdicts.recall_apart(*pair, target_id, offset, there)
        if found is not None and found.offset is not None and kept is not None:
            found = stronger(found, kept)
        return found or kept or otherwise
