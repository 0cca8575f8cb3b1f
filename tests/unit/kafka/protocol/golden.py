"""Messages as Kafka's own classes write them, and ours beside them."""

from __future__ import annotations

from pathlib import Path

from bridge.kafka.protocol.wire import Call, Reader

GOLDEN = Path(__file__).parents[3] / "golden" / "kafka_messages.txt"
MESSAGES = {
    (name, int(version)): bytes.fromhex(data)
    for name, version, data in (line.split(" ") for line in GOLDEN.read_text().splitlines())
}


def encoded(call: Call, version: int) -> bytes:
    return bytes(call.prepare({call.API_KEY: (0, version)}).encode())


def answer(name: str, version: int, *, flexible: bool) -> Reader:
    return Reader(MESSAGES[name, version], flexible=flexible)


def read_whole(reader: Reader) -> bool:
    return reader.at == len(reader.data)
