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

from bridge.local import Broker, Cluster, LocalStack, Security
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
from tests.e2e.ground import SHIFT, WAIT, Ground, exactly, stays
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

USER, PASSWORD = "alice", "wonderland-8812"
COMPACTED = {"cleanup.policy": "compact"}


def synced(ground: Ground, *, source: Cluster | None = None, target: Cluster | None = None) -> Ground:
    """A flow with a syncs topic, as its mirror makes it."""
    mine = aliased(ground, source=source, target=target)
    create_topic(mine.source.bootstrap, syncs_topic(mine), 1, COMPACTED)
    return mine


def sync(topic: str, upstream: int, downstream: int) -> Record:
    made = OffsetSync(TopicPartition(topic, 0), upstream, downstream)
    return Record(made.value(), key=made.key())


def give_syncs(mine: Ground, topic: str, offsets: range) -> None:
    produce(mine.source.bootstrap, syncs_topic(mine), [sync(topic, at, at + SHIFT) for at in offsets])


def cleanup_policy(cluster: Cluster, topic: str) -> str:
    client = admin(cluster.bootstrap)
    (future,) = client.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values()
    return str(future.result(WAIT)["cleanup.policy"].value)


def wait_error(mine: Ground, name: str, *words: str) -> str:
    """Until health has an error that has all of these words, and no more than degraded is said."""

    def said() -> str:
        errors = mine.service.status(name)["errors"]
        found = [error for error in errors if all(word in error for word in words)]
        assert found, errors
        assert mine.service.health()["status"] == "degraded"
        return str(found[0])

    return eventually(said, WAIT, what=f"health says {' '.join(words)}", watched=mine.watched)


def wait_no_error(mine: Ground, name: str) -> None:
    def silent() -> None:
        assert mine.service.status(name)["errors"] == []

    eventually(silent, WAIT, what=f"{name} has no error any more", watched=mine.watched)


def unreadable(mine: Ground, name: str) -> int:
    """Records of internal topics that the connector has left out, as its metric says."""
    lines = httpx.get(f"{mine.service.url}/metrics", timeout=10).text.splitlines()
    found = [
        line
        for line in lines
        if line.startswith(f'mirror_bridge_unreadable_records_total{{connector="{name}"')
    ]
    assert found
    return int(sum(float(line.rpartition(" ")[2]) for line in found))


def lines_in_log(mine: Ground, *words: str) -> list[str]:
    log = mine.process.process.log.read_text().splitlines()
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
    broker.stop()


def login(side: str, broker: Broker) -> dict[str, str]:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    return {
        f"{side}.cluster.bootstrap.servers": broker.address("SASL_PLAINTEXT"),
        f"{side}.cluster.security.protocol": "SASL_PLAINTEXT",
        f"{side}.cluster.sasl.mechanism": "PLAIN",
        f"{side}.cluster.sasl.jaas.config": f'{module} required username="{USER}" password="{PASSWORD}";',
    }


@contextmanager
def checkpointing_there(mine: Ground, closed: Broker, groups: str, **settings: object) -> Iterator[str]:
    """Our checkpoint connector with the closed broker as its target, to which Connect writes too."""
    config = our_control("Checkpoint", mine, groups=groups, **settings) | login("target", closed)
    config |= {
        "producer.override.bootstrap.servers": closed.bootstrap,
        "emit.group-readiness.enabled": "false",
    }
    with connector(mine.worker, config, unique("closed")) as name:
        yield name


def copied(mine: Ground, closed: Broker) -> str:
    topic = mine.topic()
    allow(closed.bootstrap, f"User:{USER}", mine.remote(topic), "READ")
    return topic


