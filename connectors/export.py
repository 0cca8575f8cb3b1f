"""Writes the definitions to files: JSON for the Java shim, a Markdown table for people. A test fails on drift."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from bridge import VERSION
from connectors.base import Kind
from connectors.config import secret_names
from connectors.config.configdef import Key
from connectors.config.validators import Json
from connectors.effects_table import ClientRow, effects_markdown
from connectors.registry import KINDS

SHIM_RESOURCES = Path("java-shim/src/main/resources/dev/mirrorbridge")
MARKDOWN = Path("docs/configuration.md")

_HEAD = """# Configuration

Every key of the connector JSON, from the one definition in `connectors/`. This file is generated
(`mirror-bridge definitions`); a test fails when it differs from the code.

Stock names, types and defaults; `bridge.*`, `translation.*`, `sync.group.offsets.rewind`, `dry.run` and
`reverse.checkpointing.enabled` are ours. Where a stock key names a Java class that only a JVM could load, anything but
stock's own is an error that names the key. A worker has them too: `GET /connector-plugins/<connector.class>/config`.
`source.consumer.isolation.level=read_committed` says that the mirror copies committed data only.

Values are read as Kafka's ConfigDef reads them, whether Connect, a file or an option has them: what Java's `trim()`
takes away around one is no part of it. Of a key that is given as null the default counts.

Any Kafka client property may be given under the prefixes that MirrorMaker has: `source.cluster.*` and
`target.cluster.*` (connection and security), overridden by `admin.*` and `source.admin.*` / `target.admin.*` for
group and topic look-ups, by `consumer.*` and `source.consumer.*` / `target.consumer.*` for reading records, and by
`producer.*`, `target.producer.*` and `producer.override.*` for what the source connector writes. As in MirrorMaker,
`security.protocol`, `ssl.*` and `sasl.*` without a prefix do not reach the clusters' clients, and behind
`source.cluster.` and `target.cluster.` nothing else does: `source.cluster.max.poll.records` is named as doing nothing.

What becomes of a key that is not of these tables, of Connect's own and of every property of Kafka's clients, stands
[at the end](#what-becomes-of-other-keys).
"""
_TABLE = "| Key | Type | Default | Valid | Meaning |\n| --- | --- | --- | --- | --- |\n"


def definition_json(kind: str) -> Json:
    """Returns one connector's definition, in the form that the shim reads."""
    chosen = KINDS[kind]
    return {
        "kind": chosen.kind,
        "connector_class": chosen.connector_class,
        "version": VERSION,
        "keys": [key.json() for key in chosen.definition.keys.values()],
        "forbidden": [rule.json() for rule in chosen.definition.forbidden],
        "secret_names": secret_names.exported(),
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
