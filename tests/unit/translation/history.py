"""Random histories of a mirrored partition, with the truth kept beside them: the brute-force model of both logs."""

from __future__ import annotations

import random
from dataclasses import dataclass

from tests.unit.translation.logs import Log, Partition, Row


@dataclass(frozen=True)
class Kind:
    """What may happen in a history."""

    rounds: int = 2
    """In which offsets are translated, with three steps between them."""
    transactions: bool = False
    aborts: bool = False
    mirror_committed: bool = False
    """The mirror copies committed data only."""
    committed_known: bool = False
    """… and translation was told so."""
    lag: bool = False
    latest: bool = False
    source_retention: bool = False
    target_retention: bool = False
    source_compaction: bool = False
    target_compaction: bool = False
    duplicates: bool = False
    foreign: bool = False
    target_transactions: bool = False
    twins: bool = False
    out_of_order: bool = False
    negative: bool = False
    far_future: bool = False
    identical_burst: bool = False
    resent: bool = False
    """A producer sends what it has sent once more, with the same timestamps: a batch whose answer was lost, or a
    transaction that was aborted. Bursts of identical records may be long."""
    far_twins: bool = False
    """Single records are sent once more much later, with their timestamps."""
    replayed: bool = False
    """Whole runs of records are sent once more much later, with their timestamps."""
    alike: bool = False
    """All records are out of a few, and logs are short: what can be told apart is an exception."""
    last_again: bool = False
    """The mirror goes back a little and copies on at once: what it wrote last stands there twice."""
    lost_again: bool = False
    """The mirror copies again just as many as it has lost by retention on the source."""
    rolled: bool = False
    """Cleaners come near the end of the log, because its active segment is young; and take markers."""

    @property
    def copies_again(self) -> bool:
        """Second copies may stand on the target, also where the first ones are gone."""
        return self.duplicates or self.last_again or self.lost_again


