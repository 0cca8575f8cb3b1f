"""The seed's own rule, translation.verify=false: the timestamp's answer, and what it leaves alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.e2e.ground import SHIFT, Ground
from tests.support import (
    Record,
    commit,
    delete_records,
    produce,
    unique,
)


@dataclass(frozen=True)
class Plain:
    ground: Ground
    mark: str
    name: str

    def group(self) -> str:
        return unique(self.mark)


@pytest.fixture(scope="module")
def plain(ground: Ground) -> Iterator[Plain]:
    mark = unique("plainly")
    with ground.connector(f"{mark}.*", translation_verify="false") as name:
        yield Plain(ground, mark, name)


def test_what_is_not_mirrored_yet_is_a_debug_line_and_a_skip(plain: Plain) -> None:
    ground, group = plain.ground, plain.group()
    topic = ground.topic()
    commit(ground.source.bootstrap, group, {(topic, 0): 60})
    ground.wait_there(group, {(topic, 0): 60 + SHIFT})
    late = ground.fill(topic, 50, start=100, copy=False)
    commit(ground.source.bootstrap, group, {(topic, 0): 120})
    ground.wait_reason(group, topic, "not_mirrored_yet")
    log = ground.process.process.log.read_text().splitlines()
    said = [line for line in log if f"{topic}-0 offset 120" in line]
    assert said
    assert all("not_mirrored_yet" in line and "DEBUG" in line for line in said), said
    assert ground.there(group) == {(ground.remote(topic), 0): 60 + SHIFT}
    ground.copy(topic, late)
    ground.wait_there(group, {(topic, 0): 120 + SHIFT})
    row = ground.service.partition(group, topic)
    assert (row["verdict"], row["bound"], row["evidence"]) == ("bounded", None, "timestamp")


def test_a_record_that_is_gone_is_deferred(plain: Plain) -> None:
    ground, group = plain.ground, plain.group()
    topic = ground.topic()
    commit(ground.source.bootstrap, group, {(topic, 0): 10})
    delete_records(ground.source.bootstrap, topic, {0: 30})
    ground.wait_reason(group, topic, "record_gone")
    ground.wait_rounds(plain.name)
    assert ground.there(group) == {}
    commit(ground.source.bootstrap, group, {(topic, 0): 31})
    ground.wait_there(group, {(topic, 0): 31 + SHIFT})


def test_records_of_one_millisecond_are_read_again_from_the_first(plain: Plain) -> None:
    """The seed's example: 980 to 990 share a timestamp, 990 is answered by the copy of 980."""
    ground, group = plain.ground, plain.group()
    topic = ground.topic(20)
    burst = [Record(b"burst-%d" % number, timestamp=1_700_000_100_000) for number in range(11)]
    produce(ground.source.bootstrap, topic, burst)
    ground.copy(topic, burst)
    commit(ground.source.bootstrap, group, {(topic, 0): 30})
    ground.wait_there(group, {(topic, 0): 20 + SHIFT})


def test_never_backward(plain: Plain) -> None:
    ground, group = plain.ground, plain.group()
    topic = ground.topic()
    commit(ground.target.bootstrap, group, {(ground.remote(topic), 0): 90})
    commit(ground.source.bootstrap, group, {(topic, 0): 20})
    ground.wait_reason(group, topic, "target_ahead")
    assert ground.there(group) == {(ground.remote(topic), 0): 90}
