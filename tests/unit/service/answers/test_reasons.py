"""Reasons: each is in the one table, which the page is made of, and those that follow from another come behind it."""

from __future__ import annotations

from pathlib import Path

from bridge.model.values import Reason
from bridge.protocol.readiness import Readiness
from bridge.service.answers.reasons import MARKS, PAGE, REASONS, reason, under_causes, with_reasons


def test_the_page_has_the_table_of_all_reasons() -> None:
    text = (Path(__file__).parents[4] / PAGE).read_text("utf-8")
    assert all(mark in text for mark in MARKS)
    assert text == with_reasons(text), "run: python -m bridge definitions"


def test_every_reason_of_a_verdict_is_in_the_table_with_an_answer_and_causes_that_are_too() -> None:
    assert {each.value for each in Reason} <= REASONS.keys()
    for code, known in REASONS.items():
        assert Readiness(known.answer), code
        assert known.means, code
        assert known.subject, code
        assert set(known.follows) <= REASONS.keys() - {code}


def test_what_follows_from_another_reason_comes_behind_it() -> None:
    codes = ["not_mirrored_yet", "target_ahead", "copying_stopped", "source_unreachable"]
    told = [(each.reason, each.follows_from) for each in under_causes(map(reason, codes))]
    assert told == [
        ("target_ahead", None),
        ("source_unreachable", None),
        ("copying_stopped", "source_unreachable"),
        ("not_mirrored_yet", "copying_stopped"),
    ]
    assert (
        under_causes([reason("newer"), reason("newer", "of another topic")])[1].detail == "of another topic"
    )