class History(Partition):
    """A partition on both sides, and the mirror between them, driven by one seeded random source."""

    def __init__(self, kind: Kind, seed: str) -> None:
        super().__init__(committed_only=kind.mirror_committed and kind.committed_known)
        self.kind = kind
        self.random = random.Random(seed)
        self.position = 0
        self.reached = 0
        """The furthest position of the mirror ever: that it may go back and copy again nobody can foresee."""
        self.began = 0
        self.places: dict[int, int] = {}
        """Where on the target each source offset was copied last, up to when the mirror last was at its furthest."""
        self.copied_again: dict[int, int] = {}
        self.whole_from: int | None = None
        """While the mirror copies again: the place from where on the target holds what it copied there before."""
        self.lost = 0
        self.left_out: set[int] = set()
        """Source offsets of what nobody who reads the source finds any more, by the cleaner: what was aborted, and what
        it took between the copying and the copying again, for a later record has its key."""
        self.clock = 1_000
        self.serial = 0
        if kind.rolled:
            self.source.active, self.target.active = (self.random.choice([1, 3, 12]) for _ in range(2))
        if kind.latest and self.random.random() < 0.8:
            for _ in range(self.random.randint(1, 6)):
                self.produce()
            self.began = self.position = self.reached = self.source.end
        short = kind.alike or kind.rounds > 2
        for _ in range(self.random.randint(1, 6) if short else self.random.randint(4, 22)):
            self.step()
        if not kind.lag:
            self.mirror(1 << 30)

    # -- what may happen ------------------------------------------------------------------------------------------

    def step(self) -> None:
        kind, chance = self.kind, self.random.random()
        self.produce()
        if chance < 0.75:
            self.mirror(self.random.randint(1, 12))
        if kind.duplicates and self.random.random() < 0.2:
            self.restart(self.position - self.random.randint(1, 10))
        if kind.lost_again and self.lost and self.random.random() < 0.5:
            self.restart(self.position - self.lost)
        if kind.last_again and self.random.random() < 0.4:
            self.restart(self.position - self.random.randint(1, self.random.choice([5, 5, 5, 40])))
            self.mirror(self.random.randint(1, 6))
        if kind.foreign and self.random.random() < 0.25:
            self.serial += 1
            self.target.append([Row(0, self.clock, b"f", b"foreign-%d" % self.serial)])
        if kind.source_retention and self.random.random() < 0.12:
            self.source.retain_from(self.source.start + self.random.randint(1, 15))
        if kind.target_retention and self.random.random() < 0.12:
            self.target.retain_from(self.cleanable(self.target.start + self.random.randint(1, 15)))
        if kind.source_compaction and self.random.random() < 0.2:
            # Of identical twins with one key the cleaner keeps the last, and may run ahead of the mirror: what that has
            # copied, and what it has not, then look alike.
            self.compact(self.source, self.random.randint(self.source.start, self.source.end))
        if kind.target_compaction and self.random.random() < 0.2:
            self.compact(self.target, self.cleanable(self.random.randint(self.target.start, self.target.end)))

    def compact(self, log: Log, clean_end: int) -> None:
        aborted = {row.offset for row in self.source.rows if row.aborted}
        log.compact(clean_end, markers=self.kind.rolled and self.random.random() < 0.5)
        self.left_out |= aborted - {row.offset for row in self.source.rows}

    def restart(self, position: int) -> None:
        """The mirror goes back to a position it has committed: by seconds, while cleaner and retention stay away from
        the active segment, by hours. So what is copied again still stands where it was copied before, and will
        stand there until the mirror has come as far as it was."""
        position = max(self.source.start, self.began, position)
        while position < self.position:
            whole_from = min(
                (place for origin, place in self.places.items() if origin >= position), default=None
            )
            if whole_from is None or whole_from >= self.target.cleaned:
                break
            position += 1
        else:
            return
        self.position = position
        if whole_from is not None:
            self.whole_from = min(whole_from, self.target.end if self.whole_from is None else self.whole_from)

    def cleanable(self, end: int) -> int:
        return end if self.whole_from is None else min(end, self.whole_from)

    def produce(self) -> None:
        kind = self.kind
        rows = [self.record() for _ in range(self.random.randint(1, 6))]
        if kind.twins and self.random.random() < 0.5:
            recent = (self.source.data(False)[-4:] + rows)[-6:]
            rows.insert(
                self.random.randint(0, min(2, len(rows))), self.random.choice(recent)._replace(offset=0)
            )
        if kind.far_twins and self.random.random() < 0.4:
            some = self.source.data(False)[-40:] + rows
            rows.insert(self.random.randint(0, len(rows)), self.random.choice(some)._replace(offset=0))
        if kind.replayed and self.random.random() < 0.1:
            some = self.source.data(False)[-60:]
            first = self.random.randrange(len(some) + 1)
            rows += [row._replace(offset=0) for row in some[first : first + self.random.randint(4, 15)]]
        if kind.identical_burst and self.random.random() < 0.3:
            long = kind.resent and self.random.random() < 0.1
            rows += [rows[-1]] * self.random.randint(1, 25 if long else 5)
        aborted = kind.aborts and self.random.random() < 0.3
        if aborted and kind.source_compaction:
            # What was committed nobody sends once more in a transaction that aborts: the cleaner would take that one,
            # which the mirror has copied, and keep the first.
            sent = {row[1:4] for row in self.source.data(True)[-4:]}
            rows = [row for row in rows if row[1:4] not in sent]
        self.send(rows, aborted=aborted)
        if kind.resent and self.random.random() < (0.7 if aborted else 0.3):
            self.send(rows[-self.random.randint(1, 6) :], aborted=aborted and self.random.random() < 0.2)

    def send(self, rows: list[Row], *, aborted: bool) -> None:
        if not rows:
            return
        self.source.append([row._replace(aborted=aborted) for row in rows])
        if self.kind.transactions or aborted:
            self.source.append([Row(0, self.clock, None, None, control=True)])

    def record(self) -> Row:
        kind = self.kind
        self.clock += self.random.choice([0, 0, 0, 1, 1, 5, 40])
        if kind.alike and self.random.random() < 0.8:
            letter = b"%d" % self.random.randint(0, 3)
            return Row(0, self.clock - self.clock % 100, b"k" + letter, b"v" + letter)
        stamp = self.clock
        if kind.out_of_order:
            stamp -= self.random.randint(0, 30)
        if kind.negative and self.random.random() < 0.1:
            stamp = -self.random.randint(1, 3)
        if kind.far_future and self.random.random() < 0.05:
            stamp = 1_900_000_000_000 + self.random.randint(0, 9)
        self.serial += 1
        compacting = kind.source_compaction or kind.target_compaction
        key = b"k%d" % self.random.randint(0, 7) if compacting or self.random.random() < 0.7 else None
        value = None if key and self.random.random() < 0.05 else b"v%d" % self.serial
        headers = (("h", b"%d" % self.serial),) if value is None or self.random.random() < 0.1 else ()
        return Row(0, stamp, key, value, headers)

    def mirror(self, count: int) -> None:
        if self.position < self.source.start:
            self.lost += self.source.start - self.position
            self.position = self.source.start
        copied: list[Row] = []
        began = self.position
        for row in self.source.rows:
            if row.offset < self.position:
                continue
            if len(copied) >= count:
                break
            self.position = row.offset + 1
            if row.control or (row.aborted and self.kind.mirror_committed):
                continue
            copied.append(row._replace(origin=row.offset, aborted=False))
        else:
            self.position = max(self.position, self.source.end)
        left = {row.offset for row in self.source.rows}
        self.left_out |= {at for at in range(began, min(self.reached, self.position)) if at not in left}
        self.reached = max(self.reached, self.position)
        while copied:
            size = self.random.randint(1, 6)
            part, copied = copied[:size], copied[size:]
            if self.kind.target_transactions:
                if self.random.random() < 0.2:
                    self.target.append([row._replace(aborted=True) for row in part])
                    self.target.append([Row(0, self.clock, None, None, control=True)])
                self.place(part)
                self.target.append([Row(0, self.clock, None, None, control=True)])
            else:
                self.place(part)
        if self.position >= self.reached:
            self.places |= self.copied_again
            self.copied_again, self.whole_from = {}, None

    def place(self, rows: list[Row]) -> None:
        for place, row in enumerate(rows, self.target.end):
            assert row.origin is not None
            self.copied_again[row.origin] = place
        self.target.append(rows)

    # -- the truth ----------------------------------------------------------------------------------------------------

    def visible(self) -> list[Row]:
        return self.target.data(True)

    def first_unprocessed(self, offset: int, at_or_after: int = 0) -> int | None:
        """The first place at or after `at_or_after` of a copy of a source record at or after `offset`."""
        places = (
            row.offset
            for row in self.visible()
            if row.offset >= at_or_after and row.origin is not None and row.origin >= offset
        )
        return next(places, None)

    def skipped(self, offset: int, answer: int) -> list[int]:
        """Source offsets at or after `offset` that the target holds only below `answer`; without those that are left
        out for who reads the source, too."""
        held = {row.origin for row in self.visible() if row.origin is not None and row.origin >= offset}
        held -= self.left_out
        ahead = {row.origin for row in self.visible() if row.offset >= answer}
        return sorted(held - ahead)

    def reread(self, offset: int, answer: int) -> int:
        """Records that a reader from `answer` reads before its first unprocessed one: those that a group committed at
        `offset` had processed, and those that are no copies; what is still to be mirrored first included."""
        first = self.first_unprocessed(offset, answer)
        if first is not None:
            return sum(answer <= row.offset < first for row in self.visible())
        held = sum(row.offset >= answer for row in self.visible())
        to_come = sum(
            self.reached <= row.offset < offset for row in self.source.data(self.kind.mirror_committed)
        )
        return held + to_come
