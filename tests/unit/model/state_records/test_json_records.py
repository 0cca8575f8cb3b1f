"""State records that are JSON: whatever is not of the expected type and range is named, and nothing else escapes."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.model.state_records.fields import SchemaError, flag, number, read_object, text
from tests.support.messages import message_pattern

DEEP = b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (None, "no value: it is null"),
        (b"", "no value: it is not JSON"),
        (b"\xff\xfe\x00", "no value: it is not JSON"),
        (b"[1]", "no value: it is a list and no object"),
        (b"null", "no value: it is a NoneType and no object"),
        (DEEP, "no value: it is nested too deep"),
        (b'{"a":' + b"9" * 5000 + b"}", "no value: it is not JSON"),
    ],
)
def test_what_is_no_object_is_named(value: bytes | None, why: str) -> None:
    with pytest.raises(SchemaError) as caught:
        read_object(value, "value")
    assert str(caught.value) == why


@pytest.mark.parametrize("value", ['"1"', "1.0", "true", "null", "-2", "11", "[]", "NaN", "1e400"])
def test_a_number_is_a_whole_one_within_its_range(value: str) -> None:
    result = read_object(b'{"at": %s}' % value.encode(), "value")
    with pytest.raises(SchemaError, match=message_pattern("state.number", field="at", least=-1, most=10)):
        number(result, "at", -1, 10)


def test_a_number_at_either_end_of_its_range() -> None:
    result = {"least": -1, "most": 10}
    assert (number(result, "least", -1, 10), number(result, "most", -1, 10)) == (-1, 10)
    with pytest.raises(SchemaError, match=r"^missing is missing: a whole number"):
        number(result, "missing", 0, 1)


@pytest.mark.parametrize("value", [1, None, ["a"], {"a": 1}, True, "\ud800", "x" * 32768])
def test_a_text_is_one_that_can_be_written_again(value: object) -> None:
    result = read_object(json.dumps({"said": value}).encode(), "value")
    with pytest.raises(SchemaError, match=r"^said is "):
        text(result, "said")


def test_a_text_and_a_flag() -> None:
    result = read_object('{"said": "ja, größer", "on": false}'.encode(), "value")
    assert text(result, "said") == "ja, größer"
    assert flag(result, "on") is False
    for other in (0, "false", None):
        with pytest.raises(SchemaError, match=r"^on is "):
            flag({"on": other}, "on")
    with pytest.raises(SchemaError, match=r"^off is missing"):
        flag(result, "off")


def test_what_is_nested_nearly_too_deep_is_named_too() -> None:
    """Wherever in between the reader gives up."""
    for depth in range(900, 1000):
        with pytest.raises(SchemaError):
            number(read_object(b'{"at":' + b"[" * depth + b"]" * depth + b"}", "value"), "at", 0, 1)


def test_what_is_shown_of_a_wrong_value_is_short() -> None:
    with pytest.raises(SchemaError) as caught:
        number({"at": "x" * 100_000}, "at", 0, 1)
    assert len(str(caught.value)) < 200


@given(st.binary(max_size=64))
def test_any_bytes_are_read_or_refused(value: bytes) -> None:
    with suppress(SchemaError):
        assert isinstance(read_object(value, "value"), dict)
