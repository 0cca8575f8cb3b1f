"""What clusters say, in our own words: codes of the wire and of librdkafka become KafkaFailure at this edge."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from aiokafka import errors as wire_errors
from confluent_kafka import KafkaError, KafkaException

from bridge.errors import KafkaFailure, KafkaFault

TOPIC_DENIED = 29

_FAULTS: dict[int, KafkaFault] = {
    1: KafkaFault.OUT_OF_RANGE,
    3: KafkaFault.UNKNOWN_TOPIC,
    5: KafkaFault.LEADER_MOVED,
    6: KafkaFault.LEADER_MOVED,
    7: KafkaFault.TIMEOUT,
    9: KafkaFault.LEADER_MOVED,
    10: KafkaFault.RECORD_TOO_LARGE,
    14: KafkaFault.LEADER_MOVED,
    15: KafkaFault.LEADER_MOVED,
    16: KafkaFault.LEADER_MOVED,
    17: KafkaFault.UNKNOWN_TOPIC,
    18: KafkaFault.RECORD_TOO_LARGE,
    22: KafkaFault.GROUP_ACTIVE,
    25: KafkaFault.GROUP_ACTIVE,
    27: KafkaFault.GROUP_ACTIVE,
    TOPIC_DENIED: KafkaFault.NOT_AUTHORIZED,
    30: KafkaFault.NOT_AUTHORIZED,
    31: KafkaFault.NOT_AUTHORIZED,
    32: KafkaFault.RECORD_REFUSED,
    35: KafkaFault.UNSUPPORTED,
    47: KafkaFault.FENCED,
    53: KafkaFault.NOT_AUTHORIZED,
    58: KafkaFault.CREDENTIALS,
    68: KafkaFault.GROUP_ACTIVE,
    69: KafkaFault.UNKNOWN_GROUP,
    72: KafkaFault.LEADER_MOVED,
    74: KafkaFault.LEADER_MOVED,
    75: KafkaFault.LEADER_MOVED,
    76: KafkaFault.LEADER_MOVED,
    78: KafkaFault.LEADER_MOVED,
    87: KafkaFault.RECORD_REFUSED,
    90: KafkaFault.FENCED,
    100: KafkaFault.UNKNOWN_TOPIC,
}
"""Error codes of the Kafka protocol that we act on."""

_SAID = {
    47: "A newer producer has taken over the transactional id, or its transaction took too long",
    51: "The last transaction of the transactional id is still being ended",
    53: "Not authorized to use the transactional id: grant WRITE on it",
    87: "The broker refuses a record",
    90: "A newer producer has taken over the transactional id, or its transaction took too long",
    100: "The broker knows no topic of this id",
    103: "The broker knows the topic by another id",
}
"""What codes mean that the library has no words for, or none that an operator could act on."""

_PERMANENT = {
    KafkaFault.CREDENTIALS,
    KafkaFault.UNSUPPORTED,
    KafkaFault.FENCED,
    KafkaFault.RECORD_REFUSED,
    KafkaFault.RECORD_TOO_LARGE,
}

_LIBRDKAFKA = {
    KafkaError._ALL_BROKERS_DOWN: KafkaFault.UNREACHABLE,
    KafkaError._TRANSPORT: KafkaFault.UNREACHABLE,
    KafkaError._RESOLVE: KafkaFault.UNREACHABLE,
    KafkaError._TIMED_OUT: KafkaFault.TIMEOUT,
    KafkaError._TIMED_OUT_QUEUE: KafkaFault.TIMEOUT,
    KafkaError._AUTHENTICATION: KafkaFault.CREDENTIALS,
    KafkaError._SSL: KafkaFault.UNREACHABLE,
    KafkaError._UNKNOWN_TOPIC: KafkaFault.UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION: KafkaFault.UNKNOWN_TOPIC,
}


def failure(fault: KafkaFault, doing: str, said: str) -> KafkaFailure:
    return KafkaFailure(fault, f"{said} (while trying to {doing})", retriable=fault not in _PERMANENT)


def of_code(code: int, doing: str, right: str = "") -> KafkaFailure | None:
    """The failure of a protocol error code, None for 0. `right`: what to grant where that is missing, an operation on
    a resource."""
    if code == 0:
        return None
    kind, fault = wire_errors.for_code(code), _FAULTS.get(code, KafkaFault.OTHER)
    said = str(_SAID.get(code) or getattr(kind, "description", None) or kind.__name__).strip()
    if right and fault is KafkaFault.NOT_AUTHORIZED:
        said = f"{said.rstrip('.')}: grant {right}"
    return failure(fault, doing, said)


def not_allowed_to_write(topics: Iterable[str], doing: str) -> KafkaFailure:
    """Of topics for which a broker answers TOPIC_DENIED; it does not say which right is missing."""
    names = ", ".join(sorted(set(topics)))
    return failure(KafkaFault.NOT_AUTHORIZED, doing, f"Not authorized to write to {names}: grant WRITE on it")


def of_librdkafka(error: KafkaError, doing: str) -> KafkaFailure:
    fault = _LIBRDKAFKA.get(error.code()) or _FAULTS.get(error.code(), KafkaFault.OTHER)
    return failure(fault, doing, error.str())


def of_exception(error: BaseException, doing: str) -> KafkaFailure:
    """Whatever a client raised. Programming errors are not for this: they are raised on."""
    if isinstance(error, KafkaFailure):
        return error
    if isinstance(error, KafkaException):
        cause = error.args[0]
        return (
            of_librdkafka(cause, doing)
            if isinstance(cause, KafkaError)
            else failure(KafkaFault.OTHER, doing, str(cause))
        )
    if isinstance(error, wire_errors.SaslAuthenticationFailed | wire_errors.AuthenticationFailedError):
        return failure(KafkaFault.CREDENTIALS, doing, "Authentication failed")
    if isinstance(error, wire_errors.RequestTimedOutError | asyncio.TimeoutError | TimeoutError):
        return failure(KafkaFault.TIMEOUT, doing, "No answer in time")
    if isinstance(error, wire_errors.KafkaError):
        return failure(KafkaFault.UNREACHABLE, doing, str(error) or type(error).__name__)
    if isinstance(error, OSError):
        return failure(KafkaFault.UNREACHABLE, doing, error.strerror or type(error).__name__)
    raise error
