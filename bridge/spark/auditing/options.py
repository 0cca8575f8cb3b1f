"""Options of an audit: a connector's configuration, and what a caller asks for beyond it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType

from bridge.errors import ConfigError, ConfigRejected
from bridge.kafka.config.settings import StaticClientCheck
from bridge.mm2.java_regex import compile_java
from bridge.model.java_values import split_list
from bridge.patterns import PatternProblem
from connectors.source.options import SourceOptions

DAY_MS = 86_400_000
_UNITS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": DAY_MS}
_WINDOW = re.compile(r"(\d+)([smhd])")
LISTED = 10_000
IN_PYTHON = MappingProxyType({name: name for name in ("topics", "since", "until", "sample", "window")})
OF_THE_COMMAND = MappingProxyType(
    {"topics": "--topics", "since": "--from", "until": "--to", "sample": "--sample", "window": "--window"}
)
"""What error texts call an argument: as whoever gave it has written it."""


@dataclass(frozen=True, slots=True)
class AuditOptions:
    """Options of an audit. `since`, `until`: timestamps in ms of the records that are compared. `sample`: share of the
    stretches, None for all. `listed`: differences of a stretch that are listed; all are counted. `stretch_bytes`: how
    much of each log a stretch has, about."""

    props: Mapping[str, str] = field(repr=False)
    source: SourceOptions = field(repr=False)
    topics: tuple[str, ...] = ()
    since: int | None = None
    until: int | None = None
    sample: float | None = None
    window_ms: int = DAY_MS
    listed: int = LISTED
    stretch_bytes: int = 32 * 1024 * 1024

    def chosen(self, topic: str) -> bool:
        """Whether a topic of the source is audited."""
        if not self.source.replicates(topic):
            return False
        return not self.topics or any(
            topic == text or compile_java(text, "topics").fullmatch(topic) for text in self.topics
        )


def read_options(
    config: Mapping[str, str],
    *,
    topics: str | Sequence[str] = (),
    since: str | datetime | None = None,
    until: str | datetime | None = None,
    sample: float | None = None,
    window: str = "1d",
    listed: int = LISTED,
    names: Mapping[str, str] = IN_PYTHON,
) -> AuditOptions:
    """Reads the options. `topics`: names and patterns as in the key `topics`. `since`, `until`: times, as ISO 8601 has
    them where they are text. `window`: such as 15m, 1h or 1d. `names`: what error texts call the arguments. Raises
    ConfigRejected with all that is wrong."""
    errors: list[ConfigError] = []
    props = {"name": "audit", **config}
    source: SourceOptions | None = None
    try:
        source = SourceOptions.from_props(props, StaticClientCheck())
    except ConfigRejected as rejected:
        errors += rejected.errors
    chosen = tuple(split_list(topics) if isinstance(topics, str) else topics)
    for name in chosen:
        try:
            compile_java(name, "topics")
        except PatternProblem as problem:
            errors.append(ConfigError(names["topics"], f"{names['topics']}: {problem}"))
    begin, end = _time(names["since"], since, errors), _time(names["until"], until, errors)
    if begin is not None and end is not None and begin >= end:
        text = f"{names['until']} {_shown(until)} is not later than {names['since']} {_shown(since)}"
        errors.append(ConfigError(names["until"], text))
    if sample is not None and not 0 < sample <= 1:
        text = f"{names['sample']} {sample} is not a share: it must be above 0, and 1 at most, such as 0.05"
        errors.append(ConfigError(names["sample"], text))
    matched = _WINDOW.fullmatch(window.strip())
    window_ms = int(matched[1]) * _UNITS[matched[2]] if matched else 0
    if not window_ms:
        text = f"{names['window']} {window!r} is not a time span: it must be such as 15m, 1h or 1d"
        errors.append(ConfigError(names["window"], text))
    if errors or source is None:
        raise ConfigRejected(errors)
    return AuditOptions(props, source, chosen, begin, end, sample, window_ms, listed)


def _time(option: str, value: str | datetime | None, errors: list[ConfigError]) -> int | None:
    if value is None:
        return None
    try:
        time = value if isinstance(value, datetime) else datetime.fromisoformat(value)
        time = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
        return int(time.timestamp() * 1000)
    except (TypeError, ValueError, OverflowError):
        text = f"{option} {_shown(value)} is not a time such as 2026-11-22T21:00:00Z"
        errors.append(ConfigError(option, text))
        return None


def _shown(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else repr(value)
