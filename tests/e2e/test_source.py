"""BridgeMirrorSourceConnector on a real worker: what is PUT is copied, on Spark, and stops with its task."""

from __future__ import annotations

from urllib.parse import quote

import httpx
import pytest

from bridge.local import NO_AUTHORITIES
from tests.e2e.control import aliased
from tests.e2e.copying import SHARED_SPARK, copying, fill, wait_copied
from tests.e2e.flow import LEASE_MS, Flow, committed_offsets, stays
from tests.e2e.mirrored_flow import PARTITIONS, read_all
from tests.support import bounds, commit, create_topic, eventually, unique
from tests.support.waiting import wait_equal
from tests.support.waits import WAIT


@pytest.fixture(scope="module")
def unique_flow(sparking: Flow) -> Flow:
    return aliased(sparking)


def wait_progress(flow: Flow, name: str, topics: list[str], each: int) -> None:
    """Until the service says that all is copied: so many records of each partition."""
    path = f"/v1/connectors/{quote(name)}"

    def shown() -> None:
        progress = flow.service.get(f"{path}/progress?limit=1000")
        places = [
            (row["topic"], row["partition"], row["position"], row["records"])
            for row in progress["partitions"]
        ]
        assert places == [(topic, number, each, each) for topic in topics for number in range(PARTITIONS)]
        totals = progress["totals"]
        assert (totals["state"], totals["lag"], totals["records"]) == ("copying", 0, each * len(places))
        assert totals["bytes"] > 0

    eventually(shown, WAIT, what="progress is shown", watched=flow.watched)
    wait_equal(lambda: flow.service.get(f"{path}/gaps")["total"], 0, watched=flow.watched)


def test_what_is_put_is_copied_and_pause_stops_it(unique_flow: Flow) -> None:
    mark = unique("orders")
    topic = create_topic(
        unique_flow.source.bootstrap, f"{mark}-1", PARTITIONS, {"retention.bytes": "123456789"}
    )
    fill(unique_flow, topic, 0)
    rest = unique_flow.worker.rest
    with copying(unique_flow, f"{mark}.*", **SHARED_SPARK) as name:
        wait_copied(unique_flow, topic)
        later = create_topic(unique_flow.source.bootstrap, f"{mark}-2", PARTITIONS)
        fill(unique_flow, later, 0)
        wait_copied(unique_flow, later)
        wait_progress(unique_flow, name, [topic, later], 20)

        rest.pause(name)
        eventually(
            lambda: unique_flow.service.task_states(name) == ["lapsed"],
            WAIT,
            what="paused",
            watched=unique_flow.watched,
        )
        unique_flow.wait_copying_stopped(name)
        fill(unique_flow, topic, 20)
        before = bounds(unique_flow.target.bootstrap, unique_flow.remote(topic))
        stays(
            lambda: bounds(unique_flow.target.bootstrap, unique_flow.remote(topic)) == before,
            LEASE_MS / 1000,
            what="nothing is copied while paused",
        )
        rest.resume(name)
        wait_copied(unique_flow, topic)


@pytest.mark.long
def test_sparks_ui_is_named(unique_flow: Flow) -> None:
    topic = create_topic(unique_flow.source.bootstrap, unique("shown"), PARTITIONS)
    fill(unique_flow, topic, 0)
    with copying(unique_flow, topic, spark_ui_enabled="true", spark_ui_port="0") as name:
        wait_copied(unique_flow, topic)
        ui = unique_flow.service.status(name)["copying"]["spark_ui"]
        (application,) = httpx.get(f"{ui}/api/v1/applications", timeout=WAIT, verify=NO_AUTHORITIES).json()
        assert application["name"] == f"mirror-bridge {name}"


@pytest.mark.long
def test_a_topic_map_names_copies_and_the_partitions_of_groups(unique_flow: Flow) -> None:
    """Without an alias in the name, and not as the source has it either; the mapped name is read back for groups."""
    source, target, mark = unique_flow.source, unique_flow.target, unique("mapped")
    topic, group = create_topic(source.bootstrap, f"{mark}.orders", PARTITIONS), unique("group")
    policy = {
        "replication_policy_class": "python:bridge.policies.TopicMap",
        "replication_policy_topic_map": f"{mark}.*=copies-of-$0",
    }
    fill(unique_flow, topic, 0)
    commit(source.bootstrap, group, {(topic, 0): 15, (topic, 1): 20})
    copy = f"copies-of-{topic}"
    expected = {(copy, 0): 15, (copy, 1): 20}
    with (
        copying(unique_flow, f"{mark}.*", **policy) as name,
        unique_flow.connector(group, **policy),
    ):

        def stands() -> None:
            assert committed_offsets(target.bootstrap, group) == expected

        eventually(stands, WAIT, what=f"{group} at {expected}", watched=unique_flow.watched)
        wait_equal(
            lambda: unique_flow.service.status(name)["copying"]["spark_ui"], None, watched=unique_flow.watched
        )
        copies, originals = read_all(target, copy), read_all(source, topic)
        contents = [
            {at: [each.content for each in some] for at, some in all_.items()} for all_ in (copies, originals)
        ]
        assert contents[0] == contents[1]
