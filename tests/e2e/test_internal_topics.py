"""Internal topics as they should not be: forbidden, missing, emptied, deleted in flight, with records that are none.

Each test has a flow of its own, by aliases of its own: nobody else's internal topics are touched.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._resource import ResourceType

from bridge.local import NO_AUTHORITIES, Broker, Cluster, LocalStack, Security
from bridge.mm2.records import Checkpoint, OffsetSync
from bridge.model.values import TopicPartition
from tests.e2e.control import (
    aliased,
    checkpointing,
    checkpoints,
    checkpoints_topic,
    heartbeats,
    our_control,
    syncs_topic,
    wait_checkpoint,
)
from tests.e2e.flow import SHIFT, Flow, exactly, stays
from tests.support import (
    Record,
    admin,
    allow,
    bounds,
    commit,
    connector,
    create_topic,
    delete_records,
    delete_topic,
    eventually,
    produce,
    read,
    set_topic_config,
    unique,
)
from tests.support.forms import mostly_long
from tests.support.waiting import wait_equal
from tests.support.waits import WAIT

USER, PASSWORD = "alice", "wonderland-8812"
COMPACTED = {"cleanup.policy": "compact"}


def synced(flow: Flow, *, source: Cluster | None = None, target: Cluster | None = None) -> Flow:
    """A flow with a syncs topic, as its mirror makes it."""
    unique_flow = aliased(flow, source=source, target=target)
    create_topic(unique_flow.source.bootstrap, syncs_topic(unique_flow), 1, COMPACTED)
    return unique_flow


def sync(topic: str, upstream: int, downstream: int) -> Record:
    made = OffsetSync(TopicPartition(topic, 0), upstream, downstream)
    return Record(made.value(), key=made.key())


def give_syncs(unique_flow: Flow, topic: str, offsets: range) -> None:
    produce(
        unique_flow.source.bootstrap,
        syncs_topic(unique_flow),
        [sync(topic, at, at + SHIFT) for at in offsets],
    )


def cleanup_policy(cluster: Cluster, topic: str) -> str:
    client = admin(cluster.bootstrap)
    (future,) = client.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values()
    return str(future.result(WAIT)["cleanup.policy"].value)


def wait_error(unique_flow: Flow, name: str, *words: str) -> str:
    """Until health has an error that has all of these words, and no more than degraded is said."""

    def reported() -> str:
        errors = unique_flow.service.status(name)["errors"]
        result = [error for error in errors if all(word in error for word in words)]
        assert result, errors
        assert unique_flow.service.health()["status"] == "degraded"
        return str(result[0])

    return eventually(reported, WAIT, what=f"health says {' '.join(words)}", watched=unique_flow.watched)


def wait_no_error(unique_flow: Flow, name: str) -> None:
    def silent() -> None:
        assert unique_flow.service.status(name)["errors"] == []

    eventually(silent, WAIT, what=f"{name} has no error any more", watched=unique_flow.watched)


def unreadable(unique_flow: Flow, name: str) -> int:
    """Records of internal topics that the connector has left out, as its metric says."""
    lines = httpx.get(
        f"{unique_flow.service.url}/metrics", timeout=60, verify=NO_AUTHORITIES
    ).text.splitlines()
    result = [
        line
        for line in lines
        if line.startswith(f'mirror_bridge_unreadable_records_total{{connector="{name}"')
    ]
    assert result
    return int(sum(float(line.rpartition(" ")[2]) for line in result))


def lines_in_log(unique_flow: Flow, *words: str) -> list[str]:
    log = unique_flow.process.process.log.read_text().splitlines()
    return [line for line in log if all(word in line for word in words)]


# -- no ACLs -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def closed(stack: LocalStack) -> Iterator[Broker]:
    """A broker that wants a login and ACLs, and makes no topics by itself; tests come by its plain listener and may do
    everything, as may Connect's own producer."""
    broker = stack.broker(
        "closed",
        security=Security(users={USER: PASSWORD}, authorizer=True),
        properties={"auto.create.topics.enable": "false"},
    )
    allow(broker.bootstrap, f"User:{USER}", "*", "ALL", "GROUP")
    # From here on groups have a coordinator: asked before, confluent_kafka's answer ends the interpreter.
    commit(broker.bootstrap, unique("first"), {(create_topic(broker.bootstrap, unique("first")), 0): 0})
    yield broker
    broker.close()


