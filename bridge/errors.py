"""Every error that one room raises and another catches, in one tree.

    BridgeError                 code, message for a person, retriable
    ├── ConfigRejected          400  every error of a configuration at once
    ├── Unauthorized            401  no token, or a wrong one
    ├── Forbidden               403  the token, or a page in a browser, may not do that
    ├── NotFound                404  connector, task, plugin or group that the service does not know
    ├── Fenced                  409  a newer session of the task has taken over
    ├── NameTaken               409  the name of the connector belongs to another Connect cluster
    ├── OperationRefused        409  it would lose records or copy them twice
    ├── GroupsRefused           409  groups are not ready to fail over; `errors` say why, group by group
    ├── BodyRejected            422  the request body is not of the contract's form
    ├── Misdirected             421  the request's Host header names another host
    ├── TooLarge                413  the request body is larger than the service reads
    ├── Overloaded              503  the bounded pool is full; ask again after `retry_after` seconds
    │   └── TooManyFailedLogins 429  somebody at that address tries tokens
    ├── NotAnswered             503  the connector, or the rounds process, did not answer in time; ask again
    └── KafkaFailure            an error of a cluster, translated by bridge.kafka

Messages are for operators: they name the key, the value and what would be right, and never carry a secret.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType


class ErrorCode(StrEnum):
    """Machine-readable codes of the one error body."""

    BAD_CONFIG = "bad_config"
    UNAUTHORIZED = "unauthorized"
    FORBIDDEN = "forbidden"
    UNKNOWN_PLUGIN = "unknown_plugin"
    UNKNOWN_CONNECTOR = "unknown_connector"
    UNKNOWN_TASK = "unknown_task"
    UNKNOWN_GROUP = "unknown_group"
    NO_SUCH_ROUTE = "no_such_route"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    FENCED = "fenced"
    NAME_TAKEN = "name_taken"
    NAME_HELD = "name_held"
    REFUSED = "refused"
    BODY_REJECTED = "body_rejected"
    TOO_LARGE = "too_large"
    TOO_SLOW = "too_slow"
    MISDIRECTED = "misdirected"
    OVERLOADED = "overloaded"
    NOT_ANSWERED = "not_answered"
    NOT_READY = "not_ready"
    CANNOT_TELL = "cannot_tell"
    UNSUPPORTED_PROTOCOL = "unsupported_protocol"
    KAFKA = "kafka"


@dataclass(frozen=True, slots=True)
class ConfigError:
    """One thing wrong with one configuration key; `message` says what would be right."""

    key: str
    message: str


class BridgeError(Exception):
    """Root of the tree; `str(error)` is the sentence that an operator reads."""

    code: ErrorCode
    status: int = 500
    retriable: bool = False

    def __init__(self, message: str, *, code: ErrorCode | None = None) -> None:
        super().__init__(message)
        if code is not None:
            self.code = code


class ConfigRejected(BridgeError):
    """A configuration with at least one error; `errors` has all of them."""

    code = ErrorCode.BAD_CONFIG
    status = 400

    def __init__(self, errors: Sequence[ConfigError]) -> None:
        self.errors = tuple(errors)
        listed = "\n".join(f"{index}. {error.message}" for index, error in enumerate(self.errors, 1))
        super().__init__(
            f"Configuration is invalid and contains the following {len(self.errors)} error(s):\n{listed}"
        )


class Unauthorized(BridgeError):
    code = ErrorCode.UNAUTHORIZED
    status = 401


class Forbidden(BridgeError):
    code = ErrorCode.FORBIDDEN
    status = 403


class NotFound(BridgeError):
    code = ErrorCode.NO_SUCH_ROUTE
    status = 404


class Fenced(BridgeError):
    code = ErrorCode.FENCED
    status = 409


class NameTaken(BridgeError):
    """Another Connect cluster runs a connector of this name here (`code` is `name_taken`), or did so a short while ago
    and may go on (`name_held`)."""

    code = ErrorCode.NAME_TAKEN
    status = 409


class OperationRefused(BridgeError):
    """The operation would lose records or copy them twice; the text says why, and what to do."""

    code = ErrorCode.REFUSED
    status = 409


class NothingCopied(OperationRefused):
    """Nothing was copied yet, so there is no position to change."""


class GroupsRefused(BridgeError):
    """Groups are not ready to fail over, or it is not known whether they are (`code`). `errors`: the reasons, group by
    group; `facts`: the fields of the contract's Refusal, each reason once."""

    code = ErrorCode.NOT_READY
    status = 409

    def __init__(
        self,
        message: str,
        lines: Sequence[tuple[str, str]],
        *,
        code: ErrorCode,
        facts: Mapping[str, object],
    ) -> None:
        super().__init__(message, code=code)
        self.facts = facts
        self.errors = tuple(ConfigError(*line) for line in lines)


