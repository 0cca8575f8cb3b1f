"""Translates by the plain rule of `translation.verify=false` (KIP-1292): reads the record at the committed offset, and
takes the first target record of its time or later for the copy.

It never goes past the first unprocessed record as long as timestamps don't decrease along the log, and re-reads as
many records as share the timestamp; neither is checked, so the verdict has no bound. Translation by bracketing
(`bridge.translation.records.bracketing`) is what finds out. What is looked at is whether a copy of the record is there:
else nothing tells whether records at or after the offset are missing.

Sans-I/O: `by_timestamp` yields needs and is sent their answers; the verdict is its return value.
"""

from __future__ import annotations

from collections.abc import Generator

from bridge.model.lookups import FindTime, LookupResult, Need, Read, Scanned, Window
from bridge.model.values import Evidence, Judgement, Reason, RecordView, Side, Verdict
from bridge.translation.records.log_window import Caps, LogBounds, same


def by_timestamp(
    offset: int, source: LogBounds, target: LogBounds, caps: Caps | None = None
) -> Generator[Need, LookupResult, Verdict]:
    """Translates one committed offset. `source.end` and `target.end` are the ends of what may be read on each side.

    Returns `bounded` with evidence `timestamp` and no bound, or `pending`: offset_beyond_end, not_mirrored_yet (the
    group waits for the source or for the mirror), record_gone (expired, compacted, or no data record: asked again at
    the next interval), timestamp_unusable (negative: ListOffsets takes -1 for *latest*).
    """
    if offset > source.end:
        return Verdict.pending(Reason.OFFSET_BEYOND_END, source_end=source.end)
    if offset == source.end:
        return Verdict.pending(Reason.NOT_MIRRORED_YET, source_end=source.end)
    if offset < source.start:
        return Verdict.pending(Reason.RECORD_GONE, source_start=source.start)
    read_bytes = (caps or Caps()).read_bytes
    record = next(iter(_records((yield Read(Side.SOURCE, offset, read_bytes)), offset)), None)
    if record is None or record.offset != offset:
        return Verdict.pending(Reason.RECORD_GONE, source_start=source.start)
    if record.timestamp < 0:
        return Verdict.pending(Reason.TIMESTAMP_UNUSABLE, timestamp=record.timestamp)
    downstream = yield FindTime(Side.TARGET, record.timestamp)
    if isinstance(downstream, Window | Scanned):
        raise TypeError(f"a FindTime is answered by an offset or None, not by {downstream!r}")
    if downstream is None or downstream >= target.end:
        return Verdict.pending(Reason.NOT_MIRRORED_YET, timestamp=record.timestamp)
    detail: dict[str, str | int | None] = {"timestamp": record.timestamp}
    # A record of a later time may stand there, because the mirror began behind the offset. A copy of the record at the
    # offset proves that it did not: a mirror copies in order.
    copies = _records((yield Read(Side.TARGET, downstream, read_bytes)), downstream)
    copied = any(same(record, copy) for copy in copies)
    absent = 0 if copied else None
    return Verdict(
        Judgement.BOUNDED, downstream, None, Evidence.TIMESTAMP, detail=detail, not_on_target=absent
    )


def _records(window: LookupResult, offset: int) -> list[RecordView]:
    if not isinstance(window, Window):
        raise TypeError(f"a Read is answered by a Window, not by {window!r}")
    return [record for record in window.records if record.offset >= offset]
