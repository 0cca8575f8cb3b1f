"""Every admin call of confluent_kafka that we make, while its broker goes away. A process of its own: the library might
end it.

    python -m tests.integration.admin_calls cuts BEHIND PROXIED NUMBER    by a proxy in here, so many times
    python -m tests.integration.admin_calls kills BOOTSTRAP               whenever a line on stdin says so

Each call that has ended is a line of JSON on stdout.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple

from bridge.errors import KafkaFailure
from bridge.kafka.cluster import KafkaCluster
from bridge.kafka.config.settings import client_settings
from bridge.model.topics import NewTopic, PatternType, Permission, TopicAcl, TopicOperation
from bridge.model.values import Side
from tests.integration.cutter import Cut, Cutter

TOPIC = "asked-of"
_SHORT_TIMEOUTS = {
    f"source.admin.{name}": "1000" for name in ("request.timeout.ms", "default.api.timeout.ms")
}
_HANGS_SECONDS = 20.0
"""Seconds after which a call has not ended."""


class Call(NamedTuple):
    api: int
    """Key of its request."""
    send: Callable[[KafkaCluster, int], Awaitable[object]]
    """With a number that no other try has."""


def _rule(number: int) -> TopicAcl:
    return TopicAcl(
        f"{TOPIC}-{number}", PatternType.LITERAL, "User:a", "*", TopicOperation.READ, Permission.ALLOW
    )


CALLS: Mapping[str, Call] = {
    "create_topics": Call(
        19, lambda cluster, number: cluster.topic_admin.create_topics([NewTopic(f"made-{number}", 1, 1, {})])
    ),
    "create_compacted_topic": Call(
        19, lambda cluster, number: cluster.create_compacted_topic(f"compacted-{number}", 1)
    ),
    "create_partitions": Call(37, lambda cluster, _: cluster.topic_admin.create_partitions({TOPIC: 2})),
    "alter_configs": Call(
        44, lambda cluster, number: cluster.topic_admin.alter_configs({TOPIC: {"retention.ms": f"{number}"}})
    ),
    "create_acls": Call(30, lambda cluster, number: cluster.topic_admin.create_acls([_rule(number)])),
}


def _failure(answer: object) -> KafkaFailure | None:
    """Returns the failure of a call, or of the first key of its answer that has one."""
    if isinstance(answer, KafkaFailure):
        return answer
    values = answer.values() if isinstance(answer, Mapping) else ()
    return next((each for each in values if isinstance(each, KafkaFailure)), None)


async def _ended(name: str, cluster: KafkaCluster, number: int) -> None:
    began = time.monotonic()
    try:
        async with asyncio.timeout(_HANGS_SECONDS):
            failure = _failure(await CALLS[name].send(cluster, number))
    except KafkaFailure as raised:
        failure = raised
    except TimeoutError:
        print(json.dumps({"call": name, "ended": "never"}), flush=True)
        return
    ended = "answer" if failure is None else failure.fault.name
    seconds = round(time.monotonic() - began, 2)
    print(
        json.dumps({"call": name, "ended": ended, "seconds": seconds, "said": str(failure or "")}), flush=True
    )


async def _all(cluster: KafkaCluster, number: int) -> None:
    await asyncio.gather(*(_ended(name, cluster, number) for name in CALLS))


async def _answers(cluster: KafkaCluster) -> None:
    """Waits until the cluster answers."""
    while True:
        try:
            await cluster.topic_admin.create_partitions({TOPIC: 2})
        except KafkaFailure:
            await asyncio.sleep(0.1)
        else:
            return


def _cluster(bootstrap: str) -> KafkaCluster:
    props = {"source.cluster.bootstrap.servers": bootstrap, **_SHORT_TIMEOUTS}
    return KafkaCluster(client_settings(Side.SOURCE, props))


async def cuts(behind: str, proxied: int, times: int) -> None:
    """All calls at once, and each in turn is the one that is cut, in each of four ways."""
    host, _, port = behind.rpartition(":")
    cutter = Cutter(proxied, host, int(port))
    await cutter.listen()
    cluster = _cluster(f"127.0.0.1:{proxied}")
    try:
        for number in range(1, times + 1):
            await _answers(cluster)
            name = list(CALLS)[number % len(CALLS)]
            cutter.arm(CALLS[name].api, list(Cut)[number // len(CALLS) % len(Cut)])
            await _all(cluster, number)
            assert cutter.cuts == number, f"{name} was not cut"
    finally:
        await cluster.close()
        await cutter.close()


async def kills(bootstrap: str) -> None:
    """Makes admin calls for each line on stdin, and prints "ready" once the cluster answers, "sent" once all calls are
    under way, and "ended"."""
    cluster = _cluster(bootstrap)
    number = 0
    try:
        while await asyncio.to_thread(sys.stdin.readline):
            number += 1
            await _answers(cluster)
            print("ready", flush=True)
            await asyncio.to_thread(sys.stdin.readline)
            calls = asyncio.create_task(_all(cluster, number))
            await asyncio.sleep(0.3)
            print("sent", flush=True)
            await calls
            print("ended", flush=True)
    finally:
        await cluster.close()


def main(arguments: Sequence[str]) -> None:
    match arguments:
        case ["cuts", behind, proxied, times]:
            asyncio.run(cuts(behind, int(proxied), int(times)))
        case ["kills", bootstrap]:
            asyncio.run(kills(bootstrap))


if __name__ == "__main__":
    main(sys.argv[1:])
