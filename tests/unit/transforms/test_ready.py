"""drop_where and mask_fields."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.transforms import drop_where, mask_fields
from bridge.transforms.contract import call, checked, nothing
from tests.unit.transforms.values import batch


def masked(value: bytes | None, fields: str = "email", **parameters: str) -> bytes | None:
    given_ = batch([value])
    (validated,) = (
        checked(given_, mask_fields(given_, fields=fields, **parameters)).column("value").to_pylist()
    )
    return validated  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b'{"email": "a@b.c", "n": 1.10}', b'{"email":"","n":1.10}'),
        (b'{"email": 12345678901234567890123}', b'{"email":0}'),
        (b'{"email": -1.5e3}', b'{"email":0}'),
        (b'{"email": true}', b'{"email":false}'),
        (b'{"email": [1]}', b'{"email":[]}'),
        (b'{"email": {"a": 1}}', b'{"email":{}}'),
        (b'{"email": null}', b'{"email": null}'),
        (b'{"\\u0065mail": "a@b.c"}', b'{"email":""}'),
        (b'{"email": "a@b.c", "email": "d"}', b'{"email":""}'),
        (b' {"other" : 1 } ', b' {"other" : 1 } '),
        (b'[{"email": "a"}, {"x": 1.0}, 7]', b'[{"email":""},{"x": 1.0},7]'),
        (b"[1, 2]", b"[1, 2]"),
        (None, None),
    ],
)
def test_masked_fields_are_what_stock_leaves_of_them_and_all_else_stays(
    value: bytes | None, expected: bytes | None
) -> None:
    assert masked(value) == expected


def test_a_replacement_takes_the_place_of_texts_and_numbers() -> None:
    assert masked(b'{"email": "a@b.c", "n": 1}', "email,n", replacement="7") == b'{"email":"7","n":7}'
    assert masked(b'{"email": "a@b.c"}', replacement='*"*') == b'{"email":"*\\"*"}'
    assert masked(b'{"email": 17}', replacement="99") == b'{"email":99}'
    assert masked(b'{"email": null}', replacement="***") == b'{"email": null}'
    for value, why in (
        (b'{"email": 17}', "the field email is a number, and the replacement \\*\\*\\* is not a number"),
        (b'{"email": [1]}', "the field email is a list"),
        (b'{"email": false}', "the field email is a boolean"),
    ):
        with pytest.raises(ValueError, match=why):
            masked(value, replacement="***")


def test_paths_lead_into_objects_and_through_lists() -> None:
    value = b'{"a":{"b":"x","c":1.0},"l":[{"b":"y"},3,[{"b":"z"}]],"d.e":"q"}'
    assert masked(value, "a.b") == b'{"a":{"b":"","c":1.0},"l":[{"b":"y"},3,[{"b":"z"}]],"d.e":"q"}'
    assert masked(value, "l.b") == b'{"a":{"b":"x","c":1.0},"l":[{"b":""},3,[{"b":""}]],"d.e":"q"}'
    assert masked(value, "`d.e`") == b'{"a":{"b":"x","c":1.0},"l":[{"b":"y"},3,[{"b":"z"}]],"d.e":""}'
    assert masked(value, "a,a.b") == masked(value, "a.b,a")
    assert masked(value, "a.b.c,a.x,none") == value


@pytest.mark.parametrize(
    "value", [b"", b" ", b"not JSON", b'"text"', b"{", b'{"email": "a"} x', b'{"a": nul}', b"\xff"]
)
def test_what_is_no_json_object_is_an_error_that_does_not_tell_what_it_is(value: bytes) -> None:
    with pytest.raises(ValueError, match=r"JSON|empty|truncated|utf-8") as caught:
        masked(value)
    assert value.strip() in (b"", b"{", b"\xff") or value.decode() not in str(caught.value)


def test_keys_can_be_masked_too() -> None:
    given_ = batch([b"no JSON"], [b'{"email":"a"}'])
    assert mask_fields(given_, fields="email", column="key").column("key").to_pylist() == [b'{"email":""}']


PATHS = ("a", "a.b", "b", "c.a")
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=4),
    max_leaves=12,
)


def expected(value: object, path: Sequence[str]) -> object:
    if isinstance(value, list):
        return [expected(each, path) for each in value]
    if not isinstance(value, dict) or path[0] not in value:
        return value
    old = value[path[0]]
    if len(path) > 1:
        return {**value, path[0]: expected(old, path[1:])}
    empty: object = next(
        (
            blank
            for kind, blank in ((bool, False), (str, ""), (list, []), (dict, {}))
            if isinstance(old, kind)
        ),
        0,
    )
    return {**value, path[0]: None if old is None else empty}


@given(st.dictionaries(st.sampled_from("abcd"), JSON), st.sets(st.sampled_from(PATHS), min_size=1))
def test_as_another_parser_sees_it_just_the_fields_are_masked(
    value: dict[str, object], paths: set[str]
) -> None:
    document: object = value
    for path in sorted(paths, key=len, reverse=True):
        document = expected(document, path.split("."))
    assert json.loads(masked(json.dumps(value).encode(), ",".join(paths)) or b"") == document


NAMES = ("a", "b", "email", "é", "a.b", "")
TEXTS = (
    b'"',
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b" ",
    b"\n",
    b"0",
    b"-",
    b".",
    b"e",
    b"tru",
    b"null",
    b"\xff",
)
DOCUMENTS = st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=2), JSON, max_size=5)
LEFT = [{}, {"replacement": "*"}, {"replacement": "7"}]


@st.composite
def documents(draw: st.DrawFn) -> bytes:
    """JSON in several ways of writing it, and what is nearly JSON."""
    blanks = draw(st.sampled_from([(",", ":"), (", ", ": "), (" ,\n", "\t: ")]))
    text = json.dumps(
        draw(DOCUMENTS),
        separators=blanks,
        ensure_ascii=draw(st.booleans()),
        indent=draw(st.sampled_from([None, 1])),
    ).encode()
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
        at, removed = draw(st.integers(0, len(text))), draw(st.integers(0, 2))
        text = text[:at] + draw(st.sampled_from(TEXTS) | st.binary(max_size=2)) + text[at + removed :]
    return text


def one_by_one(text: bytes, fields: str, parameters: dict[str, str]) -> bytes | None:
    """By json_paths, which compiled masks come beside; None for what can't be masked."""
    # A place inside of another value has everything looked at one by one; there is none of the second name.
    try:
        return masked(text, f"{fields},none such.x", **parameters)
    except ValueError:
        return None


