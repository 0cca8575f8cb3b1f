"""Makes reports for operators from plans that were carried out: one for each group, and the sums of a round."""

from __future__ import annotations

import time
import zlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from operator import attrgetter

from bridge.model.values import Evidence, Flag, Judgement, Reason, TopicPartition, Verdict
from bridge.protocol.messages import GroupReport, NotBegunPartition, NotCopiedTopic, PartitionReport
from bridge.translation.plan import GroupPlan, NotBegun, PartitionPlan
from connectors.base import Summary
from connectors.group_translation.round import RoundOutcome
from connectors.group_translation.translating.proof import deny_unproved

_FLAGS, _EVIDENCE = frozenset(Flag), frozenset(Evidence)
_ORDER = (Judgement.EXACT, Judgement.BOUNDED, Judgement.PENDING)


def report(
    plan: GroupPlan,
    *,
    connector: str,
    source: str,
    target: str,
    task: int,
    state: str,
    synced_at_ms: int | None,
    needs_all_topics: bool = False,
) -> GroupReport:
    """Returns the report on one group, its partitions by topic and number. Ready: every partition has a translated
    offset, and it is committed on the target; with `needs_all_topics` the group reads no topic that is not copied."""
    rows = [_row(row) for row in sorted(plan.rows, key=attrgetter("source"))]
    judgements = [row.verdict.judgement for row in plan.rows]
    lacks_topics = needs_all_topics and bool(plan.not_copied)
    ready = plan.reason is None and not lacks_topics and all(_stands(row) for row in plan.rows)
    reasons = [row.verdict.reason for row in plan.rows if row.verdict.reason]
    reasons += [Reason.TOPIC_NOT_COPIED] if lacks_topics else []
    if plan.rows and not lacks_topics and all(map(_at_home, plan.rows)):
        reasons = [Reason.AT_HOME]
    if ready and any(Flag.OTHER_SOURCE_OUTDATED in row.verdict.flags for row in plan.rows):
        reasons = [Reason.OTHER_SOURCE_OUTDATED]
    reason: Reason | None = plan.reason or (reasons[0] if reasons else None)
    bounds = [row.verdict.bound for row in plan.rows]
    known_bounds = [bound for bound in bounds if bound is not None]
    return GroupReport(
        group=plan.group,
        connector=connector,
        source=source,
        target=target,
        task=task,
        ready=ready,
        verdict=max(judgements, key=_ORDER.index, default=Judgement.PENDING).value,
        bound=sum(known_bounds) if known_bounds and len(known_bounds) == len(bounds) else None,
        target_state=state,
        synced_at_ms=synced_at_ms,
        reason=reason.value if reason else None,
        partitions=rows,
        not_copied=[NotCopiedTopic(topic=topic, key=key) for topic, key in plan.not_copied],
        not_begun=lacking(plan.not_begun),
    )


def lacking(not_begun: Iterable[NotBegun]) -> list[NotBegunPartition]:
    """Returns the partitions that a group has yet to begin and of which the target lacks records, or may."""
    return [
        NotBegunPartition(topic=begun.topic, partition=begun.partition, not_on_target=begun.not_on_target)
        for begun in not_begun
        if begun.not_on_target != 0
    ]


def proven(plan: GroupPlan, *, source_away: bool = False) -> GroupPlan:
    """Returns a plan that was carried out, with rows pending whose records are not known to be on the target, those of
    another source too: the offset is right, and committed, and a consumer would skip what is not there. `source_away`:
    what was known when the source answered last still counts, unless the target has lost something since."""
    rows = tuple(_proven(row, source_away=source_away) for row in plan.rows)
    return plan if rows == plan.rows else replace(plan, rows=rows)


def _proven(row: PartitionPlan, *, source_away: bool) -> PartitionPlan:
    verdict = row.verdict
    if verdict.judgement is not Judgement.PENDING and Flag.OTHER_SOURCE_NOT_READY in verdict.flags:
        reason = Reason.OTHER_SOURCE_NOT_READY
        return row._replace(verdict=replace(verdict, judgement=Judgement.PENDING, reason=reason))
    return row._replace(verdict=deny_unproved(verdict, source_away=source_away))


def with_last_verdicts(plan: GroupPlan, last: GroupReport, away: Reason) -> GroupPlan:
    """Returns a plan that was made without the source, with the last verdict of each row that stands as it did.

    Some rows can't be translated then (`away`): those of an empty partition, or of one that another mirror copies. Of
    others our runs say that the target lacks records that the source has not had for long: where its log began is not
    known after a restart. What the target has lost since moves the answer, or is below the start of its log.
    """
    partitions = {
        TopicPartition(partition.topic, partition.partition): partition for partition in last.partitions
    }
    rows = (_with_last_verdict(row, partitions.get(row.source), away) for row in plan.rows)
    return replace(plan, rows=tuple(rows))


