"""Words the errors of a connector whose copies belong to another one (see bridge.pipeline.claims)."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from bridge.model.copying import TAKE_OVER_FROM

TopicPair = tuple[str, str]
"""A source topic and its target topic."""
_NAMED = 3
"""Topics that an error names; of more it says how many."""


def refusals(taken: Mapping[TopicPair, str], connector: str) -> list[str]:
    """Returns one sentence for each owner: what belongs to it, and what to do. `taken`: the owner of each pair."""
    return [
        _refusal([pair for pair in sorted(taken) if taken[pair] == owner], owner, connector)
        for owner in sorted(set(taken.values()))
    ]


def _refusal(pairs: Collection[TopicPair], owner: str, connector: str) -> str:
    named = ", ".join(f"{source} to {target}" for source, target in list(pairs)[:_NAMED])
    more = f" and {len(pairs) - _NAMED} more" if len(pairs) > _NAMED else ""
    return (
        f"connector {owner} copies {named}{more} already, and {connector} would write each record a second time. "
        f"Exclude what it copies with topics.exclude, or go on under the name {owner}, or stop {owner} and hand its "
        f"copies back (mirror-bridge hand-back {owner}), or set {TAKE_OVER_FROM}={owner}, which shuts {owner} out"
    )
