"""`bridge.transforms`: what is accepted, what it means, and each wrong key by its name."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping

import pytest

from bridge.model.copying import Transform
from connectors.source.options import SourceOptions
from tests.unit.connectors.configs import CLIENTS, SOURCE, source_errors

OWN = "python:tests.own_transforms."
MASK = {
    "bridge.transforms": "mask",
    "bridge.transforms.mask.type": "python:bridge.transforms.mask_fields",
    "bridge.transforms.mask.fields": " email,name ",
}


def options(given: Mapping[str, str]) -> SourceOptions:
    return SourceOptions.from_props(SOURCE | dict(given), CLIENTS)


def test_without_any_nothing_goes_through_anything() -> None:
    parsed = options({})
    assert (parsed.transforms, parsed.transforms_of("orders")) == ((), ())
    assert (parsed.transform_timeout, parsed.transform_memory) == (5.0, 256 * 1024 * 1024)


def test_functions_may_stand_in_the_list_itself() -> None:
    parsed = options({"bridge.transforms": f"{OWN}upper, {OWN}even"})
    assert [each.transform for each in parsed.transforms] == [
        Transform(f"tests.own_transforms.{name}", f"tests.own_transforms.{name}", {})
        for name in ("upper", "even")
    ]
    assert parsed.transforms_of("orders") == (0, 1)


def test_names_have_a_type_topics_and_parameters_as_in_connect() -> None:
    parsed = options(
        MASK
        | {
            "bridge.transforms": f"mask,{OWN}even",
            "bridge.transforms.mask.topics": "orders,pay.*",
            "bridge.transform.timeout.ms": "250",
            "bridge.transform.memory.bytes": "33554432",
        }
    )
    spec = parsed.spec("mirror", {})
    assert spec.transforms[0] == Transform("mask", "bridge.transforms.mask_fields", {"fields": "email,name"})
    assert (spec.transform_timeout, spec.transform_memory) == (0.25, 33554432)
    assert parsed.transforms_of("orders") == parsed.transforms_of("payments") == (0, 1)
    assert parsed.transforms_of("order") == (1,)


def test_other_target_topics_are_those_of_the_transforms_that_a_topic_goes_through() -> None:
    parsed = options(
        MASK
        | {
            "bridge.transforms": "mask,split",
            "bridge.transforms.mask.topics": "orders",
            "bridge.transforms.mask.to": "audit, errors",
            "bridge.transforms.split.type": f"{OWN}even",
            "bridge.transforms.split.to": "errors,source1.payments",
        }
    )
    assert parsed.transforms[0].transform.to == ("audit", "errors")
    assert parsed.also("orders") == ("audit", "errors", "source1.payments")
    assert parsed.also("payments") == ("errors",)
    assert parsed.also("heartbeats") == ()


def test_heartbeats_go_through_none() -> None:
    assert options(MASK).transforms_of("heartbeats") == ()
    assert options(MASK).transforms_of("C.heartbeats") == ()


@pytest.mark.parametrize(
    ("changes", "key", "why"),
    [
        ({"bridge.transforms": "mask,mask"}, "bridge.transforms", "must not be duplicated"),
        (
            {"bridge.transforms.mask.type": None},
            "bridge.transforms.mask.type",
            "Missing required configuration",
        ),
        (
            {"bridge.transforms.mask.type": "org.apache.kafka.connect.transforms.MaskField$Value"},
            "bridge.transforms.mask.type",
            "Java classes can't be loaded here; use python:module.function",
        ),
        ({"bridge.transforms.mask.type": "python:mask"}, "bridge.transforms.mask.type", "not of the form"),
        (
            {"bridge.transforms.mask.type": "python:no_such.mask"},
            "bridge.transforms.mask.type",
            "the module no_such failed with ModuleNotFoundError",
        ),
        (
            {"bridge.transforms.mask.type": "python:bridge.transforms.mask"},
            "bridge.transforms.mask.type",
            "the module bridge.transforms has no function mask",
        ),
        (
            {"bridge.transforms.mask.type": f"{OWN}not_callable"},
            "bridge.transforms.mask.type",
            "has no function not_callable",
        ),
        (
            {"bridge.transforms.mask.fields": None},
            "bridge.transforms.mask.fields",
            'Missing required configuration "bridge.transforms.mask.fields"',
        ),
        (
            {"bridge.transforms.mask.field": "email"},
            "bridge.transforms.mask.field",
            "the transform has no parameter field; it has fields, replacement, column",
        ),
        (
            {"bridge.transforms.mask.fields": "a..b"},
            "bridge.transforms.mask.type",
            "called with a batch without records, it failed with ValueError: a..b is no path",
        ),
        (
            {"bridge.transforms.mask.topics": "("},
            "bridge.transforms.mask.topics",
            "is not a regular expression",
        ),
        ({"bridge.transforms.mask.topics": ""}, "bridge.transforms.mask.topics", "it is empty"),
        (
            {"bridge.transforms.mask.to": "a b"},
            "bridge.transforms.mask.to",
            "a topic's name has up to 249 letters",
        ),
        ({"bridge.transforms.mask.to": "a,a"}, "bridge.transforms.mask.to", "must not be duplicated"),
        (
            {"bridge.transforms.mask.to": "__offsets"},
            "bridge.transforms.mask.to",
            "name of an internal topic",
        ),
        (
            {"bridge.transforms.mask.to": "mm2-offset-runs.A.internal"},
            "bridge.transforms.mask.to",
            "name of an internal topic",
        ),
        (
            {
                "bridge.transforms": "",
                "bridge.transforms.mask.type": None,
                "bridge.transforms.mask.fields": None,
            }
            | {"bridge.transforms.other.type": f"{OWN}upper"},
            "bridge.transforms.other.type",
            "bridge.transforms names no transform other",
        ),
        ({"bridge.transforms": f"mask,{OWN}nowhere"}, "bridge.transforms", "has no function nowhere"),
        ({"bridge.transforms": f"mask,{OWN}fails_without_records"}, "bridge.transforms", "IndexError"),
        (
            {"bridge.transforms": f"mask,{OWN}returns_none"},
            "bridge.transforms",
            "records, it returned None, not a",
        ),
        ({"bridge.transform.timeout.ms": "0"}, "bridge.transform.timeout.ms", "must be at least 1"),
        (
            {"bridge.transform.timeout.ms": "20000"},
            "bridge.transform.timeout.ms",
            "must be no more than 10000",
        ),
        (
            {"bridge.transform.memory.bytes": "1"},
            "bridge.transform.memory.bytes",
            "must be at least 16777216",
        ),
    ],
)
def test_what_is_wrong_is_told_by_its_key(changes: Mapping[str, str | None], key: str, why: str) -> None:
    rejected = source_errors({**MASK, **changes})
    assert [(each, why in message) for each, message in rejected] == [(key, True)], rejected


def test_all_that_is_wrong_is_told_at_once() -> None:
    rejected = source_errors(
        {
            "bridge.transforms": "a,b",
            "bridge.transforms.a.type": f"{OWN}even",
            "bridge.transforms.a.x": "1",
            "bridge.transforms.a.y": "1",
            "bridge.transforms.c.type": f"{OWN}even",
        }
    )
    assert [key for key, _ in rejected] == [
        "bridge.transforms.c.type",
        "bridge.transforms.a.x",
        "bridge.transforms.a.y",
        "bridge.transforms.b.type",
    ]


def test_a_list_that_no_record_goes_through_is_one_error() -> None:
    ((key, why),) = source_errors({"bridge.transforms": ",".join(f"t{number}" for number in range(5_000))})
    assert key == "bridge.transforms"
    assert "5,000 transforms" in why


def test_what_takes_any_parameter_gets_any() -> None:
    given = {
        "bridge.transforms": "a",
        "bridge.transforms.a.type": f"{OWN}takes_any",
        "bridge.transforms.a.some.thing": "1",
    }
    (parsed,) = options(given).transforms
    assert parsed.transform.parameters == {"some.thing": "1"}


def test_no_secret_of_the_configuration_is_in_an_error() -> None:
    given = {
        "bridge.transforms": "a",
        "bridge.transforms.a.type": f"{OWN}repeats",
        "bridge.transforms.a.password": "sesame-open",
    }
    ((key, message),) = source_errors(given)
    assert key == "bridge.transforms.a.type"
    assert "sesame-open" not in message
    assert "[hidden]" in message


@pytest.mark.parametrize(
    "module", ["bridge.pipeline.slices.tasks", "connectors.source.connector", "bridge.cli"]
)
def test_without_transforms_nothing_of_arrow_is_imported(module: str) -> None:
    ask = f"import sys, {module}; print(*sorted({{'pyarrow', 'msgspec'}} & set(sys.modules)))"
    answer = subprocess.run([sys.executable, "-c", ask], check=True, capture_output=True, text=True)
    assert answer.stdout.strip() == ""
