"""Which of Java's clients know a property: the admin client, consumers, producers."""

from __future__ import annotations

from bridge.kafka.config.property_names import KNOWN

_CONSUMERS = frozenset(
    {
        *("group.id", "group.instance.id", "group.protocol", "group.remote.assignor", "session.timeout.ms"),
        *(
            "partition.assignment.strategy",
            "heartbeat.interval.ms",
            "max.poll.interval.ms",
            "max.poll.records",
        ),
        *("enable.auto.commit", "auto.commit.interval.ms", "auto.offset.reset", "isolation.level"),
        *("fetch.min.bytes", "fetch.max.bytes", "fetch.max.wait.ms", "max.partition.fetch.bytes"),
        *("key.deserializer", "value.deserializer", "share.acknowledgement.mode", "share.acquire.mode"),
        *("check.crcs", "client.rack", "allow.auto.create.topics", "exclude.internal.topics"),
        "internal.throw.on.fetch.stable.offset.unsupported",
    }
)
_PRODUCERS = frozenset(
    {
        *("acks", "batch.size", "linger.ms", "buffer.memory", "max.block.ms", "max.request.size"),
        *("max.in.flight.requests.per.connection", "delivery.timeout.ms", "metadata.max.idle.ms"),
        *("enable.idempotence", "transactional.id", "transaction.timeout.ms"),
        *("transaction.two.phase.commit.enable", "key.serializer", "value.serializer"),
        *("compression.type", "compression.gzip.level", "compression.lz4.level", "compression.zstd.level"),
        *("partitioner.class", "partitioner.ignore.keys", "partitioner.availability.timeout.ms"),
        "partitioner.adaptive.partitioning.enable",
    }
)
_NOT_OF = {
    "admin": _CONSUMERS | _PRODUCERS | {"interceptor.classes"},
    "consumer": _PRODUCERS | {"bootstrap.controllers", "retries"},
    "producer": _CONSUMERS | {"bootstrap.controllers", "default.api.timeout.ms"},
}


def is_of(role: str, name: str) -> bool:
    """Whether Java's admin, consumer or producer client knows the name."""
    return name in KNOWN and name not in _NOT_OF[role]
