"""Finds where on the target others may have copied beside us: between our runs, and behind the newest one. Pure.

    target   ... [ run ) x x [ run ) * [ newest run ) x x x ~ ~ ~ )    x: not ours; *: our marker; ~: not settled
                                                          seen    end

What stands behind the newest run may be copies of ours that came after the runs were read. What stood there before they
were read again, and the same one was the newest still, is none.
"""

from __future__ import annotations

from collections.abc import Sequence

from bridge.model.values import Bounds
from bridge.translation.records.copied_twice import turns_of
from bridge.translation.records.log_window import LogBounds
from bridge.translation.runs.run_evidence import ConsistentRuns
from bridge.translation.runs.runs import OffsetRun
from connectors.group_translation.translating.pair_memory import BehindRuns, PairMemory
from connectors.group_translation.translating.pair_state import BothSides


def places_of_others(
    memory: PairMemory,
    ledger: ConsistentRuns,
    state: BothSides,
    begin: int,
    reads: int,
    *,
    settled_only: bool,
) -> Sequence[LogBounds]:
    """Returns these places, the newest first; nothing where they were looked at often enough. Before our first run that
    concerns groups alone that stand before it (`begin`). `reads`: how often the runs were read; `settled_only`: copies
    of ours can't be recognised."""
    last = ledger.last
    if last is None:
        return ()
    behind = _behind_runs(memory, last, state.target, reads)
    place, settled = behind.others, behind.others is not None
    if place is None and reads == 1 and not settled_only:
        place = behind.place  # a service that begins does not wait for another round
    is_room = place is not None and place.end - place.start > 1 and not last.handed_back
    places = [*([place] if place is not None and is_room else []), *ledger.others]
    first = ledger.runs[0]
    if begin < first.upstream_start and state.target.start < first.downstream_start:
        places.append(LogBounds(state.target.start, first.downstream_start))
    if not places:
        return ()
    if memory.not_ours != (places[0], settled):
        memory.not_ours, memory.looks = (places[0], settled), 0
    if memory.looks >= turns_of(places):
        return ()
    memory.looks += 1
    # What is known already says nothing new.
    twice = memory.another.twice
    known = 0 if twice is None else twice.downstream + 1
    return [LogBounds(max(place.start, known), place.end) for place in places if place.end > known]


def settled_to(memory: PairMemory, ledger: ConsistentRuns) -> int:
    """Returns up to where on the target no copy of ours can stand that no run tells of."""
    behind = memory.behind_runs
    if behind is not None and behind.others is not None:
        return behind.others.end
    return 0 if ledger.last is None else ledger.last.downstream_end


def _behind_runs(memory: PairMemory, last: OffsetRun, target: Bounds, reads: int) -> BehindRuns:
    known, place = memory.behind_runs, LogBounds(last.downstream_end, target.end)
    if known is None or known.place.start != place.start:
        known = BehindRuns(reads, place)
    elif reads > known.reads:
        known = BehindRuns(reads, place, known.place)
    memory.behind_runs = known
    return known