class BodyRejected(BridgeError):
    code = ErrorCode.BODY_REJECTED
    status = 422


class BodyErrors(BodyRejected):
    """A request body with at least one error; `errors` has all of them, by the path of the field."""

    def __init__(self, errors: Sequence[ConfigError]) -> None:
        self.errors = tuple(errors)
        listed = "; ".join(f"{error.key}: {error.message}" for error in self.errors)
        super().__init__(f"The request is not of the contract's form: {listed}")


class Misdirected(BridgeError):
    code = ErrorCode.MISDIRECTED
    status = 421


class TooLarge(BridgeError):
    code = ErrorCode.TOO_LARGE
    status = 413


class Overloaded(BridgeError):
    """The bounded pool is full. `retry_after` is in seconds."""

    code = ErrorCode.OVERLOADED
    status = 503
    retriable = True

    def __init__(self, message: str, retry_after: int = 1) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class TooManyFailedLogins(Overloaded):
    status = 429

    def __init__(self, address: str, most: int, seconds: float) -> None:
        super().__init__(
            f"{most} different tokens that came from {address or 'this address'} within a minute were wrong "
            f"(max_failed_logins): send it again in {seconds:.0f} s",
            max(1, math.ceil(seconds)),
        )


class NotAnswered(BridgeError):
    """The connector, or the rounds process, did not answer in time. What was asked for may have been done."""

    code = ErrorCode.NOT_ANSWERED
    status = 503
    retriable = True


class KafkaFault(StrEnum):
    """Kinds of Kafka errors, as far as we treat them differently."""

    UNREACHABLE = "unreachable"
    CREDENTIALS = "credentials"
    NOT_AUTHORIZED = "not_authorized"
    """Retried: a right is granted on the cluster, and whoever misses it goes on then (decision 0035)."""
    UNKNOWN_TOPIC = "unknown_topic"
    UNKNOWN_GROUP = "unknown_group"
    GROUP_ACTIVE = "group_active"
    LEADER_MOVED = "leader_moved"
    TIMEOUT = "timeout"
    OUT_OF_RANGE = "out_of_range"
    UNSUPPORTED = "unsupported"
    FENCED = "fenced"
    """A newer holder of a transactional id took over, or the transaction took longer than its timeout."""
    ABORTED = "aborted"
    """Another part of the same transaction failed."""
    RECORD_REFUSED = "record_refused"
    """An invalid timestamp, no key in a compacted topic."""
    RECORD_TOO_LARGE = "record_too_large"
    UNREADABLE_BATCH = "unreadable_batch"
    """A batch that can't be decoded, or is over a limit."""
    REPLICATION_FACTOR = "replication_factor"
    """A topic would have more replicas than there are brokers."""
    TOPIC_CONFIG = "topic_config"
    """A topic's configuration would delete records that have to be kept."""
    SAME_CLUSTER = "same_cluster"
    """The target is the source: each copy would be copied again."""
    OTHER = "other"


AWAY = frozenset({KafkaFault.UNREACHABLE, KafkaFault.TIMEOUT})
"""A cluster that does not answer, whatever was asked."""


class KafkaFailure(BridgeError):
    """A cluster refused a request, or did not answer it. `fault`: the kind of error; `retriable`: whether a retry may
    succeed; `records`: of a batch that was refused, why by index, as far as the broker names the records at fault."""

    code = ErrorCode.KAFKA
    status = 503

    def __init__(
        self,
        fault: KafkaFault,
        message: str,
        *,
        retriable: bool = True,
        records: Mapping[int, str] = MappingProxyType({}),
    ) -> None:
        super().__init__(message)
        self.fault = fault
        self.retriable = retriable
        self.records = records
