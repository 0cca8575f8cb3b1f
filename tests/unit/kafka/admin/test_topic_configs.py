"""Configs of topics: several requests, each topic's own failure, and topics that the answer leaves out."""

from __future__ import annotations

import asyncio
from typing import Any

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.admin import topic_configs
from bridge.kafka.protocol.wire import Call, Reader, Writer
from bridge.model.topics import ConfigEntry, ConfigSource
from tests.support.messages import message
from tests.unit.kafka.protocol.golden import encoded


class Broker:
    """Says of topics whether they are known; of one nothing."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    async def send(self, node: int | None, call: Call, doing: str) -> Reader:
        call.API_VERSION = 2
        names = read_names(call)
        self.asked.append(len(names))
        writer = Writer(flexible=False)
        writer.int32(0)
        known = [name for name in names if name != "left out"]
        writer.array(len(known))
        for name in known:
            gone = name == "gone"
            writer.int16(3 if gone else 0)
            writer.string("no such" if gone else None)
            writer.int8(2)
            writer.string(name)
            writer.array(0 if gone else 1)
            if not gone:
                writer.string("retention.ms")
                writer.string("7")
                for number in (0, 1, 0):  # read-only, source, sensitive
                    writer.int8(number)
                writer.array(0)
        return Reader(writer.encode(), flexible=False)


def read_names(call: Call) -> list[str]:
    request = Reader(encoded(call, 2), flexible=False)
    names = []
    for _ in request.array():
        request.skip(1)
        names.append(request.string())
        request.array()
    return names


def test_each_topic_has_its_own_answer() -> None:
    broker: Any = Broker()
    names = [*(f"t-{number}" for number in range(448)), "gone", "left out"]
    result = asyncio.run(topic_configs.describe_configs(broker, names))
    assert broker.asked == [200, 200, 50]
    assert result.keys() == set(names)
    assert result["t-0"] == {"retention.ms": ConfigEntry("7", ConfigSource.DYNAMIC_TOPIC)}
    gone, left_out = result["gone"], result["left out"]
    assert isinstance(gone, KafkaFailure)
    assert gone.fault is KafkaFault.UNKNOWN_TOPIC
    for failed, said, topic in ((gone, "no such", "gone"), (left_out, "No answer", "left out")):
        assert str(failed) == message("kafka.doing", said=said, doing=f"describe configs of topic {topic}")
