"""Connect's own keys of connectors, and what becomes of each, by what passes through the worker.

Records of checkpoints and heartbeats do, so that Connect honours its keys for them as for every source connector.
BridgeMirrorSourceConnector's copies pass it by: what would change them is refused. MirrorGroupOffsetConnector has no
records.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from bridge.model.key_rules import KeyRule, honoured, ignored, refused

SOURCE, SINK, CHECKPOINT, HEARTBEAT, GROUP_OFFSET = (
    "source",
    "sink",
    "checkpoint",
    "heartbeat",
    "group_offset",
)
COPYING = (SOURCE, SINK)
ALL = (GROUP_OFFSET, CHECKPOINT, HEARTBEAT, *COPYING)
_EMITTING = (CHECKPOINT, HEARTBEAT)

_CONVERTERS = "org.apache.kafka.connect.converters."
BYTES = (f"{_CONVERTERS}ByteArrayConverter", "ByteArrayConverter", "ByteArray")
"""Names that Connect knows the converter of bytes by."""
OF_PIPELINE = "bridge.transforms=python:module.function"
"""What to use in place of Connect's transforms."""

_CONNECT = honoured("by Connect")
_NO_RECORDS = ignored("the connector produces no records")
_PAST = "records are copied past Connect"
_SOURCES_KEY = ignored("it is a key of source connectors")
_SINKS_KEY = ignored("it is a key of sink connectors")
_NOT_BYTES = (
    f"checkpoints and heartbeats are bytes, and in another form no reader understands them; use {BYTES[0]}"
)


class ConnectKey(NamedTuple):
    """A key, or all that begin with what stands before a final `*`."""

    name: str
    rules: Mapping[str, KeyRule]
    """By kind of connector."""

    def covers(self, key: str) -> bool:
        return key.startswith(self.name[:-1]) if self.name.endswith("*") else key == self.name


OF_RECORDS: Mapping[str, KeyRule] = {
    GROUP_OFFSET: _NO_RECORDS,
    **dict.fromkeys(_EMITTING, _CONNECT),
}
"""Of keys for the records that pass through the worker, where the connectors that copy have none."""


def _always(name: str, why: str) -> ConnectKey:
    return ConnectKey(name, dict.fromkeys(ALL, honoured(why)))


def _of_sources(key: ConnectKey) -> ConnectKey:
    return ConnectKey(key.name, {**key.rules, SINK: _SOURCES_KEY})


def _of_records(name: str, copying: KeyRule, emitting: KeyRule = _CONNECT) -> ConnectKey:
    rules = {**OF_RECORDS, **dict.fromkeys(_EMITTING, emitting), **dict.fromkeys(COPYING, copying)}
    return ConnectKey(name, rules)


def _converter(name: str, emitting: KeyRule) -> ConnectKey:
    why = (
        f"{_PAST}'s converters, byte for byte as with ByteArrayConverter; remove it, and to change records use "
        f"{OF_PIPELINE}"
    )
    return _of_records(name, refused(why, *BYTES), emitting)


_TRANSFORMS = refused(
    f"{_PAST}'s transforms, and would arrive without them; remove it: to change records use {OF_PIPELINE}, to rename "
    "topics use replication.policy.class"
)
_TRANSFORMED = honoured(
    "by Connect; what it renames or changes is what readers of checkpoints and heartbeats find"
)
_TOPICS = refused(
    "remote topics get the partitions and the configuration of the source's topics; remove it: replication.factor, "
    "sync.topic.configs.enabled and config.properties.exclude say what is other"
)
_TOPICS_OF_CONNECTOR = honoured("by Connect, where the topic that the connector has made is gone")
_INTERVAL = "copies are committed every transaction.interval.ms"
_OWN_CLIENTS = "it is for Connect's own clients, which read the connector's offsets and copy nothing; use "
_TASK = "the connector has one task, "

