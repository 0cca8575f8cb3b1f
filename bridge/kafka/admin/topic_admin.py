"""A cluster's topics as the source connector alters them (the TopicAdmin port), over requests of our own."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TypeVar

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.admin.topic_creation import ask_controller
from bridge.kafka.errors import failure, of_code
from bridge.kafka.network.client import NetworkClient
from bridge.kafka.protocol import acl_requests, topic_requests
from bridge.kafka.protocol.error_codes import Errors
from bridge.kafka.protocol.wire import Call, Reader
from bridge.model.topics import ConfigEntry, NewTopic, TopicAcl

T = TypeVar("T")

_TOPICS_A_CALL = 200
"""Of which the configs take about half a megabyte."""
_ACLS_A_CALL = 500
_USER = re.compile(r"Session\(([^,()]+),")
"""As brokers print the request that they refuse."""


class KafkaTopicAdmin:
    """Asks over a client of its own: admin calls may have credentials of their own (`admin.*`)."""

    def __init__(self, client: NetworkClient, timeout_ms: int) -> None:
        self._client, self._timeout_ms = client, timeout_ms

    async def create_topics(self, topics: Sequence[NewTopic]) -> dict[str, KafkaFailure | None]:
        done: dict[str, tuple[int, str]] = {}
        for some in _parts(topics, _TOPICS_A_CALL):
            make = _bound(topic_requests.create_topics, some, self._timeout_ms)
            done |= await ask_controller(self._client, make, "create topics")
        return {
            topic.name: _failure(
                done.get(topic.name),
                f"create topic {topic.name}",
                _on(topic.name, "CREATE"),
                harmless=Errors.TOPIC_ALREADY_EXISTS,
            )
            for topic in topics
        }

    async def create_partitions(self, totals: Mapping[str, int]) -> dict[str, KafkaFailure | None]:
        done: dict[str, tuple[int, str]] = {}
        for some in _parts(list(totals.items()), _TOPICS_A_CALL):
            make = _bound(topic_requests.create_partitions, dict(some), self._timeout_ms)
            done |= await ask_controller(self._client, make, "create partitions")
        return {
            name: _failure(
                done.get(name),
                f"create partitions of topic {name}",
                _on(name, "ALTER"),
                harmless=Errors.INVALID_PARTITIONS,  # it has as many by now, or more
            )
            for name in totals
        }

    async def configs(self, topics: Sequence[str]) -> dict[str, Mapping[str, ConfigEntry] | KafkaFailure]:
        found: dict[str, Mapping[str, ConfigEntry] | KafkaFailure] = {}
        for some in _parts(topics, _TOPICS_A_CALL):
            call = topic_requests.describe_configs(some)
            answer = await self._client.send(None, call, "describe configs of topics")
            for name, (code, said, configs) in topic_requests.read_described_configs(answer).items():
                doing, right = f"describe configs of topic {name}", _on(name, "DESCRIBE_CONFIGS")
                found[name] = _failure((code, said), doing, right) or configs
        return {name: _unanswered(f"describe configs of topic {name}") for name in topics} | found

    async def alter_configs(
        self, changes: Mapping[str, Mapping[str, str | None]]
    ) -> dict[str, KafkaFailure | None]:
        done: dict[str, tuple[int, str]] = {}
        for some in _parts(list(changes.items()), _TOPICS_A_CALL):
            call = topic_requests.alter_configs(dict(some))
            answer = await self._client.send(None, call, "alter configs of topics")
            done |= topic_requests.read_altered_configs(answer)
        return {
            name: _failure(done.get(name), f"alter configs of topic {name}", _on(name, "ALTER_CONFIGS"))
            for name in changes
        }

    async def acls(self) -> set[TopicAcl] | None:
        doing = "describe ACLs of topics"
        answer = await self._client.send(None, acl_requests.describe_topic_acls(), doing)
        code, said, acls = acl_requests.read_described_acls(answer)
        if code == Errors.SECURITY_DISABLED:
            return None
        if failed := _failure((code, said), doing, "DESCRIBE on the cluster"):
            raise failed
        return acls

    async def create_acls(self, acls: Sequence[TopicAcl]) -> dict[TopicAcl, KafkaFailure | None]:
        return await self._each(acls, acl_requests.create_acls, acl_requests.read_created_acls, "create")

    async def delete_acls(self, acls: Sequence[TopicAcl]) -> dict[TopicAcl, KafkaFailure | None]:
        return await self._each(acls, acl_requests.delete_acls, acl_requests.read_deleted_acls, "delete")

    async def _each(
        self,
        acls: Sequence[TopicAcl],
        make: Callable[[Sequence[TopicAcl]], Call],
        read: Callable[[Reader], list[tuple[int, str]]],
        verb: str,
    ) -> dict[TopicAcl, KafkaFailure | None]:
        found: dict[TopicAcl, KafkaFailure | None] = {}
        for some in _parts(acls, _ACLS_A_CALL):
            results = read(await self._client.send(None, make(some), f"{verb} ACLs of topics"))
            for acl, result in zip(some, results, strict=True):
                found[acl] = _failure(result, f"{verb} ACL {acl}", "ALTER on the cluster")
        return found


def _failure(
    result: tuple[int, str] | None, doing: str, right: str, harmless: int = Errors.NONE
) -> KafkaFailure | None:
    """With the broker's own words, which name the config or the limit that was broken; of a missing right, the user."""
    if result is None:
        return _unanswered(doing)
    code, said = result
    failed = None if code == harmless else of_code(code, doing, right)
    if failed is None or not said:
        return failed
    if failed.fault is KafkaFault.NOT_AUTHORIZED:
        user = _USER.search(said)
        return failed if user is None else failure(failed.fault, doing, f"{user[1]} may not: grant {right}")
    return failure(failed.fault, doing, said)


def _on(topic: str, operation: str) -> str:
    return f"{operation} on topic {topic}"


def _unanswered(doing: str) -> KafkaFailure:
    return failure(KafkaFault.OTHER, doing, "No answer")


def _bound(make: Callable[[T, int], Call], what: T, timeout_ms: int) -> Callable[[], Call]:
    """A call is sent once only, and asking the controller may take several."""
    return lambda: make(what, timeout_ms)


def _parts(items: Sequence[T], size: int) -> Iterator[list[T]]:
    rest = iter(items)
    while part := list(islice(rest, size)):
        yield part
