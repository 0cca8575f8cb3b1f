"""The kinds of random histories, and how many of each a run of tests goes through."""

from __future__ import annotations

import pytest

from tests.unit.translation.history import Kind

ORDINARY: dict[str, Kind] = {
    "plain": Kind(),
    "mirror_lag": Kind(lag=True),
    "latest": Kind(latest=True, lag=True),
    "source_retention": Kind(source_retention=True, lag=True),
    "target_retention": Kind(target_retention=True, lag=True),
    "source_compaction": Kind(source_compaction=True, lag=True),
    "target_compaction": Kind(target_compaction=True, lag=True),
    "both_compaction": Kind(source_compaction=True, target_compaction=True, lag=True),
    "duplicates": Kind(duplicates=True, lag=True),
    "foreign": Kind(foreign=True, lag=True),
    "duplicates_foreign": Kind(duplicates=True, foreign=True, lag=True),
    "transactions": Kind(transactions=True, target_transactions=True, lag=True),
    "aborted": Kind(aborts=True, lag=True),
    "aborted_committed_mirror": Kind(aborts=True, transactions=True, mirror_committed=True, lag=True),
    "aborted_known": Kind(aborts=True, transactions=True, mirror_committed=True, committed_known=True, lag=True),
    "twins": Kind(twins=True, identical_burst=True, lag=True),
    "twins_latest": Kind(twins=True, identical_burst=True, lag=True, latest=True, target_retention=True),
    "out_of_order": Kind(out_of_order=True),
    "out_of_order_lag": Kind(out_of_order=True, lag=True),
    "negative": Kind(negative=True, lag=True),
    "far_future": Kind(far_future=True, lag=True),
    "mixed": Kind(
        transactions=False, aborts=True, lag=True, latest=True, source_retention=True, target_retention=True,
        source_compaction=True, target_compaction=True, duplicates=True, foreign=True, twins=True,
        out_of_order=True, negative=True, far_future=True, identical_burst=True,
    ),
    "mixed_transactions": Kind(
        transactions=True, aborts=True, mirror_committed=True, committed_known=True, lag=True, latest=True,
        source_retention=True, target_retention=True, source_compaction=True, target_compaction=True,
        duplicates=True, foreign=True, target_transactions=True, twins=True, out_of_order=True,
        negative=True, far_future=True, identical_burst=True,
    ),
}  # fmt: skip

TWINS: dict[str, Kind] = {
    "last_again": Kind(rounds=6, duplicates=True, last_again=True, lag=True),
    "twins_again": Kind(last_again=True, twins=True, identical_burst=True, lag=True),
    "resent": Kind(resent=True, twins=True, identical_burst=True, lag=True),
    "resent_again": Kind(
        last_again=True, duplicates=True, resent=True, identical_burst=True, twins=True, lag=True, foreign=True
    ),
    "resent_expired": Kind(
        last_again=True, duplicates=True, resent=True, identical_burst=True, source_retention=True,
        target_retention=True, latest=True, lag=True,
    ),
    "resent_transactions": Kind(
        resent=True, identical_burst=True, transactions=True, aborts=True, target_transactions=True,
        last_again=True, lag=True,
    ),
    "twins_compacted": Kind(
        source_compaction=True, rolled=True, twins=True, identical_burst=True, resent=True, lag=True
    ),
    "both_compacted_markers": Kind(
        source_compaction=True, target_compaction=True, rolled=True, twins=True, transactions=True,
        target_transactions=True, lag=True,
    ),
    "both_compacted_again": Kind(
        source_compaction=True, target_compaction=True, rolled=True, twins=True, identical_burst=True, resent=True,
        transactions=True, target_transactions=True, last_again=True, duplicates=True, lag=True,
    ),
    "far_twins": Kind(far_twins=True, last_again=True, lag=True),
    "far_twins_expired": Kind(
        far_twins=True, twins=True, source_retention=True, target_retention=True, latest=True, foreign=True, lag=True
    ),
    "far_twins_compacted": Kind(
        far_twins=True, twins=True, source_compaction=True, target_compaction=True, rolled=True, latest=True,
        last_again=True, target_transactions=True, lag=True,
    ),
    "far_twins_source": Kind(far_twins=True, source_compaction=True, rolled=True, transactions=True, lag=True),
    "far_twins_target": Kind(far_twins=True, target_compaction=True, rolled=True, latest=True, lag=True),
    "replayed": Kind(replayed=True, lag=True),
    "lost_again": Kind(rounds=8, lost_again=True, source_retention=True, target_retention=True, lag=True),
    "lost_twins": Kind(
        rounds=8, lost_again=True, source_retention=True, twins=True, identical_burst=True, resent=True, lag=True
    ),
    "compacted_long": Kind(
        rounds=8, source_compaction=True, target_compaction=True, rolled=True, twins=True, identical_burst=True,
        resent=True, last_again=True, target_transactions=True, lag=True,
    ),
    "alike_again": Kind(alike=True, last_again=True, duplicates=True, identical_burst=True, lag=True),
    "alike_expired": Kind(
        alike=True, last_again=True, resent=True, source_retention=True, target_retention=True, latest=True,
        foreign=True, lag=True,
    ),
    "alike_compacted": Kind(
        alike=True, source_compaction=True, target_compaction=True, rolled=True, last_again=True, resent=True,
        transactions=True, target_transactions=True, lag=True,
    ),
    "alike_compacted_lag": Kind(alike=True, source_compaction=True, rolled=True, resent=True, lag=True),
    "mixed_again": Kind(
        transactions=False, aborts=True, lag=True, latest=True, source_retention=True, target_retention=True,
        source_compaction=True, target_compaction=True, duplicates=True, foreign=True, twins=True,
        out_of_order=True, negative=True, far_future=True, identical_burst=True, resent=True, last_again=True,
        rolled=True,
    ),
}  # fmt: skip
"""Where identical records meet what makes copies of them hard to tell apart: the mirror wrote the last ones twice, a
producer sent them again at once or much later, or a cleaner has been at work on the source, the target, or both."""

KINDS = ORDINARY | TWINS


ALL = "all"
HISTORIES = ("few", pytest.param(ALL, marks=pytest.mark.long))
"""A few find nearly all that any of them finds; what is rare is in all of them together."""


def count(
    name: str, which: str, given: str | None, few: int, ordinary: int, twins: int, part: int = 1
) -> int:
    """Histories of one kind: a few, or as many as stated, or that part of what was told (MIRROR_BRIDGE_HISTORIES)."""
    if which != ALL:
        return few
    if given is not None:
        return int(given) // part
    return twins if name in TWINS else ordinary
