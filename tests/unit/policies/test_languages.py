"""Languages and patterns, held against Python's `re` over all short names."""

from __future__ import annotations

import itertools
import random
import re

import pytest

from bridge.policies.languages import Languages, TooComplex
from bridge.policies.patterns import Unprovable, read_pattern

LETTERS = "ab."
WORDS = ["".join(each) for count in range(5) for each in itertools.product(LETTERS, repeat=count)]


def random_pattern(dice: random.Random, depth: int = 3) -> str:
    if depth == 0 or dice.random() < 0.3:
        return dice.choice(["a", "b", "\\.", ".", "[ab]", "[^a]", "\\w", "[a-b.]"])
    one, other = random_pattern(dice, depth - 1), random_pattern(dice, depth - 1)
    form = dice.choice(
        ["{}{}", "(?:{}|{})", "(?:{})*{}", "(?:{})?{}", "(?:{}){{1,2}}{}", "(?:{})+{}", "({}){}"]
    )
    return form.format(one, other)


@pytest.mark.parametrize("seed", range(150))
def test_a_pattern_fits_what_re_fits(seed: int) -> None:
    text = random_pattern(random.Random(seed))
    languages = Languages()
    whole = read_pattern(text, languages).whole
    fitting = [word for word in WORDS if re.fullmatch(text, word)]
    assert [word for word in WORDS if languages.holds(whole, word)] == fitting, text
    shortest = languages.shortest(whole)
    assert shortest is not None
    assert re.fullmatch(text, shortest), (text, shortest)
    assert len(shortest) <= min(map(len, fitting), default=len(shortest))
    assert not any(languages.holds(languages.complement(whole), word) for word in fitting)


@pytest.mark.parametrize("seed", range(80))
def test_intersections_quotients_and_emptiness(seed: int) -> None:
    dice = random.Random(seed)
    one, other = random_pattern(dice, 2), random_pattern(dice, 2)
    languages = Languages()
    first, second = (read_pattern(text, languages).whole for text in (one, other))
    both, less = languages.intersection(first, second), languages.without(first, second)
    for word in WORDS:
        fits = bool(re.fullmatch(one, word)), bool(re.fullmatch(other, word))
        assert languages.holds(both, word) == all(fits)
        assert languages.holds(less, word) == (fits == (True, False))
        for text in ("a", "b."):
            assert languages.holds(languages.after(first, text), word) == bool(re.fullmatch(one, text + word))
            assert languages.holds(languages.before(first, text), word) == bool(
                re.fullmatch(one, word + text)
            )
    if languages.shortest(both) is None:
        assert not any(re.fullmatch(one, word) and re.fullmatch(other, word) for word in WORDS)
    if languages.shortest(less) is None:
        assert all(re.fullmatch(other, word) for word in WORDS if re.fullmatch(one, word))


@pytest.mark.parametrize(
    ("text", "before", "behind"),
    [("(.*)", "", ""), ("a\\.(b|c)", "a.", ""), ("a-(.*)-b", "a-", "-b"), ("x(?:y)(z)", None, None)],
)
def test_the_group_between_fixed_texts_is_found(text: str, before: str | None, behind: str | None) -> None:
    pattern = read_pattern(text, Languages())
    if before is None:
        assert pattern.group is None
    else:
        assert (pattern.before, pattern.behind) == (before, behind)
        assert pattern.group is not None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("(", "a '(' without a ')'"),
        ("a)", "a ')' without a '('"),
        ("a{2", "a '{' without a '}'"),
        ("a{2,1}", "{2,1} is not a valid quantifier"),
        ("a{x}", "{x} is not a valid quantifier"),
        ("*a", "'*' at this place is not supported"),
        ("^a", "'^' at this place is not supported"),
        ("a$", "'$' at this place is not supported"),
        ("a*?", "'?' behind a quantifier is not supported"),
        ("a++", "'+' behind a quantifier is not supported"),
        ("(?=a)", "(?=…) is not supported"),
        ("(?<n>a)", "(?<…) is not supported"),
        ("\\1", "\\1 is not supported"),
        ("\\Qa\\E", "\\Q is not supported"),
        ("a\\", "it ends with a backslash"),
        ("[a", "a character class that is not supported"),
        ("[a&&b]", "a character class that is not supported"),
        ("[b-a]", "an invalid range of characters"),
        ("a b", "' ' is in no topic's name"),
        ("a{201}", "more than 200 characters"),
        ("(a{20}){20}", "more than 200 characters"),
    ],
)
def test_what_is_no_pattern_is_named(text: str, why: str) -> None:
    with pytest.raises(Unprovable) as raised:
        read_pattern(text, Languages())
    assert why in str(raised.value)


def test_a_proof_ends() -> None:
    languages = Languages(most=2_000)
    hard = "(a|b)*a(a|b){40}"
    with pytest.raises(TooComplex):
        languages.shortest(
            languages.without(
                read_pattern(hard, languages).whole, read_pattern(f"({hard})b?", languages).whole
            )
        )
