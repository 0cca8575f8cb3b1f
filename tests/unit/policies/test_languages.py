"""Languages and patterns, held against Python's `re` over all short names."""

from __future__ import annotations

import itertools
import random
import re

import pytest

from bridge.policies.languages import Languages, TooComplex, Unprovable, read_pattern

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


def fitting(text: str) -> set[str]:
    return {word for word in WORDS if re.fullmatch(text, word)}


def test_a_pattern_fits_what_re_fits() -> None:
    dice = random.Random(0)
    for text in (random_pattern(dice) for _ in range(150)):
        languages = Languages()
        whole = read_pattern(text, languages).whole
        words = fitting(text)
        assert {word for word in WORDS if languages.holds(whole, word)} == words, text
        shortest = languages.shortest(whole)
        assert shortest is not None, text
        assert re.fullmatch(text, shortest), (text, shortest)
        assert len(shortest) <= min(map(len, words), default=len(shortest)), text
        complement = languages.complement(whole)
        assert not any(languages.holds(complement, word) for word in words), text


def test_intersections_quotients_and_emptiness() -> None:
    dice = random.Random(0)
    for one, other in ((random_pattern(dice, 2), random_pattern(dice, 2)) for _ in range(80)):
        languages = Languages()
        first, second = (read_pattern(text, languages).whole for text in (one, other))
        both, less = languages.intersection(first, second), languages.without(first, second)
        expected = fitting(one) & fitting(other), fitting(one) - fitting(other)
        for language, words in zip((both, less), expected, strict=True):
            assert {word for word in WORDS if languages.holds(language, word)} == words, (one, other)
            assert not words or languages.shortest(language) is not None, (one, other)
        for text in ("a", "b."):
            after, before = languages.after(first, text), languages.before(first, text)
            for word in WORDS:
                assert languages.holds(after, word) == bool(re.fullmatch(one, text + word)), (one, word)
                assert languages.holds(before, word) == bool(re.fullmatch(one, word + text)), (one, word)


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
