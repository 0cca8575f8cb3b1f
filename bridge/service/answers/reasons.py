"""What each reason code means, in a clause: the words that every surface uses.

Reason of bridge.model.values has the codes of verdicts; those of readiness come last.
"""

from __future__ import annotations

REASONS = {
    "offset_beyond_end": "the source's log ends before the offset: it was truncated or made anew",
    "copy_not_found": "no record before the offset has its copy on the target",
    "not_mirrored_yet": "the record at the offset has not arrived on the target",
    "record_gone": "the record at the offset is gone from the source",
    "evidence_disagrees": "records, offset runs and syncs, or a sync and the target's end, contradict each other",
    "no_offset_syncs": "there are no offset syncs of the partition, and translation.evidence=syncs allows nothing else",
    "older_than_syncs": "the offset is older than the oldest offset sync that is left (translation.evidence=syncs)",
    "moved_by_mirror": "the offset is not past where the opposite flow has put it, so no consumer has moved it",
    "target_ahead": "the target has a higher offset of the group, which is not moved back unasked",
    "group_active_on_target": "the group has members on the target",
    "group_state_unknown": "the group's state on the target can't be asked",
    "group_type_unsupported": "it is a share or streams group",
    "target_topic_missing": "the target has no such topic",
    "target_partition_missing": "the target's topic has fewer partitions",
    "source_topic_missing": "the source has no such topic or partition any more",
    "source_unreachable": "the source cluster does not answer",
    "target_unreachable": "the target cluster does not answer",
    "source_not_authorized": "an ACL is missing on the source cluster",
    "target_not_authorized": "an ACL is missing on the target cluster",
    "target_timestamp_type": "the target's topic overwrites timestamps, so copies can't be told by them",
    "timestamp_unusable": "the record at the offset has no timestamp to look for",
    "commit_failed": "the target refused the commit",
    "dry_run": "dry.run=true: planned, and not written",
    "moved": "it was failed over, and goes on on the target",
    "not_looked_at_yet": "it is looked at in the next round",
    "rounds_process_down": "the process that asks the clusters does not run",
    "connector_failed": "the connector has failed",
    "connector_stopped": "the connector does not run",
    "task_lapsed": "the task that looks after the group does not run",
    "outdated": "the clusters were asked too long ago",
    "copying_failed": "the connector that copies the records has failed",
    "copying_stopped": "records are not copied",
    "no_groups": "the connector has found no group to look after: look at groups and groups.exclude",
}
