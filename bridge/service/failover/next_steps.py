"""Writes the next steps after a failover command, in sentences. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bridge.model.values import iso_time
from bridge.protocol.messages import Failover, LeftOut, MovedGroup, RolledBack
from bridge.service.answers.groups import left_out_by

_SHOWN = 5
"""Names that a sentence lists."""


def after_move(moved: Failover, shared: Mapping[str, Sequence[str]]) -> list[str]:
    """After a failover: the consumers may start on the target. `shared`: groups that other flows bring into the same
    topics, by flow."""
    groups = sorted({group.group for group in moved.groups})
    source, target = moved.source, moved.target
    if not groups:
        return [*_at_home(moved), *not_moved(moved.left_out)]
    if moved.dry_run:
        can = f"Dry run: {listed(groups)} can fail over from {source} to {target} now; nothing was changed."
        sentences = (
            *_members(moved),
            _missing(moved),
            *_read_twice(moved),
            *_not_begun(moved),
            *_not_copied(moved),
            *not_moved(moved.left_out),
            *_shared(shared),
        )
        return [can, *sentences, *_at_home(moved)]
    topics = sorted({row.target_topic for group in moved.groups for row in group.partitions})
    return [
        f"{listed(groups)} moved to {target}: the offsets committed there are no longer changed by the mirror.",
        *(
            _members(moved)
            or [
                f"Keep the consumers stopped on {source}: what they commit there now does not reach {target}."
            ]
        ),
        *_shared(shared),
        f"Start the consumers on {target}, on {listed(topics)}: they resume at the committed offsets.",
        _missing(moved),
        *_read_twice(moved),
        *_not_begun(moved),
        *_not_copied(moved),
        f"To undo it: rollback sets the offsets on {target} back to those of now, and the mirror commits them again.",
        *not_moved(moved.left_out),
        *_at_home(moved),
    ]


def _shared(shared: Mapping[str, Sequence[str]]) -> list[str]:
    return [
        f"Flow {flow} brings {listed(groups)} into the same topics: move them there too (failover --flow {flow}), and "
        "stop their consumers on that source, before they start on the target."
        for flow, groups in sorted(shared.items())
    ]


def _at_home(moved: Failover) -> list[str]:
    if not moved.at_home:
        return []
    return [
        f"At home on {moved.target}: {listed(moved.at_home)}. Nobody has moved them on {moved.source}; nothing to do."
    ]


def not_moved(left_out: Sequence[LeftOut]) -> list[str]:
    """Says which groups a failover of all leaves where they are, and what to do about them."""
    connectors: dict[str, list[str]] = {}
    for out in left_out:
        connectors.setdefault(out.connector, []).append(out.group)
    return [
        f"Not moved: {listed(groups)}. Only connector {connector} reports them, which Connect has stopped or deleted: "
        f"start it in Connect, or, if it was deleted, mirror-bridge forget {connector}."
        for connector, groups in connectors.items()
    ]


def after_roll_back(
    done: RolledBack, source: str | None, target: str | None, *, source_away: bool = False
) -> list[str]:
    if not done.groups:
        return [f"{listed(done.unchanged)}: not moved; nothing was changed."]
    if done.dry_run:
        return [f"Dry run: {listed(done.groups)} can be rolled back; nothing was changed."]
    where = (
        f"{source} does not answer: the mirror commits them again, and consumers go on there, once it does"
        if source_away
        else f"those on {source} continue as before"
    )
    again = "" if source_away else "; the mirror commits them again"
    lines = [
        f"{listed(done.groups)} set back on {target} to the offsets of the failover{again}.",
        f"Keep the consumers stopped on {target}; {where}.",
    ]
    if done.left:
        tps = listed(sorted({f"{offset.topic}-{offset.partition}" for offset in done.left}))
        lines.append(
            f"On {tps} groups have committed offsets that were not there before; delete them with "
            "kafka-consumer-groups --delete-offsets, or they stay."
        )
    return lines


def after_return(done: RolledBack, source: str | None, target: str | None, again: int) -> list[str]:
    """Says what to do after a return. `again`: records that may be read twice."""
    if not done.groups:
        return [f"{listed(done.unchanged)}: not moved; nothing was changed."]
    if done.dry_run:
        return [f"Dry run: {listed(done.groups)} can fail back to {source} now; nothing was changed."]
    read = "no record is read twice" if again == 0 else f"at most {again} records are read twice"
    return [
        f"{listed(done.groups)} failed back to {source}, to the committed offsets of the consumers on {target}: "
        f"{read}, and none is skipped.",
        f"Keep the consumers stopped on {target}, and start those on {source}.",
        f"The mirror commits the groups on {target} again. The connector of the flow back can stay: its answer is "
        "home. If you delete it, mirror-bridge forget NAME too.",
    ]


def listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_SHOWN])
    more = len(names) - _SHOWN
    return shown if more <= 0 else f"{shown} and {more} more"


def _members(moved: Failover) -> list[str]:
    """Warns of consumers that are still at work on the source."""
    if not moved.members_on_source:
        return []
    source = moved.source
    return [
        f"Consumers are still in {listed(moved.members_on_source)} on {source}: stop them before those on "
        f"{moved.target} start. What they commit on {source} after the move does not reach "
        f"{moved.target}, where it is read again."
    ]


def _missing(moved: Failover) -> str:
    source, target, as_of = moved.source, moved.target, iso_time(_oldest(moved.groups))
    if moved.missing_records is None:
        counted = f"How many records of {source} were not on {target} as of {as_of} is not known."
    elif moved.missing_records == 0:
        counted = f"No record of {source} was missing on {target} as of {as_of}."
    else:
        since = (
            "" if moved.missing_since_ms is None else f", appended since {iso_time(moved.missing_since_ms)}"
        )
        counted = f"At most {moved.missing_records} records of {source} were missing on {target} as of {as_of}{since}."
    if any(group.source_away for group in moved.groups):
        counted += f" {source} did not answer any more: what was produced there later is not counted."
    return counted


def _read_twice(moved: Failover) -> list[str]:
    """Says how many records groups read again on the target, and which group most of them."""
    bounds: dict[str, int] = {}
    unknown: set[str] = set()
    for group in moved.groups:
        for row in group.partitions:
            if row.bound is None and row.verdict == "bounded":
                unknown.add(group.group)
            elif row.bound:
                bounds[group.group] = bounds.get(group.group, 0) + row.bound
    lines = []
    if bounds:
        most = max(sorted(bounds), key=bounds.__getitem__)
        who = most if len(bounds) == 1 else f"{len(bounds)} groups, most by {most} ({bounds[most]})"
        lines.append(
            f"At most {sum(bounds.values())} records are read twice on {moved.target}, by {who}; none is skipped."
        )
    if unknown:
        lines.append(f"How many records {listed(sorted(unknown))} read twice on {moved.target} is not known.")
    return lines


def _not_begun(moved: Failover) -> list[str]:
    """Names partitions in which groups have committed nothing, and whose records do not come to the target any more, or
    may not."""
    groups: dict[tuple[str, int], list[str]] = {}
    lacks: dict[tuple[str, int], int | None] = {}
    for group in moved.groups:
        for part in group.not_begun:
            if part.not_on_target != 0:
                groups.setdefault((part.topic, part.partition), []).append(group.group)
                lacks[part.topic, part.partition] = part.not_on_target
    lines = []
    for place, names in sorted(groups.items())[:_SHOWN]:
        count = lacks[place]
        lost = (
            f"how many of its records are not on {moved.target} is not known"
            if count is None
            else f"at most {count} of its records, which the copy is past, are not on {moved.target}"
        )
        lines.append(f"In {place[0]}-{place[1]} nothing is committed by {listed(names)}: {lost}.")
    more = len(groups) - _SHOWN
    return lines if more <= 0 else [*lines, f"So it is with {more} more partitions."]


def _not_copied(moved: Failover) -> list[str]:
    lines = [
        f"Topic {left.topic} is not copied ({left_out_by(left.key)}), and {listed(left.groups)} read it: nothing of it "
        f"is on {moved.target}."
        for left in moved.not_copied[:_SHOWN]
    ]
    more = len(moved.not_copied) - _SHOWN
    return lines if more <= 0 else [*lines, f"{more} more topics that these groups read are not copied."]


def _oldest(groups: Sequence[MovedGroup]) -> int:
    return min((group.as_of_ms for group in groups), default=0)