KEYS: tuple[ConnectKey, ...] = (
    _always("name", "by Connect; the state of copying is kept under it"),
    _always("connector.class", "by Connect"),
    _always("connector.plugin.version", "by Connect"),
    _always("task.class", "Connect gives it to each task"),
    ConnectKey(
        "tasks.max",
        {
            GROUP_OFFSET: _CONNECT,
            CHECKPOINT: _CONNECT,
            HEARTBEAT: ignored(f"{_TASK}for a record each interval", "1"),
            **dict.fromkeys(
                COPYING,
                ignored(
                    f"{_TASK}which carries no records; spark.master and spark.default.parallelism say how many slices "
                    "copy at a time",
                    "1",
                ),
            ),
        },
    ),
    _always("tasks.max.enforce", "by Connect; the connector never has more tasks"),
    _converter("key.converter", refused(_NOT_BYTES, *BYTES)),
    _converter("value.converter", refused(_NOT_BYTES, *BYTES)),
    _converter("header.converter", honoured("by Connect; the records have no headers of their own")),
    *(
        _of_records(f"{side}.converter.*", ignored(f"{_PAST}'s converters"))
        for side in ("key", "value", "header")
    ),
    _of_records("transforms", _TRANSFORMS, _TRANSFORMED),
    _of_records("transforms.*", ignored("read with transforms or predicates only")),
    _of_records("predicates", _TRANSFORMS, _TRANSFORMED),
    _of_records("predicates.*", ignored("read with transforms or predicates only")),
    _always("config.action.reload", "by Connect"),
    _of_records(
        "errors.tolerance",
        refused(
            f"{_PAST}, which can skip none; remove it, and to leave out what the target refuses use "
            "source.record.policy=report",
            "none",
        ),
    ),
    _of_records("errors.retry.timeout", ignored("what time may heal is tried again without end")),
    _of_records("errors.retry.delay.max.ms", ignored("the pipeline has pauses of its own, up to 5 s")),
    _of_records(
        "errors.log.enable",
        ignored("what is left out stands in the gap ledger and in health", "false"),
    ),
    _of_records(
        "errors.log.include.messages",
        ignored("records are never logged; the ledger has their offsets", "false"),
    ),
    ConnectKey(
        "errors.deadletterqueue.*",
        {
            **dict.fromkeys((GROUP_OFFSET, *_EMITTING, SOURCE), _SINKS_KEY),
            SINK: ignored(
                "Connect hands no record to the connector; what is left out stands in the gap ledger"
            ),
        },
    ),
    ConnectKey("topic.creation.enable", dict.fromkeys(ALL, ignored("it is a key of Connect's workers"))),
    _of_records("topic.creation.*", _TOPICS, _TOPICS_OF_CONNECTOR),
    _of_sources(_always("exactly.once.support", "by Connect, by what the connector says of itself")),
    _of_sources(_of_records("transaction.boundary", ignored(_INTERVAL, "poll"))),
    _of_sources(_of_records("transaction.boundary.interval.ms", ignored(_INTERVAL))),
    _of_sources(_always("offsets.storage.topic", "by Connect")),
    ConnectKey(
        "consumer.override.*",
        {
            **dict.fromkeys((GROUP_OFFSET, *_EMITTING), _CONNECT),
            SOURCE: ignored(f"{_OWN_CLIENTS}source.consumer.*"),
            SINK: honoured("by Connect, of the consumer in the group connect-NAME, which reads no record"),
        },
    ),
    ConnectKey(
        "admin.override.*",
        {
            **dict.fromkeys((GROUP_OFFSET, *_EMITTING), _CONNECT),
            SOURCE: ignored(f"{_OWN_CLIENTS}source.admin.* and target.admin.*"),
            SINK: honoured(
                "by Connect, which alters and deletes the offsets of the group connect-NAME with it"
            ),
        },
    ),
)
"""In Connect's order; the first that covers a key counts. `producer.override.*` is not among them: the source connector
honours it as its own (connectors.config.key_effects)."""
