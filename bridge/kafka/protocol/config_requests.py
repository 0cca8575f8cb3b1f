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


def read_described_configs(response: Reader) -> dict[str, tuple[int, str, dict[str, ConfigEntry]]]:
    """Error code, the broker's words and the configs, by topic."""
    response.skip(4)
    topics = {}
    for _ in response.array():
        code, message = response.int16(), response.string()
        response.skip(1)
        name = response.string()
        topics[name] = (code, message, dict(_config(response) for _ in response.array()))
    return topics


def _config(response: Reader) -> tuple[str, ConfigEntry]:
    name, value = response.string(), response.nullable_string()
    read_only, source, sensitive = response.int8(), response.int8(), response.int8()
    for _ in response.array():  # synonyms
        response.string()
        response.string()
        response.skip(1)
    source_of = _SOURCES.get(source, ConfigSource.UNKNOWN)
    return name, ConfigEntry(value, source_of, bool(read_only), bool(sensitive))
