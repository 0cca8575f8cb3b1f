"""The generated files are what the code says; every key is fit to be shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bridge.kafka.config.property_names import rows
from connectors.export import (
    MARKDOWN,
    SHIM_RESOURCES,
    definition_json,
    definition_text,
    export_definitions,
    keys_markdown,
)
from connectors.registry import KINDS

ROOT = Path(__file__).parents[3]
CLIENTS = list(rows())


@pytest.mark.parametrize("kind", KINDS)
def test_the_shims_definition_has_not_drifted(kind: str) -> None:
    text = (ROOT / SHIM_RESOURCES / f"{kind}.json").read_text(encoding="utf-8")
    assert text == definition_text(kind), "run: mirror-bridge definitions"


def test_the_table_of_keys_has_not_drifted() -> None:
    assert (ROOT / MARKDOWN).read_text(encoding="utf-8") == keys_markdown(CLIENTS), (
        "run: mirror-bridge definitions"
    )


@pytest.mark.parametrize("kind", KINDS)
def test_the_json_has_the_shims_form(kind: str) -> None:
    definition = json.loads(definition_text(kind))
    assert set(definition) == {"kind", "connector_class", "version", "keys", "forbidden", "secret_names"}
    package = "org.apache.kafka.connect.mirror" if kind == "group_offset" else "dev.mirrorbridge"
    assert definition["connector_class"].rpartition(".")[0] == package
    fields = {
        *("name", "type", "required", "default", "importance", "documentation", "group", "order", "width"),
        *("display_name", "validator", "recommended", "secret"),
    }
    for key in definition["keys"]:
        assert set(key) == fields
        assert key["default"] is None or isinstance(key["default"], str)
        assert not (key["required"] and key["default"] is not None)
        assert key["documentation"]
        assert key["group"]
        assert key["secret"] is (key["type"] == "PASSWORD")
        assert key["type"] != "CLASS", "the worker would try to load it"


def test_rules_are_of_keys_that_are_there() -> None:
    for kind in KINDS.values():
        for rule in kind.definition.forbidden:
            assert {rule.key, *rule.unless} <= set(kind.definition.keys)
            assert rule.value != kind.definition.keys[rule.key].default_text


def test_groups_that_connectors_share_are_told_once() -> None:
    headings = [line for line in keys_markdown(CLIENTS).splitlines() if line.startswith("### ")]
    shared = {"### Mirror", "### Bridge", "### Source cluster", "### Target cluster"}
    assert all(headings.count(heading) == 1 for heading in shared)


def test_orders_count_up_within_a_group() -> None:
    for kind in KINDS.values():
        for group in kind.definition.groups:
            orders = [key.order for key in kind.definition.keys.values() if key.group == group]
            assert orders == list(range(1, len(orders) + 1))


def test_defaults_are_valid_themselves() -> None:
    for kind in KINDS.values():
        wrong = [
            error for error in kind.definition.validate({}).errors if "Missing required" not in error.message
        ]
        assert wrong == []


def test_exporting_writes_only_what_changed(tmp_path: Path) -> None:
    assert len(export_definitions(tmp_path, CLIENTS)) == len(KINDS) + 1
    assert export_definitions(tmp_path, CLIENTS) == []
    assert definition_json("group_offset")["kind"] == "group_offset"