@given(
    st.lists(documents() | st.none(), min_size=1, max_size=4),
    st.sampled_from(["email", "a,email", "`a.b`,é,b"]),
    st.sampled_from(LEFT),
)
def test_compiled_masks_come_to_the_same_bytes(
    texts: list[bytes | None], fields: str, parameters: dict[str, str]
) -> None:
    one_by_one_ = [None if text is None else one_by_one(text, fields, parameters) for text in texts]
    sound = [text for text, each in zip(texts, one_by_one_, strict=True) if text is None or each is not None]
    result = mask_fields(batch(sound), fields=fields, **parameters).column("value").to_pylist()
    assert result == [
        each for text, each in zip(texts, one_by_one_, strict=True) if text is None or each is not None
    ]
    for text, each in zip(texts, one_by_one_, strict=True):
        if text is not None and each is None:
            with pytest.raises(ValueError, match=r"JSON|empty|truncated|utf-8|field"):
                mask_fields(batch([b"{}", text, None]), fields=fields, **parameters)


@pytest.mark.parametrize(
    "text",
    [
        b'{"email":"' + b"x" * 40 + b'","n":' + b"[" * 80 + b"]" * 80 + b"}",
        b"{" + b",".join(b'"k%d":%d' % (n, n) for n in range(80)) + b',"email":"x"}',
        b'{"e":"\\ud83d\\ude00","f":"\\u00e9\\n","email":"x"}',
        b'{"n":[1e5,-0,0.0,1E+05,-12.5e-3,123456789012345678901234567890],"email":"x"}',
        b'{"k":1,"k":2,"email":"x"}',
        b"",
    ],
)
def test_what_is_seldom_is_masked_in_the_same_way(text: bytes) -> None:
    expected = one_by_one(text, "email", {})
    if expected is None:
        with pytest.raises(ValueError, match=r"."):
            masked(text)
    else:
        assert masked(text) == expected


