"""Which files, parameters and random examples of the tests belong to the short form."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from _pytest.mark import ParameterSet

short_form = False
"""Whether what is marked `long` is left out; tests/conftest.py says so before tests are collected."""

_WHOLLY_LONG = re.compile(r"^pytestmark = pytest\.mark\.long$", re.MULTILINE)

Number = TypeVar("Number", int, float)


def is_wholly_long(file: Path) -> bool:
    """Whether no test of a file belongs to the short form, without importing what the file imports."""
    return _WHOLLY_LONG.search(file.read_text("utf-8")) is not None


def examples(short: Number, whole: Number) -> Number:
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
