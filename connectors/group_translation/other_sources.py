"""Finds flows of other sources whose copies share topics with those of this one (bridge.merge.with), and what they say
of the groups that they have: claims in their layout topics, and their records in their readiness topics.

All of it is on the target, so that it does not matter which service runs which flow. What a flow has not said is not
known, and nothing is committed beyond it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from bridge.model.state_records.claims import Claim
from bridge.model.state_records.fields import Value
from bridge.model.state_records.group_record import Alone, FurthestRecord, GroupRecord, GroupRow
from bridge.model.state_records.move_record import MOVED, MoveRecord
from bridge.model.state_records.readiness_records import TaskRecord, decode_key, decode_value, tell_all
from bridge.model.values import LogRecord, Reason, Side, TopicPartition
from bridge.translation.plan import OtherFlow, Translated, together
from connectors.cluster_away import ask
from connectors.group_translation.options import GroupOptions
from connectors.group_translation.translating.followed_topics import TopicFollower
from connectors.ports import Cluster

LOOK_EVERY = 5.0
"""Seconds between two looks for layout topics of other sources."""
_LAYOUTS, _READINESS, _INTERNAL = "mm2-layout", "mm2-group-readiness", "internal"
_KINDS = frozenset(each.kind for each in (GroupRecord, FurthestRecord, MoveRecord, TaskRecord))
LEAST_AGE_MS, MOST_INTERVALS = 5_000, 3
"""How old a record may be, at least and in intervals of its own, to be of the present: as between services
(docs/readiness.md)."""
_SEEN_HERE = frozenset(
    reason.value
    for reason in (
        *(Reason.OTHER_SOURCE_UNKNOWN, Reason.OTHER_SOURCE_NOT_READY, Reason.OTHER_SOURCE_OUTDATED),
        *(
            Reason.TARGET_AHEAD,
            Reason.GROUP_ACTIVE_ON_TARGET,
            Reason.GROUP_STATE_UNKNOWN,
            Reason.COMMIT_FAILED,
        ),
    )
)
"""Reasons of another flow that say nothing of its own: each flow sees them by itself, or they are about this one."""


_UNREADABLE = frozenset({Reason.SOURCE_NOT_AUTHORIZED.value, Reason.TARGET_NOT_AUTHORIZED.value})
"""Reasons of groups of which nothing could be read."""
_NONE = object()


class _Seen(NamedTuple):
    """A task of another connector. `seen_ms`: when its record was read (monotonic)."""

    record: TaskRecord
    seen_ms: int


class _Connector:
    """What a group connector of another source has written, by group."""

    def __init__(self) -> None:
        self.tasks: dict[str, _Seen] = {}
        self.move_ended_ms: dict[str, int] = {}
        """By group that had failed over, when that was taken back: the next round tells of it again."""
        self._kept: dict[str, dict[str, Value | None]] = {}
        """By kind and group; None where the newest record can't be decoded."""

    def kept(self, kind: str) -> dict[str, Value | None]:
        return self._kept.get(kind, {})

    def keep(self, kind: str, group: str, value: Value | None) -> None:
        self._kept.setdefault(kind, {})[group] = value

    @property
    def whole(self) -> bool:
        """Whether each of its tasks has told of all its groups."""
        return tell_all({name: task.record for name, task in self.tasks.items()})

    @property
    def of_groups(self) -> bool:
        """Whether it has written records of groups, or will: connectors that copy write a record of their task too."""
        return bool(self._kept) or any(task.record.groups for task in self.tasks.values())

    def has_told(self, group: str) -> bool:
        """Whether a round has looked at the group since a move of it was taken back."""
        return self.as_of_ms > self.move_ended_ms.get(group, -1)

    @property
    def as_of_ms(self) -> int:
        return min((task.record.as_of_ms for task in self.tasks.values()), default=0)

    @property
    def interval_ms(self) -> int:
        return max((task.record.interval_ms for task in self.tasks.values()), default=0)

    def fresh(self, now_ms: int, monotonic_ms: int) -> bool:
        """Whether what it has written is of the present."""
        return self.whole and all(
            now_ms - record.as_of_ms >= -LEAST_AGE_MS
            and max(now_ms - record.as_of_ms, monotonic_ms - seen_ms)
            <= max(LEAST_AGE_MS, MOST_INTERVALS * record.interval_ms)
            for record, seen_ms in self.tasks.values()
        )


