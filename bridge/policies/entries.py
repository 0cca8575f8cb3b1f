"""Reads the entries of a topic map, from its key or its file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from bridge.errors import ConfigError, ConfigRejected
from bridge.kafka.config.files import Files, UnreadableFile
from bridge.mm2.replication_policy import TOPIC_MAP, TOPIC_MAP_FILE
from bridge.model.java_values import trimmed

_MOST_BYTES = 1 << 20
"""Of a file: some 30,000 entries, as many as a configuration may have itself."""


class Text(NamedTuple):
    """An entry as it was written. `label`: how errors name it."""

    label: str
    source: str
    target: str


@dataclass(frozen=True, slots=True)
class Entry:
    """Maps `before` + x + `behind` to `left` + x + `right`. `language`: what it maps, of a pattern; a name is `before`
    alone, and comes to `left`."""

    label: str
    language: int
    before: str
    behind: str
    left: str
    right: str

    def source(self, remote: str) -> str | None:
        """The only name that it can map to this one, None where it can't have mapped any."""
        middle = _middle(remote, self.left, self.right)
        return None if middle is None else f"{self.before}{middle}{self.behind}"

    def target(self, topic: str) -> str:
        middle = _middle(topic, self.before, self.behind)
        assert middle is not None, "only what its language holds is mapped"
        return f"{self.left}{middle}{self.right}"


def _middle(name: str, before: str, behind: str) -> str | None:
    long_enough = len(name) >= len(before) + len(behind)
    if not long_enough or not name.startswith(before) or not name.endswith(behind):
        return None
    return name[len(before) : len(name) - len(behind)]


def read_texts(props: Mapping[str, str | None]) -> tuple[str, list[Text]]:
    """The key that has the map, and its entries. Raises ConfigRejected."""
    inline, file = (trimmed(props.get(key) or "") for key in (TOPIC_MAP, TOPIC_MAP_FILE))
    if bool(inline) == bool(file):
        why = f"the policy takes one of {TOPIC_MAP} and {TOPIC_MAP_FILE}: " + (
            "both are given" if file else "none is"
        )
        raise ConfigRejected([ConfigError(TOPIC_MAP, f"Invalid configuration {TOPIC_MAP}: {why}")])
    if inline:
        given = [(f"'{part.strip()}'", part) for part in inline.split(",")]
        return TOPIC_MAP, _entries(TOPIC_MAP, given, "a map is written as a=b,c.*=d.$0")
    try:
        text = Files(most=_MOST_BYTES).read(file).decode()
    except (UnreadableFile, UnicodeDecodeError) as error:
        why = str(error) if isinstance(error, UnreadableFile) else "it is no text in UTF-8"
        raise ConfigRejected(
            [ConfigError(TOPIC_MAP_FILE, f"Invalid value {file} for configuration {TOPIC_MAP_FILE}: {why}")]
        ) from None
    lines = [(f"line {number}", line) for number, line in enumerate(text.splitlines(), 1)]
    there = [(label, line) for label, line in lines if line.strip() and not line.lstrip().startswith("#")]
    return TOPIC_MAP_FILE, _entries(TOPIC_MAP_FILE, there, "each line has one entry: source=target")


def _entries(key: str, given: Sequence[tuple[str, str]], form: str) -> list[Text]:
    texts = []
    wrong = []
    for label, part in given:
        source, equals, target = (each.strip() for each in part.partition("="))
        if source and target and equals:
            texts.append(Text(label, source, target))
        else:
            wrong.append(f"Invalid value for configuration {key}: {label} is no entry; {form}")
    if wrong:
        raise ConfigRejected([ConfigError(key, why) for why in wrong])
    return texts
