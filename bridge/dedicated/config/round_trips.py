"""Finds flows of a file that would send records round and round: both directions, under names that stay.

At run time the claim of the first one refuses the second. Where the file alone shows it, nothing starts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from bridge.dedicated.config import names
from bridge.dedicated.config.plan import Properties
from bridge.errors import ConfigError
from bridge.mm2.filters import (
    TOPICS,
    TOPICS_DEFAULT,
    TOPICS_EXCLUDE,
    TOPICS_EXCLUDE_DEFAULT,
    DefaultTopicFilter,
    split_list,
)
from bridge.model.copy_owners import opposite_refusal
from bridge.policies.languages import Languages, TooComplex
from bridge.policies.patterns import Unprovable, read_pattern
from connectors.config.validators import invalid
from connectors.ports import ClientCheck
from connectors.source.options import SourceOptions

_COMMON = "orders"
"""A name for an example that reads better than the shortest one."""
_NOT_COPIED = ("mm2", "__", ".")
"""What names of internal topics begin with."""


def round_trips(copies: Mapping[tuple[str, str], Properties], clients: ClientCheck) -> Iterator[ConfigError]:
    """Yields an error for each pair of opposite flows that copy a topic there and back. `copies`: the source connectors
    without errors, by source and target."""
    for (source, target), there in copies.items():
        back = copies.get((target, source))
        # Each pair once, in the order of the file's clusters.
        if back is None or list(copies).index((target, source)) < list(copies).index((source, target)):
            continue
        topic = _there_and_back(there, back, clients)
        if topic is not None:
            key = f"{target}->{source}.{names.ENABLED}"
            connectors = [
                f"{flow}.MirrorSourceConnector" for flow in (f"{source}->{target}", f"{target}->{source}")
            ]
            why = opposite_refusal(f"topics such as {topic}", *connectors)
            yield ConfigError(key, invalid(key, "true", why))


def _there_and_back(there: Properties, back: Properties, clients: ClientCheck) -> str | None:
    """Returns a name that both flows copy, each under the name that it has; None where none is found."""
    one, other = (SourceOptions.from_props(props, clients) for props in (there, back))
    if not one.legacy and not other.legacy:
        return None
    for topic in (*one.named_topics, *other.named_topics, _COMMON, *_in_both((there, one), (back, other))):
        remote = one.remote_of(topic)
        if remote is not None and other.remote_of(remote) == topic:
            return topic
    return None


def _in_both(*flows: tuple[Properties, SourceOptions]) -> Iterator[str]:
    """Yields the shortest name that the filters of both let through, if that can be worked out."""
    if any(type(options.topic_filter) is not DefaultTopicFilter for _, options in flows):
        return
    languages = Languages()
    try:
        included = [_of(props.get(TOPICS, TOPICS_DEFAULT), languages) for props, _ in flows]
        excluded = [_of(props.get(TOPICS_EXCLUDE, TOPICS_EXCLUDE_DEFAULT), languages) for props, _ in flows]
        internal = [languages.sequence(languages.word(each), languages.everything) for each in _NOT_COPIED]
        internal.append(languages.sequence(languages.everything, languages.word(".internal")))
        both = languages.intersection(*included)
        for each in (*excluded, *internal, languages.blank):
            both = languages.without(both, each)
        shortest = languages.shortest(both)
    except (Unprovable, TooComplex):
        return
    if shortest is not None:
        yield shortest


def _of(patterns: str, languages: Languages) -> int:
    items: Sequence[str] = split_list(patterns)
    return languages.union(*(read_pattern(each, languages).whole for each in items))
