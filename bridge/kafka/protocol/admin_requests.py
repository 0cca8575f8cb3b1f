"""Requests about configs and ACLs of topics, encoding only: DescribeConfigs, DescribeAcls, CreateAcls, DeleteAcls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bridge.kafka.protocol.wire import ApiKeys, Call, Reader, Writer
from bridge.model.topics import ConfigEntry, ConfigSource, PatternType, Permission, TopicAcl, TopicOperation

_TOPIC = 2
"""Type of a resource that has rules."""
_ANY = 1
_PATTERNS, _OPERATIONS, _PERMISSIONS = set(PatternType), set(TopicOperation), set(Permission)
_SOURCES = {int(source): source for source in ConfigSource}


def describe_topic_acls() -> Call:
    """DescribeAcls v1: all rules about topics, whatever their pattern."""

    def write(writer: Writer, _version: int) -> None:
        writer.int8(_TOPIC)
        writer.string(None)
        writer.int8(_ANY)
        writer.string(None)
        writer.string(None)
        writer.int8(_ANY)
        writer.int8(_ANY)

    return Call(ApiKeys.DESCRIBE_ACLS, versions=range(1, 2), flexible_from=2, write=write)


def read_described_acls(response: Reader) -> tuple[int, str, set[TopicAcl]]:
    """Error code, the broker's words and the rules; those of a kind that we don't know are left out."""
    response.skip(4)
    code, message = response.int16(), response.string()
    return code, message, set(_acls(response))


def _acls(response: Reader) -> Iterator[TopicAcl]:
    for _ in response.array():
        response.skip(1)
        name, pattern = response.string(), response.int8()
        for _ in response.array():
            principal, host = response.string(), response.string()
            operation, permission = response.int8(), response.int8()
            known = pattern in _PATTERNS and operation in _OPERATIONS and permission in _PERMISSIONS
            if known:
                kinds = PatternType(pattern), TopicOperation(operation), Permission(permission)
                yield TopicAcl(name, kinds[0], principal, host, *kinds[1:])


def delete_acls(acls: Sequence[TopicAcl]) -> Call:
    """DeleteAcls v1: exactly these rules, each a filter of its own."""
    return Call(
        ApiKeys.DELETE_ACLS,
        versions=range(1, 2),
        flexible_from=2,
        write=lambda writer, _: _write(writer, acls),
    )


def _write(writer: Writer, acls: Sequence[TopicAcl]) -> None:
    writer.array(len(acls))
    for acl in acls:
        writer.int8(_TOPIC)
        writer.string(acl.name)
        writer.int8(acl.pattern)
        writer.string(acl.principal)
        writer.string(acl.host)
        writer.int8(acl.operation)
        writer.int8(acl.permission)


def read_deleted_acls(response: Reader) -> list[tuple[int, str]]:
    """Error code and the broker's words, in the order that was asked for."""
    response.skip(4)
    results = []
    for _ in response.array():
        code, message = response.int16(), response.string()
        for _ in response.array():  # rules that matched
            matched, words = response.int16(), response.string()
            code, message = (code, message) if code else (matched, words)
            response.skip(1)
            response.string()
            response.skip(1)
            response.string()
            response.string()
            response.skip(2)
        results.append((code, message))
    return results


"""Type of a resource that has configs."""


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
