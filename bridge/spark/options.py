"""The options of `mirror-records`: names are those of Spark's own Kafka source where it has them.

Spark gives option names to Python sources in lower case; errors show them as they are documented.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import TypeVar

from bridge.errors import ConfigRejected
from bridge.java_properties import PropertiesProblem, load_properties
from bridge.kafka.config.properties import KeyPrefixes
from bridge.kafka.config.property_names import KNOWN, is_of
from bridge.kafka.config.settings import RawSettings, settings_at
from bridge.mm2.java_regex import compile_java
from bridge.model import java_values
from bridge.model.java_values import boolean, integer, split_list, trimmed
from bridge.patterns import PatternProblem
from bridge.spark.offsets import AtTime, Each, LogEdge, Where, read_assignment, read_offsets, read_times
from bridge.spark.rejected import SourceRejected

T = TypeVar("T")
KAFKA = "kafka."
MAX_PARTITION_BYTES = 64 * 1024 * 1024
"""Of what a Spark partition reads, as it is stored in the logs."""
TRIGGER_DELAY = 900.0
"""Seconds: 15m, as in Spark's own Kafka source."""
_SPAN = re.compile(r"(\d+)\s*(ms|s|m|min|h|d)?")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_PATIENCE_MS = 60_000
"""The default of default.api.timeout.ms."""
_SELECTIONS = ("subscribe", "subscribePattern", "assign")
_STARTS = ("startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp")
_ENDS = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")
_STRATEGY = "startingOffsetsByTimestampStrategy"
_BATCH_ONLY, _STREAM_ONLY = _ENDS, ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
_COMMITTED, _UNCOMMITTED = "read_committed", "read_uncommitted"
_NAMES = (
    *(*_SELECTIONS, *_STARTS, *_ENDS, *_STREAM_ONLY, "failOnDataLoss", "minPartitions"),
    *("maxPartitionBytes", "maxRecordsPerPartition", "isolation.level", "commandConfig", "includeHeaders"),
    _STRATEGY,
)
HISTORY = "history"
_CANONICAL = {name.lower(): name for name in (*_NAMES, HISTORY)}
_OF_TABLES = (
    "Spark tells who reads such a table none of its options; use CREATE TEMPORARY VIEW … USING … OPTIONS (…)"
)
_OF_SPARKS = {
    "groupidprefix": "it joins no group",
    "kafkaconsumer.polltimeoutms": "use kafka.default.api.timeout.ms",
    "fetchoffset.numretries": "use kafka.default.api.timeout.ms",
    "fetchoffset.retryintervalms": "use kafka.retry.backoff.ms",
}
"""Of Spark's own Kafka source, with what takes their place."""
_NOT_HERE = {
    "auto.offset.reset": "use startingOffsets",
    "group.id": "it joins no group",
    "group.instance.id": "it joins no group",
    "enable.auto.commit": "it commits no offsets; Spark keeps them in the checkpoint",
}
_PREFIXES = KeyPrefixes()


@dataclass(frozen=True)
class RecordsOptions:
    """One of `topics`, `pattern` and `assigned` says what is read. `kafka`: properties of Kafka's consumer, by their
    own names."""

    kafka: Mapping[str, str] = field(repr=False)
    topics: tuple[str, ...] = ()
    pattern: str = ""
    assigned: Mapping[str, list[int]] = field(default_factory=dict)
    start: Where | None = None
    end: Where = LogEdge.LATEST
    committed_only: bool = True
    fail_on_data_loss: bool = True
    min_partitions: int = 1
    max_partition_bytes: int = MAX_PARTITION_BYTES
    max_records_per_partition: int | None = None
    max_offsets: int | None = None
    min_offsets: int | None = None
    max_trigger_delay: float = TRIGGER_DELAY
    """Seconds for which a trigger waits for `min_offsets`."""
    as_late: bool = True
    """Whether a partition without a record as late as the time to start at is an error."""
    optional: bool = False
    """Whether it is no error where there is no topic: nobody has named one."""
    include_headers: bool = True
    """Whether headers are a column where no schema is given."""
    history: bool = False
    """Of an internal topic, all of its records and not the newest of each key."""

    @property
    def patience(self) -> float:
        """Seconds for which a request that fails is tried again: default.api.timeout.ms."""
        return int(self.kafka.get("default.api.timeout.ms") or _PATIENCE_MS) / 1000

    def settings(self) -> RawSettings:
        """How to connect: made where it is needed, because it holds what can't be sent to another process. Raises
        SourceRejected."""
        try:
            return settings_at(_PREFIXES, self.kafka).raw
        except ConfigRejected as rejected:
            raise SourceRejected(
                "; ".join(_named(error.key, error.message) for error in rejected.errors)
            ) from None


