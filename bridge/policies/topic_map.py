"""Names remote topics by a map: `a=b,c.*=d.$0`, proven to give each remote topic one source.

An entry is the name of a topic, or a pattern for whole names; what stands behind `=` is the name on the target, in
which `$0` is the whole name and `$1` the pattern's only group, with nothing but fixed text around it. The first entry
that fits counts. Topics that no entry names, and heartbeats, are named as by DefaultReplicationPolicy.

Reads the entries of a topic map, from its key or its file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from bridge.errors import ConfigError, ConfigRejected
from bridge.kafka.config.files import Files, UnreadableFile
from bridge.mm2.replication_policy import SOURCE_ALIAS, TOPIC_MAP, TOPIC_MAP_FILE, DefaultReplicationPolicy
from bridge.model.java_values import trimmed
from bridge.policies.languages import Languages, TooComplex, Unprovable, read_pattern

_MOST_BYTES = 1 << 20
"""Of a file: some 30,000 entries, as many as a configuration may have itself."""
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_REFERENCE = re.compile(r"\$(.?)")
_LONGEST = 249
_MOST_PATTERNS = 100


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
        texts = [(f"'{part.strip()}'", part) for part in inline.split(",")]
        return TOPIC_MAP, _entries(TOPIC_MAP, texts, "a map is written as a=b,c.*=d.$0")
    try:
        text = Files(most=_MOST_BYTES).read(file).decode()
    except (UnreadableFile, UnicodeDecodeError) as error:
        why = str(error) if isinstance(error, UnreadableFile) else "it is no text in UTF-8"
        raise ConfigRejected(
            [ConfigError(TOPIC_MAP_FILE, f"Invalid value {file} for configuration {TOPIC_MAP_FILE}: {why}")]
        ) from None
    lines = [(f"line {number}", line) for number, line in enumerate(text.splitlines(), 1)]
    written = [(label, line) for label, line in lines if line.strip() and not line.lstrip().startswith("#")]
    return TOPIC_MAP_FILE, _entries(TOPIC_MAP_FILE, written, "each line has one entry: source=target")


def _entries(key: str, lines: Sequence[tuple[str, str]], form: str) -> list[Text]:
    texts = []
    wrong = []
    for label, part in lines:
        source, equals, target = (text.strip() for text in part.partition("="))
        if source and target and equals:
            texts.append(Text(label, source, target))
        else:
            wrong.append(f"Invalid value for configuration {key}: {label} is no entry; {form}")
    if wrong:
        raise ConfigRejected([ConfigError(key, why) for why in wrong])
    return texts


class TopicMap(DefaultReplicationPolicy):
    """Names remote topics by a table: `replication.policy.class=python:bridge.policies.TopicMap`."""

    def __init__(self) -> None:
        super().__init__()
        self._alias: str | None = None
        self._in_file = False
        self._languages = Languages()
        self._names: Mapping[str, Entry] = {}
        self._patterns: Sequence[Entry] = ()
        self._remote: Mapping[str, Entry] = {}

    def configure(self, props: Mapping[str, str | None]) -> None:
        """Raises ConfigRejected with all errors of the map at once."""
        super().configure(props)
        self._alias = props.get(SOURCE_ALIAS)
        key, texts = read_texts(props)
        self._in_file = key == TOPIC_MAP_FILE
        try:
            wrong = list(self._read(texts)) or list(self._ambiguous())
        except (TooComplex, RecursionError):
            wrong = ["that each remote topic has one source can't be proven for patterns that are so complex"]
        if wrong:
            raise ConfigRejected(
                [ConfigError(key, f"Invalid value for configuration {key}: {why}") for why in wrong]
            )

    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        entry = self._entry(topic)
        return super().format_remote_topic(source_alias, topic) if entry is None else entry.target(topic)

    def topic_source(self, topic: str) -> str | None:
        return super().topic_source(topic) if self._mapped_from(topic) is None else self._alias

    def upstream_topic(self, topic: str) -> str | None:
        source = self._mapped_from(topic)
        return super().upstream_topic(topic) if source is None else source

    def _entry(self, topic: str) -> Entry | None:
        if self._heartbeat(topic):
            return None
        named = self._names.get(topic)
        return named or next(
            (pattern for pattern in self._patterns if self._languages.holds(pattern.language, topic)), None
        )

    def _mapped_from(self, remote: str) -> str | None:
        """The topic that is mapped to this name: at most one, as was proven."""
        for entry in (*filter(None, [self._remote.get(remote)]), *self._patterns):
            source = entry.source(remote)
            if source is not None and self._entry(source) is entry:
                return source
        return None

    # -- reading -----------------------------------------------------------------------------------------------------

    def _read(self, texts: Sequence[Text]) -> Iterator[str]:
        """Takes the entries in; yields what is wrong with single ones."""
        names: dict[str, Entry] = {}
        patterns: list[Entry] = []
        for text in texts:
            try:
                entry = self._made(text)
            except Unprovable as why:
                yield f"{text.label}: {why}"
                continue
            if _NAME.fullmatch(text.source) is None:
                patterns.append(entry)
            elif (earlier := names.get(text.source)) is not None:
                yield f"{earlier.label} and {text.label} name one topic"
            else:
                covering = next((pattern for pattern in patterns if self._holds(pattern, text.source)), None)
                if covering is not None:
                    yield f"{text.label} is never used: {covering.label}, which comes first, fits its topic"
                names[text.source] = entry
        if len(patterns) > _MOST_PATTERNS:
            yield f"it has {len(patterns)} patterns, and {_MOST_PATTERNS} are the most; names have no limit"
            patterns = []
        self._names = names
        self._patterns = list(self._first_come(patterns))
        self._remote = {name.left: name for name in names.values()}

    def _made(self, text: Text) -> Entry:
        """Raises Unprovable."""
        languages, references = self._languages, _REFERENCE.findall(text.target)
        if _NAME.fullmatch(_REFERENCE.sub("", text.target) or "x") is None or not text.target:
            raise Unprovable("a topic's name on the target has letters, digits, '.', '_', '-', and $0 or $1")
        if _NAME.fullmatch(text.source) is not None:
            if set(references) - {"0"}:
                raise Unprovable("the name of one topic has no groups; $0 is the whole name")
            target = text.target.replace("$0", text.source)
            return Entry(text.label, languages.nothing, text.source, "", target, "")
        pattern = read_pattern(text.source, languages)
        if references not in (["0"], ["1"]):
            several = languages.several(pattern.whole)
            why = (
                "all topics that the pattern fits would get one name; " if several and not references else ""
            )
            raise Unprovable(f"{why}put $0 or $1 into the name on the target, once")
        left, _, right = text.target.partition(f"${references[0]}")
        if references == ["0"]:
            return Entry(text.label, pattern.whole, "", "", left, right)
        if pattern.group is None:
            raise Unprovable(
                "$1 stands for the pattern's only group, with nothing but fixed text before and behind it"
            )
        return Entry(text.label, pattern.whole, pattern.before, pattern.behind, left, right)

    def _holds(self, entry: Entry, topic: str) -> bool:
        return self._languages.holds(entry.language, topic)

    def _first_come(self, patterns: Sequence[Entry]) -> Iterator[Entry]:
        """Each pattern without what names and earlier patterns take. A pattern maps none of MirrorMaker's own topics,
        and none to a name of these, or to one that topics without an entry may have."""
        languages = self._languages
        taken = languages.union(self._own, *map(languages.word, self._names))
        default = languages.sequence(languages.word(self._default_prefix), languages.everything)
        reserved = languages.union(self._own, default)
        for pattern in patterns:
            free = languages.complement(
                languages.before(languages.after(reserved, pattern.left), pattern.right)
            )
            fixed = languages.word(pattern.before), languages.word(pattern.behind)
            language = languages.intersection(
                languages.without(pattern.language, taken), languages.sequence(fixed[0], free, fixed[1])
            )
            yield replace(pattern, language=language)
            taken = languages.union(taken, pattern.language)

    # -- proving -----------------------------------------------------------------------------------------------------

    def _ambiguous(self) -> Iterator[str]:
        """Yields a sentence for each two entries that map to one name, and for names that mean something else."""
        yield from self._names_ambiguous()
        languages = self._languages
        ranges = [self._range(pattern) for pattern in self._patterns]
        for index, (entry, names) in enumerate(zip(self._patterns, ranges, strict=True)):
            if languages.shortest(entry.language) is None:
                yield (
                    f"{entry.label} is never used: entries before it fit all of its topics, or it maps to names that "
                    f"begin with {self._default_prefix}, as those of topics without an entry do"
                )
            for other, others in zip(self._patterns[:index], ranges, strict=False):
                if (remote := languages.shortest(languages.intersection(names, others))) is not None:
                    yield self._clash(other, entry, remote)

    def _names_ambiguous(self) -> Iterator[str]:
        prefix = self._default_prefix
        seen: dict[str, Entry] = {}
        for entry in self._names.values():
            remote = entry.left
            if self._heartbeat(entry.before) or self.is_internal_topic(entry.before):
                yield f"{entry.label} maps a topic of MirrorMaker's own, which keeps its name"
            if self._heartbeat(remote) or self.is_internal_topic(remote):
                yield self._reserved(entry, remote)
            if len(remote) > _LONGEST:
                yield f"{entry.label}: a topic's name has {_LONGEST} characters at most"
            if (other := seen.setdefault(remote, entry)) is not entry:
                yield self._clash(other, entry, remote)
            for pattern in self._patterns:
                source = pattern.source(remote)
                if source is not None and self._holds(pattern, source):
                    yield self._clash(pattern, entry, remote)
            if (
                remote.startswith(prefix)
                and (rest := remote.removeprefix(prefix))
                and self._entry(rest) is None
            ):
                yield self._clash_with_default(entry, remote)

    # What stands in a file may be none of the reader's business: of its entries errors name the lines.

    def _clash(self, one: Entry, other: Entry, remote: str) -> str:
        names = f": {one.source(remote)} and {other.source(remote)} would both come to {remote}"
        return f"{one.label} and {other.label} map to one name{'' if self._in_file else names}"

    def _clash_with_default(self, entry: Entry, remote: str) -> str:
        other = remote.removeprefix(self._default_prefix)
        names = f": {entry.source(remote)} and {other} would both come to {remote}"
        return (
            f"{entry.label} and the default names of topics without an entry, <alias>{self.separator}<topic>, map to "
            f"one name{'' if self._in_file else names}"
        )

    def _reserved(self, entry: Entry, remote: str) -> str:
        names = f", {entry.source(remote)} to {remote}"
        return f"{entry.label} maps to a name of MirrorMaker's own{'' if self._in_file else names}"

    def _range(self, entry: Entry) -> int:
        """All names that the entry maps to."""
        languages = self._languages
        middle = languages.before(languages.after(entry.language, entry.before), entry.behind)
        return languages.sequence(languages.word(entry.left), middle, languages.word(entry.right))

    @property
    def _default_prefix(self) -> str:
        """The prefix of remote topics without an entry."""
        return f"{self._alias or ''}{self.separator}"

    @property
    def _own(self) -> int:
        """Names of MirrorMaker's own: see _heartbeat and is_internal_topic."""
        languages = self._languages
        word, everything = languages.word, languages.everything
        return languages.union(
            word("heartbeats"),
            languages.sequence(word("mm2"), everything, word(f"{self._internal_separator}internal")),
            *(
                languages.sequence(everything, word(end))
                for end in (f"{self.separator}heartbeats", self._checkpoints_suffix)
            ),
            *(languages.sequence(word(start), everything) for start in ("__", ".")),
        )