def test_a_part_of_a_batch_is_masked_too() -> None:
    given_ = batch([b'{"email":"a"}', b'{"email":"b"}', b'{"x":1}', None]).slice(1)
    assert mask_fields(given_, fields="email").column("value").to_pylist() == [
        b'{"email":""}',
        b'{"x":1}',
        None,
    ]


def left(given_: pa.RecordBatch, **parameters: str) -> list[int]:
    offsets = call(drop_where, parameters, given_).column("offset").to_pylist()
    return [offset - 10 for offset in offsets]


ORDERS = [b'{"country":"DE","n":1}', b'{"country":"FR","n":2}', b'{"n":2}', None]


@pytest.mark.parametrize(
    ("parameters", "stay"),
    [
        ({"field": "country", "equals": "DE,AT"}, [1, 2, 3]),
        ({"field": "country", "equals": "DE", "negate": "true"}, [0]),
        ({"field": "country"}, [2, 3]),
        ({"field": "n", "equals": "2"}, [0, 3]),
        ({"field": "country", "matches": "D.*|X"}, [1, 2, 3]),
        ({"column": "value", "negate": "true"}, [0, 1, 2]),
        ({"column": "key", "matches": "key-[02]"}, [1, 3]),
    ],
)
def test_records_are_dropped_by_fields_keys_and_values(parameters: dict[str, str], stay: list[int]) -> None:
    assert left(batch(ORDERS), **parameters) == stay


def test_records_are_dropped_by_headers() -> None:
    given_ = batch(
        [b"a", b"b", b"c", b"d"],
        headers=[[("test", b"yes")], [], [("x", b"1"), ("test", None), ("test", b"no")], [("x", b"yes")]],
    )
    assert left(given_, header="test") == [1, 3]
    assert left(given_, header="test", equals="no") == [0, 1, 3]
    assert left(given_, header="test", negate="true") == [0, 2]
    assert left(given_.slice(1, 2), header="test") == [1]


@pytest.mark.parametrize(
    ("parameters", "why"),
    [
        ({}, "give one of field, header and column"),
        ({"field": "a", "header": "b"}, "give one of field, header and column"),
        ({"field": "a", "equals": "b", "matches": "c"}, "give equals or matches"),
        ({"field": "a", "matches": "("}, "is not a regular expression"),
        ({"field": "a..b"}, "is no path"),
        ({"field": "`a"}, "is no path"),
        ({"column": "offset"}, "column is offset; it must be key or value"),
        ({"field": "a", "negate": "yes"}, "negate is yes"),
    ],
)
def test_wrong_parameters_of_drop_where_are_seen_without_a_record(
    parameters: dict[str, str], why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        call(drop_where, parameters, nothing())


@pytest.mark.parametrize(
    ("parameters", "why"),
    [
        ({"fields": ""}, "fields is empty"),
        ({"fields": "a,,b"}, "is no path"),
        ({"fields": "a", "column": "topic"}, "column is topic; it must be value or key"),
    ],
)
def test_wrong_parameters_of_mask_fields_are_seen_without_a_record(
    parameters: dict[str, str], why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        call(mask_fields, parameters, nothing())
