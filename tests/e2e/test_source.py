"""BridgeMirrorSourceConnector on a real worker: what is PUT is copied, on Spark, and stops with its task."""

from __future__ import annotations

from functools import partial
from urllib.parse import quote

import httpx
import pytest
from typer.testing import CliRunner

from bridge.cli import app
from bridge.local import NO_AUTHORITIES
from tests.e2e.control import aliased
from tests.e2e.copying import SHARED_SPARK, copying, fill, wait_copied
from tests.e2e.flow import LEASE_MS, Flow, Json, committed_offsets, stays
from tests.e2e.mirrored_flow import PARTITIONS, read_all
from tests.support import Record, bounds, commit, create_topic, eventually, produce, read, unique
from tests.support.topics import set_topic_config
from tests.support.waiting import wait_equal
from tests.support.waits import WAIT

KEYED = [Record(b"%d" % number, b"key") for number in range(3)]


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


def test_a_record_that_the_target_refuses_fails_its_partition_until_an_operator_skips_it(
    unique_flow: Flow,
) -> None:
    mark = unique("refused")
    source, target = unique_flow.source.bootstrap, unique_flow.target.bootstrap
    bad, well = (create_topic(source, f"{mark}-{name}", 1) for name in ("bad", "well"))
    for topic in (bad, well):
        create_topic(target, unique_flow.remote(topic), 1)
        produce(source, topic, KEYED)
    settings = {"sync_topic_configs_enabled": "false", **SHARED_SPARK}
    with copying(unique_flow, f"{mark}.*", **settings) as name:

        def failed() -> Json:
            path = f"/v1/connectors/{quote(name)}/progress?state=failed"
            (partition,) = unique_flow.service.get(path)["partitions"]
            assert (partition["topic"], partition["position"]) == (bad, 3)
            conditions = unique_flow.service.status(name)["conditions"]
            assert "partition_failed" in [each["condition"] for each in conditions]
            return dict(partition)

        def skip(*options: str) -> str:
            arguments = ["skip", name, f"{bad}-0", *options, "--url", unique_flow.process.url]
            done = CliRunner().invoke(app, arguments)
            assert done.exit_code == 0, done.output
            return done.stdout

        def copied(topic: str, times: int) -> None:
            copies = read(target, unique_flow.remote(topic), committed_only=True)
            assert [each.value for each in copies] == [each.value for each in KEYED] * times

        eventually(partial(copied, bad, 1), WAIT, what="it is copied", watched=unique_flow.watched)
        set_topic_config(target, unique_flow.remote(bad), {"cleanup.policy": "compact"})
        produce(source, bad, [Record(b"poison", None), *KEYED])
        partition = eventually(failed, WAIT, what="the partition has failed", watched=unique_flow.watched)
        assert f"mirror-bridge skip {name} {bad}-0" in partition["way_out"]
        produce(source, well, KEYED)
        eventually(partial(copied, well, 2), WAIT, what="the others go on", watched=unique_flow.watched)
        assert "would leave out offsets [3, 4)" in skip()
        assert "leaves out offsets [3, 4)" in skip("--yes")
        eventually(partial(copied, bad, 2), WAIT, what="it goes on behind", watched=unique_flow.watched)

        def noted() -> None:
            (gap,) = unique_flow.service.get(f"/v1/connectors/{quote(name)}/gaps")["gaps"]
            assert (gap["kind"], gap["upstream_from"], gap["upstream_to"]) == ("skipped", 3, 4)

        eventually(noted, WAIT, what="the gap is in the ledger", watched=unique_flow.watched)