def login(side: str, broker: Broker) -> dict[str, str]:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    return {
        f"{side}.cluster.bootstrap.servers": broker.address("SASL_PLAINTEXT"),
        f"{side}.cluster.security.protocol": "SASL_PLAINTEXT",
        f"{side}.cluster.sasl.mechanism": "PLAIN",
        f"{side}.cluster.sasl.jaas.config": f'{module} required username="{USER}" password="{PASSWORD}";',
    }


@contextmanager
def checkpointing_there(unique_flow: Flow, closed: Broker, groups: str, **settings: object) -> Iterator[str]:
    """Our checkpoint connector with the closed broker as its target, to which Connect writes too."""
    config = our_control("Checkpoint", unique_flow, groups=groups, **settings) | login("target", closed)
    config |= {
        "producer.override.bootstrap.servers": closed.bootstrap,
        "emit.group-readiness.enabled": "false",
    }
    with connector(unique_flow.worker, config, unique("closed")) as name:
        yield name


def copied(unique_flow: Flow, closed: Broker) -> str:
    topic = unique_flow.topic()
    allow(closed.bootstrap, f"User:{USER}", unique_flow.remote(topic), "READ")
    return topic


def test_a_checkpoints_topic_that_we_may_not_create_is_named_and_group_sync_goes_on(
    flow: Flow, closed: Broker
) -> None:
    """Stock takes it for made; Connect's producer then holds the task up, and with it all that it would do."""
    unique_flow = synced(flow, target=closed)
    topic, group = copied(unique_flow, closed), unique("closed")
    missing = checkpoints_topic(unique_flow)
    for operation in ("DESCRIBE", "READ"):
        allow(closed.bootstrap, f"User:{USER}", missing, operation)
    commit(unique_flow.source.bootstrap, group, {(topic, 0): 42})
    with checkpointing_there(unique_flow, closed, exactly(group), sync_group_offsets_enabled="true") as name:
        unique_flow.wait_there(group, {(topic, 0): 42 + SHIFT})
        wait_error(unique_flow, name, missing, "not allowed to create")
        commit(unique_flow.source.bootstrap, group, {(topic, 0): 50})
        unique_flow.wait_there(group, {(topic, 0): 50 + SHIFT})
        wait_equal(
            lambda: unique_flow.service.status(name)["records_waiting"], 0, watched=unique_flow.watched
        )
        unique_flow.worker.rest.wait_running(name)
        create_topic(closed.bootstrap, missing, 1, COMPACTED)
        wait_checkpoint(unique_flow, group, topic, 50 + SHIFT)
        wait_no_error(unique_flow, name)
        unique_flow.worker.rest.wait_running(name)


@pytest.mark.long
def test_a_checkpoints_topic_that_exists_needs_no_right_to_create(flow: Flow, closed: Broker) -> None:
    unique_flow = synced(flow, target=closed)
    topic, group = copied(unique_flow, closed), unique("closed")
    create_topic(closed.bootstrap, checkpoints_topic(unique_flow), 1, COMPACTED)
    allow(closed.bootstrap, f"User:{USER}", checkpoints_topic(unique_flow), "READ")
    commit(unique_flow.source.bootstrap, group, {(topic, 0): 42})
    with checkpointing_there(unique_flow, closed, exactly(group)) as name:
        wait_checkpoint(unique_flow, group, topic, 42 + SHIFT)
        unique_flow.wait_rounds(name)
        wait_equal(lambda: unique_flow.service.status(name)["errors"], [], watched=unique_flow.watched)


