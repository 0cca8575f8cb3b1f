"""Topics that may not be read, or written: they are left out of the layout, so that the others are copied."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Collection, Mapping, Sequence

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.client_config import producer_settings
from bridge.kafka.describing import describe_topics, read_topics
from bridge.kafka.link import Link
from bridge.translation.copying import Copied, PipelineSpec
from bridge.translation.model import Side

log = logging.getLogger(__name__)

_LOOK = 1.0
"""Seconds between two looks."""
_PATIENCE = 5.0
_TOPICS_A_CALL = 500

Denied = frozenset[tuple[Side, str]]
"""Topics by cluster."""
_OPERATIONS = {Side.SOURCE: "READ", Side.TARGET: "WRITE"}


class Rights:
    """Of one driver. Brokers say what may be done with topics (KIP-430); where they don't, everything may."""

    def __init__(self, spec: PipelineSpec, source: Link) -> None:
        """The target is asked as whoever writes copies."""
        self._spec = spec
        self._target = Link(producer_settings(Side.TARGET, spec.props))
        self._wanted: Sequence[Copied] = ()
        self._due = 0.0
        self._links = {Side.SOURCE: source, Side.TARGET: self._target}
        self.denied: Denied = frozenset()
        """As the layout was made for."""
        self.changed = False
        """Other topics are denied than those."""

    async def close(self) -> None:
        await self._target.close()

    @property
    def errors(self) -> list[str]:
        return [_said(*each) for each in sorted(self.denied)]

    async def allowed(self, wanted: Sequence[Copied]) -> list[Copied]:
        """What of it may be copied now. Raises KafkaFailure."""
        self._wanted = wanted
        before, self.denied, self.changed = self.denied, await self._ask(wanted), False
        for side, topic in sorted(self.denied - before):
            log.warning("%s", _said(side, topic))
        for side, topic in sorted(before - self.denied):
            log.info("%s cluster: %s on topic %s is there now", side.value, _OPERATIONS[side], topic)
        if self.denied and self._spec.until_caught_up:
            raise KafkaFailure(KafkaFault.NOT_AUTHORIZED, "; ".join(self.errors))
        return [each for each in wanted if not _topics(each) & self.denied]

    async def look(self) -> None:
        """Whether other topics are denied by now; where copying has trouble, or something is denied."""
        if time.monotonic() < self._due:
            return
        self._due = time.monotonic() + _LOOK
        # A cluster that is away is named by whoever copies.
        with contextlib.suppress(KafkaFailure, TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                self.changed = await self._ask(self._wanted) != self.denied

    async def _ask(self, wanted: Sequence[Copied]) -> Denied:
        names: Mapping[Side, set[str]] = {side: set() for side in _OPERATIONS}
        for each in wanted:
            for side, topic in _topics(each):
                names[side].add(topic)
        denied = [await self._denied(side, some) for side, some in names.items()]
        return frozenset().union(*denied)

    async def _denied(self, side: Side, topics: Collection[str]) -> Denied:
        listed, found = sorted(topics), set()
        for at in range(0, len(listed), _TOPICS_A_CALL):
            call = describe_topics(listed[at : at + _TOPICS_A_CALL])
            answer = await self._links[side].send(None, call, "ask for the rights on topics")
            for name, topic in read_topics(answer, call.API_VERSION).items():
                unsaid = topic.allowed is None and not topic.denied
                if not unsaid and (topic.denied or _OPERATIONS[side] not in (topic.allowed or ())):
                    found.add((side, name))
        return frozenset(found)


def _said(side: Side, topic: str) -> str:
    where = f"{side.value} cluster: not authorized to {_OPERATIONS[side].lower()} topic {topic}"
    return f"{where}: grant {_OPERATIONS[side]} on it; until then it is not copied, the other topics are"


def _topics(copied: Copied) -> set[tuple[Side, str]]:
    return {(Side.SOURCE, copied.source.topic), *((Side.TARGET, copy.target_topic) for copy in copied.copies)}
