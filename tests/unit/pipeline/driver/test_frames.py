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
from bridge.model.partition_states import PartitionState, PartitionStatus
from bridge.model.values import Side, TopicPartition
from bridge.pipeline.driver.frames import (
    pack_assignment,
    pack_spec,
    pack_status,
    read_line,
    unpack_assignment,
    unpack_spec,
    unpack_status,
)
from tests.unit.pipeline.values import copied, spec


def test_a_spec() -> None:
    transforms = (
        Transform("mask", "bridge.transforms.mask_fields", {"fields": "ö"}),
        Transform("a.b", "a.b", {}, ("other", "third")),
    )
    props = {"source.cluster.bootstrap.servers": "a:1", "topics": "ö.*\n"}
    spec_ = spec(
        props,
        until_caught_up=True,
        take_over_from=("one",),
        transforms=transforms,
        transform_timeout=0.5,
    )
    assert unpack_spec(read_line(pack_spec(spec_))["spec"]) == spec_
    assert "topics" not in repr(spec_), "a configuration may hold secrets"


def test_what_is_wanted() -> None:
    expected = [copied(0), copied(1, start=17), copied(2, "ö", ids=("", ""))]
    expected.append(replace(copied(3), transforms=(1, 0), also=(("other", "other-id"), ("third", ""))))
    assert unpack_assignment(read_line(pack_assignment(expected))["assign"]) == expected


def test_a_status() -> None:
    place, other, third = TopicPartition("orders", 2), TopicPartition("orders", 3), TopicPartition("other", 2)
    status = PipelineStatus(
        PipelineState.RETRYING,
        7,
        {
            place: Progress(*place, "A.orders", 5, 9, 100, 2000, 0.0, 0.0, 12, 13),
            other: Progress(*other, "A.orders", 6),
            third: Progress(*third, "A.other", 7, 8),
        },
        [Gap(place, GapKind.CUT_BACK, "id", 3, 5, 1_700_000_000_000, "why")],
        ["the target is away"],
        None,
        3,
        away=(Side.TARGET,),
        partitions=(PartitionStatus(*other, PartitionState.FAILED, 5, "damaged", "skip it"),),
    )
    assert unpack_status(read_line(pack_status(status))["status"]) == status


def test_the_status_of_100_000_partitions_is_at_most_4_9_mb() -> None:
    progress = {
        (place := TopicPartition(f"topic-{number // 100:04d}", number % 100)): Progress(
            *place, f"A.{place.topic}", 1_234_567, 1_234_600, 12_345, 1_234_567, 0.0, 0.0, 120, 130
        )
        for number in range(100_000)
    }
    line = pack_status(PipelineStatus(PipelineState.COPYING, 1, progress))
    assert len(line) <= 4_900_000
    assert unpack_status(read_line(line)["status"]).progress == progress


@pytest.mark.parametrize("line", [b"", b"Picked up JAVA_TOOL_OPTIONS\n", b"[1]\n"])
def test_a_line_that_is_no_frame_is_an_error(line: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        read_line(line)


def test_a_frame_is_one_line() -> None:
    assert pack_spec(spec({"a": "b\nc"})).count(b"\n") == 1