@pytest.mark.long
def test_a_checkpoints_topic_that_we_may_not_read_is_named_and_checkpoints_go_on(
    flow: Flow, closed: Broker
) -> None:
    unique_flow = synced(flow, target=closed)
    topic, group = copied(unique_flow, closed), unique("closed")
    create_topic(closed.bootstrap, checkpoints_topic(unique_flow), 1, COMPACTED)
    allow(closed.bootstrap, f"User:{USER}", checkpoints_topic(unique_flow), "DESCRIBE")
    commit(unique_flow.source.bootstrap, group, {(topic, 0): 42})
    with checkpointing_there(unique_flow, closed, exactly(group), sync_group_offsets_enabled="true") as name:
        wait_checkpoint(unique_flow, group, topic, 42 + SHIFT)
        unique_flow.wait_there(group, {(topic, 0): 42 + SHIFT})
        wait_error(unique_flow, name, "can't be read", checkpoints_topic(unique_flow), "uthoriz")
        commit(unique_flow.source.bootstrap, group, {(topic, 0): 50})
        wait_checkpoint(unique_flow, group, topic, 50 + SHIFT)
        unique_flow.wait_rounds(name)
        emitted = [
            each for each in checkpoints(unique_flow.target, unique_flow.source.name) if each.group == group
        ]
        assert [each.upstream_offset for each in emitted] == [42, 50], (
            "each once, although none was seen there"
        )
        unique_flow.worker.rest.wait_running(name)
        allow(closed.bootstrap, f"User:{USER}", checkpoints_topic(unique_flow), "READ")
        wait_no_error(unique_flow, name)


@pytest.mark.long
def test_a_readiness_topic_that_we_may_not_make_or_write_is_named_and_group_sync_goes_on(
    flow: Flow, closed: Broker
) -> None:
    unique_flow = synced(flow, target=closed)
    topic, group = copied(unique_flow, closed), unique("closed")
    missing = f"mm2-group-readiness.{unique_flow.source.name}.internal"
    consequence = "started while the source is away knows no groups"
    commit(unique_flow.source.bootstrap, group, {(topic, 0): 42})
    config = unique_flow.config(exactly(group)) | login("target", closed)
    with connector(unique_flow.worker, config, unique("closed")) as name:
        unique_flow.wait_there(group, {(topic, 0): 42 + SHIFT})
        wait_error(unique_flow, name, missing, "can't be written", "uthoriz", consequence)
        for operation in ("DESCRIBE", "READ"):
            allow(closed.bootstrap, f"User:{USER}", missing, operation)
        wait_error(unique_flow, name, missing, "not allowed to create", consequence)
        allow(closed.bootstrap, f"User:{USER}", missing, "CREATE")
        wait_error(unique_flow, name, missing, "grant WRITE on it", consequence)
        commit(unique_flow.source.bootstrap, group, {(topic, 0): 50})
        unique_flow.wait_there(group, {(topic, 0): 50 + SHIFT})
        allow(closed.bootstrap, f"User:{USER}", missing, "WRITE")
        wait_no_error(unique_flow, name)
        unique_flow.worker.rest.wait_running(name)
    kinds = {json.loads(record.key or b"{}")["kind"] for record in read(closed.bootstrap, missing)}
    assert {"group", "task"} <= kinds


