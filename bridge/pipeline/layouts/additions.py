"""The record that adds partitions to a slice of a layout that is copied already, and skips offsets in them. Pure.

    key                                                value
    {"connector", "additions"}                         all that was added to the slot of that number in this
                                                       layout, and all offsets that it is to leave out

A slice that copies goes on with what it has and takes these beside it: nothing else pauses. Nobody copies them before:
whatever an older layout had was fenced when this one was made, and what a layout loses makes a new one.

Whoever may write to the layout topic could have any topic copied to any other by such a record, so each is signed with
a key of its layout, which only the driver and the slices have.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from bridge.model.copying import Copied, PipelineSpec
from bridge.model.partition_states import Skip
from bridge.model.values import LogRecord, TopicPartition
from bridge.pipeline.layouts.records import VERSION
from bridge.pipeline.layouts.slots import Slice, balance

MOST_BYTES = 256 * 1024
"""Of a record's value: far below what a broker takes. What is more makes a new layout."""


class Additions(NamedTuple):
    """What has come to a slice since its layout was made."""

    partitions: Sequence[Addition] = ()
    skips: Sequence[Skip] = ()


class Addition(NamedTuple):
    """A partition that a slice copies from now on; `runs`: the committed runs of its copies, as records."""

    copied: Copied
    runs: Sequence[LogRecord] = ()


def additions_key(spec: PipelineSpec, slot: int) -> bytes:
    return json.dumps({"connector": spec.name, "additions": slot}, separators=(",", ":")).encode()


def encode(work: Slice, additions: Additions) -> bytes:
    """The record's value: all that has come to this slice."""
    content = json.dumps(
        {
            "layout": work.layout,
            "slot": work.slot,
            "partitions": [_packed(each) for each in additions.partitions],
            "skips": additions.skips,
        },
        separators=(",", ":"),
    )
    return json.dumps({"version": VERSION, "content": content, "mac": _mac(work, content)}).encode()


def decode(value: bytes | None, work: Slice) -> Additions | None:
    """Decodes what has come to the slice; None for a record that is not of its layout, or that the driver has not
    signed."""
    try:
        fields = json.loads(value or b"null")
        content, mac = fields["content"], fields["mac"]
        if not hmac.compare_digest(_mac(work, content), mac):
            return None
    except (ValueError, RecursionError, TypeError, KeyError, AttributeError):
        return None
    known: Mapping[str, Any] = json.loads(content)  # signed: ours, to the letter
    if (known["layout"], known["slot"]) != (work.layout, work.slot):
        return None
    return Additions(
        [_unpacked(each) for each in known["partitions"]], [Skip(*each) for each in known.get("skips", ())]
    )


def joining(copied: Sequence[Copied], wanted: Sequence[Copied]) -> list[Copied] | None:
    """The partitions that are wanted and not copied yet; None where something that is copied is not wanted as it is."""
    held = {each.source: each for each in copied}
    found = {each.source: each for each in wanted}
    if any(found.get(source) != each for source, each in held.items()):
        return None
    return [each for source, each in found.items() if source not in held]


def spread(
    slots: Sequence[Sequence[Copied]], new: Sequence[Copied], weights: Mapping[TopicPartition, float]
) -> list[list[Copied]]:
    """The new partitions by slot: what the slots hold already counts as `balance` counts it."""
    unknown = min((weight for weight in weights.values() if weight > 0), default=1.0)
    loads = [sum(max(weights.get(each.source, unknown), unknown) for each in held) for held in slots]
    added: list[list[Copied]] = [[] for _ in slots]
    (ordered,) = balance(new, 1, weights) or [[]]
    for each in ordered:
        lightest = loads.index(min(loads))
        added[lightest].append(each)
        loads[lightest] += unknown
    return added


def _mac(work: Slice, content: str) -> str:
    return hmac.new(work.secret, content.encode(), hashlib.sha256).hexdigest()


def _packed(addition: Addition) -> list[object]:
    each = addition.copied
    runs = [(run.offset, run.timestamp, _text(run.key), _text(run.value)) for run in addition.runs]
    return [
        *each.source,
        each.source_topic_id,
        each.target_topic,
        each.target_topic_id,
        each.start,
        each.copied_before,
        runs,
    ]


def _unpacked(packed: Sequence[Any]) -> Addition:
    topic, partition, source_id, target, target_id, start, before, runs = packed
    copied = Copied(
        TopicPartition(topic, partition), source_id, target, target_id, start, copied_before=before
    )
    return Addition(
        copied, [LogRecord(at, time, _bytes(key), _bytes(value)) for at, time, key, value in runs]
    )


def _text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
