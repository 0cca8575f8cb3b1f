"""Flows as in MirrorConnectorsIntegrationBaseTest: stock's MirrorSourceConnector mirrors, and in the place of stock's
checkpoint and heartbeat connectors there are ours. In an OurFlow it is our source connector that mirrors.

A topic has 10 partitions. Partition p of a copy begins with p + 1 records of somebody else, so that an offset carried
over literally is wrong in every partition, and in each by another number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar, Self

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as Place

from bridge.client import heartbeat_topics, replication_hops, translate_offsets, upstream_clusters
from bridge.local import Broker, Cluster
from bridge.mm2.records import Checkpoint
from bridge.model.values import TopicPartition
from tests.e2e.control import beats, checkpoints, our_control
from tests.e2e.flow import Flow, committed_offsets
from tests.support import (
    Record,
    bounds,
    commit,
    connector,
    create_topic,
    eventually,
    produce,
    produce_transaction,
    stock_config,
    unique,
)
from tests.support.readers import reader
from tests.support.records import as_record
from tests.support.waits import WAIT

PARTITIONS = 10
RECORDS = 10
IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
_TRANSACTIONS = 4


@dataclass(frozen=True)
class TlsBackup:
    """A target that connectors reach by TLS, and its authority; tests come by the plain listener."""

    broker: Broker
    authority: Path

    @property
    def settings(self) -> dict[str, object]:
        """Of connectors, and of the producers that Connect gives them."""
        result: dict[str, object] = {
            "target_cluster_bootstrap_servers": self.broker.address("SSL"),
            "producer_override_bootstrap_servers": self.broker.address("SSL"),
        }
        for prefix in ("target_cluster", "producer_override"):
            result |= {
                f"{prefix}_security_protocol": "SSL",
                f"{prefix}_ssl_truststore_type": "PEM",
                f"{prefix}_ssl_truststore_location": self.authority,
            }
        return result


@dataclass(frozen=True)
class MirroredFlow:
    """`settings` are of all its connectors. Topics and groups begin with `mark`: that is what the flow mirrors."""

    flow: Flow
    settings: Mapping[str, object] = field(default_factory=dict)
    transactions: bool = False
    """Producers are transactional: the source's partitions have control records, the copies have none."""
    mark: str = field(default_factory=lambda: unique("flow"))
    _transactional: ClassVar[bool] = False
    """Whether the mirror writes in transactions: a copy is there when its transaction is committed, as is its run."""

    @property
    def source(self) -> Cluster:
        return self.flow.source

    @property
    def target(self) -> Cluster:
        return self.flow.target

    @property
    def identity(self) -> bool:
        return self.settings.get("replication_policy_class") == IDENTITY

    def name(self, what: str) -> str:
        """For a topic or a group."""
        return f"{self.mark}-{what}"

    def remote(self, topic: str) -> str:
        return topic if self.identity else self.flow.remote(topic)

    def returning(self) -> Self:
        """From backup to primary, with group sync left off."""
        settings = {
            key: value
            for key, value in self.settings.items()
            if not key.startswith(("target_cluster", "producer_override"))
        }
        flow = self.flow.reversed()
        return replace(self, flow=flow, settings=settings, mark=f"{self.mark}-back")

    # -- connectors ----------------------------------------------------------------------------------------------------

    @contextmanager
    def running(self, kind: str, **settings: object) -> Iterator[str]:
        """Our connector of this kind, for the time of the block."""
        config = our_control(kind, self.flow, **self._settings(settings))
        with connector(self.flow.worker, config, unique(kind.lower())) as name:
            yield name

    @contextmanager
    def mirror(self, **settings: object) -> Iterator[str]:
        """Stock's source connector, for the time of the block."""
        config = stock_config("Source", self.source, self.target, **self._settings(settings))
        with connector(self.flow.worker, config, unique("mirror")) as name:
            yield name

    @contextmanager
    def mirrored(self) -> Iterator[None]:
        """With the mirror, and our checkpoint connector with group sync."""
        with self.mirror(), self.running("Checkpoint", sync_group_offsets_enabled="true"):
            yield

    def _settings(self, more: Mapping[str, object]) -> dict[str, object]:
        return {
            # Heartbeats by name: heartbeats.replication.enabled would take those of all other flows along.
            "topics": f"{self.mark}.*,heartbeats",
            "groups": f"{self.mark}.*",
            "refresh_topics_interval_seconds": 1,
            # Connect's own producer writes to the worker's cluster, which the target need not be.
            "producer_override_bootstrap_servers": self.target.bootstrap,
            **self.settings,
            **more,
        }

    # -- records -------------------------------------------------------------------------------------------------------

    def topic(self, what: str, *, shifted: bool = True) -> str:
        """A topic on the source; with the copy that the mirror will find if that is to be `shifted`."""
        topic = self.name(what)
        if shifted:
            # The copy first: of a topic on the source the mirror would make one itself.
            create_topic(self.target.bootstrap, self.remote(topic), PARTITIONS)
            foreign = [
                Record(b"foreign", timestamp=1_600_000_000_000 + number, partition=partition)
                for partition in range(PARTITIONS)
                for number in range(partition + 1)
            ]
            produce(self.target.bootstrap, self.remote(topic), foreign)
        return create_topic(self.source.bootstrap, topic, PARTITIONS)

    def produce(
        self, topic: str, count: int = RECORDS, *, start: int = 0, partitions: int = PARTITIONS
    ) -> None:
        """`count` records into each of the first partitions, in several transactions if the flow has such."""
        step = -(-count // _TRANSACTIONS) if self.transactions else count
        for first in range(start, start + count, step):
            records = [
                Record(b"%d-%d" % (partition, number), key=b"key", partition=partition)
                for number in range(first, min(first + step, start + count))
                for partition in range(partitions)
            ]
            send = produce_transaction if self.transactions else produce
            send(self.source.bootstrap, topic, records)

    def wait_mirrored(self, topic: str) -> None:
        """Until every partition of the copy ends with the source's last record."""
        last = {
            partition: records[-1].value
            for partition, records in read_all(self.source, topic).items()
            if records
        }

        def arrived() -> None:
            there = read_all(self.target, self.remote(topic), committed_only=self._transactional)
            result = {partition: there[partition][-1].value for partition in last}
            assert result == last

        eventually(arrived, WAIT, what=f"{topic} is mirrored", watched=self.flow.watched)

    def assert_heartbeats(self) -> None:
        """They arrive here, those of the other direction are mirrored to here, and tell MirrorClient of the cluster."""
        props = {"bootstrap.servers": self.target.bootstrap}
        mirrored, watched = f"{self.source.name}.heartbeats", self.flow.watched
        eventually(lambda: len(beats(self.flow)) > 0, WAIT, what="heartbeats", watched=watched)
        eventually(lambda: mirrored in heartbeat_topics(props), WAIT, what=mirrored, watched=watched)
        eventually(lambda: read_all(self.target, mirrored)[0], WAIT, what="the source's own", watched=watched)
        assert self.source.name in upstream_clusters(props)
        assert replication_hops(props, self.source.name) == 1

    # -- groups --------------------------------------------------------------------------------------------------------

    def commit(self, group: str, topic: str, processed: Mapping[int, int]) -> None:
        """By partition: how many records the group has processed."""
        commit(self.source.bootstrap, group, self._committed(topic, processed))

    def exact(self, topic: str, processed: Mapping[int, int]) -> dict[tuple[str, int], int]:
        """Where a group that has processed so many records stands on the target if it re-reads and skips nothing:
        behind the copy of the last one, or at the start."""
        here, there = read_all(self.source, topic), read_all(self.target, self.remote(topic))
        exact = {}
        for partition, count in processed.items():
            copies = {record.value: record.offset for record in there[partition]}
            last = here[partition][count - 1].value if count else None
            exact[self.remote(topic), partition] = copies[last] + 1 if count else 0
        return exact

    def wait_translated(self, group: str, expected: Mapping[tuple[str, int], int]) -> None:
        """Until MirrorClient answers exactly this for the group, and for these topics nothing else."""
        topics = {topic for topic, _ in expected}

        def answered() -> None:
            result = self.translated(group)
            assert {place: offset for place, offset in result.items() if place[0] in topics} == expected

        eventually(answered, WAIT, what=f"checkpoints of {group}", watched=self.flow.watched)

    def translated(self, group: str) -> dict[tuple[str, int], int]:
        """MirrorClient.remoteConsumerOffsets."""
        props = {"bootstrap.servers": self.target.bootstrap}
        result = translate_offsets(props, self.source.name, group, timeout_s=WAIT)
        return {(place.topic, place.partition): committed.offset for place, committed in result.items()}

    def wait_synced(self, group: str, expected: Mapping[tuple[str, int], int]) -> None:
        """waitForConsumerGroupFullSync: until the group's offsets on the target are exactly these."""

        def synced() -> None:
            assert committed_offsets(self.target.bootstrap, group) == expected

        eventually(synced, WAIT, what=f"{group} is synced", watched=self.flow.watched)

    def emitted(self, group: str) -> list[Checkpoint]:
        """All checkpoints of a group, in the log's order."""
        return [each for each in checkpoints(self.target, self.source.name) if each.group == group]

    def assert_monotonic(self, group: str) -> None:
        """assertMonotonicCheckpoints: downstream goes back only where upstream does. And ours never repeats one."""
        # A group may be synced before Connect has written its checkpoint.
        eventually(
            lambda: bool(self.emitted(group)), WAIT, what=f"checkpoints of {group}", watched=self.flow.watched
        )
        last: dict[TopicPartition, Checkpoint] = {}
        for each in self.emitted(group):
            before = last.get(each.topic_partition)
            if before is not None:
                assert (
                    each.upstream_offset < before.upstream_offset
                    or each.downstream_offset > before.downstream_offset
                ), f"{each} after {before}"
            last[each.topic_partition] = each

    def _committed(self, topic: str, processed: Mapping[int, int]) -> dict[tuple[str, int], int]:
        here = read_all(self.source, topic)
        return {
            (topic, partition): here[partition][count - 1].offset + 1 if count else 0
            for partition, count in processed.items()
        }


@dataclass(frozen=True)
class OurFlow(MirroredFlow):
    """Our source connector mirrors."""

    _transactional: ClassVar[bool] = True

    @contextmanager
    def mirror(self, **settings: object) -> Iterator[str]:
        config = our_control("Source", self.flow, **self._settings({"spark_master": "local[2]", **settings}))
        if config.get("emit.offset-syncs.enabled") == "false":
            # As with stock, nothing may be said of the topic then.
            config = {key: value for key, value in config.items() if not key.startswith("offset-syncs.")}
        with connector(self.flow.worker, config, unique("source")) as name:
            yield name

    @contextmanager
    def stock_checkpoints(self, **settings: object) -> Iterator[str]:
        """Stock's checkpoint connector on our copy, for the time of the block."""
        config = stock_config("Checkpoint", self.source, self.target, **self._settings(settings))
        with connector(self.flow.worker, config, unique("stock")) as name:
            yield name

    @contextmanager
    def group_offsets(self, groups: str) -> Iterator[str]:
        """Our group-offset connector, for the time of the block."""
        policy = {key: value for key, value in self.settings.items() if key.startswith("replication_policy")}
        with self.flow.connector(groups, topics=f"{self.mark}.*", **policy) as name:
            yield name

    def unread(self, topic: str, at: Mapping[tuple[str, int], int]) -> dict[int, list[bytes | None]]:
        """What a group that stands at these offsets of the topic's copy is still to read, by partition."""
        copy = self.remote(topic)
        return {
            partition: [each.value for each in records if each.offset >= at[copy, partition]]
            for partition, records in read_all(self.target, copy).items()
            if (copy, partition) in at
        }

    def left(self, topic: str, processed: Mapping[int, int]) -> dict[int, list[bytes | None]]:
        """What a group that has processed so many records of the topic has still to read."""
        here = read_all(self.source, topic)
        return {
            partition: [r.value for r in here[partition][count:]] for partition, count in processed.items()
        }

    def wait_exact(
        self,
        topic: str,
        processed: Mapping[int, int],
        offsets: Callable[[], Mapping[tuple[str, int], int]],
        what: str,
    ) -> None:
        """Until a group goes on with just the records that it has not processed. Offsets are not compared: between the
        last record and the next there may be markers of our transactions, which nobody reads."""
        expected = self.left(topic, processed)

        def stands() -> None:
            result = offsets()
            assert self.unread(topic, result) == expected, f"{what}: {result}"

        eventually(stands, WAIT, what=f"{what} is exact in {topic}", watched=self.flow.watched)


def every(count: int) -> dict[int, int]:
    """As many processed records in all partitions."""
    return dict.fromkeys(range(PARTITIONS), count)


def read_all(
    cluster: Cluster,
    topic: str,
    start: Mapping[tuple[str, int], int] | None = None,
    *,
    committed_only: bool = False,
) -> dict[int, list[Record]]:
    """All records by partition, by one consumer; of the partitions in `start` only, and from there on, if given."""
    places = {
        partition: low if start is None else start[topic, partition]
        for partition, (low, _) in bounds(cluster.bootstrap, topic).items()
        if start is None or (topic, partition) in start
    }
    result: dict[int, list[Record]] = {partition: [] for partition in places}
    with reader(cluster.bootstrap, committed_only=committed_only, reset="error") as consumer:
        consumer.assign([Place(topic, partition, offset) for partition, offset in places.items()])
        ended: set[int] = set()
        while ended != set(places):
            message = consumer.poll(WAIT)
            assert message is not None, f"{topic}: nothing, not even the end of a partition"
            error, partition = message.error(), message.partition()
            assert partition is not None
            if error is None:
                result[partition].append(as_record(message))
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add(partition)
            else:
                raise KafkaException(error)
    return result