@pytest.mark.parametrize("evidence", mostly_long(["both", "syncs"]))
def test_a_syncs_topic_that_we_may_not_read_is_named_and_records_are_enough(
    flow: Flow, closed: Broker, evidence: str
) -> None:
    unique_flow = synced(flow, source=closed)
    topic, group = unique_flow.topic(), unique("closed")
    allow(closed.bootstrap, f"User:{USER}", topic, "READ")
    give_syncs(unique_flow, topic, range(0, 60, 20))
    commit(unique_flow.source.bootstrap, group, {(topic, 0): 45})
    config = our_control("Checkpoint", unique_flow, groups=exactly(group), translation_evidence=evidence)
    with connector(unique_flow.worker, config | login("source", closed), unique("closed")) as name:
        wait_error(unique_flow, name, "can't be read", syncs_topic(unique_flow), "uthoriz")
        if evidence == "both":
            wait_checkpoint(unique_flow, group, topic, 45 + SHIFT)
        else:
            unique_flow.wait_reason(group, topic, "no_offset_syncs")
        unique_flow.worker.rest.wait_running(name)
        allow(closed.bootstrap, f"User:{USER}", syncs_topic(unique_flow), "READ")
        wait_no_error(unique_flow, name)
        wait_checkpoint(unique_flow, group, topic, 45 + SHIFT if evidence == "both" else 40 + SHIFT + 1)


@pytest.mark.long
def test_a_heartbeats_topic_that_we_may_not_create_is_named_and_beats_wait(
    flow: Flow, closed: Broker
) -> None:
    unique_flow = synced(flow, target=closed)
    for operation in ("DESCRIBE", "READ"):
        allow(closed.bootstrap, f"User:{USER}", "heartbeats", operation)
    config = our_control("Heartbeat", unique_flow, emit_heartbeats_interval_seconds=1) | login(
        "target", closed
    )
    config |= {"producer.override.bootstrap.servers": closed.bootstrap}
    with connector(unique_flow.worker, config, unique("closed")) as name:
        wait_error(unique_flow, name, "heartbeats", "not allowed to create")
        wait_equal(
            lambda: unique_flow.service.status(name)["records_waiting"], 0, watched=unique_flow.watched
        )
        create_topic(closed.bootstrap, "heartbeats", 1, COMPACTED)
        eventually(
            lambda: len(heartbeats(closed)) >= 2, WAIT, what="two heartbeats", watched=unique_flow.watched
        )
        wait_no_error(unique_flow, name)
        unique_flow.worker.rest.wait_running(name)


# -- records that are none -----------------------------------------------------------------------------------------

KEY, VALUE = sync("poisoned", 1, 2).key, sync("poisoned", 1, 2).value
assert KEY is not None
assert VALUE is not None
POISON = {
    "short value": Record(VALUE[:11], key=KEY),
    "null value": Record(None, key=KEY),
    "garbage key": Record(VALUE, key=b"\xff\xff\xff"),
}


@pytest.mark.long
def test_poison_in_the_syncs_topic_costs_itself_and_no_other(flow: Flow) -> None:
    """B8: stock loses the rest of what it has read with it; a null value at the start ends its translation for good."""
    unique_flow = synced(flow)
    topic, other, group = unique_flow.topic(), unique_flow.topic(), unique("poison")
    records = [sync(topic, 0, SHIFT), *POISON.values(), sync(topic, 40, 40 + SHIFT)]
    produce(unique_flow.source.bootstrap, syncs_topic(unique_flow), records)
    commit(unique_flow.source.bootstrap, group, {(topic, 0): 45, (other, 0): 45})
    with checkpointing(unique_flow, exactly(group), translation_evidence="syncs") as name:
        wait_checkpoint(unique_flow, group, topic, 40 + SHIFT + 1)
        unique_flow.wait_reason(group, other, "no_offset_syncs")
        assert unreadable(unique_flow, name) == len(POISON)
        # The same while it is followed.
        produce(
            unique_flow.source.bootstrap,
            syncs_topic(unique_flow),
            [*POISON.values(), sync(other, 42, 42 + SHIFT)],
        )
        wait_checkpoint(unique_flow, group, other, 42 + SHIFT + 1)
        eventually(
            lambda: unreadable(unique_flow, name) == 2 * len(POISON), WAIT, what="each is counted once"
        )
        unique_flow.wait_rounds(name)
        assert len(lines_in_log(unique_flow, syncs_topic(unique_flow), "can't be read")) == 2 * len(POISON), (
            "each once"
        )
        wait_equal(lambda: unique_flow.service.status(name)["errors"], [], watched=unique_flow.watched)
        unique_flow.worker.rest.wait_running(name)


