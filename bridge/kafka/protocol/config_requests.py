"""DescribeConfigs of topics, encoding only."""

from __future__ import annotations

from collections.abc import Sequence

from bridge.kafka.protocol.api_keys import ApiKeys
from bridge.kafka.protocol.wire import Call, Reader, Writer
from bridge.model.topics import ConfigEntry, ConfigSource

_TOPIC = 2
"""Type of a resource that has configs."""
_SOURCES = {int(source): source for source in ConfigSource}


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
