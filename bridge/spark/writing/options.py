"""The options of `mirror-records` as a sink: names are those of Spark's own Kafka sink where it has them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple, TypeVar

from bridge.errors import ConfigRejected, KafkaFault
from bridge.java_properties import PropertiesProblem, load_properties
from bridge.kafka.config.properties import KeyPrefixes
from bridge.kafka.config.property_names import KNOWN, is_of
from bridge.kafka.config.settings import ClientSettings, RawSettings, producer_settings_at, settings_at
from bridge.kafka.record.compression import Compression
from bridge.model import java_values
from bridge.model.codecs import CODEC_NAMES, LEVELS
from bridge.model.java_values import integer, trimmed
from bridge.spark.options import verify_no_table
from bridge.spark.rejected import SourceRejected

T = TypeVar("T")
KAFKA = "kafka."
HEAL = frozenset({KafkaFault.UNREACHABLE, KafkaFault.TIMEOUT, KafkaFault.LEADER_MOVED})
"""What is tried again, for delivery.timeout.ms."""
BATCH_SIZE = 512 * 1024
"""Bytes of a batch before it is compressed: below every broker's default of max.message.bytes."""
BUFFER_MEMORY, TRANSACTION_MS, DELIVERY_MS = 32 * 1024 * 1024, 60_000, 120_000
"""Java's defaults."""
COMMITS_TOPIC, PREFIX = "mirror-records-commits.internal", "mirror-records"
EPOCH_MS = 899_000
"""What a transaction of a stream may take: that of all tasks of an epoch. A second below brokers' default of
transaction.max.timeout.ms: the coordinator's last bits come on top."""
_APPLICATION, _APP_VERSION = "txnAppId", "txnVersion"
"""As Delta Lake's writer has them."""
_NAMES = (
    "topic",
    "commandConfig",
    "commitsTopic",
    "transactionalIdPrefix",
    "partialEpoch",
    _APPLICATION,
    _APP_VERSION,
)
_CANONICAL = {name.lower(): name for name in _NAMES}
_SPARKS_OWN = frozenset({"queryname", "checkpointlocation"})
"""Given to every sink."""
_NOT_OURS = {
    "includeheaders": "a column headers is written",
    "kafka.transactional.id": "use transactionalIdPrefix: each query and Spark partition has an id of its own",
    "kafka.key.serializer": "keys are bytes or text",
    "kafka.value.serializer": "values are bytes or text",
    "kafka.partitioner.class": "use a column partition; without one it is that of Kafka's default partitioner",
    "kafka.partitioner.ignore.keys": "use a column partition",
    "kafka.interceptor.classes": "use a transformation of the DataFrame",
    "kafka.transaction.two.phase.commit.enable": "every transaction ends after kafka.transaction.timeout.ms",
}
_ONE_OF = {
    "acks": ("all", "-1"),
    "enable.idempotence": ("true",),
    "compression.type": CODEC_NAMES,
}
_LONGEST, _LAST_VERSION = 200, 2**63 - 1
"""Characters of an application's id, and the largest version."""
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_PREFIXES = KeyPrefixes()


class SavedVersion(NamedTuple):
    """What a batch is, whoever saves it however often: an epoch of a query, as those of a stream are."""

    query: str
    version: int


class PartialEpoch(StrEnum):
    """What becomes of a decided epoch of which some transactions were aborted."""

    FAIL = "fail"
    SKIP = "skip"


@dataclass(frozen=True)
class SinkOptions:
    """Options of the sink. `topic`: of all rows; "" for that of their column. `kafka`: properties of Kafka's producer,
    by their own names. Sizes in bytes."""

    kafka: Mapping[str, str] = field(repr=False)
    topic: str = ""
    commits_topic: str = COMMITS_TOPIC
    prefix: str = PREFIX
    batch_size: int = BATCH_SIZE
    buffer: int = BUFFER_MEMORY
    """Of batches that a task holds before it begins its transaction."""
    saved: SavedVersion | None = None
    """Of a batch with txnAppId and txnVersion."""
    transaction_ms: int = TRANSACTION_MS
    partial_epoch: PartialEpoch = PartialEpoch.FAIL
    patience: float = DELIVERY_MS / 1000
    """Seconds for which a transaction that fails with what heals is tried again: delivery.timeout.ms."""

    @property
    def compression(self) -> Compression:
        name = self.kafka.get("compression.type", "none")
        level = self.kafka.get(f"compression.{name}.level")
        return Compression.named(name, None if level is None else int(level))

    def settings(self) -> RawSettings:
        """How to connect: made where it is needed, because it holds what can't be sent to another process. Raises
        SourceRejected."""
        return _settled(lambda: producer_settings_at(_PREFIXES, self.kafka))

    def admin_settings(self) -> ClientSettings:
        """Raises SourceRejected."""
        return _settled(lambda: settings_at(_PREFIXES, self.kafka))

    def driver_id(self, query: str) -> str:
        return f"{self.prefix}-{query}-driver"

    def transactional_id(self, query: str, partition: int) -> str:
        return f"{self.prefix}-{query}-{partition}"