def test_poison_in_the_checkpoints_topic_costs_itself_and_no_other(flow: Flow) -> None:
    unique_flow = synced(flow)
    topic, group = unique_flow.topic(), unique("poison")
    create_topic(unique_flow.target.bootstrap, checkpoints_topic(unique_flow), 1, COMPACTED)
    low = Checkpoint(group, TopicPartition(unique_flow.remote(topic), 0), 45, 20, "")
    records = [*POISON.values(), Record(low.value(), key=low.key()), *POISON.values()]
    produce(unique_flow.target.bootstrap, checkpoints_topic(unique_flow), records)
    commit(unique_flow.source.bootstrap, group, {(topic, 0): 45})
    with checkpointing(unique_flow, exactly(group)) as name:

        def counted() -> None:
            result = _readable(unique_flow)
            assert result[-1].downstream_offset == 45 + SHIFT, result
            assert unreadable(unique_flow, name) == 2 * len(POISON)

        eventually(counted, WAIT, what="the checkpoint after the poison", watched=unique_flow.watched)
        unique_flow.worker.rest.wait_running(name)


def _readable(unique_flow: Flow) -> list[Checkpoint]:
    """Checkpoints of the topic, without the records that are none."""
    result = read(unique_flow.target.bootstrap, checkpoints_topic(unique_flow))
    poison = {record.value for record in POISON.values()} - {None}
    return [
        Checkpoint.decode(each.key, each.value)
        for each in result
        if each.value is not None and each.value not in poison
    ]


# -- the syncs topic gone ------------------------------------------------------------------------------------------


@pytest.mark.long
def test_by_syncs_alone_what_happens_to_their_topic_is_said_and_heals(flow: Flow) -> None:
    """Missing, emptied, deleted in flight and made again, one after the other. An answer is never of syncs that are
    gone."""
    unique_flow = aliased(flow)
    topic, group = unique_flow.topic(), unique("syncs")
    commit(unique_flow.source.bootstrap, group, {(topic, 0): 45})
    with checkpointing(unique_flow, exactly(group), translation_evidence="syncs") as name:
        unique_flow.wait_reason(group, topic, "no_offset_syncs")
        wait_error(unique_flow, name, "can't be read", syncs_topic(unique_flow))

        create_topic(unique_flow.source.bootstrap, syncs_topic(unique_flow))
        give_syncs(unique_flow, topic, range(0, 60, 20))
        wait_checkpoint(unique_flow, group, topic, 40 + SHIFT + 1)
        wait_no_error(unique_flow, name)

        _, end = bounds(unique_flow.source.bootstrap, syncs_topic(unique_flow))[0]
        delete_records(unique_flow.source.bootstrap, syncs_topic(unique_flow), {0: end})
        unique_flow.wait_reason(group, topic, "no_offset_syncs")
        give_syncs(unique_flow, topic, range(42, 43))
        wait_checkpoint(unique_flow, group, topic, 42 + SHIFT + 1)

        delete_topic(unique_flow.source.bootstrap, syncs_topic(unique_flow))
        unique_flow.wait_reason(group, topic, "no_offset_syncs")
        wait_error(unique_flow, name, "can't be read", syncs_topic(unique_flow))
        create_topic(unique_flow.source.bootstrap, syncs_topic(unique_flow))
        give_syncs(unique_flow, topic, range(44, 45))
        wait_checkpoint(unique_flow, group, topic, 44 + SHIFT + 1)
        wait_no_error(unique_flow, name)
        unique_flow.worker.rest.wait_running(name)