def test_a_checkpoints_topic_that_we_may_not_create_is_named_and_group_sync_goes_on(
    ground: Ground, closed: Broker
) -> None:
    """Stock takes it for made; Connect's producer then holds the task up, and with it all that it would do."""
    mine = synced(ground, target=closed)
    topic, group = copied(mine, closed), unique("closed")
    missing = checkpoints_topic(mine)
    for operation in ("DESCRIBE", "READ"):
        allow(closed.bootstrap, f"User:{USER}", missing, operation)
    commit(mine.source.bootstrap, group, {(topic, 0): 42})
    with checkpointing_there(mine, closed, exactly(group), sync_group_offsets_enabled="true") as name:
        mine.wait_there(group, {(topic, 0): 42 + SHIFT})
        wait_error(mine, name, missing, "not allowed to create")
        commit(mine.source.bootstrap, group, {(topic, 0): 50})
        mine.wait_there(group, {(topic, 0): 50 + SHIFT})
        assert mine.service.status(name)["records_waiting"] == 0
        mine.worker.rest.wait_running(name)
        create_topic(closed.bootstrap, missing, 1, COMPACTED)
        wait_checkpoint(mine, group, topic, 50 + SHIFT)
        wait_no_error(mine, name)
        mine.worker.rest.wait_running(name)


def test_a_checkpoints_topic_that_exists_needs_no_right_to_create(ground: Ground, closed: Broker) -> None:
    mine = synced(ground, target=closed)
    topic, group = copied(mine, closed), unique("closed")
    create_topic(closed.bootstrap, checkpoints_topic(mine), 1, COMPACTED)
    allow(closed.bootstrap, f"User:{USER}", checkpoints_topic(mine), "READ")
    commit(mine.source.bootstrap, group, {(topic, 0): 42})
    with checkpointing_there(mine, closed, exactly(group)) as name:
        wait_checkpoint(mine, group, topic, 42 + SHIFT)
        mine.wait_rounds(name)
        assert mine.service.status(name)["errors"] == []


def test_a_checkpoints_topic_that_we_may_not_read_is_named_and_checkpoints_go_on(
    ground: Ground, closed: Broker
) -> None:
    mine = synced(ground, target=closed)
    topic, group = copied(mine, closed), unique("closed")
    create_topic(closed.bootstrap, checkpoints_topic(mine), 1, COMPACTED)
    allow(closed.bootstrap, f"User:{USER}", checkpoints_topic(mine), "DESCRIBE")
    commit(mine.source.bootstrap, group, {(topic, 0): 42})
    with checkpointing_there(mine, closed, exactly(group), sync_group_offsets_enabled="true") as name:
        wait_checkpoint(mine, group, topic, 42 + SHIFT)
        mine.wait_there(group, {(topic, 0): 42 + SHIFT})
        wait_error(mine, name, "can't be read", checkpoints_topic(mine), "uthoriz")
        commit(mine.source.bootstrap, group, {(topic, 0): 50})
        wait_checkpoint(mine, group, topic, 50 + SHIFT)
        mine.wait_rounds(name)
        emitted = [each for each in checkpoints(mine.target, mine.source.name) if each.group == group]
        assert [each.upstream_offset for each in emitted] == [42, 50], (
            "each once, although none was seen there"
        )
        mine.worker.rest.wait_running(name)
        allow(closed.bootstrap, f"User:{USER}", checkpoints_topic(mine), "READ")
        wait_no_error(mine, name)


