"""Random histories of a partition that is copied exactly once, with the truth kept beside the runs that are written."""

from __future__ import annotations

import random
from itertools import count
from typing import NamedTuple

from bridge.model.copying import Copied
from bridge.model.values import CopyId, LogRecord, TopicPartition
from bridge.translation.records.log_window import LogBounds
from bridge.translation.runs.partition_runs import PartitionRuns
from bridge.translation.runs.run_evidence import read_runs
from bridge.translation.runs.runs import OffsetRun, Segment

PLACE = TopicPartition("orders", 0)
COPY = CopyId(PLACE, "A.orders")


class Origin(NamedTuple):
    """Of a copy: the record's number, no other one's, and its offset."""

    serial: int
    offset: int


class CopiedPartition:
    """`source`: the number of the record at each offset, None where there is none. `target`: what each place is a copy
    of, None for markers, aborted copies and records of others."""

    def __init__(self, seed: str) -> None:
        self.random, self._order = random.Random(seed), random.Random(seed)
        self._serials = count()
        self.source: list[int | None] = []
        self.epochs: list[int] = []
        """Of the leader that wrote each offset of the source."""
        self.epoch = 0
        self.source_start = 0
        self.target: list[Origin | None] = [None] * self.random.randint(0, 3)
        self.target_start = 0
        self.copied = Copied(PLACE, "s1", "A.orders", "t1")
        self.position: int | None = None
        self.lost = False
        """The target was cut back since the last copy."""
        self.was_cut = False
        """It was cut back at all."""
        self.source_was_cut = False
        """The source was, or it was made anew."""
        self.live: dict[bytes, bytes] = {}
        """The runs topic, compacted."""
        self.older: dict[bytes, bytes] = {}
        """As it was some commits ago, nothing having been taken back since."""
        self.owner = PartitionRuns()
        self.produce()
        for _ in range(self.random.randint(5, 40)):
            self.step()

    def step(self) -> None:
        chance = self.random.random()
        self.produce()
        if chance < 0.75:
            self.copy()
        elif chance < 0.80:
            self.abort()
        elif chance < 0.84:
            self.source_start = self.random.randint(self.source_start, len(self.source))
        elif chance < 0.87:
            self.target_start = self.random.randint(self.target_start, len(self.target))
        elif chance < 0.90:
            self.cut_source()
        elif chance < 0.93:
            self.cut_target()
        elif chance < 0.95:
            self.target += [None] * self.random.randint(1, 3)
        elif chance < 0.98:
            self.owner = PartitionRuns(self.runs())
        else:
            self.recreate()
        if self.random.random() < 0.3:
            self.older = dict(self.live)

    def produce(self) -> None:
        for _ in range(self.random.randint(0, 6)):
            self.source.append(None if self.random.random() < 0.15 else next(self._serials))
            self.epochs.append(self.epoch)

    def copy(self) -> None:
        """One transaction."""
        if self.position is None:
            self.position = self.random.choice([0, self.source_start, len(self.source)])
        last = self.target[-1] if self.target else None
        if self.lost and last is not None and self.random.random() < 0.5:
            self.position = min(self.position, last.offset + 1)
        if self.lost or self.position > len(self.source):
            self.older = {}
        began = self.position
        at = covered = max(min(began, len(self.source)), self.source_start)
        covered = min(began, covered)
        segments: list[Segment] = []
        end = min(len(self.source), at + self.random.randint(0, 12))
        while at < end:
            if self.source[at] is None or self.random.random() < 0.05:
                if self.source[at] is not None:
                    self.target.append(None)  # another producer's record came between two batches
                else:
                    at += 1
                    continue
            first, place = at, len(self.target)
            while at < end and (serial := self.source[at]) is not None:
                self.target.append(Origin(serial, at))
                at += 1
            segments.append(Segment(covered, first, place, at - first, self.epochs[at - 1], 1000 + at))
            covered = at
        if segments:
            self.target.append(None)
            self.lost = False
        self.position = max(at, self.source_start)
        self.write(segments)

    def write(self, segments: list[Segment]) -> None:
        assert self.position is not None
        for key, value in self.owner.commit(segments, self.position, self.copied):
            if value is None:
                self.live.pop(key, None)
            else:
                self.live[key] = value

    def abort(self) -> None:
        self.target += [None] * self.random.randint(1, 5)

    def cut_source(self) -> None:
        self.source_was_cut = True
        self.source = self.source[: self.random.randint(self.source_start, len(self.source))]
        self.epochs = self.epochs[: len(self.source)]
        self.epoch += 1
        if self.position is not None and len(self.source) < self.position:
            self.older = {}
            if self.random.random() < 0.5:
                self.position = len(self.source)
                self.write([])

    def cut_target(self) -> None:
        self.target = self.target[: self.random.randint(self.target_start, len(self.target))]
        self.older = {}
        self.lost = self.was_cut = True

    def recreate(self) -> None:
        self.older = {}
        if self.random.random() < 0.5:
            self.copied = Copied(
                PLACE, self.copied.source_topic_id + "x", "A.orders", self.copied.target_topic_id
            )
            self.source, self.epochs, self.source_start, self.position = [], [], 0, 0
            self.source_was_cut = True
            self.produce()
        else:
            self.copied = Copied(
                PLACE, self.copied.source_topic_id, "A.orders", self.copied.target_topic_id + "x"
            )
            self.target, self.target_start = [], 0

    # -- what is known, and the truth ------------------------------------------------------------------------------

    def runs(self, live: dict[bytes, bytes] | None = None) -> list[OffsetRun]:
        records = [
            LogRecord(0, 0, key, value) for key, value in (self.live if live is None else live).items()
        ]
        self._order.shuffle(records)
        copied_runs = read_runs(records)
        return list(copied_runs[COPY].runs) if copied_runs else []

    @property
    def source_bounds(self) -> LogBounds:
        return LogBounds(self.source_start, len(self.source))

    @property
    def target_bounds(self) -> LogBounds:
        return LogBounds(self.target_start, len(self.target))

    def _held(self, offset: int, place: int) -> list[tuple[int, Origin]]:
        """Copies at or after `place` of what the source has at or after `offset`, with their places."""
        return [
            (at, origin)
            for at, origin in enumerate(self.target[place:], place)
            if origin is not None
            and offset <= origin.offset < len(self.source)
            and self.source[origin.offset] == origin.serial
        ]

    def skipped(self, offset: int, answer: int) -> set[Origin]:
        """Records at or after `offset` that the target holds below `answer` only."""
        held = {origin for _, origin in self._held(offset, self.target_start)}
        return held - {origin for _, origin in self._held(offset, answer)}

    def reread(self, offset: int, answer: int) -> int:
        """Records before `offset` that are read, from `answer` on, before the first one at or after it; those that are
        still to be copied included."""
        ahead = self._held(offset, answer)
        first = ahead[0][0] if ahead else len(self.target)
        there = sum(at < first and origin.offset < offset for at, origin in self._held(0, answer))
        if ahead or self.position is None:
            return there
        at = max(self.source_start, min(self.position, len(self.source)))
        return there + sum(serial is not None for serial in self.source[at:offset])
