"""What the state topics on the target hold, read committed and to the end: nothing else is remembered anywhere.

Who may copy is settled by the order of four steps. A driver takes over the driver's transactional id, which ends every
older driver's power to make layouts; writes its layout; takes over the ids of all slots, which ends what older slices
have open; and reads the runs. A slice takes over its slot's id, and then looks whether its layout is still the newest.
So of two layouts that overlap one sees the other, or is fenced by it, before it copies anything.
"""

from __future__ import annotations

from collections.abc import Sequence

from bridge.kafka.link import Link
from bridge.kafka.state_topics import read_committed
from bridge.pipeline.layouts import LayoutRecord, layout_key
from bridge.translation.copying import PipelineSpec
from bridge.translation.fields import SchemaError
from bridge.translation.model import LogRecord, TopicPartition
from bridge.translation.runs import RunKey


async def newest_layout(target: Link, spec: PipelineSpec) -> LayoutRecord:
    """Of this connector; layout 0 when there was none. Raises KafkaFailure."""
    newest = LayoutRecord(0, 0)
    for each in await read_committed(target, spec.layout_topic):
        found = LayoutRecord.decode(each.value) if each.key == layout_key(spec) else None
        if found is not None and found.layout >= newest.layout:
            newest = found
    return newest


def by_partition(records: Sequence[LogRecord]) -> dict[TopicPartition, list[LogRecord]]:
    """What a runs topic holds of each partition: the newest record of each key, without those that were dropped."""
    newest = {each.key: each for each in records}
    found: dict[TopicPartition, list[LogRecord]] = {}
    for key, record in newest.items():
        if record.value is None:
            continue
        try:
            found.setdefault(RunKey.decode(key).source, []).append(record)
        except SchemaError:
            continue
    return found
