"""Collects how long the records of one copy took until a transaction commits them.

Only headers of batches are read, as for copying: of a batch that is sent as it is nothing else is decoded. Its records
count as spread evenly between its first and its greatest timestamp.
"""

from __future__ import annotations

from dataclasses import dataclass

from bridge.kafka.record.batch import Chunk
from bridge.model.copy_samples import Latencies
from bridge.translation.runs.commit_times import encode_times


@dataclass(slots=True)
class RecordTimes:
    """The timestamps of the records that were added: their sum, the oldest, the newest; and their ages."""

    count: int = 0
    sum: int = 0
    oldest: int = 0
    newest: int = 0
    age: int = 0
    least_age: int = 0
    greatest_age: int = 0

    def add(self, chunk: Chunk, fetched_ms: int) -> None:
        first, newest = chunk.timestamps
        if newest < 0:
            return
        oldest = first if 0 <= first <= newest else newest
        mean = (oldest + newest) // 2
        least, greatest = max(0, fetched_ms - newest), max(0, fetched_ms - oldest)
        if self.count:
            self.oldest, self.newest = min(self.oldest, oldest), max(self.newest, newest)
            least, greatest = min(self.least_age, least), max(self.greatest_age, greatest)
        else:
            self.oldest, self.newest = oldest, newest
        self.least_age, self.greatest_age = least, greatest
        self.count += chunk.count
        self.sum += chunk.count * mean
        self.age += chunk.count * max(0, fetched_ms - mean)

    def encoded(self, now_ms: int) -> bytes:
        """The times of a commit at `now_ms`."""
        if not self.count:
            return b""
        least, greatest = max(0, now_ms - self.newest), max(0, now_ms - self.oldest)
        # A clock that is behind those of producers makes latencies of 0, as stock shows negative ones.
        total = min(max(self.count * now_ms - self.sum, self.count * least), self.count * greatest)
        age = min(max(self.age, self.count * self.least_age), self.count * self.greatest_age)
        return encode_times(
            Latencies(self.count, age, self.least_age, self.greatest_age),
            Latencies(self.count, total, least, greatest),
        )
