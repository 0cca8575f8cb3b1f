"""Tells by the records next to a copy which original it is of, where its own content does not: an identical record may
be far away."""

from __future__ import annotations

from bridge.model.values import RecordView
from bridge.translation.records import duplicates
from bridge.translation.records.log_window import LogSection, Steps, same
from bridge.translation.records.partition_cache import PartitionMemory

COUNT = 3
"""Records next to a copy that are looked at."""


def beside(
    record: RecordView, downstream: int, record_log: LogSection, target_log: LogSection
) -> Steps[bool]:
    """Whether the target has, near the copy at `downstream`, what the source has near `record`: then it is the copy of
    `record`, and not of an identical earlier one that is too far away to be seen. `record_log`, `target_log`: source
    and target around them."""
    edge = record.offset
    preceding: list[RecordView] = []
    while (
        len(preceding) < duplicates.BLOCK
        and (earlier := (yield from record_log.last_before(edge))) is not None
    ):
        preceding.append(earlier)
        edge = earlier.offset
    if not preceding:
        return True
    edge = downstream
    for _ in range(COUNT):
        earlier = yield from target_log.last_before(edge)
        if earlier is None:
            break
        if any(same(earlier, each) for each in preceding):
            return True
        edge = earlier.offset
    after = yield from record_log.first_from(record.offset + 1)
    following = yield from target_log.first_from(downstream + 1)
    if after is None or following is None:
        return False
    return same(following, after) and not same(after, record)


def none_alike(
    offset: int,
    record: RecordView,
    downstream: int,
    source_log: LogSection,
    target_log: LogSection,
    memory: PartitionMemory,
) -> Steps[bool]:
    """Whether the source holds no record identical to `record` from `offset` to a little beyond the originals of what
    follows `downstream` on the target: then the copy at `downstream` is of a record before `offset`, as `record` is."""
    originals = []
    for _ in range(COUNT):
        following = yield from target_log.first_from(downstream + 1)
        if following is None:
            break
        original = yield from duplicates.first_at_or_after(source_log, offset, following, memory)
        if original is not None:
            originals.append(original.offset)
        downstream = following.offset
    if not originals:
        return False
    # Beyond: what follows may recur, and its first original be that of another copy.
    while (
        len(source_log.records) < source_log.index(max(originals)) + duplicates.BLOCK
        and not source_log.at_end
    ):
        yield from source_log.forward()
    return not any(same(each, record) for each in source_log.records[source_log.index(offset) :])
