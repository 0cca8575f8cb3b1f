"""Places of merged runs, found out by the target's batch headers within what a round may read (design 5.1)."""

from __future__ import annotations

from collections.abc import Mapping

from bridge.translation.lookups import Scan, Scanned
from bridge.translation.model import Side
from bridge.translation.run_places import RunPlaces
from bridge.translation.runs import OffsetRun
from bridge.translation.stretch import LogBounds, Steps

READ_BYTES = 1024 * 1024
ROUND_BYTES = 32 * 1024 * 1024
"""What the rounds of one connector read at most for this; a run that takes longer is gone on with in the next one."""
RUN_BYTES = 8 * ROUND_BYTES
"""Larger runs keep their bound: it would take too long."""
_MOST_RUNS = 256


class Scanning:
    """What one connector knows of places, by run, which has its topic ids: of the runs that were read last."""

    def __init__(self) -> None:
        self._places: dict[OffsetRun, RunPlaces] = {}
        self._left = ROUND_BYTES

    @property
    def places(self) -> Mapping[OffsetRun, RunPlaces]:
        return self._places

    def end_round(self) -> None:
        self._left = ROUND_BYTES

    def due(self, run: OffsetRun | None, offset: int, target: LogBounds) -> bool:
        """Whether reading (on) can make an answer exact: what stands before it is known upstream, and not downstream.
        `run`: the one that the offset lies in."""
        if run is None or not run.extra or run.size > RUN_BYTES or self._left <= 0:
            return False
        places = self._places.get(run) or RunPlaces(run)
        fewest, most = places.before(offset)
        return (
            0 < fewest == most and places.hidden > 0 and places.read_to < min(run.downstream_end, target.end)
        )

    def steps(self, run: OffsetRun, target: LogBounds) -> Steps[None]:
        """Reads until all is found, or the run or what may be read ends."""
        places = self._places.pop(run, None) or RunPlaces(run)
        self._places[run] = places
        if len(self._places) > _MOST_RUNS:
            del self._places[next(iter(self._places))]
        end = min(run.downstream_end, target.end)
        while places.hidden > 0 and places.read_to < end and self._left > 0:
            answer = yield Scan(Side.TARGET, max(places.read_to, target.start), READ_BYTES)
            if not isinstance(answer, Scanned):
                return
            self._left -= answer.size
            places.learn(answer)
