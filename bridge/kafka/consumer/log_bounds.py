"""Where logs begin and end."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.errors import failure, of_code
from bridge.kafka.network.client import NetworkClient
from bridge.kafka.protocol import log_requests
from bridge.model.values import Bounds, TopicPartition


async def bounds(
    client: NetworkClient, partitions: Sequence[TopicPartition], *, committed_only: bool
) -> dict[TopicPartition, Bounds | KafkaFailure]:
    """Of partitions whose leaders the client knows (`NetworkClient.metadata`). Never raises."""
    nodes, leaderless = client.by_leader(partitions)
    found: dict[TopicPartition, Bounds | KafkaFailure] = dict(leaderless)

    async def ask(node: int, some: Sequence[TopicPartition]) -> None:
        try:
            starts, ends = await asyncio.gather(
                _listed(client, node, some, log_requests.EARLIEST, committed_only=committed_only),
                _listed(client, node, some, log_requests.LATEST, committed_only=committed_only),
            )
        except KafkaFailure as error:
            found.update(dict.fromkeys(some, error))
            return
        for part in some:
            start, end = starts[part], ends[part]
            doing, right = f"list offsets of {part.topic}-{part.partition}", f"READ on topic {part.topic}"
            failed = of_code(start.error or end.error, doing, right)
            found[part] = failed or Bounds(start.offset, max(start.offset, end.offset), end.leader_epoch)

    await asyncio.gather(*(ask(node, some) for node, some in nodes.items()))
    return found


async def all_bounds(
    client: NetworkClient, partitions: Sequence[TopicPartition], *, committed_only: bool
) -> dict[TopicPartition, Bounds]:
    """The same for callers that need every one of them. Raises the first KafkaFailure."""
    known = {}
    for part, found in (await bounds(client, partitions, committed_only=committed_only)).items():
        if isinstance(found, KafkaFailure):
            raise found
        known[part] = found
    return known


async def offsets_at_times(
    client: NetworkClient, times: Mapping[TopicPartition, int], *, committed_only: bool
) -> dict[TopicPartition, int | None]:
    """The first offset of each partition whose timestamp is at or after the given one (ms), None where there is none.
    Needs `client.metadata` of the topics first. Raises KafkaFailure."""
    nodes, leaderless = client.by_leader(list(times))
    for failed in leaderless.values():
        raise failed
    found: dict[TopicPartition, int | None] = {}
    for node, some in nodes.items():
        wanted = {part: times[part] for part in some}
        call = log_requests.list_offsets(wanted, committed_only=committed_only)
        listed = log_requests.read_listed_offsets(await client.send(node, call, "list offsets"))
        for part in some:
            error = of_code(listed[part].error, f"list offsets of {part.topic}-{part.partition}")
            if error is not None:
                raise error
            found[part] = listed[part].offset if listed[part].offset >= 0 else None
    return found


async def _listed(
    client: NetworkClient, node: int, partitions: Sequence[TopicPartition], at: int, *, committed_only: bool
) -> Mapping[TopicPartition, log_requests.ListedOffset]:
    call = log_requests.list_offsets(dict.fromkeys(partitions, at), committed_only=committed_only)
    listed = log_requests.read_listed_offsets(await client.send(node, call, "list offsets"))
    missing = [part for part in partitions if part not in listed]
    if missing:
        raise failure(KafkaFault.OTHER, "list offsets", f"No answer for {missing[0].topic}")
    return listed
