"""Which errors of brokers AdminClient hands on: those of the calls that are the library's here, but not those of
DescribeAcls and DeleteAcls, which therefore are ours (decision 0040)."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclBindingFilter, AclOperation, AclPermissionType
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from confluent_kafka.cimpl import NewPartitions, NewTopic

from bridge.kafka.protocol.wire import ApiKeys, Writer

ANY_NAME: Any = None
UNSUPPORTED_VERSION, REFUSED, SAID = 35, 31, "as the broker says"
_VERSIONS = {18: 0, 3: 4, 19: 4, 29: 1, 30: 1, 31: 1, 37: 1, 44: 0}
RULE = (
    ResourceType.TOPIC,
    "a",
    ResourcePatternType.LITERAL,
    "User:a",
    "*",
    AclOperation.READ,
    AclPermissionType.ALLOW,
)


def of_topic(writer: Writer) -> None:
    writer.string("a")
    _error(writer)


def of_resource(writer: Writer) -> None:
    _error(writer)
    writer.int8(2)
    writer.string("a")


def of_match(writer: Writer) -> None:
    """The filter is fine, and its one rule is refused."""
    writer.int16(0)
    writer.string(None)
    writer.array(1)
    _error(writer)
    writer.int8(2)
    writer.string("a")
    writer.int8(3)
    writer.string("User:a")
    writer.string("*")
    writer.int8(3)
    writer.int8(3)


def _error(writer: Writer) -> None:
    writer.int16(REFUSED)
    writer.string(SAID)


async def _broker(
    results: Mapping[int, Callable[[Writer], None]], connections: set[asyncio.Task[object]]
) -> asyncio.Server:
    """Answers the API keys of `results` with one result each; DescribeAcls has no array of them. `connections`: gets
    the task of each connection."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        connections.add(task)
        try:
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                key, version, correlation = struct.unpack_from(">hhi", await reader.readexactly(size))
                answer = Writer(flexible=False)
                answer.int32(correlation)
                _answer(answer, key, version)
                data = answer.encode()
                writer.write(struct.pack(">i", len(data)) + data)
        except asyncio.IncompleteReadError:
            writer.close()

    def _answer(answer: Writer, key: int, version: int) -> None:
        if key == ApiKeys.API_VERSIONS:
            answer.int16(UNSUPPORTED_VERSION if version else 0)
            answer.array(len(_VERSIONS))
            for known, newest in _VERSIONS.items():
                for number in (known, 0, newest):
                    answer.int16(number)
            return
        answer.int32(0)
        if key == ApiKeys.METADATA:
            answer.array(1)
            answer.int32(1)
            answer.string("127.0.0.1")
            answer.int32(server.sockets[0].getsockname()[1])
            answer.string(None)
            answer.string("cluster")
            answer.int32(1)
            answer.array(0)
        elif key == ApiKeys.DESCRIBE_ACLS:
            _error(answer)
            answer.array(0)
        else:
            answer.array(1)
            results[key](answer)

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    return server


def asked(
    send: Callable[[AdminClient], Any], results: Mapping[int, Callable[[Writer], None]] | None = None
) -> Any:
    """The library's one answer."""

    async def go() -> Any:
        connections = set[asyncio.Task[object]]()
        server = await _broker(results or {}, connections)
        port = server.sockets[0].getsockname()[1]
        client = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}", "log_level": 0})
        result = send(client)
        try:
            return await asyncio.wrap_future(
                next(iter(result.values())) if isinstance(result, dict) else result
            )
        finally:
            await asyncio.to_thread(client.__exit__, None, None, None)
            server.close()
            await asyncio.wait(connections, timeout=60)  # the client's end ends each of them
            assert all(each.done() for each in connections)

    return asyncio.run(go())


@pytest.mark.parametrize(
    ("key", "result", "send"),
    [
        (19, of_topic, lambda client: client.create_topics([NewTopic("a", 1, 1)])),
        (37, of_topic, lambda client: client.create_partitions([NewPartitions("a", 2)])),
        (
            44,
            of_resource,
            lambda client: client.incremental_alter_configs(
                [
                    ConfigResource(
                        ResourceType.TOPIC,
                        "a",
                        incremental_configs=[
                            ConfigEntry("k", "v", incremental_operation=AlterConfigOpType.SET)
                        ],
                    )
                ]
            ),
        ),
        (30, _error, lambda client: client.create_acls([AclBinding(*RULE)])),
    ],
    ids=["CreateTopics", "CreatePartitions", "IncrementalAlterConfigs", "CreateAcls"],
)
def test_errors_of_these_are_handed_on(
    key: int, result: Callable[[Writer], None], send: Callable[[AdminClient], Any]
) -> None:
    with pytest.raises(KafkaException) as caught:
        asked(send, {key: result})
    error = caught.value.args[0]
    assert (error.code(), error.str()) == (REFUSED, SAID)


def test_a_refused_description_of_rules_is_no_rules() -> None:
    """Once this fails, the library may describe them."""
    everything = AclBindingFilter(
        ResourceType.TOPIC,
        ANY_NAME,
        ResourcePatternType.ANY,
        ANY_NAME,
        ANY_NAME,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    assert asked(lambda client: client.describe_acls(everything)) == []


def test_a_rule_that_is_not_deleted_is_named_as_deleted() -> None:
    """Once this fails, the library may delete them."""
    result = asked(lambda client: client.delete_acls([AclBindingFilter(*RULE)]), {31: of_match})
    assert result == [AclBinding(*RULE)]