class _OtherSource:
    """The flow of one other source: the claims of its connectors, and what they have written of groups."""

    def __init__(self, layouts: str, target: Cluster, options: GroupOptions) -> None:
        self._options, wait = options, options.admin_timeout_ms
        self.alias = layouts[len(_LAYOUTS) : -len(_INTERNAL)].strip("._-")
        self.name = f"flow {self.alias} to {options.target_alias}"
        self._claims: dict[bytes, tuple[int, Claim]] = {}
        """With the offset: what was decided later may stand before others."""
        self.owners: dict[str, str] = {}
        """By target topic, who copies to it."""
        self._connectors: dict[str, _Connector] = {}
        claims = target.tail(layouts, committed_only=True)
        records = target.tail(layouts.replace(_LAYOUTS, _READINESS, 1))
        self.layouts = TopicFollower(Side.TARGET, claims, self._claim, self._no_claims, wait, optional=True)
        self._readiness = TopicFollower(
            Side.TARGET, records, self._record, self._connectors.clear, wait, optional=True
        )

    # -- reading -----------------------------------------------------------------------------------------------------

    async def follow(self) -> None:
        """Reads what its connectors have written. Raises ClusterAway."""
        if self.owners:
            await self._readiness.follow()

    @property
    def remarks(self) -> list[str]:
        followed = (self._readiness,) if self.owners else ()
        return [follower.remark for follower in followed if follower.remark is not None]

    def _claim(self, record: LogRecord) -> None:
        claim = Claim.decode(record.key, record.value)
        if claim is None or record.key is None:
            return
        self._claims.pop(record.key, None)
        if record.value is not None and claim.settled:
            self._claims[record.key] = record.offset, claim
        self.owners = {claim.target_topic: claim.connector for _, claim in sorted(self._claims.values())}

    def _no_claims(self) -> None:
        self._claims, self.owners = {}, {}

    def _record(self, record: LogRecord) -> None:
        """Raises SchemaError."""
        key = decode_key(record.key)
        if key.kind not in _KINDS:
            return
        connector = self._connectors.setdefault(key.connector, _Connector())
        if key.kind == TaskRecord.kind:
            connector.tasks.pop(key.name, None)
            if record.value is not None:
                value = decode_value(key, record.value)
                assert isinstance(value, TaskRecord)
                connector.tasks[key.name] = _Seen(value, int(time.monotonic() * 1000))
            return
        if key.kind == MoveRecord.kind:
            connector.move_ended_ms[key.name] = record.timestamp
        if record.value is None:
            connector.kept(key.kind).pop(key.name, None)
            return
        # A record that can't be decoded has replaced the earlier one all the same.
        connector.keep(key.kind, key.name, None)
        connector.keep(key.kind, key.name, decode_value(key, record.value))

    # -- answers -----------------------------------------------------------------------------------------------------

    def find(self, group: str, tp: TopicPartition) -> OtherFlow | None:
        """Returns what the flow says of a group in a partition of the target; None where it has said that it has no
        such group, or the group no offset there."""
        connectors = {name: connector for name, connector in self._connectors.items() if connector.of_groups}
        now_ms, monotonic_ms = int(time.time() * 1000), int(time.monotonic() * 1000)
        fresh = {
            name: connector for name, connector in connectors.items() if connector.fresh(now_ms, monotonic_ms)
        }
        # What is old counts where nobody tells of the group now: its connector may be paused beside another one.
        for some in (fresh, _latest(connectors), connectors):
            said = [one for name, connector in some.items() for one in self._find(name, connector, group, tp)]
            if said:
                lowest = min(said, key=lambda one: -1 if one.offset is None else one.offset)
                if some is fresh or lowest.offset is None:
                    return lowest
                return lowest._replace(outdated=True, said=lowest.said or self._silent(some))
        asked = fresh or connectors
        if asked and all(connector.whole and connector.has_told(group) for connector in asked.values()):
            return None
        return self._not_known(self._unknown(asked, tp.topic))

    def _find(self, name: str, connector: _Connector, group: str, tp: TopicPartition) -> Iterator[OtherFlow]:
        record, furthest, move = (
            connector.kept(kind).get(group, _NONE)
            for kind in (GroupRecord.kind, FurthestRecord.kind, MoveRecord.kind)
        )
        if None in (record, furthest, move):
            yield self._not_known(f"a record of connector {name} can't be decoded; its next one ends this")
            return
        if isinstance(move, MoveRecord) and move.state == MOVED:
            for moved in move.rows:
                if (moved.target_topic, moved.partition) == tp:
                    yield OtherFlow(self.name, moved.target_offset, moved.bound)
            return
        alone = furthest.alone.get(tp) if isinstance(furthest, FurthestRecord) else None
        if isinstance(record, GroupRecord):
            if not record.rows and record.reason in _UNREADABLE:
                yield self._not_known(f"connector {name} of {self.name} says {record.reason} of the group")
            for row in record.rows:
                if (row.target_topic, row.partition) == tp:
                    yield self._row(name, record.reason, row, alone)
        elif alone is not None and _as_of_ms(furthest) > connector.as_of_ms:
            # A round that goes on has seen the group for the first time, and tells of it when it ends.
            yield OtherFlow(self.name, alone.offset, None if alone.bound < 0 else alone.bound)

    def _row(self, name: str, reason: str | None, row: GroupRow, alone: Alone | None) -> OtherFlow:
        why = next((text for text in (reason, row.reason) if text and text not in _SEEN_HERE), None)
        said = "" if why is None else f"connector {name} of {self.name} says {why} of the group"
        code = None if why is None else Reason.OTHER_SOURCE_NOT_READY
        if why is not None and row.target_offset is None:
            return OtherFlow(self.name, None, reason=code, said=said)
        if alone is not None:
            bound = None if alone.bound < 0 else alone.bound
            return OtherFlow(self.name, alone.offset, bound, code, said)
        if row.target_offset is not None:  # by a version that writes no more
            return OtherFlow(self.name, row.target_offset, row.bound, code, said)
        return self._not_known(
            f"connector {name} of {self.name} has not told what it translates the group's offset to"
        )

    def _not_known(self, said: str) -> OtherFlow:
        return OtherFlow(self.name, None, reason=Reason.OTHER_SOURCE_UNKNOWN, said=said)

    def _silent(self, connectors: Mapping[str, _Connector]) -> str:
        names = ", ".join(sorted(connectors))
        seconds = (
            int(time.time() * 1000) - max(connector.as_of_ms for connector in connectors.values())
        ) // 1000
        return f"connector {names} of {self.name} has told nothing for {seconds} s"

    def _unknown(self, asked: Mapping[str, _Connector], topic: str) -> str:
        if self._readiness.remark is not None:
            return self._readiness.remark
        if asked:
            names = ", ".join(
                sorted(name for name, connector in asked.items() if not connector.whole) or sorted(asked)
            )
            return f"connector {names} of {self.name} has not told yet which groups it has"
        owner = self.owners.get(topic, "")
        return (
            f"{topic} holds records of {self.alias} too (connector {owner}), and no group connector of {self.name} has "
            "told which groups it has: start one with emit.group-readiness.enabled=true, or, where that flow is no "
            f"more, mirror-bridge hand-back {owner}"
        )


