"""What a broker and a worker do while the classes that they load are archived (archives.py): what mirrors and tests ask
of them. A class that is not in the archive is read from its jar and checked at each start, and a lambda is made.
"""

from __future__ import annotations

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._listoffsets import OffsetSpec
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.cimpl import NewPartitions, NewTopic

from bridge.local.broker import Broker
from bridge.local.waiting import eventually
from bridge.local.worker import ConnectWorker

_TOPIC, _GROUP = "classes", "classes"
_SECONDS = 60.0


def use_broker(broker: Broker) -> None:
    """Records in a transaction, a group that reads and commits, and the admin calls that change nothing for good."""
    admin = AdminClient(_client(broker))
    admin.create_topics([NewTopic(_TOPIC, 1, 1)])[_TOPIC].result(_SECONDS)
    producer = Producer({**_client(broker), "transactional.id": _GROUP})
    producer.init_transactions(_SECONDS)
    producer.begin_transaction()
    for number in range(10):
        producer.produce(_TOPIC, b"%d" % number)
    producer.commit_transaction(_SECONDS)
    _read(broker)

    committed = ConsumerGroupTopicPartitions(_GROUP, [TopicPartition(_TOPIC, 0, 5)])
    admin.alter_consumer_group_offsets([committed])[_GROUP].result(_SECONDS)
    admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(_GROUP)])[_GROUP].result(_SECONDS)
    admin.list_consumer_groups().result(_SECONDS)
    admin.describe_consumer_groups([_GROUP])[_GROUP].result(_SECONDS)
    place = TopicPartition(_TOPIC, 0)
    for spec in (OffsetSpec.earliest(), OffsetSpec.latest()):
        admin.list_offsets({place: spec})[place].result(_SECONDS)
    entry = ConfigEntry("retention.ms", "-1", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, _TOPIC, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(_SECONDS)
    described = ConfigResource(ResourceType.TOPIC, _TOPIC)
    admin.describe_configs([described])[described].result(_SECONDS)
    admin.describe_cluster().result(_SECONDS)
    admin.create_partitions([NewPartitions(_TOPIC, 2)])[_TOPIC].result(_SECONDS)
    admin.delete_records([TopicPartition(_TOPIC, 0, 3)])[place].result(_SECONDS)


def use_worker(worker: ConnectWorker, broker: Broker) -> None:
    """Stock's mirror from the cluster to itself, by all three connectors; paused, resumed and deleted."""
    for kind in ("Source", "Checkpoint", "Heartbeat"):
        worker.rest.put(kind, _mirror(kind, broker))
    for kind in ("Source", "Checkpoint", "Heartbeat"):
        worker.rest.wait_running(kind, tasks=None)
    admin = AdminClient(_client(broker))
    copy = f"A.{_TOPIC}"
    eventually(lambda: copy in admin.list_topics(timeout=10).topics, _SECONDS, what=f"{copy} is there")
    worker.rest.pause("Source")
    worker.rest.wait_state("Source", "PAUSED")
    worker.rest.resume("Source")
    worker.rest.wait_running("Source", tasks=None)
    worker.rest.offsets("Source")
    for kind in ("Source", "Checkpoint", "Heartbeat"):
        worker.rest.delete(kind)


def _client(broker: Broker) -> dict[str, str | int | float | bool]:
    return {"bootstrap.servers": broker.bootstrap, "log_level": 0}


def _read(broker: Broker) -> None:
    own = {"group.id": _GROUP, "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    consumer = Consumer({**_client(broker), **own})
    try:
        consumer.subscribe([_TOPIC])
        eventually(lambda: consumer.poll(1.0) is not None, _SECONDS, what=f"{_TOPIC} is read")
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()


def _mirror(kind: str, broker: Broker) -> dict[str, str]:
    return {
        "connector.class": f"org.apache.kafka.connect.mirror.Mirror{kind}Connector",
        "source.cluster.alias": "A",
        "target.cluster.alias": "B",
        "source.cluster.bootstrap.servers": broker.bootstrap,
        "target.cluster.bootstrap.servers": broker.bootstrap,
        "topics": _TOPIC,
        "groups": _GROUP,
        "replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        "checkpoints.topic.replication.factor": "1",
        "heartbeats.topic.replication.factor": "1",
        "sync.topic.acls.enabled": "false",
        "sync.group.offsets.enabled": "true",
        "refresh.groups.interval.seconds": "1",
        "emit.checkpoints.interval.seconds": "1",
    }
