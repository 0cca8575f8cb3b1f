"""Errors of the protocol, of aiokafka and of librdkafka as KafkaFailure, the one error of the rooms above.

Those of admin calls are in the broker's own words, which name the config or the limit that was broken (`refusal`).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable

from aiokafka import errors as wire_errors
from confluent_kafka import KafkaError, KafkaException

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.protocol.error_codes import Errors

_FAULTS: dict[int, KafkaFault] = {
    Errors.OFFSET_OUT_OF_RANGE: KafkaFault.OUT_OF_RANGE,
    Errors.UNKNOWN_TOPIC_OR_PARTITION: KafkaFault.UNKNOWN_TOPIC,
    Errors.LEADER_NOT_AVAILABLE: KafkaFault.LEADER_MOVED,
    Errors.NOT_LEADER_OR_FOLLOWER: KafkaFault.LEADER_MOVED,
    Errors.REQUEST_TIMED_OUT: KafkaFault.TIMEOUT,
    Errors.REPLICA_NOT_AVAILABLE: KafkaFault.LEADER_MOVED,
    Errors.MESSAGE_TOO_LARGE: KafkaFault.RECORD_TOO_LARGE,
    Errors.COORDINATOR_LOAD_IN_PROGRESS: KafkaFault.LEADER_MOVED,
    Errors.COORDINATOR_NOT_AVAILABLE: KafkaFault.LEADER_MOVED,
    Errors.NOT_COORDINATOR: KafkaFault.LEADER_MOVED,
    Errors.INVALID_TOPIC_EXCEPTION: KafkaFault.UNKNOWN_TOPIC,
    Errors.RECORD_LIST_TOO_LARGE: KafkaFault.RECORD_TOO_LARGE,
    Errors.ILLEGAL_GENERATION: KafkaFault.GROUP_ACTIVE,
    Errors.UNKNOWN_MEMBER_ID: KafkaFault.GROUP_ACTIVE,
    Errors.REBALANCE_IN_PROGRESS: KafkaFault.GROUP_ACTIVE,
    Errors.TOPIC_AUTHORIZATION_FAILED: KafkaFault.NOT_AUTHORIZED,
    Errors.GROUP_AUTHORIZATION_FAILED: KafkaFault.NOT_AUTHORIZED,
    Errors.CLUSTER_AUTHORIZATION_FAILED: KafkaFault.NOT_AUTHORIZED,
    Errors.INVALID_TIMESTAMP: KafkaFault.RECORD_REFUSED,
    Errors.UNSUPPORTED_VERSION: KafkaFault.UNSUPPORTED,
    Errors.INVALID_PRODUCER_EPOCH: KafkaFault.FENCED,
    Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: KafkaFault.NOT_AUTHORIZED,
    Errors.SASL_AUTHENTICATION_FAILED: KafkaFault.CREDENTIALS,
    Errors.INVALID_REPLICATION_FACTOR: KafkaFault.REPLICATION_FACTOR,
    Errors.NON_EMPTY_GROUP: KafkaFault.GROUP_ACTIVE,
    Errors.GROUP_ID_NOT_FOUND: KafkaFault.UNKNOWN_GROUP,
    Errors.LISTENER_NOT_FOUND: KafkaFault.LEADER_MOVED,
    Errors.FENCED_LEADER_EPOCH: KafkaFault.LEADER_MOVED,
    Errors.UNKNOWN_LEADER_EPOCH: KafkaFault.LEADER_MOVED,
    Errors.UNSUPPORTED_COMPRESSION_TYPE: KafkaFault.UNSUPPORTED,
    Errors.OFFSET_NOT_AVAILABLE: KafkaFault.LEADER_MOVED,
    Errors.INVALID_RECORD: KafkaFault.RECORD_REFUSED,
    Errors.PRODUCER_FENCED: KafkaFault.FENCED,
    Errors.UNKNOWN_TOPIC_ID: KafkaFault.UNKNOWN_TOPIC,
}
"""The fault for each error code that is handled; OTHER for the rest."""

_USER = re.compile(r"Session\(([^,()]+),")
"""As brokers print the request that they refuse."""
_FENCED = "A newer producer has taken over the transactional id, or its transaction took too long"
_TEXTS: dict[int, str] = {
    Errors.INVALID_PRODUCER_EPOCH: _FENCED,
    Errors.CONCURRENT_TRANSACTIONS: "The last transaction of the transactional id is still being ended",
    Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Not authorized to use the transactional id: grant WRITE on it",
    Errors.INVALID_RECORD: "The broker refuses a record",
    Errors.PRODUCER_FENCED: _FENCED,
    Errors.UNKNOWN_TOPIC_ID: "The broker has no topic with this id",
    Errors.INCONSISTENT_TOPIC_ID: "The broker has the topic with another id",
}
"""What codes mean that the library has no words for, or none that an operator could act on."""

_CODES = frozenset(Errors)

# A missing right is not among them: it is granted on the cluster, and whoever misses it goes on. That hides nothing:
# a fetcher stops the partition instead of asking again, callers name the error and the right to grant (`trouble` in
# health), topics that may not be read or written are left out by name (pipeline.driver.denied), and for who waits
# for an end (`until_caught_up`) it is permanent (pipeline.slices.permanent_errors).
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
    # A call that was under way on a connection that is torn down.
    KafkaError._DESTROY: KafkaFault.UNREACHABLE,
    # A call to a broker that librdkafka has dropped from its metadata.
    KafkaError._DESTROY_BROKER: KafkaFault.UNREACHABLE,
    KafkaError._TIMED_OUT: KafkaFault.TIMEOUT,
    KafkaError._TIMED_OUT_QUEUE: KafkaFault.TIMEOUT,
    KafkaError._AUTHENTICATION: KafkaFault.CREDENTIALS,
    KafkaError._SSL: KafkaFault.UNREACHABLE,
    KafkaError._UNKNOWN_TOPIC: KafkaFault.UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION: KafkaFault.UNKNOWN_TOPIC,
}


def failure(fault: KafkaFault, doing: str, text: str) -> KafkaFailure:
    return KafkaFailure(fault, f"{text} (while trying to {doing})", retriable=fault not in _PERMANENT)


def of_code(code: int, doing: str, right: str = "") -> KafkaFailure | None:
    """The failure of a protocol error code, None for 0. `right`: what to grant where that is missing, an operation on
    a resource."""
    if code == Errors.NONE:
        return None
    fault, text = _FAULTS.get(code, KafkaFault.OTHER), _text(code)
    if right and fault is KafkaFault.NOT_AUTHORIZED:
        text = f"{text.rstrip('.')}: grant {right}"
    return failure(fault, doing, text)


def _text(code: int) -> str:
    """Ours, the library's, or else Kafka's name: the library calls every code that it does not know unexpected."""
    kind = wire_errors.kafka_errors.get(code)
    text: str | None = _TEXTS.get(code) or getattr(kind, "description", None)
    if text:
        return text.strip()
    return Errors(code).name if code in _CODES else f"Error code {code}, which this version does not know"


def not_allowed_to_write(topics: Iterable[str], doing: str) -> KafkaFailure:
    """Returns the failure for topics for which a broker answers TOPIC_AUTHORIZATION_FAILED; it does not say which right
    is missing."""
    names = ", ".join(sorted(set(topics)))
    return failure(KafkaFault.NOT_AUTHORIZED, doing, f"Not authorized to write to {names}: grant WRITE on it")


def of_librdkafka(error: KafkaError, doing: str, right: str = "") -> KafkaFailure:
    """Returns the failure of an error of librdkafka. `right`: as for `of_code`."""
    fault = _LIBRDKAFKA.get(error.code()) or _FAULTS.get(error.code(), KafkaFault.OTHER)
    text = error.str()
    if right and fault is KafkaFault.NOT_AUTHORIZED:
        text = f"{text.rstrip('.')}: grant {right}"
    return failure(fault, doing, text)


def of_exception(error: BaseException, doing: str, right: str = "") -> KafkaFailure:
    """Whatever a client raised. Programming errors are not for this: they are raised on. `right`: as for `of_code`."""
    if isinstance(error, KafkaFailure):
        return error
    if isinstance(error, KafkaException):
        cause = error.args[0]
        return (
            of_librdkafka(cause, doing, right)
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


def refusal(code: int, words: str, doing: str, right: str) -> KafkaFailure | None:
    """Returns the failure for an error code, None for none. `words`: the broker's message, "" for none; for a missing
    right only the user's name is taken from it."""
    failed = of_code(code, doing, right)
    if failed is None or not words:
        return failed
    if failed.fault is KafkaFault.NOT_AUTHORIZED:
        user = _USER.search(words)
        return failed if user is None else failure(failed.fault, doing, f"{user[1]} may not: grant {right}")
    return failure(failed.fault, doing, words)
