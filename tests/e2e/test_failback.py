"""Failback (B13, KIP-1098): a group that went on in the copy of a topic comes back to the topic, at the exact record.

Stock can't: a topic that came from the target is never mirrored back, so there are no offset syncs to translate by.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import pytest

from bridge.mm2.records import Checkpoint
from bridge.model.values import TopicPartition
from tests.e2e.control import aliased, checkpointing, checkpoints, latest, wait_checkpoint
from tests.e2e.flow import SHIFT, Flow, committed_offsets, exactly, stays
from tests.support import (
    commit,
    create_topic,
    eventually,
    mirroring,
    resume,
    unique,
    wait_mirrored,
)
from tests.support.waits import WAIT

INTERVALS = 3.0
"""Three intervals of connectors that sync every second."""


class Flows(NamedTuple):
    """A group on A and B, and our connectors of both directions, syncing; B to A with failback."""

    flow: Flow
    topic: str
    group: str
    forward: str
    back: str

    @property
    def remote(self) -> str:
        return self.flow.remote(self.topic)

    def on_source(self) -> dict[tuple[str, int], int]:
        return committed_offsets(self.flow.source.bootstrap, self.group)

    def on_target(self) -> dict[tuple[str, int], int]:
        return committed_offsets(self.flow.target.bootstrap, self.group)

    def wait(self, offset: int, there: int | None = None) -> None:
        """Until the group stands at that record of the topic on A, and at its copy (or at `there`) on B."""
        beyond = offset + SHIFT if there is None else there

        def stands() -> None:
            assert self.on_source() == {(self.topic, 0): offset}, self.on_source()
            assert self.on_target() == {(self.remote, 0): beyond}, self.on_target()

        eventually(stands, WAIT, what=f"{self.group} is at {offset} and {beyond}", watched=self.flow.watched)

    def wait_checkpoint(self, offset: int) -> None:
        """Until the newest checkpoint of the way there is of that record of the topic on A."""
        wait_checkpoint(self.flow, self.group, self.topic, offset + SHIFT)

    def wait_told_home(self, checkpoint: Checkpoint) -> None:
        """Until this is the only checkpoint of the way back that is the newest of its place. Connect writes it when
        it polls the task next, after the group has moved."""

        def arrived() -> bool:
            newest = latest(self.flow.source, self.flow.target.name, self.group)
            return list(newest.values()) == [checkpoint]

        eventually(arrived, WAIT, what=f"the way back tells {checkpoint}", watched=self.flow.watched)

    def still(self, what: str) -> None:
        """Neither cluster's offset moves, nor is any checkpoint written, for several intervals of both directions."""
        ways = (self.flow, self.flow.reversed())

        def now() -> tuple[object, ...]:
            return (
                self.on_source(),
                self.on_target(),
                *(len(checkpoints(way.target, way.source.name)) for way in ways),
            )

        before = now()
        stays(lambda: now() == before, INTERVALS, what=what)

    def reason(self) -> str | None:
        """Why the way back leaves the group where it is."""
        (row,) = self.flow.service.report(self.group, self.back)["partitions"]
        return str(row["reason"]) if row["reason"] is not None else None

    def wait_reason(self, reason: str) -> None:
        eventually(
            lambda: self.reason() == reason, WAIT, what=f"{self.back}: {reason}", watched=self.flow.watched
        )


@contextmanager
def returning(unique_flow: Flow, group: str) -> Iterator[str]:
    """From B to A with failback. Connect's producer writes to B by itself; these checkpoints belong on A."""
    back = unique_flow.reversed()
    with checkpointing(
        back,
        exactly(group),
        sync_group_offsets_enabled="true",
        reverse_checkpointing_enabled="true",
        producer_override_bootstrap_servers=back.target.bootstrap,
    ) as name:
        yield name


@pytest.fixture
def flows(flow: Flow) -> Iterator[Flows]:
    unique_flow, group = aliased(flow), unique("returning")
    topic = create_topic(unique_flow.source.bootstrap, unique("home"))
    create_topic(unique_flow.target.bootstrap, unique_flow.remote(topic))
    unique_flow.foreign(topic, SHIFT)
    unique_flow.fill(topic, 100, copy=False)
    commit(unique_flow.source.bootstrap, group, {(topic, 0): 40})
    with (
        mirroring(unique_flow.worker, unique_flow.source, unique_flow.target, [topic]),
        checkpointing(
            unique_flow, exactly(group), topics=topic, sync_group_offsets_enabled="true"
        ) as forward,
        returning(unique_flow, group) as back,
    ):
        wait_mirrored(unique_flow.source, unique_flow.target, [topic], unique_flow.worker)
        result = Flows(unique_flow, topic, group, forward, back)
        result.wait(40)
        yield result


def test_b13_a_group_that_moved_on_the_target_comes_back_at_the_exact_record(flows: Flows) -> None:
    source, target = flows.flow.source, flows.flow.target
    # It fails over, and goes on there.
    assert resume(target.bootstrap, flows.group, [flows.remote])[0].value == b"value-40"
    commit(target.bootstrap, flows.group, {(flows.remote, 0): 70 + SHIFT})
    flows.wait(70)
    flows.wait_told_home(Checkpoint(flows.group, TopicPartition(flows.topic, 0), 70 + SHIFT, 70, ""))
    flows.wait_checkpoint(70)
    flows.still("after the group is back")
    assert resume(source.bootstrap, flows.group, [flows.topic])[0].value == b"value-70"

    # It goes on at home, and fails over and back once more.
    commit(source.bootstrap, flows.group, {(flows.topic, 0): 80})
    flows.wait(80)
    flows.wait_checkpoint(80)
    flows.still("after the group went on at home")
    commit(target.bootstrap, flows.group, {(flows.remote, 0): 95 + SHIFT})
    flows.wait(95)
    # All that there is was read there: the next record is the one that comes next.
    commit(target.bootstrap, flows.group, {(flows.remote, 0): 100 + SHIFT})
    flows.wait(100)
    flows.flow.fill(flows.topic, 10, start=100, copy=False)
    assert resume(source.bootstrap, flows.group, [flows.topic])[0].value == b"value-100"
    flows.wait_checkpoint(100)
    flows.still("with more records, and nobody reading")


@pytest.mark.long
def test_b13_an_operators_reset_on_the_source_is_not_undone(flows: Flows) -> None:
    """The group stands on B where the mirror has put it. That is no news, whatever has been reset on A since."""
    source, target = flows.flow.source, flows.flow.target
    flows.wait_reason("moved_by_mirror")
    commit(source.bootstrap, flows.group, {(flows.topic, 0): 10})
    # B is never lowered, and never followed.
    flows.wait_checkpoint(10)
    flows.still("after the reset")
    flows.wait(10, there=40 + SHIFT)
    assert flows.reason() == "moved_by_mirror"
    # What a consumer does on B counts again.
    commit(target.bootstrap, flows.group, {(flows.remote, 0): 60 + SHIFT})
    flows.wait(60)
