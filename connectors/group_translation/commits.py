"""Commits planned offsets on the target. Asks for the groups' states again right before; results are per partition."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from bridge.errors import KafkaFailure, KafkaFault
from bridge.model.values import Committed, Judgement, Reason, Side, TopicPartition, Verdict
from bridge.translation.plan import (
    GroupPlan,
    OwnCommit,
    TargetGroup,
    Translated,
    accepted,
    plan_group,
    told,
    with_standing,
)
from connectors.cluster_away import ask, reason_of
from connectors.group_translation.options import GroupOptions, Rewind
from connectors.group_translation.other_sources import OtherSources
from connectors.ports import Cluster

_APPLY_AT_ONCE = 200
"""Groups whose states and offsets are read together before their commits: few enough that the answers are fresh."""
_COMMITS_AT_ONCE = 10
"""Commits under way at a time. More make a round hardly shorter and the coordinators busy all at once, so that probes,
polls and whatever else runs beside them would wait for a processor."""


class Commits:
    """Plans and carries out the commits of one connector, and remembers what it has committed."""

    def __init__(self, options: GroupOptions, target: Cluster, others: OtherSources) -> None:
        self._options, self._target, self._others = options, target, others
        self._written: dict[str, dict[TopicPartition, OwnCommit]] = {}
        self._said: dict[str, dict[TopicPartition, OwnCommit]] = {}
        """What this flow alone has translated, of partitions that it shares with others."""
        self.told_before: Callable[[str], dict[TopicPartition, OwnCommit]] = lambda _: {}
        """What an instance before this one has told others of a group."""
        self.written_before: Callable[[str], Mapping[TopicPartition, OwnCommit] | None] = lambda _: {}
        """What an instance before this one, or another one, has committed for a group; None for not known yet."""
        self.writes = 0

    @property
    def remembered(self) -> int:
        """How many committed offsets it remembers."""
        return sum(map(len, (*self._written.values(), *self._said.values())))

    def forget(self, group: str) -> None:
        self._written.pop(group, None)
        self._said.pop(group, None)

    def recall(self, group: str, written: Mapping[TopicPartition, OwnCommit]) -> None:
        """Takes over what an instance before this one has committed."""
        self._written[group] = {**written, **self._written.get(group, {})}

    def plan(self, group: str, translated: Sequence[Translated], target: TargetGroup) -> GroupPlan:
        rewind = self._options.rewind is Rewind.EMPTY_GROUPS
        if group not in self._written and (before := self.written_before(group)) is not None:
            self._written[group] = dict(before)
        written = self._written.get(group, {})
        for tp in written.keys() - {row.target for row in translated}:
            del written[tp]  # the group has no offset there any more: its topic was deleted
        rows = self.together(group, translated, target.offsets, target.ends)
        plan = plan_group(group, rows, target, written, rewind=rewind, dry_run=self._options.dry_run)
        for row, planned in zip(rows, plan.rows, strict=True):
            own = None if planned.write else accepted(row, planned.verdict, planned.standing)
            if own is not None:
                self._written.setdefault(group, {})[row.target] = own
        return plan

    def together(
        self,
        group: str,
        translated: Sequence[Translated],
        committed: Mapping[TopicPartition, Committed],
        ends: Mapping[TopicPartition, int],
    ) -> Sequence[Translated]:
        """Returns the rows with verdicts that are right for all sources whose copies share a partition. `committed`:
        what the group has committed on the target; `ends`: where its logs end."""
        if all(row.alone is None for row in translated):
            return translated
        if group not in self._said:
            self._said[group] = self.told_before(group)
        written, said = self._written.get(group, {}), self._said[group]
        rows = []
        for row in translated:
            own = written.get(row.target), said.get(row.target)
            row = with_standing(row, committed.get(row.target), own, ends.get(row.target))
            if (last := told(row, said.get(row.target))) is not None:
                said[row.target] = last
            rows.append(self._others.together(group, row))
        return rows

    async def apply(
        self,
        plans: Mapping[str, GroupPlan],
        translated: Mapping[str, Sequence[Translated]],
        ends: Mapping[TopicPartition, int],
    ) -> dict[str, GroupPlan]:
        """Carries out the plans that write, each planned again from what stands on the target now; returns the plans
        with their results. `ends`: where the target's logs end. Raises ClusterAway."""
        due = [group for group, plan in plans.items() if plan.writes]
        wait = self._options.admin_timeout_ms
        done: dict[str, GroupPlan] = {}
        for start in range(0, len(due), _APPLY_AT_ONCE):
            part = due[start : start + _APPLY_AT_ONCE]
            states = await ask(Side.TARGET, self._target.group_states(part), wait)
            # The offsets last: what a member commits after its group was seen empty is among them.
            offsets = await ask(Side.TARGET, self._target.committed(part, right="READ"), wait)
            await self._others.follow()  # behind the offsets: what another flow commits it has told before
            fresh: list[GroupPlan] = []
            for group in part:
                there = offsets[group]
                if isinstance(there, KafkaFailure):
                    done[group] = _not_written(plans[group], there)
                else:
                    target = TargetGroup(states[group], "classic", there, ends)
                    fresh.append(self.plan(group, translated[group], target))
            for few in range(0, len(fresh), _COMMITS_AT_ONCE):
                committed = await asyncio.gather(*map(self._commit, fresh[few : few + _COMMITS_AT_ONCE]))
                done |= {plan.group: plan for plan in committed}
        return done

    async def _commit(self, plan: GroupPlan) -> GroupPlan:
        if not plan.writes:
            return plan
        results = await self._target.alter(plan.group, plan.writes)
        rows = []
        for row in plan.rows:
            failed = results.get(row.target) if row.write else None
            if row.write is not None and failed is None:
                self.writes += 1
                self._written.setdefault(plan.group, {})[row.target] = OwnCommit(
                    row.committed.offset, row.verdict
                )
                row = row._replace(standing=row.write.offset)
            elif failed is not None:
                active = failed.fault is KafkaFault.GROUP_ACTIVE
                reason = Reason.GROUP_ACTIVE_ON_TARGET if active else Reason.COMMIT_FAILED
                if failed.fault is KafkaFault.NOT_AUTHORIZED:
                    reason = Reason.TARGET_NOT_AUTHORIZED
                row = row._replace(verdict=_pending(row.verdict, reason, failed))
            rows.append(row)
        return replace(plan, rows=tuple(rows))


def _not_written(plan: GroupPlan, failed: KafkaFailure) -> GroupPlan:
    """Drops the writes of a group whose offsets can't be read: what stands there must not be overwritten unseen."""
    reason = reason_of(Side.TARGET, failed)
    rows = (
        row if row.write is None else row._replace(verdict=_pending(row.verdict, reason, failed), write=None)
        for row in plan.rows
    )
    return replace(plan, rows=tuple(rows))


def _pending(verdict: Verdict, reason: Reason, failed: KafkaFailure) -> Verdict:
    detail = verdict.detail | {"said": str(failed)}
    return replace(verdict, judgement=Judgement.PENDING, reason=reason, detail=detail)
