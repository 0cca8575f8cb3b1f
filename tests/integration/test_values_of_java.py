"""Values, .properties files and JSON of configurations, thousands of them at random, against Kafka's ConfigDef,
java.util.Properties and Connect's own reader."""

from __future__ import annotations

import base64
import hashlib
import math
import random
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from bridge.connector_files import load_connector
from bridge.java_properties import PropertiesProblem, load_properties
from bridge.kafka.config.property_names import NUMBERS
from connectors.config.configdef import Password, Type, Unparsable, parse
from connectors.registry import KINDS
from tests.support.java import RECORDED_OR_LIVE, Field, Oracle

VALUES, FILES, DOCUMENTS = 5000, 1500, 500
REFUSED, NOTHING = "!", "()"

Question = Sequence[Field]


@pytest.fixture(scope="module", params=RECORDED_OR_LIVE)
def oracle(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Oracle:
    source, classes = Path(__file__).with_name("ValuesOfJava.java"), tmp_path_factory.mktemp("classes")
    return Oracle(source, classes, "ValuesOfJava", live=request.param == "live")


def differences(
    oracle: Oracle, questions: Sequence[Question], ours: Callable[[Question], str]
) -> list[tuple[Question, str, str]]:
    """Returns the questions that have another answer of ours, with both: the program's own, or its digest where it is
    looked up."""
    text = "".join("\t".join(map(_encoded, question)) + "\n" for question in questions)
    shown: Callable[[str], str] = str if oracle.live else _digest
    answers = oracle.run(text, "show" if oracle.live else "digest").split()
    both = zip(questions, answers, map(ours, questions), strict=True)
    return [(question, java, own) for question, java, own in both if java != shown(own)]


def _encoded(field: Field) -> str:
    if field is None:
        return "-"
    return "+" + base64.b64encode(field.encode() if isinstance(field, str) else field).decode()


def _digest(answer: str) -> str:
    return base64.b64encode(hashlib.sha256(answer.encode()).digest()[:3]).decode()


# -- what is asked ----------------------------------------------------------------------------------------------------

BLANKS = " \t\n\r\f\v\0\x01\x1f\x7f\x85\xa0\u1680\u2003\u2028\u200b\u3000\ufeff"
"""Those that Java's trim() takes away, and others that look like it or that Python's strip() takes."""
PIECES = (
    *(
        "true",
        "false",
        "TRUE",
        "tRuE",
        "fal\u017fe",
        "yes",
        "on",
        "1",
        "0",
        "source",
        "a",
        "B",
        "topic.*",
        "h:9092",
    ),
    *(
        ",",
        ",,",
        " , ",
        ",\t",
        "\x01,",
        ",\xa0",
        ";",
        ":",
        "=",
        "#",
        "!",
        "-",
        "+",
        "_",
        ".",
        "|",
        "$",
        "${env:A}",
    ),
    *(
        '"',
        "'",
        '"a"',
        "\\",
        "\\n",
        "\\u0041",
        "\\,",
        "é",
        "ß",
        "İ",
        "日本",
        "\U0001f600",
        "e\u0301",
        " ",
        "\t",
        "\n",
    ),
    *(
        "NaN",
        "nan",
        "Infinity",
        "inf",
        "0x1p3",
        "1e3",
        "1d",
        "1f",
        "1L",
        "0x10",
        "1_000",
        "\uff11",
        "\u0663",
        "²",
    ),
)
ZEROS = "00000000000\uff10\u0660\u0966\U0001d7ce"
"""Of digits as they are, mostly, of other scripts, and of some beyond U+FFFF."""
FLOATS = (
    *(
        "",
        "d",
        "D",
        "f",
        "F",
        "L",
        "e",
        "e1",
        "E+12",
        "e-3",
        "e400",
        "e-400",
        "e99999999999",
        "dd",
        ".",
        ".5",
        "5.e2f",
    ),
    *(
        "0x1p3",
        "0X.8P-2",
        "0x1.8p+1d",
        "0x1.",
        "0xp1",
        "0x1p99999",
        "0x1p-99999",
        "0x1.fffffffffffff8p0",
        "e\uff11",
    ),
)


def some_value(rng: random.Random, kind: str) -> str | None:
    if rng.random() < 0.02:
        return None
    numeric = kind in ("INT", "LONG", "SHORT", "DOUBLE")
    body = _number(rng, kind) if numeric and rng.random() < 0.8 else _text(rng, kind)
    return _some_blanks(rng) + body + _some_blanks(rng)


def _some_blanks(rng: random.Random) -> str:
    return "".join(rng.choices(BLANKS if rng.random() < 0.5 else " \t", k=rng.choice((0, 0, 0, 1, 1, 2))))


def _number(rng: random.Random, kind: str) -> str:
    bits = {"SHORT": 16, "INT": 32}.get(kind, 64)
    near = (1 << (bits - 1)) + rng.randrange(-2, 3)
    size = rng.choice((near, near, rng.randrange(10), rng.randrange(100_000), rng.getrandbits(bits + 2)))
    digits = rng.choice(("", "", "0", "0" * 30)) + str(size)
    zero = ord(rng.choice(ZEROS))
    text = "".join(chr(zero + int(digit)) for digit in digits)
    if kind == "DOUBLE" or rng.random() < 0.05:
        text += rng.choice(FLOATS)
    return rng.choice(("", "", "", "+", "-", "-", "--", "+-", "\u2212")) + text


def _text(rng: random.Random, kind: str) -> str:
    if kind == "BOOLEAN" and rng.random() < 0.7:
        return "".join(
            rng.choice((each, each.upper())) for each in rng.choice(("true", "false", "fal\u017fe"))
        )
    least = 1 if kind == "BOOLEAN" else 0
    return "".join(rng.choices(PIECES, k=rng.randrange(least, 6)))


def key_types() -> dict[str, str]:
    """Returns the types of the keys that connectors and clients have here."""
    types = {name: number.kind for name, number in NUMBERS.items()}
    for kind in KINDS.values():
        types |= {name: key.type.value for name, key in kind.definition.keys.items()}
    return types


def test_values(oracle: Oracle) -> None:
    """A key has Kafka's type, and a text of it the same value, or none in both."""
    rng = random.Random(4316)
    types = key_types() | {f"of type {each}": each.value for each in Type if each is not Type.CLASS}
    names = {kind: [name for name, each in types.items() if each == kind] for kind in types.values()}
    questions: list[Question] = []
    for _ in range(VALUES):
        kind = rng.choice(sorted(names))
        questions.append(("value", rng.choice(names[kind]), kind, some_value(rng, kind)))
    assert not differences(oracle, questions, _our_value)


def _our_value(question: Question) -> str:
    _, _, kind, text = question
    assert isinstance(kind, str)
    if text is None:
        return f"{kind}:null"
    assert isinstance(text, str)
    try:
        return f"{kind}:{_shown(parse(Type(kind), text))}"
    except Unparsable:
        return f"{kind}:{REFUSED}"


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return struct.pack(">d", math.nan if math.isnan(value) else value).hex()
    if isinstance(value, tuple):
        return "[" + ",".join(map(_shown, value)) + "]"
    if isinstance(value, Password):
        return _shown(value.value)
    return (
        f"'{''.join(_units(value))}'" if isinstance(value, str) else "null" if value is None else str(value)
    )


def _units(text: str) -> Iterator[str]:
    for (unit,) in struct.iter_unpack(">H", text.encode("utf-16-be")):
        yield chr(unit) if unit < 128 and chr(unit).isalnum() else f"<{unit:04x}>"


def _properties(read: Mapping[str, str]) -> str:
    in_order = sorted(read.items(), key=lambda each: each[0].encode("utf-16-be"))
    return ",".join(f"{_shown(key)}={_shown(value)}" for key, value in in_order) or NOTHING


# -- files ------------------------------------------------------------------------------------------------------------

TOKENS: tuple[bytes, ...] = (
    *(
        b"a",
        b"b",
        b"key",
        b"value",
        b"topics",
        b"\\",
        b"\\\\",
        b"\\\n",
        b"\\\r\n",
        b"\\\r",
        b"\n",
        b"\n",
        b"\r\n",
        b"\r",
    ),
    *(
        b"=",
        b":",
        b" = ",
        b" : ",
        b" ",
        b"\t",
        b"\f",
        b"  ",
        b"#",
        b"!",
        b"# ",
        b"\n#",
        b"\n!",
        b"\n \t\f",
        b'"',
        b"'",
    ),
    *(
        b"\\t",
        b"\\n",
        b"\\r",
        b"\\f",
        b"\\q",
        b"\\ ",
        b"\\=",
        b"\\:",
        b"\\#",
        b"\\u0041",
        b"\\u00e9",
        b"\\uABCD",
    ),
    *(b"\\ud83d\\ude00", b"\\u000a", b"\\u0020", b"\xe9", "é日".encode(), b"\x85", b"\xa0"),
    *(b"\0", b"\x01", b"\x0b", b"\x1a", b"\x1c", b"\x7f", b",", b"${file:/a:b}", b"1", b"\xef\xbb\xbf"),
)
MALFORMED = (b"\\u", b"\\u12", b"\\uabcg", b"\\U0041")


def some_file(rng: random.Random) -> bytes:
    tokens = rng.choices(TOKENS, k=rng.randrange(40))
    if rng.random() < 0.1:
        tokens.insert(rng.randrange(len(tokens) + 1), rng.choice(MALFORMED))
    return b"".join(tokens)


def test_files(oracle: Oracle, tmp_path: Path) -> None:
    """Escapes, lines that go on, separators, comments, all ends of lines, and any bytes."""
    rng, path = random.Random(4317), tmp_path / "mm2.properties"

    def ours(question: Question) -> str:
        assert isinstance(question[1], bytes)
        path.write_bytes(question[1])
        try:
            return _properties(load_properties(path))
        except PropertiesProblem:
            return REFUSED

    assert not differences(oracle, [("properties", some_file(rng)) for _ in range(FILES)], ours)


# -- JSON -------------------------------------------------------------------------------------------------------------

SCALARS = (
    *(
        "0",
        "-0",
        "7",
        "1.0",
        "1.50",
        "1e3",
        "1E+2",
        "-2.5e-3",
        "1e400",
        "12345678901234567890",
        "0.1000",
        "true",
    ),
    *(
        "false",
        "null",
        '""',
        '" a\\t"',
        '"\\u00e9\\ud83d\\ude00"',
        '"日本"',
        '"1"',
        '"true"',
        '"a,b"',
        '"\\"q\\""',
    ),
)
NO_VALUES = (
    "[]",
    '["a"]',
    "{}",
    '{"a": 1}',
    "NaN",
    "Infinity",
    "-Infinity",
    "01",
    "1.",
    ".5",
    "+1",
    "True",
    "'a'",
    "1d",
)


def some_document(rng: random.Random) -> str:
    def members() -> Iterator[str]:
        for _ in range(rng.randrange(1, 6)):
            key = rng.choice(("topics", "tasks.max", "groups", "é", " k "))
            yield f'"{key}"{rng.choice((":", " : "))}{rng.choice(SCALARS)}'
        if rng.random() < 0.2:
            yield f'"wrong": {rng.choice(NO_VALUES)}'

    return "{" + ",".join(members()) + "}"


def test_documents(oracle: Oracle, tmp_path: Path) -> None:
    """A number is the text that was written. A key given as null counts as not given."""
    rng, path = random.Random(4318), tmp_path / "connector.json"

    def ours(question: Question) -> str:
        text = question[1]
        assert isinstance(text, str)
        path.write_text(text, "utf-8")
        try:
            return _properties(load_connector(path))
        except PropertiesProblem:
            return REFUSED

    assert not differences(oracle, [("json", some_document(rng)) for _ in range(DOCUMENTS)], ours)
