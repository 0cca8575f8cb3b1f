"""The definitions as files: JSON for the Java shim, a Markdown table for people. A test fails on drift."""

from __future__ import annotations

import json
from pathlib import Path

from bridge import VERSION
from connectors.configdef import Key
from connectors.registry import KINDS
from connectors.validators import Json

SHIM_RESOURCES = Path("java-shim/src/main/resources/dev/mirrorbridge")
MARKDOWN = Path("docs/configuration.md")

_HEAD = """# Configuration

Every key of the connector JSON, from the one definition in `connectors/`. This file is generated
(`mirror-bridge definitions`); a test fails when it differs from the code.

Connect's own keys (`name`, `connector.class`, `tasks.max`, converters, `transforms`, `errors.*`, ...) work as
for every source connector and are not listed. Any Kafka client property may be given under the prefixes that
MirrorMaker has: `source.cluster.*` and `target.cluster.*` (connection and security), overridden by `admin.*`
and `source.admin.*` / `target.admin.*` for group and topic look-ups, and by `consumer.*` and
`source.consumer.*` / `target.consumer.*` for reading records. A property that the service can't honour is an
error that names it. As in MirrorMaker, `security.protocol`, `ssl.*` and `sasl.*` without a prefix do not
reach the clusters' clients.
"""
_TABLE = "| Key | Type | Default | Valid | Meaning |\n| --- | --- | --- | --- | --- |\n"

_TABLE = "| Key | Type | Default | Valid | Meaning |\n| --- | --- | --- | --- | --- |\n"


def definition_json(kind: str) -> Json:
    """One connector's definition, in the form that the shim reads."""
    found = KINDS[kind]
    return {
        "kind": found.kind,
        "connector_class": found.connector_class,
        "version": VERSION,
        "keys": [key.json() for key in found.definition.keys.values()],
    }


def definition_text(kind: str) -> str:
    return json.dumps(definition_json(kind), indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def export_definitions(target: Path) -> list[Path]:
    """Writes all generated files below `target`, the root of the repository; returns those that changed."""
    texts = {target / SHIM_RESOURCES / f"{kind}.json": definition_text(kind) for kind in KINDS}
    texts[target / MARKDOWN] = keys_markdown()
    changed = []
    for path, text in texts.items():
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        changed.append(path)
    return changed


def keys_markdown() -> str:
    """A table of all keys, by connector and group."""
    parts = [_HEAD]
    for kind in KINDS.values():
        parts.append(f"\n## {kind.connector_class.rpartition('.')[2]}\n")
        for group in kind.definition.groups:
            parts.append(f"\n### {group}\n\n{_TABLE}")
            parts.extend(_row(key) for key in kind.definition.keys.values() if key.group == group)
    return "".join(parts)


def _row(key: Key) -> str:
    default = "**required**" if key.required else f"`{key.default_text}`" if key.default_text else ""
    valid = _valid(key.validator.json()) if key.validator else ""
    cells = (f"`{key.name}`", key.type.value, default, valid, key.documentation)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def _valid(rule: Json) -> str:
    match rule:
        case {"kind": "range", "min": low, "max": None}:
            return f"≥ {low}"
        case {"kind": "range", "min": low, "max": high}:
            return f"{low} to {high}"
        case {"kind": "in", "values": [*values]}:
            return ", ".join(f"`{value}`" for value in values)
        case {"kind": "pattern_list"}:
            return "names and Java regexes"
        case {"kind": "url"}:
            return "http or https URL"
    return (
        "not empty"
        if rule.get("kind") == "non_empty" or rule.get("allow_empty") is False
        else "no duplicates"
    )