def _with_last_verdict(row: PartitionPlan, last: PartitionReport | None, away: Reason) -> PartitionPlan:
    verdict = row.verdict
    if last is None or last.verdict == Judgement.PENDING.value or last.committed != row.committed.offset:
        return row
    if not _FLAGS.issuperset(last.flags):
        return row  # a later version has written it
    standing = standing_on_target(row)
    if standing is None or not last.target_offset == last.written == standing:
        return row
    if verdict.reason is away or (
        verdict.reason is Reason.RECORDS_NOT_ON_TARGET and verdict.offset == standing
    ):
        return row._replace(verdict=_verdict_of(last))
    return row


def standing_on_target(row: PartitionPlan) -> int | None:
    """Returns where a group stands on the target; None also where that is below the start of the log there, or beyond
    its end: records are gone."""
    start, end = map(row.verdict.detail.get, ("target_start", "target_end"))
    if row.standing is None or not isinstance(start, int) or not isinstance(end, int):
        return row.standing
    return row.standing if start <= row.standing <= end else None


def _verdict_of(partition: PartitionReport) -> Verdict:
    return Verdict(
        Judgement(partition.verdict),
        partition.target_offset,
        partition.bound,
        Evidence(partition.evidence) if partition.evidence in _EVIDENCE else None,
        flags=tuple(map(Flag, partition.flags)),
        detail=dict(partition.detail),
        not_on_target=0,
    )


def _stands(row: PartitionPlan) -> bool:
    return row.verdict.judgement is not Judgement.PENDING and row.standing == row.verdict.offset


def _at_home(row: PartitionPlan) -> bool:
    """Whether it is known that no consumer has moved the offset on the source, and the group has its own on the target.
    `said`: why that is not known."""
    verdict = row.verdict
    known = verdict.reason is Reason.MOVED_BY_MIRROR and "said" not in verdict.detail
    return known and row.standing is not None


def _row(row: PartitionPlan) -> PartitionReport:
    verdict = row.verdict
    return PartitionReport(
        topic=row.source.topic,
        partition=row.source.partition,
        target_topic=row.target.topic,
        committed=row.committed.offset,
        target_offset=verdict.offset,
        written=row.standing,
        verdict=verdict.judgement.value,
        evidence=verdict.evidence.value if verdict.evidence else None,
        bound=verdict.bound,
        reason=verdict.reason.value if verdict.reason else None,
        flags=[flag.value for flag in verdict.flags],
        detail=verdict.detail,
    )


def fingerprint(plan: GroupPlan) -> int:
    """Returns a hash that is equal for plans that read the same."""
    rows = (
        (
            row.source,
            row.committed.offset,
            row.standing,
            v.judgement,
            v.offset,
            v.bound,
            v.reason,
            v.flags,
            v.not_on_target,
        )
        for row in plan.rows
        for v in (row.verdict,)
    )
    return hash((plan.reason, plan.not_copied, plan.not_begun, *rows))


def pack(group_report: GroupReport) -> bytes:
    return zlib.compress(group_report.model_dump_json().encode(), 1)


def unpack(packed: bytes) -> GroupReport:
    return GroupReport.model_validate_json(zlib.decompress(packed))


@dataclass(slots=True)
class RoundTally:
    """Adds up the portions of a round."""

    seen: set[str] = field(default_factory=set)
    judgements: Counter[Judgement] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    errors: set[str] = field(default_factory=set)
    lookups: int = 0
    writes: int = 0
    checkpoints: int = 0

    def count(self, plan: GroupPlan) -> None:
        self.seen.add(plan.group)
        for row in plan.rows:
            self.judgements[row.verdict.judgement] += 1
            if row.verdict.reason:
                self.reasons[row.verdict.reason.value] += 1

    def add(self, outcome: RoundOutcome) -> None:
        self.errors.update(outcome.errors)
        self.lookups += outcome.lookups
        self.writes += outcome.writes
        self.checkpoints += outcome.checkpoints

    def summary(self, before: Summary, began_ms: int, seconds: float) -> Summary:
        """Returns the summary after a round that both clusters have answered."""
        return replace(
            self.added_to(before),
            as_of_ms=began_ms,
            away_since_ms={},
            failure=None,
            last_success_ms=int(time.time() * 1000),
            last_round_seconds=seconds,
            usual_round_seconds=min(seconds, before.last_round_seconds or seconds),
            rounds=before.rounds + 1,
            clusters_seen=frozenset({"source", "target"}),
            errors=sorted(self.errors)[:20],
        )

    def added_to(self, before: Summary) -> Summary:
        """Returns the summary with the sums of a round, which may have been one without the source: that is no success,
        and ends no outage."""
        return replace(
            before,
            groups=len(self.seen),
            exact=self.judgements[Judgement.EXACT],
            bounded=self.judgements[Judgement.BOUNDED],
            pending=self.judgements[Judgement.PENDING],
            reasons=dict(self.reasons),
            lookups=before.lookups + self.lookups,
            writes=before.writes + self.writes,
            checkpoints=before.checkpoints + self.checkpoints,
        )
