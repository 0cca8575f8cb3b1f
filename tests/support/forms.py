"""Which parameters and how many random examples of a test belong to the short form."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from _pytest.mark import ParameterSet

short_form = False
"""Whether what is marked `long` is left out; tests/conftest.py says so before tests are collected."""


def examples(short: int, whole: int) -> int:
    """How many random examples a test makes in this form."""
    return short if short_form else whole


def mostly_long(values: Iterable[Any], short: int = 1) -> list[Any]:
    """Returns values for `parametrize`: the first `short` of them are in both forms, the others in `make test-all`
    only. A tuple is one set of arguments."""
    return [value if number < short else _long(value) for number, value in enumerate(values)]


def _long(value: Any) -> ParameterSet:
    if isinstance(value, ParameterSet):
        return pytest.param(*value.values, marks=[*value.marks, pytest.mark.long], id=value.id)
    return pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=pytest.mark.long)
