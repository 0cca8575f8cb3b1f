"""Makes a source connector's configuration of the options and files of `kafka-mirror-maker.sh`, MirrorMaker 1. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from bridge.model.java_values import boolean, given, trimmed
from connectors.config.configdef import Range, Type, Unparsable, invalid, parse
from connectors.config.mirror_options import STOCK

HANDLER = "handler"
"""The name that the message handler has among transforms."""
_CONNECTION = re.compile(r"bootstrap\.servers|security\.protocol|(ssl|sasl)\..*")
"""What stands at `X.cluster.` in a connector."""
_MOST_STREAMS = 9999
"""Of a local Spark."""
_OLD_PROPERTIES = {
    "zookeeper.connect": "give bootstrap.servers: Kafka 2 removed the consumer that used ZooKeeper",
    "zk.connect": "give bootstrap.servers: Kafka 2 removed the consumer that used ZooKeeper",
    "groupid": "its name is group.id",
    "metadata.broker.list": "its name is bootstrap.servers",
    "broker.list": "its name is bootstrap.servers",
    "autooffset.reset": "its name is auto.offset.reset",
    "compression.codec": "its name is compression.type",
    "request.required.acks": "its name is acks",
}
_CHANGE_NOTHING = ("compression.codec", "request.required.acks")
"""Old names that Java's clients pass over, as here: batches keep their codec, and all replicas acknowledge."""
_SERVERS = "bootstrap.servers"
_OLD_RESETS = {"smallest": "earliest", "largest": "latest"}
_BYTES = ("key.deserializer", "value.deserializer", "key.serializer", "value.serializer")
_WORDS = {
    **{
        f"configuration {key}:": f"{option}:"
        for key, option in (
            *(("topics", "--include"), ("name", "group.id of --consumer.config")),
            *(("bridge.transforms.handler.type", "--message.handler"), ("spark.master", "--num.streams")),
            ("bridge.transforms.handler.args", "--message.handler.args"),
        )
    },
    "source.record.policy to report": "--abort.on.send.failure to false",
    "exclude the topics with topics.exclude, or give both DefaultReplicationPolicy": (
        "leave the topics out of --include"
    ),
}
"""Advice in errors of the connector, and the same advice in the command's options."""
_REFRESH = "metadata.max.age.ms"
"""By which MirrorMaker 1 finds new topics."""
_REFRESH_MS = "300000"
"""Java's default of it."""
_OF_CONSUMER = ("group.id", "enable.auto.commit", _REFRESH)
_OF_PRODUCER = ("producer.type", _REFRESH)
"""Properties that are not passed to a client: the command uses them itself, or says that they do nothing."""


@dataclass(frozen=True, slots=True)
class LegacyOptions:
    """The options of the command line, as given; None for those that were not."""

    include: str | None
    whitelist: str | None
    num_streams: int
    abort_on_send_failure: str
    message_handler: str | None
    message_handler_args: str | None
    rebalance_listener: str | None
    rebalance_listener_args: str | None
    new_consumer: bool
    blacklist: str | None = None
    more: Sequence[str] = ()
    """Words that belong to no option."""


@dataclass(frozen=True, slots=True)
class Clients:
    """The properties of --consumer.config and --producer.config."""

    consumer: Mapping[str, str]
    producer: Mapping[str, str]

    @classmethod
    def from_properties(cls, consumer: Mapping[str, str], producer: Mapping[str, str]) -> Self:
        """Trims what the files have as Java's ConfigDef does: with its blanks another group would be meant."""
        return cls(given(consumer), given(producer))


def problems(options: LegacyOptions, clients: Clients) -> list[str]:
    """Returns everything that can't be done, at once."""
    return [*_of_options(options), *_of_clients(clients)]