def read_options(
    raw: Mapping[str, str], default_pattern: str = "", excluded: Mapping[str, str] | None = None
) -> RecordsOptions:
    """Reads options of `mirror-records`, or, with a pattern of topics that are read by default, of an internal topic.
    `excluded`: names that may not be given, and what they are for. Raises SourceRejected with all that is wrong."""
    verify_no_table(raw)
    options = {name.lower(): trimmed(value) for name, value in raw.items()}
    errors = _Errors([text for name in sorted(options) if (text := _unknown(name)) is not None])
    unknown = bool(errors.texts)
    values = {_CANONICAL[name]: value for name, value in options.items() if name in _CANONICAL}
    excluded = {
        **(excluded or {}),
        **({"includeHeaders": "mirror-records"} if default_pattern else {HISTORY: "internal topics"}),
    }
    errors.texts += [f"option {name} is for {kind} only" for name, kind in excluded.items() if name in values]
    several: str | None = ""
    selected = errors.collect(lambda: _one_of(values, _SELECTIONS), several)
    if selected is None and not default_pattern and not unknown:
        hint = "" if raw else f"; {_OF_TABLES}"
        errors.texts.append(f"one of the options {', '.join(_SELECTIONS)} is required{hint}")
    nothing: tuple[tuple[str, ...], str, dict[str, list[int]]] = (), "", {}
    topics, pattern, assigned = errors.collect(
        lambda: _selection(selected, values[selected]) if selected else ((), default_pattern, {}), nothing
    )
    kafka = errors.collect(lambda: _kafka(values, options), None)
    options_read = RecordsOptions(
        kafka or {},
        topics,
        pattern,
        assigned,
        start=errors.collect(lambda: _where(values, _STARTS, LogEdge.EARLIEST, LogEdge.LATEST), None),
        end=errors.collect(lambda: _where(values, _ENDS, LogEdge.LATEST), None) or LogEdge.LATEST,
        committed_only=errors.collect(lambda: _committed_only(values, kafka or {}), True),
        fail_on_data_loss=errors.flag(values, "failOnDataLoss", True),
        min_partitions=errors.number(values, "minPartitions") or 1,
        max_partition_bytes=errors.number(values, "maxPartitionBytes") or MAX_PARTITION_BYTES,
        max_records_per_partition=errors.number(values, "maxRecordsPerPartition"),
        max_offsets=errors.number(values, "maxOffsetsPerTrigger"),
        min_offsets=errors.number(values, "minOffsetsPerTrigger"),
        max_trigger_delay=errors.collect(lambda: _span(values, "maxTriggerDelay", TRIGGER_DELAY), 0.0),
        as_late=errors.collect(lambda: _strategy(values), "error") == "error",
        optional=selected is None,
        include_headers=errors.flag(values, "includeHeaders", True),
        history=errors.flag(values, HISTORY, False),
    )
    least, most = options_read.min_offsets, options_read.max_offsets
    if least is not None and most is not None and least > most:
        errors.texts.append(f"minOffsetsPerTrigger is {least}, above maxOffsetsPerTrigger, which is {most}")
    if kafka is not None:
        errors.collect(options_read.settings, None)
    errors.verify()
    return options_read


