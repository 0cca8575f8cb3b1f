"""Says what becomes of a client property, by what the client is for."""

from __future__ import annotations

from collections.abc import Iterator

from bridge.kafka.config.client_roles import is_of
from bridge.kafka.config.property_names import KNOWN, NUMBERS, OWNED, REFUSED, SECURITY
from bridge.model.key_rules import KeyRule, Use, honoured, ignored

ROLES = {
    Use.ADMIN: "admin",
    Use.COPY: "consumer",
    Use.COMPARE: "consumer",
    Use.FOLLOW: "consumer",
    Use.WRITE: "producer",
    Use.SYNC: "producer",
}
_AS_JAVA = honoured("as in Java's clients")
_LEVEL = honoured("the level of what is compressed anew, where compression.type names this codec")
_ONLY_THERE: dict[tuple[Use, str], KeyRule] = {
    (Use.COPY, "auto.offset.reset"): honoured("earliest or latest, for a partition that has no position yet"),
    (Use.COPY, "client.rack"): honoured(
        "records are fetched from the replica that the source's replica.selector.class chooses for this rack (KIP-392)"
    ),
    (Use.COPY, "isolation.level"): honoured("read_committed, other than in stock, unless given"),
    (Use.COMPARE, "isolation.level"): honoured("says what the mirror copies"),
    (Use.WRITE, "batch.size"): honoured("small batches of a backlog are put together, by multiples of it"),
    (Use.WRITE, "compression.type"): honoured(
        "every batch arrives with this codec: one that has another is compressed anew; without it batches keep theirs"
    ),
    (Use.WRITE, "compression.gzip.level"): _LEVEL,
    (Use.WRITE, "compression.lz4.level"): _LEVEL,
    (Use.WRITE, "compression.zstd.level"): _LEVEL,
}
_VERSIONS = ignored(
    "the higher one of TLSv1.2 and TLSv1.3 is negotiated that both sides have",
    *("TLSv1.2,TLSv1.3", "TLSv1.2, TLSv1.3", "TLSv1.3,TLSv1.2", "TLSv1.3, TLSv1.2"),
)
_ISOLATION = ignored("the target is read as readers of committed data see it", "read_committed")


def rule(use: Use, name: str) -> KeyRule | None:
    """Returns what a client for this use makes of the property; None for a name that no Kafka client has."""
    if name not in KNOWN:
        return None
    role = ROLES[use]
    if not is_of(role, name):
        return ignored(f"Kafka's {role} client has no such property")
    if (use, name) in _ONLY_THERE:
        return _ONLY_THERE[use, name]
    if name in NUMBERS:
        number = NUMBERS[name]
        there = number.aiokafka or (
            use is Use.ADMIN and (number.librdkafka or name == "default.api.timeout.ms")
        )
        return _AS_JAVA if there else ignored(number.why)
    if name == "ssl.enabled.protocols":
        return _VERSIONS
    if name in SECURITY or name == "client.id":
        return _AS_JAVA
    if name == "isolation.level":
        return _ISOLATION
    return REFUSED.get(name) or OWNED[name]


def rows() -> Iterator[tuple[str, KeyRule, list[Use]]]:
    """Each property with each rule that it has, and the uses where it has that; uses whose clients have no such
    property are left out."""
    for name in sorted(KNOWN):
        by_rule: dict[KeyRule, list[Use]] = {}
        for use, role in ROLES.items():
            of_use = rule(use, name) if is_of(role, name) else None
            if of_use is not None:
                by_rule.setdefault(of_use, []).append(use)
        yield from ((name, each, uses) for each, uses in by_rule.items())