def _of_options(options: LegacyOptions) -> Iterator[str]:
    if not options.include and not options.whitelist:
        yield "--include is missing: a Java regex of the topics to mirror"
    if options.blacklist is not None:
        yield (
            "--blacklist is not supported (removed with the old consumer): remove it, and exclude topics in --include, "
            "as in (?!__).* for all but those that begin with __"
        )
    if boolean(options.abort_on_send_failure) is None:
        yield f"--abort.on.send.failure is {options.abort_on_send_failure}; it must be true or false"
    if not 1 <= options.num_streams <= _MOST_STREAMS:
        yield f"--num.streams is {options.num_streams}; it must be from 1 to {_MOST_STREAMS}"
    for name, value in (
        ("--consumer.rebalance.listener", options.rebalance_listener),
        ("--rebalance.listener.args", options.rebalance_listener_args),
    ):
        if value is not None:
            yield f"{name} is not supported: no consumer group assigns the partitions; remove it"
    handler = options.message_handler
    if handler is not None and not handler.startswith("python:"):
        yield (
            f"--message.handler is {handler}: Java classes can't be loaded here; it takes python:module.function "
            "(docs/transforms.md)"
        )
    if options.message_handler_args is not None and handler is None:
        yield "--message.handler.args needs --message.handler"


def _of_clients(clients: Clients) -> Iterator[str]:
    if not clients.consumer.get("group.id"):
        yield "--consumer.config has no group.id: positions of kafka-mirror-maker are the group's committed offsets"
    for option, props in (("consumer", clients.consumer), ("producer", clients.producer)):
        if not props.get(_SERVERS):
            yield f"--{option}.config has no {_SERVERS}"
        for key, instead in _OLD_PROPERTIES.items():
            if key in props and not _is_replaced(key, props):
                yield f"--{option}.config has {key}: {instead}"
    reset = clients.consumer.get("auto.offset.reset", "")
    if reset in _OLD_RESETS:
        yield f"--consumer.config has auto.offset.reset={reset}: it is called {_OLD_RESETS[reset]}"
    if (problem := _refresh_problem(clients.consumer.get(_REFRESH, _REFRESH_MS))) is not None:
        yield f"--consumer.config: {problem}"


def _is_replaced(key: str, props: Mapping[str, str]) -> bool:
    """Whether an old property may be passed over: what takes its place is there, or it changes nothing."""
    new = _OLD_PROPERTIES[key].removeprefix("its name is ")
    return bool(props.get(_SERVERS if _SERVERS in new else new)) or key in _CHANGE_NOTHING


def _refresh_problem(text: str) -> str | None:
    try:
        return Range(0).check(_REFRESH, parse(Type.LONG, text))
    except Unparsable as problem:
        return invalid(_REFRESH, text, str(problem))


def remarks(options: LegacyOptions, clients: Clients) -> Iterator[str]:
    """Yields a line for each option or property that does nothing, has a new name, or has a default that may
    surprise."""
    if options.new_consumer:
        yield "--new.consumer does nothing: there is no other consumer"
    if options.whitelist is not None:
        ignored = options.include is not None
        yield "--whitelist is ignored: --include is given" if ignored else "--whitelist is called --include"
    if "producer.type" in clients.producer:
        yield "producer.type does nothing: records are written in transactions"
    if _REFRESH in clients.producer:
        yield f"{_REFRESH} of --producer.config does nothing: new topics are looked for by that of --consumer.config"
    if boolean(clients.consumer.get("enable.auto.commit", "")):
        yield "enable.auto.commit does nothing: offsets are committed every --offset.commit.interval.ms"
    yield from (
        f"{key} does nothing: records are copied as bytes" for key in _BYTES if _foreign(clients, key)
    )
    yield from (
        f"{key} of --{option}.config does nothing: Kafka's {option} has no such property"
        for option, props in (("consumer", clients.consumer), ("producer", clients.producer))
        for key in props
        if _is_unknown(key)
    )
    yield from (
        f"{key} of --{option}.config does nothing: {_OLD_PROPERTIES[key]}"
        for option, props in (("consumer", clients.consumer), ("producer", clients.producer))
        for key in props
        if key in _OLD_PROPERTIES
    )
    yield from (f"{word} does nothing: it is no option, and the value of none" for word in options.more)
    if "auto.offset.reset" not in clients.consumer:
        yield "auto.offset.reset is latest, as with kafka-mirror-maker: give earliest to copy what new topics hold"