class _Errors:
    """Collects what is wrong."""

    def __init__(self, texts: list[str]) -> None:
        self.texts = texts

    def collect(self, read: Callable[[], T], otherwise: T) -> T:
        """Returns what is read; where that is rejected, `otherwise`."""
        try:
            return read()
        except SourceRejected as rejected:
            self.texts.append(str(rejected))
            return otherwise

    def flag(self, values: Mapping[str, str], name: str, default: bool) -> bool:
        return self.collect(lambda: _flag(values, name, default), default)

    def number(self, values: Mapping[str, str], name: str) -> int | None:
        return self.collect(lambda: _number(values, name), None)

    def verify(self) -> None:
        """Raises SourceRejected."""
        if self.texts:
            raise SourceRejected("; ".join(dict.fromkeys(self.texts)))


def verify_no_table(raw: Mapping[str, str]) -> None:
    """Raises SourceRejected for the options of a table of Spark's catalog, and for a path."""
    names = {name.lower() for name in raw}
    if "provider" in names and any(name.startswith("option.") for name in names):
        raise SourceRejected(f"this is no source of tables in Spark's catalog: {_OF_TABLES}")
    if "path" in names:
        raise SourceRejected("records are in topics, not at a path: leave it out")


def for_batch(raw: Mapping[str, str], default_pattern: str = "") -> RecordsOptions:
    """The options of a batch. Raises SourceRejected."""
    options = read_options(raw, default_pattern, dict.fromkeys(_STREAM_ONLY, "a stream"))
    if options.start is LogEdge.LATEST or _has(options.start, LogEdge.LATEST):
        raise SourceRejected(
            "option startingOffsets can't be latest in a batch: there would be nothing to read"
        )
    return options


def for_stream(raw: Mapping[str, str], default_pattern: str = "") -> RecordsOptions:
    """The options of a stream. Raises SourceRejected."""
    return read_options(raw, default_pattern, dict.fromkeys((*_BATCH_ONLY, HISTORY), "a batch"))


def _has(where: Where | None, edge: LogEdge) -> bool:
    return isinstance(where, Each) and edge in where.offsets.values()


def is_option(name: str) -> bool:
    """Whether there is an option of this name, in lower case."""
    return _unknown(name) is None


def _unknown(name: str) -> str | None:
    """Returns what is wrong with the name of an option, None for nothing."""
    if name in _CANONICAL:
        return None
    if name.startswith(KAFKA):
        return _unknown_property(name.removeprefix(KAFKA))
    if name in _OF_SPARKS:
        return f"option {name} is not supported: {_OF_SPARKS[name]}"
    if name in KNOWN:
        return f"there is no option {name}; did you mean {KAFKA}{name}?"
    near = get_close_matches(name, _CANONICAL, 1, 0.75)
    return f"there is no option {name}" + (f"; did you mean {_CANONICAL[near[0]]}?" if near else "")


def _unknown_property(name: str) -> str | None:
    if name in _NOT_HERE:
        return f"option {KAFKA}{name} is not supported: {_NOT_HERE[name]}"
    if is_of("consumer", name) or name == "default.api.timeout.ms":
        return None
    if name in KNOWN:
        return f"option {KAFKA}{name} is not a property of Kafka's consumer"
    near = get_close_matches(name, [text for text in KNOWN if is_of("consumer", text)], 1, 0.75)
    text = f"option {KAFKA}{name} is no property of Kafka's consumer"
    return text + (f"; did you mean {KAFKA}{near[0]}?" if near else "")