class OtherSources:
    """All flows of other sources to the same target."""

    def __init__(self, options: GroupOptions, target: Cluster) -> None:
        self._options, self._target = options, target
        self._own = options.policy.layout_topic(options.source_alias)
        self._sources: dict[str, _OtherSource] = {}
        """By layout topic."""
        self._look_at = 0.0
        self._hidden = ""
        """Why some layout topic that is there can't be read."""

    @property
    def remarks(self) -> Sequence[str]:
        return [remark for source in self._sources.values() for remark in source.remarks]

    async def look(self) -> None:
        """Looks for topics that other sources are copied to, and reads what their flows say. Raises ClusterAway."""
        if time.monotonic() >= self._look_at:
            names = await ask(Side.TARGET, self._target.topic_names(), self._options.admin_timeout_ms)
            layouts = {name for name in names if _is_layout_topic(name)} - {self._own}
            for name in self._sources.keys() - layouts:
                del self._sources[name]
            for name in layouts - self._sources.keys():
                self._sources[name] = _OtherSource(name, self._target, self._options)
            for source in self._sources.values():
                await source.layouts.follow()
            hidden = (source.layouts.remark for source in self._sources.values())
            self._hidden = next((remark for remark in hidden if remark is not None), "")
            self._look_at = time.monotonic() + LOOK_EVERY
        await self.follow()

    async def follow(self) -> None:
        """Reads what is new of the flows that are known to share topics. Raises ClusterAway."""
        for source in self._sources.values():
            await source.follow()

    def shared(self, row: Translated) -> Translated:
        """Returns the row with its verdict as that of this flow alone, where others are copied to the partition."""
        shared = any(row.target.topic in source.owners for source in self._sources.values())
        if shared or self._may_be_shared(row):
            return row._replace(alone=row.verdict)
        return row

    def together(self, group: str, row: Translated) -> Translated:
        """Returns a row with the verdict that is right for all sources."""
        if row.alone is None:
            return row
        if self._may_be_shared(row):
            hidden = OtherFlow("", None, reason=Reason.OTHER_SOURCE_UNKNOWN, said=self._hidden)
            return together(row, [hidden])
        flows = [
            flow
            for source in self._sources.values()
            if row.target.topic in source.owners and (flow := source.find(group, row.target)) is not None
        ]
        return together(row, flows)

    def _may_be_shared(self, row: Translated) -> bool:
        """Whether a layout topic that can't be read may say that another source is copied to the partition. A copy that
        is named after this source has no other one."""
        named_after = row.target.topic.startswith(self._options.source_alias)
        return bool(self._hidden) and (not named_after or row.target.topic == row.source.topic)


def _latest(connectors: Mapping[str, _Connector]) -> dict[str, _Connector]:
    """Returns the connectors that have told something last, together: without those that were gone before."""
    newest = max(connectors.values(), key=lambda each: each.as_of_ms, default=None)
    if newest is None:
        return {}
    return {
        name: connector
        for name, connector in connectors.items()
        if connector is newest
        or newest.as_of_ms - connector.as_of_ms
        <= max(LEAST_AGE_MS, MOST_INTERVALS * max(newest.interval_ms, connector.interval_ms))
    }


def _as_of_ms(record: object) -> int:
    return record.as_of_ms if isinstance(record, FurthestRecord) else 0


def _is_layout_topic(name: str) -> bool:
    return name.startswith(_LAYOUTS) and name.endswith(_INTERNAL) and len(name) > len(_LAYOUTS + _INTERNAL)