def _is_unknown(key: str) -> bool:
    """Whether no client of Java has the property: it warns of it, and goes on, as with those of old versions."""
    from bridge.kafka.config.property_names import KNOWN

    ours = (_OLD_PROPERTIES, _OF_CONSUMER, _OF_PRODUCER, _BYTES)
    return key not in KNOWN and not any(key in names for names in ours)


def _foreign(clients: Clients, key: str) -> bool:
    value = {**clients.consumer, **clients.producer}.get(key, "")
    return bool(value) and "ByteArray" not in value


def connector_config(
    options: LegacyOptions, clients: Clients, source_id: str, target_id: str
) -> dict[str, str]:
    """Returns the configuration for options without problems. The clusters' ids serve as aliases, which MirrorMaker 1
    does not have: by them two commands that mirror in opposite directions recognise each other."""
    refresh_ms = int(clients.consumer.get(_REFRESH, _REFRESH_MS))
    abort = boolean(options.abort_on_send_failure)
    config = {
        "name": clients.consumer["group.id"],
        "connector.class": "BridgeMirrorSourceConnector",
        "source.cluster.alias": source_id,
        "target.cluster.alias": target_id,
        "replication.policy.class": f"{STOCK}LegacyReplicationPolicy",
        "topics": pattern(options.include or options.whitelist or ""),
        "topics.exclude": "__.*",
        "refresh.topics.interval.seconds": str(max(1, refresh_ms // 1000)),
        "sync.topic.configs.enabled": "false",
        "sync.topic.acls.enabled": "false",
        "emit.offset-syncs.enabled": "false",
        "heartbeats.replication.enabled": "false",
        "replication.factor": "-1",
        "source.consumer.auto.offset.reset": "latest",
        "source.record.policy": "fail" if abort else "report",
        "spark.master": f"local[{options.num_streams}]",
        **_properties(clients),
    }
    dotted = [alias for alias in (source_id, target_id) if "." in alias]
    if dotted:
        config["replication.policy.aliases"] = ",".join(dotted)
    if options.message_handler is not None:
        config |= {
            "bridge.transforms": HANDLER,
            f"bridge.transforms.{HANDLER}.type": options.message_handler,
        }
    if options.message_handler_args is not None:
        config[f"bridge.transforms.{HANDLER}.args"] = options.message_handler_args
    return config


def connection(clients: Clients) -> dict[str, str]:
    """Returns what is needed to connect to both clusters."""
    return _properties(clients)


def in_own_words(text: str) -> str:
    """Returns an error or a remark about the connector with the names that the options and the files have."""
    for side, option in (
        ("source.(?:cluster|consumer|admin|producer)", "consumer"),
        ("target.(?:cluster|producer|admin|consumer)", "producer"),
    ):
        text = re.sub(rf"\b{side}\.(?!alias\b)([a-z][\w.-]*\w)", rf"\1 of --{option}.config", text)
    for connectors, ours in _WORDS.items():
        text = text.replace(connectors, ours)
    return text


def pattern(text: str) -> str:
    """Returns the regex that MirrorMaker 1 makes of --include: commas mean |, blanks nothing, and quotes go."""
    return trimmed(text).replace(",", "|").replace(" ", "").strip("\"'")


def _properties(clients: Clients) -> dict[str, str]:
    """Returns the properties of both files, as a connector has them."""
    sides = (
        (clients.consumer, "source", "consumer", _OF_CONSUMER),
        (clients.producer, "target", "producer", _OF_PRODUCER),
    )
    return {
        f"{side}.{'cluster' if _CONNECTION.fullmatch(key) else role}.{key}": value
        for props, side, role, left_out in sides
        for key, value in props.items()
        if key not in (*left_out, *_BYTES, *_OLD_PROPERTIES) and not _is_unknown(key)
    }
