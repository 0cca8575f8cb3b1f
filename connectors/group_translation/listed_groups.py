"""Lists the consumer groups of the source that a connector translates."""

from __future__ import annotations

import time
from collections.abc import Container, Mapping, Sequence

from bridge.errors import KafkaFailure
from bridge.model.values import GroupListing, GroupState, Side, task_of
from bridge.translation.plan import SYNCED_TYPES
from connectors.base import Assignment
from connectors.cluster_away import ask
from connectors.group_translation.options import GroupOptions
from connectors.ports import Cluster

FIRST_LOOK = 10.0
"""Seconds that the source has for its first answer: with one that hangs, reports from before the start would wait for
admin.timeout.ms. Later answers may take that long."""


class ListedGroups:
    """The groups, listed with the first round and then every refresh interval."""

    def __init__(self, options: GroupOptions, source: Cluster, moved: Container[str] = frozenset()) -> None:
        """`moved`: groups that are left out, because they were failed over."""
        self._options, self._source, self._moved = options, source, moved
        self._groups: dict[str, GroupListing] = {}
        self._refreshed: float | None = None
        self._known = Assignment(0, frozenset())
        """The tasks whose groups were listed, of those that ran in the last round."""
        self._asked = False

    @property
    def all(self) -> Mapping[str, GroupListing]:
        return self._groups

    def select(self, assignment: Assignment) -> list[str]:
        """Returns the groups of the tasks, with those of types that are not synced."""
        count, active = assignment.task_count, assignment.active
        return [name for name in self._groups if task_of(name, count) in active and name not in self._moved]

    def synced(self, assignment: Assignment) -> list[str]:
        """Returns the groups that the tasks translate."""
        return [name for name in self.select(assignment) if self._groups[name].type in SYNCED_TYPES]

    def recall(self, name: str, type_: str) -> bool:
        """Adds a group that another instance has listed; returns whether it is one of ours."""
        listing = GroupListing(name, GroupState.UNKNOWN, type_)
        if name not in self._groups and self._chosen(listing):
            self._groups[name] = listing
        return name in self._groups

    async def refresh(self, assignment: Assignment, *, at_once: bool = False) -> bool:
        """Lists the groups when that is due (`at_once`: now); returns whether they have changed. A task that comes from
        another instance may have groups that only that one has listed. Raises ClusterAway."""
        now = time.monotonic()
        known, count = self._known, assignment.task_count
        known = known if known.task_count == count else Assignment(count, frozenset())
        self._known = Assignment(count, known.active & assignment.active)
        if (
            not at_once
            and self._known == assignment
            and self._refreshed is not None
            and not (
                self._options.refresh_groups_enabled
                and now - self._refreshed >= self._options.refresh_groups_interval
            )
        ):
            return False
        wait = self._options.admin_timeout_ms
        wait, self._asked = (wait if self._asked else min(wait, int(FIRST_LOOK * 1000))), True
        listed = await ask(Side.SOURCE, self._source.list_groups(), wait)
        chosen = {name: listing for name, listing in listed.items() if self._chosen(listing)}
        chosen |= await self._left_out([name for name in self._groups if name not in listed])
        changed = self._refreshed is not None and chosen.keys() != self._groups.keys()
        self._groups, self._refreshed, self._known = chosen, now, assignment
        return changed

    async def _left_out(self, missing: Sequence[str]) -> dict[str, GroupListing]:
        """Returns groups that exist and were not listed: a coordinator that has just started lists no groups, and
        no error, until it has loaded them; their reports would be gone for as long (R5)."""
        if not missing:
            return {}
        offsets = await ask(Side.SOURCE, self._source.committed(missing), self._options.admin_timeout_ms)
        return {
            name: self._groups[name]
            for name, got in offsets.items()
            if (got.retriable if isinstance(got, KafkaFailure) else got)
        }

    def _chosen(self, listing: GroupListing) -> bool:
        """Whether the group is one that stock lists as a consumer group (protocol type `consumer`, or none: offsets
        committed without a member), and groups of newer types, which are named as not supported."""
        if listing.type in SYNCED_TYPES and listing.protocol_type not in ("consumer", ""):
            return False
        assigned = self._options.assigned_groups
        if assigned is not None and listing.group not in assigned:
            return False
        return self._options.group_filter.should_replicate_group(listing.group)
