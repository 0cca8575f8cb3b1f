"""Explains each reason code in a clause, with the words that health, the API and the commands use.

The codes of verdicts are those of bridge.model.values.Reason; the codes of readiness come last.
"""

from __future__ import annotations

REASONS = {
    "offset_beyond_end": "the offset is beyond the end of the source partition: it was truncated or re-created",
    "copy_not_found": "no record before the offset has its copy on the target",
    "not_mirrored_yet": "the record at the offset has not arrived on the target",
    "record_gone": "the record at the offset no longer exists on the source",
    "evidence_disagrees": "records, offset runs and syncs, or a sync and the target's end, contradict each other",
    "no_offset_syncs": "there are no offset syncs of the partition, and translation.evidence=syncs allows nothing else",
    "older_than_syncs": "the offset is older than the oldest offset sync that is left (translation.evidence=syncs)",
    "records_not_on_target": "records at or after the committed offset are not on the target, and the copy is past "
    "them: a consumer would skip them there; copy them again (mirror-bridge reset), or let the group pass them first",
    "copies_unknown": "it is not known up to where the partition is copied, or whether all records after the committed "
    "offset are on the target",
    "topic_left_out": "the topic was copied, is left out of topics now, and has records that are on the source "
    "alone: copy them, delete the copy, or name the topic in bridge.topics.left.behind",
    "topic_not_copied": "the group has offsets in topics that the flow does not copy, and bridge.topics.not.copied is "
    "not_ready",
    "moved_by_mirror": "the offset is not past where the opposite flow has put it, so no consumer has moved it",
    "target_ahead": "the group's committed offset on the target is higher; only an operator can move it back",
    "group_active_on_target": "the group has members on the target",
    "group_state_unknown": "the state of the group on the target can't be described",
    "group_type_unsupported": "it is a share or streams group",
    "target_topic_missing": "the target has no such topic",
    "target_partition_missing": "the target's topic has fewer partitions",
    "source_topic_missing": "the source has no such topic or partition any more",
    "source_unreachable": "the source cluster does not answer",
    "target_unreachable": "the target cluster does not answer",
    "source_not_authorized": "the source cluster denies access: an ACL is missing",
    "target_not_authorized": "the target cluster denies access: an ACL is missing",
    "source_batch_unreadable": "the batch at the offset can't be decoded on the source, or is over a limit",
    "target_batch_unreadable": "a batch of the copy can't be decoded on the target, or is over a limit",
    "target_timestamp_type": "the target's topic overwrites timestamps, so copies can't be identified by them",
    "timestamp_unusable": "the record at the offset has no timestamp to look for",
    "commit_failed": "the target cluster rejected the offset commit",
    "dry_run": "dry.run=true: planned, not committed",
    "moved": "it was failed over, and its consumers continue on the target",
    "not_looked_at_yet": "no round has checked it yet; the next one does",
    "report_too_large": "the group's report is too large for the service: it has too many partitions",
    "topic_not_selected": "the configuration's filters leave the topic out, or it is an internal one",
    "rounds_process_down": "the rounds process of the service is not running",
    "connector_failed": "the connector has failed",
    "connector_stopped": "the connector is not running",
    "task_lapsed": "the task of the group is not running",
    "outdated": "the last round is too long ago",
    "elsewhere": "another node runs the flow",
    "copying_failed": "the connector that copies the records has failed",
    "copying_stopped": "records are not copied",
    "no_groups": "no group on the source matches the connector's groups and groups.exclude and has offsets in "
    "topics that it selects and that the source has",
}
