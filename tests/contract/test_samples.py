"""Every message of the HTTP contract has a sample that both sides read: pytest here, JUnit in java-shim.

`Message.json` has every field; `Message.variant.json` is another case of it. `.minimal` leaves out what has a
default, `.newer` has fields of a later version, which must not disturb.
"""

from __future__ import annotations

import json
from dataclasses import is_dataclass
from pathlib import Path

import pytest
from pydantic import TypeAdapter, ValidationError

from bridge.errors import ErrorCode
from bridge.protocol import messages, operators
from bridge.protocol.messages import Message

SAMPLES = Path(__file__).parent / "samples"
FILES = sorted(SAMPLES.glob("*.json"))
MESSAGES: dict[str, TypeAdapter[object]] = {
    name: TypeAdapter(member)
    for name, member in {**vars(messages), **vars(operators)}.items()
    if isinstance(member, type) and (issubclass(member, Message) or is_dataclass(member))
    if member is not Message
}


def _message(path: Path) -> TypeAdapter[object]:
    return MESSAGES[path.name.split(".")[0]]


@pytest.mark.parametrize("name", sorted(MESSAGES))
def test_every_message_has_a_sample_with_every_field(name: str) -> None:
    sample = json.loads((SAMPLES / f"{name}.json").read_text(encoding="utf-8"))
    assert set(sample) == set(MESSAGES[name].json_schema()["properties"])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_sample_is_of_a_message_and_round_trips(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    message = _message(path).validate_json(text)
    again = _message(path).dump_json(message, exclude_unset=True)
    assert _message(path).validate_json(again) == message
    if ".newer." in path.name:
        # A sample of a later version has a field that this one lacks.
        assert json.loads(again) != json.loads(text)
    else:
        assert json.loads(again) == json.loads(text)


@pytest.mark.parametrize("code", list(ErrorCode))
def test_every_error_code_has_a_sample(code: ErrorCode) -> None:
    body = json.loads((SAMPLES / f"ErrorBody.{code}.json").read_text(encoding="utf-8"))
    assert body["error_code"] == code


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("StartTask", {"session": "yesterday"}),
        ("StartTask", {"task_count": 0}),
        ("PollRequest", {"wait_ms": 1001}),
        ("PollRequest", {"max_records": 0}),
        ("AckRequest", {"acked": [{}] * 2_001}),
        ("StartConnector", {"config": {"tasks.max": 1}}),
    ],
)
def test_what_is_outside_the_contract_is_refused(name: str, change: dict[str, object]) -> None:
    sample = json.loads((SAMPLES / f"{name}.json").read_text(encoding="utf-8"))
    with pytest.raises(ValidationError):
        MESSAGES[name].validate_python(sample | change)
