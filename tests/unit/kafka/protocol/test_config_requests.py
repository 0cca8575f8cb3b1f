"""DescribeConfigs against bytes of Kafka's own message classes (tests/golden)."""

from __future__ import annotations

from bridge.kafka.protocol import admin_requests
from bridge.model.topics import ConfigEntry, ConfigSource
from tests.unit.kafka.protocol.golden import MESSAGES, answer, encoded, read_whole


def test_describe_configs() -> None:
    assert encoded(admin_requests.describe_configs(["größe"]), 2) == MESSAGES["describe-configs", 2]
    reader = answer("describe-configs-answer", 2, flexible=False)
    assert admin_requests.read_described_configs(reader) == {
        "größe": (
            0,
            "",
            {
                "retention.ms": ConfigEntry("7", ConfigSource.DYNAMIC_TOPIC),
                "secret": ConfigEntry(None, ConfigSource.UNKNOWN, read_only=True, sensitive=True),
            },
        ),
        "gone": (3, "no such", {}),
    }
    assert read_whole(reader)
