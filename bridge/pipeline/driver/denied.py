"""Finds topics that may not be read or written: they are left out of the layout, so that the others are copied."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Mapping, Sequence

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.admin.inspection import describe_topics, read_topics
from bridge.kafka.config.settings import producer_settings
from bridge.kafka.network.client import NetworkClient
from bridge.model.copying import Copied, PipelineSpec
from bridge.model.values import Side

log = logging.getLogger(__name__)

_CHECK_SECONDS = 1.0
"""Seconds between two looks."""
_SYNCS_CHECK_SECONDS = 5.0
_TIMEOUT_SECONDS = 2.0
_TOPICS_A_CALL = 500

Denied = frozenset[tuple[Side, str]]
"""Topics by cluster."""
_OPERATIONS = {Side.SOURCE: "READ", Side.TARGET: "WRITE"}


class Rights:
    """The rights of one driver on topics. Brokers say what may be done with topics (KIP-430); where they don't,
    everything may."""

    def __init__(self, spec: PipelineSpec, source: NetworkClient) -> None:
        """The target is asked as whoever writes copies."""
        self._spec = spec
        self._target = NetworkClient(producer_settings(Side.TARGET, spec.props))
        apart = bool(spec.syncs_topic) and not spec.syncs_on_target
        self._syncs = NetworkClient(producer_settings(Side.SOURCE, spec.props)) if apart else None
        self._no_syncs = ""
        """Why offset syncs can't be written to the source: they follow the copies, which go on without them."""
        self._partitions: Sequence[Copied] = ()
        self._due = self._syncs_due = 0.0
        self._clients = {Side.SOURCE: source, Side.TARGET: self._target}
        self.denied: Denied = frozenset()
        """The denied topics that the layout was made without."""
        self.changed = False
        """Whether other topics are denied by now."""

    async def close(self) -> None:
        await self._target.close()
        if self._syncs is not None:
            await self._syncs.close()

    @property
    def errors(self) -> list[str]:
        return [
            *(_message(*row) for row in sorted(self.denied)),
            *([self._no_syncs] if self._no_syncs else []),
        ]

    def why_denied(self, copied: Copied) -> str:
        """Returns which right a partition lacks; "" for none."""
        return next((_message(*topic) for topic in sorted(_topics(copied) & self.denied)), "")

    async def allowed(self, partitions: Sequence[Copied]) -> list[Copied]:
        """Those of `partitions` that may be copied now. Raises KafkaFailure."""
        self._partitions = partitions
        before, self.denied, self.changed = self.denied, await self._ask(partitions), False
        for side, topic in sorted(self.denied - before):
            log.warning("%s", _message(side, topic))
        for side, topic in sorted(before - self.denied):
            log.info("%s cluster: %s on topic %s is granted now", side.value, _OPERATIONS[side], topic)
        if self.denied and self._spec.until_caught_up:
            raise KafkaFailure(KafkaFault.NOT_AUTHORIZED, "; ".join(self.errors))
        return [partition for partition in partitions if not _topics(partition) & self.denied]

    async def check(self, *, after_errors: bool) -> None:
        """Checks whether other topics are denied by now. `after_errors`: copying meets errors."""
        now = time.monotonic()
        # A cluster that is away is named by whoever copies.
        with contextlib.suppress(KafkaFailure, TimeoutError):
            async with asyncio.timeout(_TIMEOUT_SECONDS):
                if (after_errors or self.denied) and now >= self._due:
                    self._due = now + _CHECK_SECONDS
                    partitions = self._partitions
                    denied = await self._ask(partitions)
                    if partitions is self._partitions:  # else a new layout has asked for others meanwhile
                        self.changed = denied != self.denied
                if self._syncs is not None and now >= self._syncs_due:
                    self._syncs_due = now + _SYNCS_CHECK_SECONDS
                    await self._look_at_syncs(self._syncs)

    async def _look_at_syncs(self, client: NetworkClient) -> None:
        topic = self._spec.syncs_topic
        denied = await _denied(client, [topic], "WRITE")
        error = (
            f"source cluster: not authorized to write topic {topic}: grant WRITE on it; until then no offset syncs are "
            "written"
        )
        if denied and not self._no_syncs:
            log.warning("%s", error)
        self._no_syncs = error if denied else ""

    async def _ask(self, partitions: Sequence[Copied]) -> Denied:
        names: Mapping[Side, set[str]] = {side: set() for side in _OPERATIONS}
        for partition in partitions:
            for side, topic in _topics(partition):
                names[side].add(topic)
        denied: set[tuple[Side, str]] = set()
        for side, some in names.items():
            try:
                topics = await _denied(self._clients[side], sorted(some), _OPERATIONS[side])
            except KafkaFailure as error:
                if not error.retriable:
                    raise
                # A cluster that is away is named by whoever copies; until it answers, what was denied stays so.
                topics = {topic for at, topic in self.denied if at is side} & some
            denied.update((side, topic) for topic in topics)
        return frozenset(denied)


async def _denied(client: NetworkClient, topics: Sequence[str], operation: str) -> set[str]:
    """The topics that the operation is not allowed on. Raises KafkaFailure."""
    denied = set()
    for start in range(0, len(topics), _TOPICS_A_CALL):
        call = describe_topics(topics[start : start + _TOPICS_A_CALL])
        response = await client.send(None, call, "ask for the rights on topics")
        for name, topic in read_topics(response, call.API_VERSION).items():
            if topic.denied or (topic.allowed is not None and operation not in topic.allowed):
                denied.add(name)
    return denied


def _message(side: Side, topic: str) -> str:
    where = f"{side.value} cluster: not authorized to {_OPERATIONS[side].lower()} topic {topic}"
    return f"{where}: grant {_OPERATIONS[side]} on it; until then it is not copied; other topics are"


def _topics(copied: Copied) -> set[tuple[Side, str]]:
    return {(Side.SOURCE, copied.source.topic), *((Side.TARGET, copy.target_topic) for copy in copied.copies)}
