"""Dedicated mode with exactly its rights: each that only it needs is named before it is granted, and when it is taken
from the running flow; a node takes over from another one with the same rights. Connectors: tests/e2e/test_rights.py."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bridge.local import LocalStack
from tests.e2e.rights_of_others import NODE, DedicatedScenario
from tests.e2e.rights_scenario import RightsScenario


@pytest.fixture
def scenario(stack: LocalStack, tmp_path: Path) -> Iterator[RightsScenario]:
    made = RightsScenario.of(stack, tmp_path / "tls", [NODE])
    yield made
    made.end()


@pytest.mark.timeout(3600)
def test_rights_are_taken_from_a_running_flow(scenario: RightsScenario, tmp_path: Path) -> None:
    dedicated = DedicatedScenario.of(scenario, tmp_path)
    dedicated.stock_was_here()
    with dedicated.node("first") as first:
        dedicated.each_is_named_before_it_is_granted(first)
        dedicated.runs_on(first)
        dedicated.each_is_taken_from_the_running_flow(first)
    dedicated.another_takes_over()
