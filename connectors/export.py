"""Writes the definitions to files: JSON for the Java shim, a Markdown table for people. A test fails on drift.

Writes the table of keys that are not ours, Connect's own and those of Kafka's clients: honoured, ignored or
refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from bridge import VERSION
from bridge.model.key_rules import KeyRule, Use
from connectors.base import Kind
from connectors.config import client_keys
from connectors.config.configdef import Json, Key
from connectors.config.connect_keys import COPYING, KEYS, OF_RECORDS
from connectors.config.key_effects import OVERRIDE
from connectors.registry import KINDS

ClientRow = tuple[str, KeyRule, Sequence[Use]]
"""A property of Kafka's clients, a rule that it has, and the uses where it has that."""

_EFFECTS_HEAD = """
## What becomes of other keys

- **honoured**: it does what Kafka's documentation says, unless the last column says otherwise.
- **ignored**: it would change speed, place or words, and nothing that arrives. Keys that are given are listed with the
  reason under `ignored_settings` of the connector's status, in the service's log when the connector starts, in the
  worker's log at validation, and by `mirror-bridge replicate`. Connect's validation answers `"visible": false` for
  them, except for keys of Connect's own.
- **refused**: it would change what arrives, and can't be honoured: an error of validate with the last column's words.

Values in parentheses ask for what happens anyway: with them nothing is ignored or refused.

Of keys that are in no table

- a property under a client's prefix that no Kafka client has is refused;
- so is a key that is written nearly as one that does something: in another case, with `_` or `-` as dots, or with one
  character too many, too few, wrong or misplaced (`Unknown configuration 'groupz': did you mean 'groups'?`);
- all others are ignored, and named too.
"""
_CONNECTS = """
### Of Connect

| Key | Connectors | What becomes of it | How, or why |
| --- | --- | --- | --- |
"""
_CLIENTS = """
### Of Kafka's clients

Under the prefixes of the second column, and those that mean several of them (`source.cluster.`, `consumer.`, …).
Ignored where a connector makes no such client, and where Kafka's client of that role has no such property: the group
offset and checkpoint connectors write nothing themselves, the heartbeat connector does not connect to the source.

| Property | Clients | What becomes of it | How, or why |
| --- | --- | --- | --- |
"""
_WHERE: Mapping[Use, str] = {
    Use.ADMIN: "`source.admin.`, `target.admin.`",
    Use.COPY: "`source.consumer.` of the source and sink connectors",
    Use.COMPARE: "`source.consumer.` of the others",
    Use.FOLLOW: "`target.consumer.`",
    Use.WRITE: "`target.producer.`, `producer.override.` of the source and sink connectors",
    Use.SYNC: "`source.producer.` of the source and sink connectors",
}
SHIM_RESOURCES = Path("java-shim/src/main/resources/dev/mirrorbridge")
MARKDOWN = Path("docs/configuration.md")
_HEAD = """# Configuration

Every key of the connector JSON, generated from the definitions in `connectors/` by `mirror-bridge definitions`; a test
fails on drift. A worker has them too: `GET /connector-plugins/<connector.class>/config`.

- Names, types and defaults are stock's; `bridge.*`, `translation.*`, `sync.group.offsets.rewind`, `dry.run` and
  `reverse.checkpointing.enabled` are ours. Where a key names a Java class that only a JVM could load, anything but
  stock's own is an error that names the key.
- `source.consumer.isolation.level=read_committed` says that the mirror copies committed data only.
- Values are read as Kafka's ConfigDef reads them: what Java's `trim()` takes away is no part of them. A key that is
  null has its default.

Kafka's client properties go under MirrorMaker's prefixes, of which later ones win:

| For | Prefixes |
| --- | --- |
| group and topic look-ups | `source.cluster.*`, `admin.*`, `source.admin.*`; `target.` likewise |
| reading records | `source.cluster.*`, `consumer.*`, `source.consumer.*`; `target.` likewise |
| what the source connector writes | `target.cluster.*`, `producer.*`, `target.producer.*`, `producer.override.*` |

As in MirrorMaker, `source.cluster.*` and `target.cluster.*` give clients only what is of connection and security
(`source.cluster.max.poll.records` is named as doing nothing), and `security.protocol`, `ssl.*` and `sasl.*` without a
prefix reach no client.

What becomes of other keys, of Connect's own and of each property of Kafka's clients, stands
[at the end](#what-becomes-of-other-keys).
"""
_TABLE = "| Key | Type | Default | Valid | Meaning |\n| --- | --- | --- | --- | --- |\n"


def effects_markdown(clients: Iterable[ClientRow]) -> str:
    rows = list(clients)
    return "".join((_EFFECTS_HEAD, _CONNECTS, *_connects(), _CLIENTS, *_clients(rows)))


def _connects() -> Iterator[str]:
    named: dict[tuple[tuple[str, KeyRule], ...], list[str]] = {}
    for key in KEYS:
        named.setdefault(tuple(key.rules.items()), []).append(key.name)
    for rules, names in named.items():
        yield from (_effect_row(names, _whose(kinds), rule) for rule, kinds in _by_rule(dict(rules)))
    yield from (_effect_row([f"{OVERRIDE}*"], _whose(kinds), rule) for rule, kinds in _by_rule(OF_RECORDS))
    why = "over which it wins: copies are written past Connect"
    yield _cells(f"`{OVERRIDE}*`", _whose(COPYING), "as `target.producer.*`", why)