def read_sink_options(raw: Mapping[str, str], *, stream: bool = False) -> SinkOptions:
    """Raises SourceRejected with all that is wrong."""
    verify_no_table(raw)
    options = {name.lower(): trimmed(value) for name, value in raw.items() if name.lower() not in _SPARKS_OWN}
    wrong = [text for name in sorted(options) if (text := _unknown(name)) is not None]
    values = {_CANONICAL[name]: value for name, value in options.items() if name in _CANONICAL}
    kafka, problems = _kafka(
        values, {name.removeprefix(KAFKA): text for name, text in options.items() if name.startswith(KAFKA)}
    )
    wrong += problems
    for name in ("topic", "commitsTopic"):
        if name in values and not _TOPIC.fullmatch(values[name]):
            wrong.append(f"option {name} is {values[name]!r}; it must be the name of a topic")
    if not values.get("transactionalIdPrefix", PREFIX):
        wrong.append("option transactionalIdPrefix must not be empty")
    if values.get("partialEpoch", "fail").lower() not in list(PartialEpoch):
        right = " or ".join(PartialEpoch)
        wrong.append(f"option partialEpoch is {values['partialEpoch']!r}; it must be {right}")
    saved, problems = _saved(values, stream=stream)
    wrong += problems
    wrong += _wrong_values(kafka)
    if wrong:
        raise SourceRejected("; ".join(dict.fromkeys(wrong)))
    transaction_ms = TRANSACTION_MS if saved is None and not stream else EPOCH_MS
    read = SinkOptions(
        kafka,
        values.get("topic", ""),
        values.get("commitsTopic", COMMITS_TOPIC),
        values.get("transactionalIdPrefix", PREFIX),
        int(kafka.get("batch.size", BATCH_SIZE)),
        int(kafka.get("buffer.memory", BUFFER_MEMORY)),
        saved,
        int(kafka.get("transaction.timeout.ms", transaction_ms)),
        PartialEpoch(values.get("partialEpoch", PartialEpoch.FAIL).lower()),
        int(kafka.get("delivery.timeout.ms", DELIVERY_MS)) / 1000,
    )
    read.settings()
    return read


def _saved(values: Mapping[str, str], *, stream: bool) -> tuple[SavedVersion | None, list[str]]:
    """Returns what a batch is, and what is wrong with the options that say so."""
    application, version = values.get(_APPLICATION), values.get(_APP_VERSION)
    if application is None and version is None:
        return None, []
    if stream:
        return None, [
            f"options {_APPLICATION} and {_APP_VERSION} are for a batch: a stream has its checkpoint"
        ]
    if application is None or version is None:
        lacking = _APPLICATION if application is None else _APP_VERSION
        return None, [f"options {_APPLICATION} and {_APP_VERSION} go together, and {lacking} is missing"]
    number = integer(version)
    wrong = []
    if not 0 < len(application) <= _LONGEST:
        wrong.append(f"option {_APPLICATION} has {len(application)} characters; it must have 1 to {_LONGEST}")
    if number is None or not 0 <= number <= _LAST_VERSION:
        wrong.append(f"option {_APP_VERSION} is {version!r}; it must be a number from 0 to {_LAST_VERSION}")
    if wrong or number is None:
        return None, wrong
    # A slash stands in no topic's name: topics of one application are written by themselves, as Delta's tables are.
    topic = values.get("topic")
    return SavedVersion(f"{application}/{topic}" if topic else application, number), []


def _unknown(name: str) -> str | None:
    """Returns what is wrong with the name of an option, None for nothing."""
    if name in _NOT_OURS:
        return f"option {name} is not supported: {_NOT_OURS[name]}"
    if name in _CANONICAL:
        return None
    if not name.startswith(KAFKA):
        if name in KNOWN:
            return f"there is no option {name}; did you mean {KAFKA}{name}?"
        near = get_close_matches(name, _CANONICAL, 1, 0.75)
        return f"there is no option {name} of the sink" + (
            f"; did you mean {_CANONICAL[near[0]]}?" if near else ""
        )
    plain = name.removeprefix(KAFKA)
    if is_of("producer", plain):
        return None
    text = f"option {name} is no property of Kafka's producer"
    near = get_close_matches(plain, [text for text in KNOWN if is_of("producer", text)], 1, 0.75)
    return text + (f"; did you mean {KAFKA}{near[0]}?" if near and plain not in KNOWN else "")


def _kafka(values: Mapping[str, str], raw: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Properties of the file that commandConfig names, and over them those of options; and what is wrong with the
    file."""
    if "commandConfig" not in values:
        return dict(raw), []
    path = Path(values["commandConfig"])
    try:
        properties = java_values.given(load_properties(path))
    except PropertiesProblem as problem:
        return dict(raw), [f"option commandConfig: {problem}"]
    wrong = [text for name in properties if (text := _unknown(KAFKA + name)) is not None]
    return {**properties, **raw}, [f"option commandConfig: {path}: {text}" for text in wrong]


def _wrong_values(kafka: Mapping[str, str]) -> list[str]:
    wrong = []
    for name, right in _ONE_OF.items():
        if kafka.get(name, right[0]) not in right:
            wrong.append(f"option {KAFKA}{name} is {kafka[name]!r}; it must be {' or '.join(right)}")
    limits = {
        "batch.size": (1, 1 << 27),
        "buffer.memory": (1, 1 << 40),
        "transaction.timeout.ms": (1000, (1 << 31) - 1),
        "delivery.timeout.ms": (0, (1 << 31) - 1),
    }
    for name, (low, high) in limits.items():
        number = integer(kafka.get(name, ""))
        if name in kafka and (number is None or not low <= number <= high):
            wrong.append(f"option {KAFKA}{name} is {kafka[name]!r}; it must be a number from {low} to {high}")
    for codec in LEVELS:
        name = f"compression.{codec.name}.level"
        if name in kafka and (why := codec.level_problem(kafka[name])) is not None:
            wrong.append(f"option {KAFKA}{name} is {kafka[name]!r}; it {why}")
    return wrong


def _settled(make: Callable[[], T]) -> T:
    try:
        return make()
    except ConfigRejected as rejected:
        raise SourceRejected(
            "; ".join(_named(error.key, error.message) for error in rejected.errors)
        ) from None


def _named(key: str, message: str) -> str:
    """A message about a property, by the name of its option."""
    return message if KAFKA + key in message else message.replace(key, KAFKA + key, 1)
