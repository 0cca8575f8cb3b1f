"""Stock's own classes as tests of its known defects ask them."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from pathlib import Path

from bridge.mm2.records import Checkpoint
from bridge.model.values import TopicPartition
from tests.support.java import Oracle

Syncs = Iterable[tuple[int, int]]
"""Upstream and downstream offsets."""
PACKAGE = "org.apache.kafka.connect.mirror."
HERE = Path(__file__).parent


class Stock:
    """Stock's classes, asked by two programs: StockStore by lines, KnownDefects by a defect's name."""

    def __init__(self, classes: Path) -> None:
        self._store = Oracle(HERE / "StockStore.java", classes, f"{PACKAGE}StockStore")
        self._defects = Oracle(HERE / "KnownDefects.java", classes, f"{PACKAGE}KnownDefects")

    def shows(self, defect: str, *arguments: object) -> str:
        return self._defects.run("", defect, *map(str, arguments)).strip()

    def checkpoints(
        self, syncs: Syncs, offsets: Iterable[int], *, topic: str = "orders", only_last: bool = False
    ) -> list[tuple[int, int] | None]:
        """What is emitted for a group that commits these offsets, one after the other, after these syncs; `only_last`:
        the checkpoints that were there could not be read."""
        lines: list[tuple[object, ...]] = [("store", int(only_last))]
        lines += [("sync", _b64(topic), 0, *sync) for sync in syncs]
        lines += [("started",), ("task", "default", _b64("A"), _b64("B"))]
        lines += [("checkpoints", _b64("g"), _b64(topic), 0, offset, "") for offset in offsets]
        return [_offsets(line) for line in self._answers(lines)]

    def group_sync(
        self, checkpoints: Mapping[TopicPartition, int], idle: int | None
    ) -> list[tuple[str, ...]]:
        """What is committed for a group with these checkpoints, whose metadata is `md`: remote topic, partition,
        offset, metadata and leader epoch. `idle`: the offset for `A.orders` in the snapshot of idle groups, None where
        the group is not in it."""
        fields: list[object] = [field for place in checkpoints for field in _place(place, checkpoints[place])]
        snapshot: list[object] = [0] if idle is None else [1, _b64("A.orders"), 0, idle, ""]
        (answer,) = self._answers(
            [("store", 0), ("started",), ("groupsync", _b64("g"), len(checkpoints), *fields, *snapshot)]
        )
        return [_decoded(each.split(":")) for each in answer.split()]

    def _answers(self, lines: Iterable[tuple[object, ...]]) -> list[str]:
        return self._store.run("".join("\t".join(map(str, line)) + "\n" for line in lines)).splitlines()


def _b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _place(place: TopicPartition, downstream: int) -> tuple[object, ...]:
    return _b64(place.topic), place.partition, downstream, downstream, _b64("md")


def _decoded(fields: list[str]) -> tuple[str, ...]:
    topic, partition, offset, metadata, epoch = fields
    return base64.b64decode(topic).decode(), partition, offset, base64.b64decode(metadata).decode(), epoch


def _offsets(line: str) -> tuple[int, int] | None:
    if not line:
        return None
    checkpoint = Checkpoint.decode(*map(bytes.fromhex, line.split(":")))
    return checkpoint.upstream_offset, checkpoint.downstream_offset