@pytest.mark.long
def test_by_both_what_happens_to_the_syncs_topic_changes_no_answer(flow: Flow) -> None:
    unique_flow = aliased(flow)
    topic, group = unique_flow.topic(), unique("syncs")
    commit(unique_flow.source.bootstrap, group, {(topic, 0): 11})

    def moves_to(offset: int) -> None:
        commit(unique_flow.source.bootstrap, group, {(topic, 0): offset})
        wait_checkpoint(unique_flow, group, topic, offset + SHIFT)
        unique_flow.wait_verdict(group, topic)

    with checkpointing(unique_flow, exactly(group)) as name:
        moves_to(12)
        wait_error(unique_flow, name, "can't be read", syncs_topic(unique_flow))
        create_topic(unique_flow.source.bootstrap, syncs_topic(unique_flow))
        give_syncs(unique_flow, topic, range(0, 60, 20))
        wait_no_error(unique_flow, name)
        moves_to(45)
        delete_records(
            unique_flow.source.bootstrap,
            syncs_topic(unique_flow),
            {0: bounds(unique_flow.source.bootstrap, syncs_topic(unique_flow))[0][1]},
        )
        moves_to(46)
        delete_topic(unique_flow.source.bootstrap, syncs_topic(unique_flow))
        moves_to(47)
        create_topic(unique_flow.source.bootstrap, syncs_topic(unique_flow))
        give_syncs(unique_flow, topic, range(48, 49))
        wait_no_error(unique_flow, name)
        moves_to(48)
        unique_flow.worker.rest.wait_running(name)


# -- the checkpoints topic gone ------------------------------------------------------------------------------------


@pytest.mark.parametrize("made_by", mostly_long(["us", "somebody"]))
def test_a_checkpoints_topic_deleted_in_flight_gets_its_checkpoints_again(flow: Flow, made_by: str) -> None:
    unique_flow = synced(flow)
    topic, group = unique_flow.topic(), unique("deleted")
    commit(unique_flow.source.bootstrap, group, {(topic, 0): 45})
    with checkpointing(unique_flow, exactly(group)) as name:
        wait_checkpoint(unique_flow, group, topic, 45 + SHIFT)
        delete_topic(unique_flow.target.bootstrap, checkpoints_topic(unique_flow))
        if made_by == "somebody":
            create_topic(unique_flow.target.bootstrap, checkpoints_topic(unique_flow), 1, COMPACTED)
        wait_checkpoint(unique_flow, group, topic, 45 + SHIFT)
        assert cleanup_policy(unique_flow.target, checkpoints_topic(unique_flow)) == "compact"
        commit(unique_flow.source.bootstrap, group, {(topic, 0): 50})
        wait_checkpoint(unique_flow, group, topic, 50 + SHIFT)
        wait_no_error(unique_flow, name)
        unique_flow.worker.rest.wait_running(name)


@pytest.mark.long
def test_an_emptied_checkpoints_topic_gets_its_checkpoints_again(flow: Flow) -> None:
    unique_flow = synced(flow)
    topic, group = unique_flow.topic(), unique("emptied")
    commit(unique_flow.source.bootstrap, group, {(topic, 0): 45})
    with checkpointing(unique_flow, exactly(group)) as name:
        wait_checkpoint(unique_flow, group, topic, 45 + SHIFT)
        unique_flow.wait_rounds(name)
        # Records of a topic that is only compacted can't be deleted.
        both = {"cleanup.policy": "compact,delete"}
        set_topic_config(unique_flow.target.bootstrap, checkpoints_topic(unique_flow), both)
        before = bounds(unique_flow.target.bootstrap, checkpoints_topic(unique_flow))[0][1]
        delete_records(unique_flow.target.bootstrap, checkpoints_topic(unique_flow), {0: before})
        wait_checkpoint(unique_flow, group, topic, 45 + SHIFT)

        def as_it_was() -> bool:
            return len(checkpoints(unique_flow.target, unique_flow.source.name)) == 1

        stays(as_it_was, 3.0, what="written again once")
