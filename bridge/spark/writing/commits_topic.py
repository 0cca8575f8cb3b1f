"""The commits topic: made where it is missing, and read from its end backwards."""

from __future__ import annotations

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.admin.admin_client import AsyncAdminClient, failure_of
from bridge.kafka.admin.topic_admin import create
from bridge.kafka.consumer.log_bounds import all_bounds
from bridge.kafka.network.client import NetworkClient
from bridge.kafka.protocol import log_requests
from bridge.kafka.protocol.error_codes import Errors
from bridge.kafka.protocol.errors import failure, of_code
from bridge.kafka.protocol.log_requests import FetchPartition
from bridge.kafka.record.batch import CorruptBatch, RawBatch, parse
from bridge.kafka.state_topics import verify_compacted
from bridge.model.topics import NewTopic
from bridge.model.values import Bounds, TopicPartition
from bridge.spark.planning import patiently
from bridge.spark.writing.commits import (
    CommitRecord,
    Decision,
    SinkTask,
    committed,
    decided,
    find_commit,
    newest_of_tasks,
)
from bridge.spark.writing.options import HEAL, SinkOptions

_FIRST, _WIDER = 1024, 8
"""Offsets that are read at first, from the end backwards, and how many times as many then."""
_BYTES = 8 * 1024 * 1024
_TRIES = 3
"""Fetches of a batch with a wrong checksum."""
_COMPACT = {"cleanup.policy": "compact"}
_SOON = {"segment.bytes": str(16 * 1024 * 1024), "delete.retention.ms": str(7 * 24 * 3600 * 1000)}
"""The cleaner leaves the last segment alone, and a query's first epoch reads what is there. What says that a batch job
is over stays for as long as its tasks may linger."""


async def ensure(client: NetworkClient, options: SinkOptions) -> None:
    """Looks up the topic, and makes it where it is missing. Raises KafkaFailure."""
    if await _there(client, options.commits_topic):
        return
    settings = options.admin_settings()
    admin = AsyncAdminClient(settings.admin, client, options.patience)
    try:
        for configs in ({**_COMPACT, **_SOON}, _COMPACT):
            doing = f"create topic {options.commits_topic}"
            new = NewTopic(options.commits_topic, 1, -1, configs)
            error = (await create(admin, [new], doing))[new.name]
            if error is None or error.code() == Errors.TOPIC_ALREADY_EXISTS:
                break
            # Providers of clusters refuse configs that they set themselves.
            if error.code() not in (Errors.INVALID_CONFIG, Errors.POLICY_VIOLATION) or configs is _COMPACT:
                raise failure_of(error, doing, f"CREATE on topic {new.name}")
    finally:
        await admin.close()
    await patiently(lambda: _seen(client, options.commits_topic), options.patience, HEAL)


async def verify(client: NetworkClient, options: SinkOptions) -> None:
    """Raises KafkaFailure for a commits topic that would lose what it holds."""
    await verify_compacted(client, {options.commits_topic: "what queries have committed"})


async def end_of(client: NetworkClient, topic: str) -> int:
    """The offset at which the topic ends, committed or not. Raises KafkaFailure."""
    return (await _bounds(client, topic)).end


async def look_up(client: NetworkClient, topic: str, task: SinkTask, since: int = 0) -> CommitRecord | None:
    """Returns the commit record of a task of a batch job, of which nothing stands before offset `since`. Call it after
    taking over the task's transactional id. Raises KafkaFailure."""
    bounds = await _bounds(client, topic)
    # A topic that was made again ends before what was its end: all of it is read.
    first = max(bounds.start, since) if since <= bounds.end else bounds.start
    return find_commit(await _committed(client, topic, first, bounds.end), task)


async def find_decision(client: NetworkClient, topic: str, query: str) -> Decision | None:
    """Returns the newest decision of a query. Raises KafkaFailure."""
    bounds = await _bounds(client, topic)
    width, end = _FIRST, bounds.end
    while True:
        start = max(bounds.start, bounds.end - width)
        last = decided(await _committed(client, topic, start, end), query)
        if last is not None or start <= bounds.start:
            return last
        width *= _WIDER


async def find_epoch_of_tasks(client: NetworkClient, topic: str, query: str) -> int | None:
    """Returns the newest epoch of a query that tasks of an older version have committed one by one. Raises
    KafkaFailure."""
    bounds = await _bounds(client, topic)
    return newest_of_tasks(await _committed(client, topic, bounds.start, bounds.end), query)


async def _there(client: NetworkClient, topic: str) -> bool:
    described = (await client.metadata([topic]))[topic]
    failed = of_code(described.error, f"describe topic {topic}", f"DESCRIBE on topic {topic}")
    if failed is not None and failed.fault is not KafkaFault.UNKNOWN_TOPIC:
        raise failed
    return failed is None


async def _seen(client: NetworkClient, topic: str) -> None:
    """Raises KafkaFailure while not every broker knows a topic that was just made, or it has no leader."""
    if not await _there(client, topic):
        raise failure(KafkaFault.LEADER_MOVED, f"describe topic {topic}", "It was made, and is not there yet")
    _, leaderless = client.by_leader([TopicPartition(topic, 0)])
    for failed in leaderless.values():
        raise failed


async def _bounds(client: NetworkClient, topic: str) -> Bounds:
    tp = TopicPartition(topic, 0)
    return (await all_bounds(client, [tp], committed_only=False))[tp]


async def _committed(
    client: NetworkClient, topic: str, start: int, end: int
) -> list[tuple[bytes | None, bytes | None]]:
    """Committed records from offset `start` to before `end`."""
    batches: list[RawBatch] = []
    tries = 0
    while start < end:
        try:
            fetched = list(parse(await _fetched(client, topic, start), checked=True))
        except CorruptBatch as corrupt:
            tries += 1
            if tries < _TRIES:
                continue
            raise KafkaFailure(KafkaFault.UNREADABLE_BATCH, f"{topic}: {corrupt}", retriable=False) from None
        if not fetched:
            raise failure(
                KafkaFault.LEADER_MOVED,
                f"read {topic} at {start}",
                f"There is nothing, and the log ends at {end}",
            )
        batches += fetched
        start = fetched[-1].last_offset + 1
    try:
        return committed(batches)
    except CorruptBatch as corrupt:
        text = f"{topic}: the batch at offset {corrupt.offset} can't be decoded"
        raise KafkaFailure(KafkaFault.UNREADABLE_BATCH, text, retriable=False) from None


async def _fetched(client: NetworkClient, topic: str, offset: int) -> bytes:
    tp, doing = TopicPartition(topic, 0), f"read {topic} at {offset}"
    nodes, leaderless = client.by_leader([tp])
    for failed in leaderless.values():
        raise failed
    (leader,) = nodes
    topic_id = client.topic_id(topic)
    call = log_requests.fetch({tp: FetchPartition(topic_id, offset, _BYTES)}, committed_only=False)
    response = await client.send(leader, call, doing)
    data = log_requests.read_fetched(response, call.API_VERSION, {topic_id: topic}).get(tp)
    if data is None:
        raise failure(KafkaFault.OTHER, doing, "The response does not contain the partition")
    refused = of_code(data.error, doing, f"READ on topic {topic}")
    if refused is not None:
        raise refused
    return bytes(data.records)
