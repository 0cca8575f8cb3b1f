"""Finds flows of a file that would send records round and round: both directions, or a ring of clusters, under names
that stay or get longer and longer.

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
)
from bridge.model.copy_owners import opposite_refusal
from bridge.model.java_values import split_list
from bridge.policies.languages import Languages, TooComplex
from bridge.policies.patterns import Unprovable, read_pattern
from connectors.config.validators import invalid
from connectors.ports import ClientCheck
from connectors.source.options import SourceOptions

_COMMON = "orders"
"""A name for an example that reads better than the shortest one."""
_LONGEST = 3
"""Times round all flows after which a name is not read as that of a copy any more: it only gets longer."""
_TRIED = 10_000
_NOT_COPIED = ("mm2", "__", ".")
"""What names of internal topics begin with."""


def round_trips(copies: Mapping[tuple[str, str], Properties], clients: ClientCheck) -> Iterator[ConfigError]:
    """Yields an error for each way round on which flows copy a topic without end. `copies`: the source connectors
    without errors, by source and target."""
    flows = {flow: SourceOptions.from_props(props, clients) for flow, props in copies.items()}
    found: set[frozenset[tuple[str, str]]] = set()
    if not any(each.may_go_round for each in flows.values()):
        return
    for flow, options in flows.items():
        back = flow[1], flow[0]
        common = _in_both((copies[flow], options), (copies[back], flows[back])) if back in flows else ()
        named = (name for each in flows.values() for name in each.named_topics)
        for topic in dict.fromkeys((*named, _COMMON, *common)):
            way = _endless(flow, topic, flows)
            # Each way round once, whichever of its flows it is found from.
            if way and frozenset(way) not in found:
                found.add(frozenset(way))
                yield _refusal(sorted(way, key=list(copies).index), topic)
                break


def _endless(
    first: tuple[str, str], topic: str, flows: Mapping[tuple[str, str], SourceOptions]
) -> list[tuple[str, str]]:
    """Returns the flows that copy what `first` copies of a topic round and round, under the name that it has or under
    longer and longer ones; none where each way ends, or there are too many to try."""
    ways = [([first], [topic])]
    for _ in range(_TRIED):
        if not ways:
            break
        way, topics = ways.pop()
        remote = flows[way[-1]].remote_of(topics[-1])
        if remote is None:
            continue
        before = [(flow[0], name) for flow, name in zip(way, topics, strict=True)]
        if (place := (way[-1][1], remote)) in before:
            return way[before.index(place) :]
        if len(way) > _LONGEST * len(flows):
            return list(dict.fromkeys(way[-len(flows) :]))
        ways += (([*way, flow], [*topics, remote]) for flow in flows if flow[0] == place[0])
    return []


def _refusal(way: Sequence[tuple[str, str]], topic: str) -> ConfigError:
    *others, last = (f"{source}->{target}" for source, target in way)
    key = f"{last}.{names.ENABLED}"
    connectors = [f"{flow}.MirrorSourceConnector" for flow in (*others, last)]
    if len(way) == 2:
        return ConfigError(
            key, invalid(key, "true", opposite_refusal(f"topics such as {topic}", *connectors))
        )
    why = (
        f"{', '.join(connectors)} would send each record of topics such as {topic} round and round: under these names "
        "nothing tells what was copied before. Leave out one of them, or exclude the topics with topics.exclude, or "
        "give all DefaultReplicationPolicy"
    )
    return ConfigError(key, invalid(key, "true", why))


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