def test_a_readiness_topic_that_we_may_not_make_or_write_is_named_and_group_sync_goes_on(
    ground: Ground, closed: Broker
) -> None:
    mine = synced(ground, target=closed)
    topic, group = copied(mine, closed), unique("closed")
    missing = f"mm2-group-readiness.{mine.source.name}.internal"
    consequence = "started while the source is away knows no groups"
    commit(mine.source.bootstrap, group, {(topic, 0): 42})
    config = mine.config(exactly(group)) | login("target", closed)
    with connector(mine.worker, config, unique("closed")) as name:
        mine.wait_there(group, {(topic, 0): 42 + SHIFT})
        wait_error(mine, name, missing, "can't be written", "uthoriz", consequence)
        for operation in ("DESCRIBE", "READ"):
            allow(closed.bootstrap, f"User:{USER}", missing, operation)
        wait_error(mine, name, missing, "not allowed to create", consequence)
        allow(closed.bootstrap, f"User:{USER}", missing, "CREATE")
        wait_error(mine, name, missing, "grant WRITE on it", consequence)
        commit(mine.source.bootstrap, group, {(topic, 0): 50})
        mine.wait_there(group, {(topic, 0): 50 + SHIFT})
        allow(closed.bootstrap, f"User:{USER}", missing, "WRITE")
        wait_no_error(mine, name)
        mine.worker.rest.wait_running(name)
    kinds = {json.loads(record.key or b"{}")["kind"] for record in read(closed.bootstrap, missing)}
    assert {"group", "task"} <= kinds


@pytest.mark.parametrize("evidence", ["both", "syncs"])
def test_a_syncs_topic_that_we_may_not_read_is_named_and_records_are_enough(
    ground: Ground, closed: Broker, evidence: str
) -> None:
    mine = synced(ground, source=closed)
    topic, group = mine.topic(), unique("closed")
    allow(closed.bootstrap, f"User:{USER}", topic, "READ")
    give_syncs(mine, topic, range(0, 60, 20))
    commit(mine.source.bootstrap, group, {(topic, 0): 45})
    config = our_control("Checkpoint", mine, groups=exactly(group), translation_evidence=evidence)
    with connector(mine.worker, config | login("source", closed), unique("closed")) as name:
        wait_error(mine, name, "can't be read", syncs_topic(mine), "uthoriz")
        if evidence == "both":
            wait_checkpoint(mine, group, topic, 45 + SHIFT)
        else:
            mine.wait_reason(group, topic, "no_offset_syncs")
        mine.worker.rest.wait_running(name)
        allow(closed.bootstrap, f"User:{USER}", syncs_topic(mine), "READ")
        wait_no_error(mine, name)
        wait_checkpoint(mine, group, topic, 45 + SHIFT if evidence == "both" else 40 + SHIFT + 1)


def test_a_heartbeats_topic_that_we_may_not_create_is_named_and_beats_wait(
    ground: Ground, closed: Broker
) -> None:
    mine = synced(ground, target=closed)
    for operation in ("DESCRIBE", "READ"):
        allow(closed.bootstrap, f"User:{USER}", "heartbeats", operation)
    config = our_control("Heartbeat", mine, emit_heartbeats_interval_seconds=1) | login("target", closed)
    config |= {"producer.override.bootstrap.servers": closed.bootstrap}
    with connector(mine.worker, config, unique("closed")) as name:
        wait_error(mine, name, "heartbeats", "not allowed to create")
        assert mine.service.status(name)["records_waiting"] == 0
        create_topic(closed.bootstrap, "heartbeats", 1, COMPACTED)
        eventually(lambda: len(heartbeats(closed)) >= 2, WAIT, what="two heartbeats", watched=mine.watched)
        wait_no_error(mine, name)
        mine.worker.rest.wait_running(name)


# -- records that are none -----------------------------------------------------------------------------------------

KEY, VALUE = sync("poisoned", 1, 2).key, sync("poisoned", 1, 2).value
assert KEY is not None
assert VALUE is not None
POISON = {
    "short value": Record(VALUE[:11], key=KEY),
    "null value": Record(None, key=KEY),
    "garbage key": Record(VALUE, key=b"\xff\xff\xff"),
}


