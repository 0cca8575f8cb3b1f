"""Planned offsets onto the target: the state of each group asked again right before, results per partition."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace

from bridge.errors import KafkaFault
from bridge.translation.model import Committed, GroupState, Judgement, Reason, Side, TopicPartition
from bridge.translation.plan import GroupPlan, TargetGroup, Translated, Written, plan_group
from connectors.groups.checks import GroupOptions
from connectors.groups.options import Rewind
from connectors.groups.trouble import ask
from connectors.ports import Cluster

_APPLY_AT_ONCE = 200
"""Groups whose state is asked together before their commits: few enough that the answer is fresh."""
_COMMITS_AT_ONCE = 10
"""Commits under way at a time. More make a round hardly shorter, and the coordinators busy all at once: what else
runs beside them, probes and polls not least, would wait for a processor."""


class Commits:
    """The commits of one connector, and what it remembers of them."""

    def __init__(self, options: GroupOptions, target: Cluster) -> None:
        self._options, self._target = options, target
        self._written: dict[str, dict[TopicPartition, Written]] = {}
        self.writes = 0

    def forget(self, group: str) -> None:
        self._written.pop(group, None)

    def plan(self, group: str, translated: Sequence[Translated], target: TargetGroup) -> GroupPlan:
        rewind = self._options.rewind is Rewind.EMPTY_GROUPS
        written = self._written.get(group, {})
        return plan_group(group, translated, target, written, rewind=rewind, dry_run=self._options.dry_run)

    async def apply(self, plans: Mapping[str, GroupPlan]) -> dict[str, GroupPlan]:
        """Carries out the plans that write; returns those as they came to be. Raises ClusterAway."""
        due = [group for group, plan in plans.items() if plan.writes]
        done: dict[str, GroupPlan] = {}
        for at in range(0, len(due), _APPLY_AT_ONCE):
            part = due[at : at + _APPLY_AT_ONCE]
            asked = self._target.group_states(part)
            states = await ask(Side.TARGET, asked, self._options.admin_timeout_ms)
            for few in range(0, len(part), _COMMITS_AT_ONCE):
                some = part[few : few + _COMMITS_AT_ONCE]
                committed = await asyncio.gather(
                    *(self._commit(plans[group], states[group]) for group in some)
                )
                done |= {plan.group: plan for plan in committed}
        return done

    async def _commit(self, plan: GroupPlan, state: GroupState) -> GroupPlan:
        if state not in (GroupState.EMPTY, GroupState.DEAD, GroupState.NOT_FOUND):
            translated = [Translated(row.source, row.target, row.committed, row.verdict) for row in plan.rows]
            offsets = {r.target: Committed(r.standing) for r in plan.rows if r.standing is not None}
            return self.plan(plan.group, translated, TargetGroup(state, "classic", offsets))
        results = await self._target.alter(plan.group, plan.writes)
        rows = []
        for row in plan.rows:
            failed = results.get(row.target) if row.write else None
            if row.write is not None and failed is None:
                self.writes += 1
                self._written.setdefault(plan.group, {})[row.target] = Written(
                    row.committed.offset, row.verdict
                )
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
        return replace(plan, rows=tuple(rows))
