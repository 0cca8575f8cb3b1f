"""Trees of all files are a million objects, which slow down whatever is tested later."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.repository.parsing import nodes, parse


@pytest.fixture(scope="package", autouse=True)
def _forgotten() -> Iterator[None]:
    yield
    nodes.cache_clear()
    parse.cache_clear()