def test_poison_in_the_syncs_topic_costs_itself_and_no_other(ground: Ground) -> None:
    """B8: stock loses the rest of what it has read with it; a null value at the start ends its translation for good."""
    mine = synced(ground)
    topic, other, group = mine.topic(), mine.topic(), unique("poison")
    records = [sync(topic, 0, SHIFT), *POISON.values(), sync(topic, 40, 40 + SHIFT)]
    produce(mine.source.bootstrap, syncs_topic(mine), records)
    commit(mine.source.bootstrap, group, {(topic, 0): 45, (other, 0): 45})
    with checkpointing(mine, exactly(group), translation_evidence="syncs") as name:
        wait_checkpoint(mine, group, topic, 40 + SHIFT + 1)
        mine.wait_reason(group, other, "no_offset_syncs")
        assert unreadable(mine, name) == len(POISON)
        # The same while it is followed.
        produce(mine.source.bootstrap, syncs_topic(mine), [*POISON.values(), sync(other, 42, 42 + SHIFT)])
        wait_checkpoint(mine, group, other, 42 + SHIFT + 1)
        eventually(lambda: unreadable(mine, name) == 2 * len(POISON), WAIT, what="each is counted once")
        mine.wait_rounds(name)
        assert len(lines_in_log(mine, syncs_topic(mine), "can't be read")) == 2 * len(POISON), "each once"
        assert mine.service.status(name)["errors"] == []
        mine.worker.rest.wait_running(name)


def test_poison_in_the_checkpoints_topic_costs_itself_and_no_other(ground: Ground) -> None:
    mine = synced(ground)
    topic, group = mine.topic(), unique("poison")
    create_topic(mine.target.bootstrap, checkpoints_topic(mine), 1, COMPACTED)
    low = Checkpoint(group, TopicPartition(mine.remote(topic), 0), 45, 20, "")
    records = [*POISON.values(), Record(low.value(), key=low.key()), *POISON.values()]
    produce(mine.target.bootstrap, checkpoints_topic(mine), records)
    commit(mine.source.bootstrap, group, {(topic, 0): 45})
    with checkpointing(mine, exactly(group)) as name:

        def counted() -> None:
            found = _readable(mine)
            assert found[-1].downstream_offset == 45 + SHIFT, found
            assert unreadable(mine, name) == 2 * len(POISON)

        eventually(counted, WAIT, what="the checkpoint after the poison", watched=mine.watched)
        mine.worker.rest.wait_running(name)


def _readable(mine: Ground) -> list[Checkpoint]:
    """Checkpoints of the topic, without the records that are none."""
    found = read(mine.target.bootstrap, checkpoints_topic(mine))
    poison = {record.value for record in POISON.values()} - {None}
    return [
        Checkpoint.decode(each.key, each.value)
        for each in found
        if each.value is not None and each.value not in poison
    ]


# -- the syncs topic gone ------------------------------------------------------------------------------------------


def test_by_syncs_alone_what_happens_to_their_topic_is_said_and_heals(ground: Ground) -> None:
    """Missing, emptied, deleted in flight and made again, one after the other. An answer is never of syncs that are
    gone."""
    mine = aliased(ground)
    topic, group = mine.topic(), unique("syncs")
    commit(mine.source.bootstrap, group, {(topic, 0): 45})
    with checkpointing(mine, exactly(group), translation_evidence="syncs") as name:
        mine.wait_reason(group, topic, "no_offset_syncs")
        wait_error(mine, name, "can't be read", syncs_topic(mine))

        create_topic(mine.source.bootstrap, syncs_topic(mine))
        give_syncs(mine, topic, range(0, 60, 20))
        wait_checkpoint(mine, group, topic, 40 + SHIFT + 1)
        wait_no_error(mine, name)

        _, end = bounds(mine.source.bootstrap, syncs_topic(mine))[0]
        delete_records(mine.source.bootstrap, syncs_topic(mine), {0: end})
        mine.wait_reason(group, topic, "no_offset_syncs")
        give_syncs(mine, topic, range(42, 43))
        wait_checkpoint(mine, group, topic, 42 + SHIFT + 1)

        delete_topic(mine.source.bootstrap, syncs_topic(mine))
        mine.wait_reason(group, topic, "no_offset_syncs")
        wait_error(mine, name, "can't be read", syncs_topic(mine))
        create_topic(mine.source.bootstrap, syncs_topic(mine))
        give_syncs(mine, topic, range(44, 45))
        wait_checkpoint(mine, group, topic, 44 + SHIFT + 1)
        wait_no_error(mine, name)
        mine.worker.rest.wait_running(name)


