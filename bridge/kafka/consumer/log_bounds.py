"""Log start and end offsets, and offsets by timestamp (ListOffsets)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.network.client import NetworkClient
from bridge.kafka.protocol import log_requests
from bridge.kafka.protocol.errors import failure, of_code
from bridge.model.values import Bounds, TopicPartition


async def bounds(
    client: NetworkClient, partitions: Sequence[TopicPartition], *, committed_only: bool
) -> dict[TopicPartition, Bounds | KafkaFailure]:
    """Returns the bounds of partitions whose leaders the client knows (`NetworkClient.metadata`). Never raises."""
    questions = (log_requests.EARLIEST, committed_only), (log_requests.LATEST, committed_only)
    results: dict[TopicPartition, Bounds | KafkaFailure] = {}
    for tp, listed in (await _ask_leaders(client, partitions, *questions)).items():
        if isinstance(listed, KafkaFailure):
            results[tp] = listed
        else:
            start, end = listed
            results[tp] = Bounds(start.offset, max(start.offset, end.offset), end.leader_epoch)
    return results


async def all_bounds(
    client: NetworkClient, partitions: Sequence[TopicPartition], *, committed_only: bool
) -> dict[TopicPartition, Bounds]:
    """Returns `bounds` for callers that need every one of them. Raises the first KafkaFailure."""
    logs = {}
    for tp, log in (await bounds(client, partitions, committed_only=committed_only)).items():
        if isinstance(log, KafkaFailure):
            raise log
        logs[tp] = log
    return logs


async def open_transactions(
    client: NetworkClient, partitions: Sequence[TopicPartition]
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, KafkaFailure]]:
    """Returns where the first transaction begins that has not ended, of partitions that hold such ones; and why others
    do not tell. Needs `client.metadata` of the topics first. Never raises."""
    begin: dict[TopicPartition, int] = {}
    failed: dict[TopicPartition, KafkaFailure] = {}
    questions = (log_requests.LATEST, False), (log_requests.LATEST, True)
    for tp, listed in (await _ask_leaders(client, partitions, *questions)).items():
        if isinstance(listed, KafkaFailure):
            failed[tp] = listed
        else:
            end, stable = listed
            if stable.offset < end.offset:
                begin[tp] = stable.offset
    return begin, failed


async def offsets_at_times(
    client: NetworkClient, times: Mapping[TopicPartition, int], *, committed_only: bool
) -> dict[TopicPartition, int | None]:
    """The first offset of each partition whose timestamp is at or after the given one (ms), None where there is none.
    Needs `client.metadata` of the topics first. Raises KafkaFailure."""
    nodes, leaderless = client.by_leader(list(times))
    for failed in leaderless.values():
        raise failed
    offsets: dict[TopicPartition, int | None] = {}
    for node, tps in nodes.items():
        of_leader = {tp: times[tp] for tp in tps}
        call = log_requests.list_offsets(of_leader, committed_only=committed_only)
        listed = log_requests.read_listed_offsets(await client.send(node, call, "list offsets"))
        for tp in tps:
            error = of_code(listed[tp].error, f"list offsets of {tp.topic}-{tp.partition}")
            if error is not None:
                raise error
            offsets[tp] = listed[tp].offset if listed[tp].offset >= 0 else None
    return offsets


async def _ask_leaders(
    client: NetworkClient, partitions: Sequence[TopicPartition], *questions: tuple[int, bool]
) -> dict[TopicPartition, list[log_requests.ListedOffset] | KafkaFailure]:
    """Returns each partition's answers, or why it gives none. A question: which offset (EARLIEST, LATEST), and whether
    of committed records only. Never raises."""
    nodes, leaderless = client.by_leader(partitions)
    answers: dict[TopicPartition, list[log_requests.ListedOffset] | KafkaFailure] = dict(leaderless)

    async def ask(node: int, tps: Sequence[TopicPartition]) -> None:
        try:
            listed = await asyncio.gather(
                *(
                    _listed(client, node, tps, offset, committed_only=committed_only)
                    for offset, committed_only in questions
                )
            )
        except KafkaFailure as error:
            answers.update(dict.fromkeys(tps, error))
            return
        for tp in tps:
            doing, right = f"list offsets of {tp.topic}-{tp.partition}", f"READ on topic {tp.topic}"
            error_code = next((answer[tp].error for answer in listed if answer[tp].error), 0)
            answers[tp] = of_code(error_code, doing, right) or [answer[tp] for answer in listed]

    await asyncio.gather(*(ask(node, tps) for node, tps in nodes.items()))
    return answers


async def _listed(
    client: NetworkClient, node: int, partitions: Sequence[TopicPartition], at: int, *, committed_only: bool
) -> Mapping[TopicPartition, log_requests.ListedOffset]:
    call = log_requests.list_offsets(dict.fromkeys(partitions, at), committed_only=committed_only)
    listed = log_requests.read_listed_offsets(await client.send(node, call, "list offsets"))
    missing = [tp for tp in partitions if tp not in listed]
    if missing:
        doing = f"list offsets of {missing[0].topic}-{missing[0].partition}"
        raise failure(KafkaFault.OTHER, doing, "The response does not contain the partition")
    return listed
