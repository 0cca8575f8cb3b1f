"""Published configurations: what we say of each stands beside stock's answer, and why where they differ."""

from __future__ import annotations

import os

import pytest

from tests.contract.wild_configs import FOLDER, OURS, answers, names, record

MOST_OF_ONE_KIND = 20


def test_there_are_many_of_each_kind() -> None:
    assert all(len(names(kind)) >= MOST_OF_ONE_KIND for kind in OURS)


@pytest.mark.parametrize("kind", OURS)
def test_what_we_say_of_published_configurations(kind: str) -> None:
    """MIRROR_BRIDGE_ORACLES=record pytest … writes the table again: read what has changed."""
    said = {name: OURS[kind](name) for name in names(kind)}
    if os.environ.get("MIRROR_BRIDGE_ORACLES") == "record":
        record(kind, "ours", said)
    assert said == {name: answer["ours"] for name, answer in answers(kind).items()}


@pytest.mark.parametrize("kind", OURS)
def test_where_one_takes_what_the_other_refuses_the_table_says_why(kind: str) -> None:
    for name, answer in answers(kind).items():
        differs = bool(answer["stock"]) != bool(answer["ours"]["errors"])
        assert bool(answer.get("why")) is differs, (name, "needs a why" if differs else "needs no why")


def test_nothing_personal_is_in_them() -> None:
    for path in FOLDER.rglob("*"):
        if path.is_file():
            text = path.read_text("utf-8")
            assert "License" not in text, path
            assert "@" not in text, path
