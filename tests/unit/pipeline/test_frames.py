"""What launcher and driver say to each other reads back as it was said."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bridge.model.copying import (
    Gap,
    GapKind,
    PipelineState,
    PipelineStatus,
    Progress,
    Transform,
)
from bridge.model.values import TopicPartition
from bridge.pipeline.frames import (
    pack_spec,
    pack_status,
    pack_want,
    read_line,
    unpack_spec,
    unpack_status,
    unpack_want,
)
from tests.unit.pipeline.values import copied, spec


def test_a_spec() -> None:
    transforms = (
        Transform("mask", "bridge.transforms.mask_fields", {"fields": "ö"}),
        Transform("a.b", "a.b", {}, ("other", "third")),
    )
    props = {"source.cluster.bootstrap.servers": "a:1", "topics": "ö.*\n"}
    said = spec(
        props,
        until_caught_up=True,
        take_over_from=("one",),
        transforms=transforms,
        transform_timeout=0.5,
    )
    assert unpack_spec(read_line(pack_spec(said))["spec"]) == said
    assert "topics" not in repr(said), "a configuration may hold secrets"


def test_what_is_wanted() -> None:
    wanted = [copied(0), copied(1, start=17), copied(2, "ö", ids=("", ""))]
    wanted.append(replace(copied(3), transforms=(1, 0), also=(("other", "other-id"), ("third", ""))))
    assert unpack_want(read_line(pack_want(wanted))["want"]) == wanted


def test_a_status() -> None:
    place = TopicPartition("orders", 2)
    status = PipelineStatus(
        PipelineState.RETRYING,
        7,
        {place: Progress(*place, "A.orders", 5, 9, 100, 2000, 1.5, 30.0, 12, 13)},
        [Gap(place, GapKind.CUT_BACK, "id", 3, 5, 1_700_000_000_000, "why")],
        ["the target is away"],
        None,
        3,
    )
    assert unpack_status(read_line(pack_status(status))["status"]) == status


@pytest.mark.parametrize("line", [b"", b"Picked up JAVA_TOOL_OPTIONS\n", b"[1]\n"])
def test_a_line_that_is_no_frame_is_an_error(line: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        read_line(line)


def test_a_frame_is_one_line() -> None:
    assert pack_spec(spec({"a": "b\nc"})).count(b"\n") == 1
