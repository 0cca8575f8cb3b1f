"""The seed's own rule, translation.verify=false: the timestamp's answer, and what it leaves alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.e2e.flow import SHIFT, Flow
from tests.support import (
    Record,
    commit,
    delete_records,
    produce,
    unique,
)


@dataclass(frozen=True)
class Plain:
    flow: Flow
    mark: str
    name: str

    def group(self) -> str:
        return unique(self.mark)


@pytest.fixture(scope="module")
def plain(flow: Flow) -> Iterator[Plain]:
    mark = unique("plainly")
    with flow.connector(f"{mark}.*", translation_verify="false") as name:
        yield Plain(flow, mark, name)


def test_what_is_not_mirrored_yet_is_a_debug_line_and_a_skip(plain: Plain) -> None:
    flow, group = plain.flow, plain.group()
    topic = flow.topic()
    commit(flow.source.bootstrap, group, {(topic, 0): 60})
    flow.wait_there(group, {(topic, 0): 60 + SHIFT})
    late = flow.fill(topic, 50, start=100, copy=False)
    commit(flow.source.bootstrap, group, {(topic, 0): 120})
    flow.wait_reason(group, topic, "not_mirrored_yet")
    log = flow.process.process.log.read_text().splitlines()
    lines = [line for line in log if f"{topic}-0 offset 120" in line]
    assert lines
    assert all("not_mirrored_yet" in line and "DEBUG" in line for line in lines), lines
    assert flow.there(group) == {(flow.remote(topic), 0): 60 + SHIFT}
    flow.copy(topic, late)
    flow.wait_there(group, {(topic, 0): 120 + SHIFT})
    row = flow.wait_verdict(group, topic, "bounded")
    assert (row["bound"], row["evidence"]) == (None, "timestamp")


def test_a_record_that_is_gone_is_deferred(plain: Plain) -> None:
    flow, group = plain.flow, plain.group()
    topic = flow.topic()
    commit(flow.source.bootstrap, group, {(topic, 0): 10})
    delete_records(flow.source.bootstrap, topic, {0: 30})
    flow.wait_reason(group, topic, "record_gone")
    flow.wait_rounds(plain.name)
    assert flow.there(group) == {}
    commit(flow.source.bootstrap, group, {(topic, 0): 31})
    flow.wait_there(group, {(topic, 0): 31 + SHIFT})


def test_records_of_one_millisecond_are_read_again_from_the_first(plain: Plain) -> None:
    """The seed's example: 980 to 990 share a timestamp, 990 is answered by the copy of 980."""
    flow, group = plain.flow, plain.group()
    topic = flow.topic(20)
    burst = [Record(b"burst-%d" % number, timestamp=1_700_000_100_000) for number in range(11)]
    produce(flow.source.bootstrap, topic, burst)
    flow.copy(topic, burst)
    commit(flow.source.bootstrap, group, {(topic, 0): 30})
    flow.wait_there(group, {(topic, 0): 20 + SHIFT})


def test_never_backward(plain: Plain) -> None:
    flow, group = plain.flow, plain.group()
    topic = flow.topic()
    commit(flow.target.bootstrap, group, {(flow.remote(topic), 0): 90})
    commit(flow.source.bootstrap, group, {(topic, 0): 20})
    flow.wait_reason(group, topic, "target_ahead")
    assert flow.there(group) == {(flow.remote(topic), 0): 90}
