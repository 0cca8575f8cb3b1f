"""Checks of topics and their copies. Pure."""

from __future__ import annotations

from bridge.doctor.facts import Facts, Unknown
from bridge.doctor.findings import CheckResults, Severity, named, unknown
from bridge.mm2.replication_policy import ALIASES, TOPIC_MAP, TOPIC_MAP_FILE
from bridge.model.times import iso_time
from bridge.model.values import Side
from connectors.base import COPYING_KINDS, GROUP_KINDS
from connectors.config.mirror_options import STOCK

P, W, OK = Severity.PROBLEM, Severity.WARNING, Severity.OK


def second_mirror(facts: Facts) -> CheckResults:
    if facts.kind in GROUP_KINDS:
        yield from _second_commits(facts)
    if facts.kind not in COPYING_KINDS:
        return
    if isinstance(facts.claims, Unknown):
        yield unknown("claims of other connectors", facts.claims)
    else:
        by_owner: dict[str, list[str]] = {}
        for pair in facts.pairs:
            owner = facts.claims.get((pair.source, pair.target))
            if owner is not None and owner != facts.name:
                by_owner.setdefault(owner, []).append(pair.source)
        for owner, topics in by_owner.items():
            yield (
                P,
                f"connector {owner} copies {named(sorted(topics))} already",
                f"exclude them with topics.exclude, or set bridge.take.over.from={owner}",
            )
    if isinstance(facts.stock_syncs, Unknown):
        yield unknown("offset syncs of another mirror", facts.stock_syncs)
    elif facts.stock_syncs:
        yield (
            W,
            "there are offset syncs of this flow, and no connector of ours has copied: a stock mirror wrote them",
            "stop it before this connector starts, and see docs/take-over.md",
        )
    if isinstance(facts.copied_beside, Unknown):
        yield unknown("copies of another mirror", facts.copied_beside)
        return
    if facts.copied_beside.copied:
        yield (
            P,
            f"another mirror copies {named(facts.copied_beside.copied)} too: the target has these records twice",
            "stop it if it still runs, or leave the topics to it with topics.exclude",
        )
    if ended := facts.copied_beside.ended:
        yield (
            W,
            f"another mirror has copied {named(sorted(ended))} too, and nothing that was written since "
            f"{iso_time(max(ended.values()))}: the target has older records twice",
            "nothing once it is stopped; groups that stand before these read them twice, and explain says up to where",
        )
    if facts.copied_beside.unknown:
        yield (
            W,
            f"records of others stand between the copies of {named(facts.copied_beside.unknown)}, and it is not known "
            "whether another mirror copies there: timestamps are overwritten, or the source has deleted older records",
            "look for a second mirror of these topics, or for an application that writes into their copies",
        )


def _second_commits(facts: Facts) -> CheckResults:
    if isinstance(facts.others, Unknown):
        yield unknown("other connectors that commit the offsets of its groups", facts.others)
        return
    for other in facts.others:
        if other.same_groups:
            yield (
                W,
                f"connector {other.name} commits the offsets of {other.same_groups} of its groups too",
                "give one of the two other groups, or delete it",
            )


def timestamps(facts: Facts) -> CheckResults:
    topics = facts.topics.get(Side.TARGET, {})
    if isinstance(topics, Unknown):
        yield unknown("timestamp types", topics)
        return
    copies = {pair.target for pair in facts.pairs}
    wrong = sorted(name for name, topic in topics.items() if topic.append_time and name in copies)
    unread = sorted(
        name
        for name, topic in topics.items()
        if topic.append_time is None and topic.partitions and name in copies
    )
    if wrong:
        yield (
            P,
            f"the target overwrites the timestamps of {named(wrong)}: copies can't be found by timestamp",
            "set message.timestamp.type=CreateTime on them",
        )
    if unread:
        why = Unknown(f"the configs of {named(unread)} can't be read; grant DESCRIBE_CONFIGS")
        yield unknown("timestamp types", why)


def partitions(facts: Facts) -> CheckResults:
    source, target = facts.topics.get(Side.SOURCE, {}), facts.topics.get(Side.TARGET, {})
    for side, topics in ((Side.SOURCE, source), (Side.TARGET, target)):
        if isinstance(topics, Unknown):
            yield unknown(f"partition counts of the {side} cluster", topics)
    if isinstance(source, Unknown) or isinstance(target, Unknown):
        return
    for pair in facts.pairs:
        mine, copy = source.get(pair.source), target.get(pair.target)
        if mine is None or copy is None or not mine.partitions or not copy.partitions:
            continue
        if mine.partitions > copy.partitions:
            yield (
                W if facts.kind in COPYING_KINDS else P,
                f"{pair.source} has {mine.partitions} partitions, its copy {pair.target} {copy.partitions}",
                f"add partitions to {pair.target}; BridgeMirrorSourceConnector does it by itself",
            )
        elif mine.partitions < copy.partitions:
            yield (
                W,
                f"{pair.source} has {mine.partitions} partitions, its copy {pair.target} {copy.partitions}",
                "others may write to the copy; records with keys are in other partitions than on the source",
            )


def policies(facts: Facts) -> CheckResults:
    if isinstance(facts.others, Unknown):
        yield unknown("replication policies of the other connectors", facts.others)
        return
    for other in facts.others:
        for key, theirs, ours in (
            ("replication.policy.class", other.policy, facts.policy),
            ("replication.policy.separator", other.separator, facts.separator),
            (ALIASES, other.aliases, facts.aliases),
            (TOPIC_MAP, other.topic_map, facts.topic_map),
            (TOPIC_MAP_FILE, other.topic_map_file, facts.topic_map_file),
        ):
            if theirs.removeprefix(STOCK) != ours.removeprefix(STOCK):
                yield (
                    P,
                    f"{key} is {ours!r}, and {theirs!r} in connector {other.name} of this flow",
                    f"set one {key}",
                )
