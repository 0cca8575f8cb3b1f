"""Requests that make and alter topics, encoding only: CreateTopics, CreatePartitions, DescribeConfigs,
IncrementalAlterConfigs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bridge.kafka.protocol.api_keys import ApiKeys
from bridge.kafka.protocol.wire import Call, Reader, Writer
from bridge.model.topics import ConfigEntry, ConfigSource, NewTopic

_TOPIC = 2
"""Type of a resource that has configs."""
_SET, _DELETE = 0, 1
_SOURCES = {int(source): source for source in ConfigSource}


def create_topics(topics: Sequence[NewTopic], timeout_ms: int) -> Call:
    """CreateTopics v4, which 2.4 to 4.x brokers speak: replication factor -1 is the broker's default (KIP-464)."""

    def write(writer: Writer, _version: int) -> None:
        writer.array(len(topics))
        for topic in topics:
            writer.string(topic.name)
            writer.int32(topic.partitions)
            writer.int16(topic.replication_factor)
            writer.array(0)
            writer.array(len(topic.configs))
            for key, value in topic.configs.items():
                writer.string(key)
                writer.string(value)
        writer.int32(timeout_ms)
        writer.int8(0)

    return Call(ApiKeys.CREATE_TOPICS, versions=range(4, 5), flexible_from=5, write=write)


def create_partitions(totals: Mapping[str, int], timeout_ms: int) -> Call:
    """CreatePartitions v0 to v1: how many partitions each topic has afterwards."""

    def write(writer: Writer, _version: int) -> None:
        writer.array(len(totals))
        for name, total in totals.items():
            writer.string(name)
            writer.int32(total)
            writer.array(None)
        writer.int32(timeout_ms)
        writer.int8(0)

    return Call(ApiKeys.CREATE_PARTITIONS, versions=range(2), flexible_from=2, write=write)


def read_done_topics(answer: Reader) -> dict[str, tuple[int, str]]:
    """Error code and the broker's words, by topic; of both requests above."""
    answer.skip(4)
    return {answer.string(): (answer.int16(), answer.string()) for _ in answer.array()}


def describe_configs(topics: Sequence[str]) -> Call:
    """DescribeConfigs v1 to v2: all configs of topics."""

    def write(writer: Writer, _version: int) -> None:
        writer.array(len(topics))
        for topic in topics:
            writer.int8(_TOPIC)
            writer.string(topic)
            writer.array(None)
        writer.int8(0)

    return Call(ApiKeys.DESCRIBE_CONFIGS, versions=range(1, 3), flexible_from=4, write=write)


def read_described_configs(answer: Reader) -> dict[str, tuple[int, str, dict[str, ConfigEntry]]]:
    """Error code, the broker's words and the configs, by topic."""
    answer.skip(4)
    found = {}
    for _ in answer.array():
        code, said = answer.int16(), answer.string()
        answer.skip(1)
        name = answer.string()
        found[name] = (code, said, dict(_config(answer) for _ in answer.array()))
    return found


def _config(answer: Reader) -> tuple[str, ConfigEntry]:
    name, value = answer.string(), answer.nullable_string()
    read_only, source, sensitive = answer.int8(), answer.int8(), answer.int8()
    for _ in answer.array():  # synonyms
        answer.string()
        answer.string()
        answer.skip(1)
    source_of = _SOURCES.get(source, ConfigSource.UNKNOWN)
    return name, ConfigEntry(value, source_of, bool(read_only), bool(sensitive))


def alter_configs(changes: Mapping[str, Mapping[str, str | None]]) -> Call:
    """IncrementalAlterConfigs v0, by topic; None takes an override away."""

    def write(writer: Writer, _version: int) -> None:
        writer.array(len(changes))
        for topic, configs in changes.items():
            writer.int8(_TOPIC)
            writer.string(topic)
            writer.array(len(configs))
            for key, value in configs.items():
                writer.string(key)
                writer.int8(_DELETE if value is None else _SET)
                writer.string(value)
        writer.int8(0)

    return Call(ApiKeys.INCREMENTAL_ALTER_CONFIGS, versions=range(1), flexible_from=1, write=write)


def read_altered_configs(answer: Reader) -> dict[str, tuple[int, str]]:
    """Error code and the broker's words, by topic."""
    answer.skip(4)
    found = {}
    for _ in answer.array():
        code, said = answer.int16(), answer.string()
        answer.skip(1)
        found[answer.string()] = (code, said)
    return found
