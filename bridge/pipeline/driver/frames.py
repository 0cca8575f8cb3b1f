"""The protocol between the launcher and the driver process: a JSON object a line, on standard input and output.

    to the driver      {"spec": …}  once, first; {"assign": [ … ]}; {"release": [topics]}; {"stop": true}
                       {"skip": [topic, partition, offset, end]}
                       {"gateway": [port, secret]}  before the spec, where Spark runs already
    to the launcher    {"status": {"progress": [[topic, target topic, [row], …], …], …}};
                       {"samples": [ … ]}, what was copied since the last ones
                       {}  when there was nothing to say for some seconds

A row of progress has what the driver knows of one partition: `partition`, `position`, `source_end`, `records`, `bytes`,
`record_age_ms`, `replication_latency_ms`, in this order. The two names stand once for all partitions of a topic: a
status of 100,000 partitions goes by twice a second.

The process that holds a shared Spark gets {"settings": {key: value}} first, then {"cancel": connector} and
{"stop": true}, and writes {"gateway": [port, secret]} once it runs.

The end of the driver's input is the end of the driver: it never outlives whoever started it.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from bridge.model.copying import (
    Copied,
    CopySample,
    Gap,
    GapKind,
    PipelineSpec,
    PipelineState,
    PipelineStatus,
    Progress,
    Transform,
)
from bridge.model.partition_states import Skip, pack, unpack
from bridge.model.values import Side, TopicPartition

LONGEST = 64 * 1024 * 1024
"""Bytes of a line: 100,000 partitions and more."""


class Gateway(NamedTuple):
    """Where the JVM of a Spark that runs already listens, on this machine, and what it asks for."""

    port: int
    secret: str


def pack_gateway(gateway: Gateway) -> bytes:
    return _line({"gateway": list(gateway)})


def unpack_gateway(message: Mapping[str, Any]) -> Gateway | None:
    return Gateway(*message["gateway"]) if "gateway" in message else None


def pack_settings(settings: Mapping[str, str]) -> bytes:
    return _line({"settings": dict(settings)})


def pack_cancel(connector: str) -> bytes:
    return _line({"cancel": connector})


def pack_spec(spec: PipelineSpec) -> bytes:
    return _line({"spec": dataclasses.asdict(spec)})


def pack_assignment(partitions: Sequence[Copied]) -> bytes:
    rows = [
        [
            *partition.source,
            partition.source_topic_id,
            partition.target_topic,
            partition.target_topic_id,
            partition.start,
            partition.transforms,
            partition.also,
        ]
        for partition in partitions
    ]
    return _line({"assign": rows})


def pack_release(topics: Sequence[str]) -> bytes:
    return _line({"release": topics})


def pack_skip(skip: Skip) -> bytes:
    return _line({"skip": list(skip)})


def pack_stop() -> bytes:
    return _line({"stop": True})


def pack_status(status: PipelineStatus) -> bytes:
    fields = {
        **{field.name: getattr(status, field.name) for field in dataclasses.fields(status)},
        "progress": _packed_progress(status.progress.values()),
        "gaps": [[*gap.source, *(getattr(gap, name) for name in _GAP)] for gap in status.gaps],
        "partitions": pack(status.partitions),
    }
    return _line({"status": fields})


def pack_alive() -> bytes:
    return _line({})


def pack_samples(samples: Sequence[CopySample]) -> bytes:
    return _line({"samples": samples})


def unpack_samples(packed: Sequence[Sequence[Any]]) -> list[CopySample]:
    return [CopySample.from_row(row) for row in packed]


def read_line(line: bytes) -> Mapping[str, Any]:
    """Raises ValueError for what is no JSON object."""
    message = json.loads(line)
    if not isinstance(message, dict):
        raise ValueError("not a JSON object")
    return message


def unpack_spec(packed: Mapping[str, Any]) -> PipelineSpec:
    transforms = tuple(
        Transform(name, function, parameters, tuple(to))
        for name, function, parameters, to in packed["transforms"]
    )
    return PipelineSpec(
        **{
            **packed,
            "take_over_from": tuple(packed["take_over_from"]),
            "merge_with": tuple(packed["merge_with"]),
            "transforms": transforms,
        }
    )


def unpack_assignment(packed: Sequence[Sequence[Any]]) -> list[Copied]:
    return [
        Copied(
            TopicPartition(topic, partition),
            source_id,
            target,
            target_id,
            start,
            tuple(transforms),
            tuple((other, other_id) for other, other_id in also),
        )
        for topic, partition, source_id, target, target_id, start, transforms, also in packed
    ]


def unpack_status(packed: Mapping[str, Any]) -> PipelineStatus:
    progress = [
        Progress(
            topic,
            partition,
            target,
            at,
            end,
            records,
            size,
            record_age_ms=age,
            replication_latency_ms=latency,
        )
        for topic, target, *rows in packed["progress"]
        for partition, at, end, records, size, age, latency in rows
    ]
    gaps = [
        Gap(TopicPartition(topic, partition), GapKind(kind), *rest)
        for topic, partition, kind, *rest in packed["gaps"]
    ]
    return PipelineStatus(
        **{
            **packed,
            "state": PipelineState(packed["state"]),
            "progress": {each.source: each for each in progress},
            "gaps": gaps,
            "away": tuple(map(Side, packed["away"])),
            "claimed": tuple(packed["claimed"]),
            "partitions": unpack(packed["partitions"]),
        }
    )


def _packed_progress(progress: Iterable[Progress]) -> list[list[object]]:
    """Packs progress without the rates, which the driver does not know."""
    topics: dict[tuple[str, str], list[object]] = {}
    for topic, partition, target, position, end, records, size, _, _, age, latency in progress:
        rows = topics.setdefault((topic, target), [topic, target])
        rows.append((partition, position, end, records, size, age, latency))
    return list(topics.values())


_GAP = [field.name for field in dataclasses.fields(Gap)][1:]


def _line(message: Mapping[str, object]) -> bytes:
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"
