"""Configs of topics, as brokers describe them.

By requests of our own: librdkafka takes 3 to 6 times the CPU, for it always asks for synonyms too, and Spark's slices
ask over connections that they have (decision 0040).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.network.client import NetworkClient
from bridge.kafka.protocol import admin_requests
from bridge.kafka.protocol.errors import failure, refusal
from bridge.model.topics import ConfigEntry

_TOPICS_A_CALL = 200
"""Of which the configs take about half a megabyte."""


async def describe_configs(
    client: NetworkClient, topics: Sequence[str]
) -> dict[str, Mapping[str, ConfigEntry] | KafkaFailure]:
    """Every config of each topic, defaults too. Raises KafkaFailure where the cluster does not answer."""
    results: dict[str, Mapping[str, ConfigEntry] | KafkaFailure] = {}
    async for some in configs_in_parts(client, topics):
        results |= some
    return results


async def configs_in_parts(
    client: NetworkClient, topics: Sequence[str]
) -> AsyncIterator[dict[str, Mapping[str, ConfigEntry] | KafkaFailure]]:
    """The same, each response as it comes: for callers that do not wait for all of them."""
    for start in range(0, len(topics), _TOPICS_A_CALL):
        some = topics[start : start + _TOPICS_A_CALL]
        response = await client.send(
            None, admin_requests.describe_configs(some), "describe configs of topics"
        )
        results: dict[str, Mapping[str, ConfigEntry] | KafkaFailure] = {
            name: failure(KafkaFault.OTHER, f"describe configs of topic {name}", "No answer") for name in some
        }
        for name, (code, message, configs) in admin_requests.read_described_configs(response).items():
            doing, right = f"describe configs of topic {name}", f"DESCRIBE_CONFIGS on topic {name}"
            results[name] = refusal(code, message, doing, right) or configs
        yield results
