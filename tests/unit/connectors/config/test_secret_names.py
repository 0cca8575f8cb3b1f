"""Which keys are named like secrets: one answer for validation, plugins, the service's policy and the shim."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from connectors.config.client_keys import looks_secret

NAMES = json.loads((Path(__file__).parents[3] / "contract" / "secret_names.json").read_text())
"""Of `secret` keys and `plain` ones; DefinitionTest.java reads it too."""


@pytest.mark.parametrize("key", NAMES["secret"])
def test_keys_that_are_named_like_secrets(key: str) -> None:
    assert looks_secret(key)


@pytest.mark.parametrize("key", NAMES["plain"])
def test_keys_that_are_not(key: str) -> None:
    assert not looks_secret(key)
