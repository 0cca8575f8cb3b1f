"""Knows the topics that groups read and the configuration leaves out of the flow.

    never copied                            named with each group that reads it (`not_copied`)
    was copied, and the target has all      as any other topic
    was copied, and the target lacks some   `topic_left_out`, with the count: the group would miss them
    was copied, and the copy was deleted    named, as one that was never copied
    `bridge.topics.left.behind` names it    named, as one that was never copied

That a topic was copied is what the mirror's own runs tell; of a topic of another mirror nothing does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

from bridge.mm2.filters import key_against
from bridge.mm2.replication_policy import is_cycle
from bridge.model.values import CopyId, Judgement, Reason, TopicPartition, Verdict
from bridge.translation.plan import NotCopied, Translated
from connectors.group_translation.options import GroupOptions
from connectors.group_translation.translating.proof import Behind

_COPY_GONE = (Reason.TARGET_TOPIC_MISSING, Reason.TARGET_PARTITION_MISSING, Reason.SOURCE_TOPIC_MISSING)


class NotCopiedTopics:
    """The topics that one connector's configuration leaves out, by the groups that read them."""

    def __init__(self, options: GroupOptions, has_runs: Callable[[CopyId], bool]) -> None:
        self._options, self._has_runs = options, has_runs
        self._copied: set[str] = set()
        """Topics that were copied, and that groups are followed in."""
        self._missing: dict[TopicPartition, int | None] = {}
        """Records that the target lacked of these when the source answered last; None for not known."""
        self._groups: dict[str, tuple[NotCopied, ...]] = {}
        self.gone: set[TopicPartition] = set()
        """Partitions of these whose copy is gone: nobody waits for their records."""

    def was_copied(self, copy: CopyId) -> bool:
        """Whether groups are followed in a topic that the filter leaves out."""
        topic = copy.source.topic
        if self._options.left_behind.matches(topic) or not self._has_runs(copy):
            return False
        self._copied.add(topic)
        return True

    def note(
        self, group: str, committed: Collection[TopicPartition], paired: Collection[TopicPartition]
    ) -> None:
        """Notes what a group reads that no verdict is made of. What came from the target is there, and heartbeats are
        copied whatever the filter says."""
        self._groups.pop(group, None)
        self._name(group, {tp.topic for tp in committed} - {tp.topic for tp in paired})

    def forget(self, group: str) -> None:
        self._groups.pop(group, None)

    def not_copied(self, group: str) -> tuple[NotCopied, ...]:
        return self._groups.get(group, ())

    def guarded(
        self, group: str, rows: list[Translated], behind: Mapping[TopicPartition, Behind] | None
    ) -> list[Translated]:
        """Returns a group's rows, those pending of which the target lacks records that nobody copies any more, and
        without those whose copy is gone. `behind`: None while the source does not answer."""
        if self._copied.isdisjoint(row.source.topic for row in rows):
            return rows
        kept: list[Translated] = []
        gone: set[str] = set()
        for row in rows:
            if row.source.topic not in self._copied:
                kept.append(row)
            elif row.verdict.reason in _COPY_GONE:
                gone.add(row.source.topic)
                self.gone.add(row.source)
            else:
                self.gone.discard(row.source)
                kept.append(row._replace(verdict=self._judged(row, behind)))
        self._name(group, gone)
        return kept

    def _judged(self, row: Translated, behind: Mapping[TopicPartition, Behind] | None) -> Verdict:
        if behind is not None and row.source in behind:
            end, copied_to = behind[row.source]
            self._missing[row.source] = None if copied_to is None else max(0, end - copied_to)
        missing = self._missing.get(row.source)
        if missing == 0 or row.verdict.offset is None:
            return row.verdict
        detail = row.verdict.detail | {"not_copied": missing}
        return replace(row.verdict, judgement=Judgement.PENDING, reason=Reason.TOPIC_LEFT_OUT, detail=detail)

    def _name(self, group: str, topics: Iterable[str]) -> None:
        """Adds topics to those that a group reads and nobody copies."""
        options, policy = self._options, self._options.policy
        known = dict(self._groups.get(group, ()))
        known |= {
            topic: "" if policy.is_internal_topic(topic) else key_against(options.topic_filter, topic)
            for topic in topics
            if not is_cycle(policy, topic, options.target_alias) and not policy.is_heartbeats_topic(topic)
        }
        if known:
            self._groups[group] = tuple(NotCopied(topic, key) for topic, key in sorted(known.items()))
