"""Deletes runs and claims of copies whose topics are gone; they would stay for ever, and be read for each layout.

Only where the topic is gone on both clusters: while the copies are there groups resume by their runs, and while the
source topic is there its position is where copying goes on. Both clusters must say so themselves, twice and GONE_FOR
apart: one that is away says nothing, and a broker that has just started may not know all topics yet.

Only by the driver, in its own transactions and after the slots of older layouts are fenced, and only what its connector
owns, or nobody: nobody else writes these keys then.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterable, Mapping, Sequence

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.network.client import NetworkClient
from bridge.kafka.producer.producer import TransactionalProducer
from bridge.kafka.protocol.errors import of_code
from bridge.model.copy_owners import TopicPair
from bridge.model.copying import PipelineSpec
from bridge.model.values import CopyId
from bridge.pipeline.layouts.claims import withdrawn
from bridge.pipeline.layouts.records import LayoutTopic

log = logging.getLogger(__name__)

GONE_FOR = 600.0
"""Seconds."""
MOST = 20_000
"""Runs that a layout drops, and the rest of its last topic: it waits for that."""
_TOPICS_A_CALL = 500


class Gone:
    """Remembers since when topics are gone. Pure."""

    def __init__(self) -> None:
        self._since: dict[TopicPair, float] = {}

    def due(self, gone: Iterable[TopicPair], now: float) -> list[TopicPair]:
        """The pairs of `gone` that have been gone for GONE_FOR; `now` in seconds."""
        self._since = {pair: self._since.get(pair, now) for pair in gone}
        due = [pair for pair, since in self._since.items() if now - since >= GONE_FOR]
        return sorted(due)


def drop_keys(
    keys_of: Mapping[CopyId, Sequence[bytes]], due: Sequence[TopicPair]
) -> tuple[list[TopicPair], list[bytes]]:
    """The pairs of `due` whose runs are deleted now, with the keys of all their runs (`keys_of`: the keys by copy)."""
    by_pair: dict[TopicPair, list[bytes]] = {}
    for copy, keys in keys_of.items():
        by_pair.setdefault((copy.source.topic, copy.target_topic), []).extend(keys)
    pairs: list[TopicPair] = []
    dropped: list[bytes] = []
    for pair in due:
        if len(dropped) >= MOST:
            break
        pairs.append(pair)
        dropped += by_pair.get(pair, [])
    return pairs, dropped


class Dropper:
    """Deletes what one driver's connector has left of deleted topics."""

    def __init__(self, spec: PipelineSpec, source: NetworkClient, target: NetworkClient) -> None:
        self._spec, self._source, self._target = spec, source, target
        self._gone = Gone()

    async def drop(
        self,
        leader: TransactionalProducer,
        topic: LayoutTopic,
        unwanted: Mapping[CopyId, Sequence[bytes]],
        copied: Collection[TopicPair],
    ) -> set[CopyId]:
        """Deletes runs and claims; returns the copies of which nothing is left in the runs topic. `unwanted`: keys of
        the runs of copies that are not copied now. Raises KafkaFailure of the leader's transactions only."""
        name = self._spec.name
        pairs = {(copy.source.topic, copy.target_topic) for copy in unwanted}
        pairs |= {pair for pair in topic.claims if topic.owner(pair) == name}
        ours = [pair for pair in pairs if pair not in copied and topic.owner(pair) in (name, None)]
        try:
            gone = await self._both_gone(ours)
        except KafkaFailure as error:
            log.info(
                "keeping the offset runs of deleted topics, because a cluster did not describe them: %s",
                error,
            )
            return set()
        dropped, keys = drop_keys(unwanted, self._gone.due(gone, time.monotonic()))
        if not dropped:
            return set()
        if keys:
            await leader.write(self._spec.runs_topic, [(key, None) for key in keys])
        if claimed := [pair for pair in dropped if topic.owner(pair) == name]:
            await leader.write(self._spec.layout_topic, withdrawn(claimed, name))
        log.info(
            "deleted %d offset run(s) of %d topic(s) that exist on neither cluster", len(keys), len(dropped)
        )
        return {copy for copy in unwanted if (copy.source.topic, copy.target_topic) in dropped}

    async def _both_gone(self, pairs: Collection[TopicPair]) -> list[TopicPair]:
        targets = await _missing(self._target, {target for _, target in pairs})
        left = [pair for pair in pairs if pair[1] in targets]
        sources = await _missing(self._source, {source for source, _ in left})
        return [pair for pair in left if pair[0] in sources]


async def _missing(client: NetworkClient, topics: Collection[str]) -> set[str]:
    """The topics that the cluster says do not exist. Raises KafkaFailure."""
    names, missing = sorted(topics), set()
    for at in range(0, len(names), _TOPICS_A_CALL):
        for name, meta in (await client.metadata(names[at : at + _TOPICS_A_CALL])).items():
            failed = of_code(meta.error, f"describe topic {name}")
            if failed is not None and failed.fault is KafkaFault.UNKNOWN_TOPIC:
                missing.add(name)
    return missing
