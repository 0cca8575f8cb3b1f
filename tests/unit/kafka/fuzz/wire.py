"""Answers of brokers, connections that carry them, and logins at whatever answers."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from random import Random
from typing import Any

from aiokafka.errors import KafkaError

from bridge.errors import KafkaFailure
from bridge.kafka.admin import inspection
from bridge.kafka.network.connection import BulkConnection
from bridge.kafka.network.library_client import LibraryConnection
from bridge.kafka.protocol import (
    admin_requests,
    connection_requests,
    group_requests,
    log_requests,
    produce_requests,
)
from bridge.kafka.protocol.wire import ApiKeys, Call, Reader
from tests.unit.kafka.fuzz.mutation import mutated
from tests.unit.kafka.network.login_broker import NONCE, challenge, handshake, log_in
from tests.unit.kafka.protocol.golden import MESSAGES
from tests.unit.kafka.record.guard_pages import guarded_copy

_ID = {"11223344-5566-7788-99aa-bbccddeeff00": "orders"}
Read = Callable[[Reader, int], object]
_READ: dict[str, Read] = {
    "metadata-answer": lambda reader, version: (
        log_requests.read_controller(Reader(reader.data, flexible=reader.flexible)),
        log_requests.read_metadata(reader, version),
    ),
    "list-offsets-answer": lambda reader, _: log_requests.read_listed_offsets(reader),
    "fetch-answer": lambda reader, version: log_requests.read_fetched(reader, version, _ID),
    "fetch-after-epoch-answer": lambda reader, version: log_requests.read_fetched(reader, version, _ID),
    "fetch-in-session-answer": lambda reader, version: log_requests.read_fetch_response(reader, version, _ID),
    "describe-configs-answer": lambda reader, _: admin_requests.read_described_configs(reader),
    "describe-acls-answer": lambda reader, _: admin_requests.read_described_acls(reader),
    "delete-acls-answer": lambda reader, _: admin_requests.read_deleted_acls(reader),
    "list-groups-answer": group_requests.read_groups,
    "describe-groups-answer": lambda reader, _: group_requests.read_described_groups(reader),
    "find-coordinators-answer": lambda reader, _: group_requests.read_coordinators(reader),
    "fetch-offsets-answer": lambda reader, _: group_requests.read_fetched_offsets(reader),
    "commit-offsets-answer": lambda reader, _: group_requests.read_committed_offsets(reader),
    "epoch-ends-answer": lambda reader, _: log_requests.read_epoch_ends(reader),
    "find-transaction-coordinator-answer": lambda reader, _: produce_requests.read_transaction_coordinator(
        reader
    ),
    "init-producer-id-answer": lambda reader, _: produce_requests.read_producer_id(reader),
    "add-partitions-answer": lambda reader, _: produce_requests.read_added_partitions(reader),
    "end-transaction-answer": lambda reader, _: produce_requests.read_ended_transaction(reader),
    "api-versions-answer": lambda reader, _: connection_requests.read_api_versions(reader),
    "describe-cluster-answer": lambda reader, _: inspection.read_description(reader, "ask"),
    "describe-topics-answer": inspection.read_topics,
    "sasl-handshake-answer": lambda reader, _: connection_requests.read_handshake(reader),
    "sasl-authenticate-answer": connection_requests.read_authenticated,
    "produce-answer": lambda reader, _: produce_requests.read_produced(reader),
}
_ANSWERS = [key for key in MESSAGES if key[0].endswith("-answer")]
_ALL = tuple(MESSAGES.values())
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
_LIFETIMES = (0, 1, 3_600_000, -1, (1 << 63) - 1)


def case(dice: Random) -> None:
    """Raises for what must not be."""
    way = dice.random()
    if way < 0.05:
        _frames(dice)
        return
    if way < 0.1:
        _login(dice)
        return
    name, version = dice.choice(_ANSWERS)
    data = mutated(dice, MESSAGES[name, version], _ALL)
    reader = Reader(guarded_copy(data).data if data else data, flexible=dice.random() < 0.5)
    try:
        _READ[name](reader, version)
    except KafkaFailure:
        return
    assert reader.at <= len(data)


def _login(dice: Random) -> None:
    """Logs in by the library's steps of each mechanism: what has not proved that it knows the password is never
    logged in at by SCRAM, and all ends in an error after which another broker is tried."""
    mechanism, version = dice.choice(_MECHANISMS), dice.randrange(3)
    iterations = dice.choice((4096, 4096, 4096, 1, -1, 1_000_001, (1 << 31) - 1, 1 << 70))
    steps = [
        f"r={NONCE}{dice.choice(('x', ''))},s=c2FsdA==,i={iterations}".encode(),
        dice.choice((b"v=AAAA", b"v=", b"e=unknown-user", b"")),
    ]
    if dice.random() < 0.5:
        at = dice.randrange(2)
        steps[at] = bytes(mutated(dice, steps[at], _ALL))
    if not mechanism.startswith("SCRAM"):
        steps[0] = dice.choice((b"", b"", steps[0], b'{"status":"invalid_token"}'))
    responses = [handshake(mechanism), *(challenge(each, version, dice.choice(_LIFETIMES)) for each in steps)]
    if dice.random() < 0.5:
        at = dice.randrange(len(responses))
        responses[at] = bytes(mutated(dice, responses[at], _ALL))
    try:
        logged_in = log_in(mechanism, responses, version)
    except KafkaError:
        return
    assert not mechanism.startswith("SCRAM")
    assert logged_in.seconds >= 0


class _Transport:
    """Takes all, and is gone when it is told so."""

    gone = False

    def get_protocol(self) -> Any:
        return asyncio.Protocol()

    def is_closing(self) -> bool:
        return self.gone

    def write(self, data: object) -> None: ...

    def abort(self) -> None:
        self.gone = True


def _frames(dice: Random) -> None:
    async def go() -> None:
        transport = _Transport()
        library = LibraryConnection("x", 1)
        connection = BulkConnection(library, transport, {}, {1: (0, 12)})  # type: ignore[arg-type]
        call = Call(ApiKeys.FETCH, versions=range(12, 13), flexible_from=12, write=lambda *_: None)
        asked = [
            asyncio.ensure_future(
                connection.send(call, lambda reader: log_requests.read_fetched(reader, 12, _ID))
            )
            for _ in range(3)
        ]
        await asyncio.sleep(0)
        body = MESSAGES["fetch-answer", 12]
        stream = b"".join(
            struct.pack(">ii", len(body) + 5, number) + b"\0" + body
            for number in range(1, dice.randint(2, 6))
        )
        rest = memoryview(mutated(dice, stream, _ALL))
        while rest and not transport.gone:
            room = connection.get_buffer(-1)
            assert len(room) > 0
            size = min(len(room), len(rest), dice.choice((1, 7, 64, 5000)))
            room[:size] = rest[:size]
            rest = rest[size:]
            connection.buffer_updated(size)
        connection.connection_lost(None)
        for each in await asyncio.gather(*asked, return_exceptions=True):
            assert not isinstance(each, BaseException) or _expected(each), repr(each)

    asyncio.run(go())


def _expected(error: BaseException) -> bool:
    return isinstance(error, KafkaFailure) or type(error).__name__ in (
        "KafkaConnectionError",
        "CorrelationIdError",
    )