def _clients(rows: Sequence[ClientRow]) -> Iterator[str]:
    last = {name: number for number, (name, _, _) in enumerate(rows)}
    named_before = set[str]()
    for number, (name, rule, uses) in enumerate(rows):
        where = "; ".join(_WHERE[use] for use in uses)
        if last[name] == number:
            where = "all others" if name in named_before else "all that have it"
        named_before.add(name)
        yield _effect_row([name], where, rule)


def _by_rule(rules: Mapping[str, KeyRule]) -> Iterator[tuple[KeyRule, list[str]]]:
    kinds_of: dict[KeyRule, list[str]] = {}
    for kind, rule in rules.items():
        kinds_of.setdefault(rule, []).append(kind)
    yield from kinds_of.items()


def _whose(kinds: Sequence[str]) -> str:
    return "all" if len(kinds) == len(KINDS) else ", ".join(kind.replace("_", " ") for kind in kinds)


def _effect_row(names: Sequence[str], where: str, rule: KeyRule) -> str:
    values = [f"`{value}`" for value in rule.same] + [f"`{value}…`" for value in rule.beginnings]
    same = f" ({', '.join(values)})" if values else ""
    return _cells(", ".join(f"`{name}`" for name in names), where, f"{rule.effect}{same}", rule.why)


def _cells(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def definition_json(kind: str) -> Json:
    """Returns one connector's definition, in the form that the shim reads."""
    chosen = KINDS[kind]
    return {
        "kind": chosen.kind,
        "connector_class": chosen.connector_class,
        "version": VERSION,
        "keys": [key.json() for key in chosen.definition.keys.values()],
        "forbidden": [rule.json() for rule in chosen.definition.forbidden],
        "secret_names": client_keys.exported(),
    }


def definition_text(kind: str) -> str:
    return json.dumps(definition_json(kind), indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def export_definitions(target: Path, clients: Iterable[ClientRow]) -> list[Path]:
    """Writes all generated files below `target`, the root of the repository; returns those that changed. `clients`: the
    properties of Kafka's clients."""
    texts = {target / SHIM_RESOURCES / f"{kind}.json": definition_text(kind) for kind in KINDS}
    texts[target / MARKDOWN] = keys_markdown(clients)
    changed = []
    for path, text in texts.items():
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        changed.append(path)
    return changed


def keys_markdown(clients: Iterable[ClientRow]) -> str:
    """Returns a table of all keys, by connector and group; groups that connectors have in common come once, at the end;
    then the table of other keys."""
    parts, common = [_HEAD], dict[str, list[Key]]()
    for kind in KINDS.values():
        parts.append(f"\n## {_class(kind)}\n")
        for group in kind.definition.groups:
            keys = _in_group(kind, group)
            if all(_in_group(other, group) in ([], keys) for other in KINDS.values()) and _shared(group):
                common[group] = keys
            else:
                parts.append(_section(group, keys))
    parts.append("\n## Keys of several connectors\n")
    for group, keys in common.items():
        having = [_class(kind) for kind in KINDS.values() if _in_group(kind, group)]
        whose = "Of every connector." if len(having) == len(KINDS) else f"Of {' and '.join(having)}."
        parts.append(_section(group, keys, whose))
    return "".join((*parts, effects_markdown(clients)))


def _class(kind: Kind) -> str:
    return kind.connector_class.rpartition(".")[2]


def _in_group(kind: Kind, group: str) -> list[Key]:
    return [key for key in kind.definition.keys.values() if key.group == group]


def _shared(group: str) -> bool:
    return sum(bool(_in_group(kind, group)) for kind in KINDS.values()) > 1


def _section(group: str, keys: Sequence[Key], words: str = "") -> str:
    introduction = f"{words}\n\n" if words else ""
    return f"\n### {group}\n\n{introduction}{_TABLE}" + "".join(map(_row, keys))


def _default(key: Key) -> str:
    return "**required**" if key.required else f"`{key.default_text}`" if key.default_text else ""


def _row(key: Key) -> str:
    valid = _valid(key.validator.json()) if key.validator else ""
    cells = (f"`{key.name}`", key.type.value, _default(key), valid, key.documentation)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def _valid(rule: Json) -> str:
    match rule:
        case {"kind": "range", "min": low, "max": None}:
            return f"≥ {low}"
        case {"kind": "range", "min": low, "max": high}:
            return f"{low} to {high}"
        case {"kind": "in" | "list", "values": [*values]} if values:
            return ", ".join(f"`{value}`" for value in values)
        case {"kind": "pattern_list"}:
            return "names and Java regexes"
        case {"kind": "replication_factor"}:
            return "≥ 1, or -1"
        case {"kind": "regex"}:
            return "a Java regex"
        case {"kind": "url"}:
            return "http or https URL"
    return (
        "not empty"
        if rule.get("kind") in ("non_empty", "servers") or rule.get("allow_empty") is False
        else "no duplicates"
    )