def test_by_both_what_happens_to_the_syncs_topic_changes_no_answer(ground: Ground) -> None:
    mine = aliased(ground)
    topic, group = mine.topic(), unique("syncs")
    commit(mine.source.bootstrap, group, {(topic, 0): 11})

    def moves_to(offset: int) -> None:
        commit(mine.source.bootstrap, group, {(topic, 0): offset})
        wait_checkpoint(mine, group, topic, offset + SHIFT)
        assert mine.service.partition(group, topic)["verdict"] == "exact"

    with checkpointing(mine, exactly(group)) as name:
        moves_to(12)
        wait_error(mine, name, "can't be read", syncs_topic(mine))
        create_topic(mine.source.bootstrap, syncs_topic(mine))
        give_syncs(mine, topic, range(0, 60, 20))
        wait_no_error(mine, name)
        moves_to(45)
        delete_records(
            mine.source.bootstrap,
            syncs_topic(mine),
            {0: bounds(mine.source.bootstrap, syncs_topic(mine))[0][1]},
        )
        moves_to(46)
        delete_topic(mine.source.bootstrap, syncs_topic(mine))
        moves_to(47)
        create_topic(mine.source.bootstrap, syncs_topic(mine))
        give_syncs(mine, topic, range(48, 49))
        wait_no_error(mine, name)
        moves_to(48)
        mine.worker.rest.wait_running(name)


# -- the checkpoints topic gone ------------------------------------------------------------------------------------


@pytest.mark.parametrize("made_by", ["us", "somebody"])
def test_a_checkpoints_topic_deleted_in_flight_gets_its_checkpoints_again(
    ground: Ground, made_by: str
) -> None:
    mine = synced(ground)
    topic, group = mine.topic(), unique("deleted")
    commit(mine.source.bootstrap, group, {(topic, 0): 45})
    with checkpointing(mine, exactly(group)) as name:
        wait_checkpoint(mine, group, topic, 45 + SHIFT)
        delete_topic(mine.target.bootstrap, checkpoints_topic(mine))
        if made_by == "somebody":
            create_topic(mine.target.bootstrap, checkpoints_topic(mine), 1, COMPACTED)
        wait_checkpoint(mine, group, topic, 45 + SHIFT)
        assert cleanup_policy(mine.target, checkpoints_topic(mine)) == "compact"
        commit(mine.source.bootstrap, group, {(topic, 0): 50})
        wait_checkpoint(mine, group, topic, 50 + SHIFT)
        wait_no_error(mine, name)
        mine.worker.rest.wait_running(name)


def test_an_emptied_checkpoints_topic_gets_its_checkpoints_again(ground: Ground) -> None:
    mine = synced(ground)
    topic, group = mine.topic(), unique("emptied")
    commit(mine.source.bootstrap, group, {(topic, 0): 45})
    with checkpointing(mine, exactly(group)) as name:
        wait_checkpoint(mine, group, topic, 45 + SHIFT)
        mine.wait_rounds(name)
        # Records of a topic that is only compacted can't be deleted.
        both = {"cleanup.policy": "compact,delete"}
        set_topic_config(mine.target.bootstrap, checkpoints_topic(mine), both)
        before = bounds(mine.target.bootstrap, checkpoints_topic(mine))[0][1]
        delete_records(mine.target.bootstrap, checkpoints_topic(mine), {0: before})
        wait_checkpoint(mine, group, topic, 45 + SHIFT)

        def as_it_was() -> bool:
            return len(checkpoints(mine.target, mine.source.name)) == 1

        stays(as_it_was, 3.0, what="written again once")