def _kafka(values: Mapping[str, str], options: Mapping[str, str]) -> dict[str, str]:
    """Properties of the file that commandConfig names, and over them those of options."""
    client_properties = {
        name.removeprefix(KAFKA): text
        for name, text in options.items()
        if name.startswith(KAFKA) and _unknown(name) is None
    }
    if "commandConfig" not in values:
        return client_properties
    path = Path(values["commandConfig"])
    try:
        properties = java_values.given(load_properties(path))
    except PropertiesProblem as problem:
        raise SourceRejected(f"option commandConfig: {problem}") from None
    strange = [name for name in properties if not is_of("consumer", name)]
    if strange:
        raise SourceRejected(
            f"option commandConfig: {path} has {strange[0]}, no property of Kafka's consumer"
        )
    return {**properties, **client_properties}


def _selection(name: str, text: str) -> tuple[tuple[str, ...], str, dict[str, list[int]]]:
    if name == "assign":
        return (), "", read_assignment(name, text)
    if name == "subscribePattern":
        try:
            compile_java(text, name)
        except PatternProblem as problem:
            raise SourceRejected(f"option subscribePattern: {problem}") from None
        return (), text, {}
    topics = tuple(dict.fromkeys(split_list(text)))
    if not topics or "" in topics:
        raise SourceRejected("option subscribe must be names of topics with commas between")
    return topics, "", {}


def _one_of(values: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    present = [name for name in names if name in values]
    if len(present) > 1:
        raise SourceRejected(f"options {' and '.join(present)} exclude each other")
    return present[0] if present else None


def _where(values: Mapping[str, str], names: tuple[str, ...], *edges: LogEdge) -> Where | None:
    name = _one_of(values, names)
    if name is None:
        return None
    text = values[name]
    if name.endswith("Offsets"):
        return read_offsets(name, text, edges=edges)
    if name.endswith("ByTimestamp"):
        return read_times(name, text)
    time = integer(text)
    if time is None or time < 0:
        raise SourceRejected(f"option {name} is {text!r}; it must be a time in milliseconds since 1970")
    return AtTime(time)


def _committed_only(values: Mapping[str, str], kafka: Mapping[str, str]) -> bool:
    name = "isolation.level"
    levels = [level for level in (values.get(name), kafka.get(name)) if level is not None]
    for level in levels:
        if level not in (_COMMITTED, _UNCOMMITTED):
            raise SourceRejected(f"option {name} is {level!r}; it must be {_COMMITTED} or {_UNCOMMITTED}")
    if len(set(levels)) > 1:
        raise SourceRejected(f"options {name} and {KAFKA}{name} differ")
    return _UNCOMMITTED not in levels


def _flag(values: Mapping[str, str], name: str, default: bool) -> bool:
    flag = boolean(values.get(name, str(default)))
    if flag is None:
        raise SourceRejected(f"option {name} is {values[name]!r}; it must be true or false")
    return flag


def _number(values: Mapping[str, str], name: str) -> int | None:
    if name not in values:
        return None
    number = integer(values[name])
    if number is None or number < 1:
        raise SourceRejected(f"option {name} is {values[name]!r}; it must be a number above 0")
    return number


def _span(values: Mapping[str, str], name: str, default: float) -> float:
    """Returns seconds."""
    if name not in values:
        return default
    matched = _SPAN.fullmatch(values[name].strip().lower())
    if matched is None:
        raise SourceRejected(
            f"option {name} is {values[name]!r}; it must be a time span such as 500ms, 30s or 15m"
        )
    return int(matched[1]) * _UNITS[matched[2] or "ms"]


def _strategy(values: Mapping[str, str]) -> str:
    strategy = values.get(_STRATEGY, "error").lower()
    if strategy not in ("error", "latest"):
        raise SourceRejected(f"option {_STRATEGY} is {values[_STRATEGY]!r}; it must be error or latest")
    return strategy


def _named(key: str, message: str) -> str:
    """A message about a property, by the name of its option."""
    return message if KAFKA + key in message else message.replace(key, KAFKA + key, 1)
