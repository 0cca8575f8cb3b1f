"""Slices that pass through Spark as bytes."""

from __future__ import annotations

import pickle

import pytest

from bridge.pipeline.layouts.slots import Slice
from bridge.pipeline.queries.sealing import new_key, seal, unseal
from tests.unit.pipeline.values import spec


def test_a_sealed_slice_shows_nothing_and_comes_back_whole() -> None:
    given = spec(props={"target.cluster.sasl.password": "planted"})
    work, key = Slice(given, 3, 1, 60.0, [], []), new_key()
    sealed = seal(work, key)
    assert b"planted" not in sealed
    assert b"sasl" not in sealed
    assert unseal(sealed, key) == work
    assert seal(work, key) != sealed, "no two are alike"


def test_what_was_not_sealed_by_our_driver_is_not_unpickled() -> None:
    sealed = seal(Slice(spec(), 3, 1, 60.0, [], []), new_key())
    for wrong in (sealed, sealed[:-1], pickle.dumps("code"), b""):
        with pytest.raises(ValueError, match="no driver of ours"):
            unseal(wrong, new_key())
