"""Configurations of the demo's three connectors: our source and group offset connectors, stock's checkpoints."""

from __future__ import annotations

import json
from importlib.resources import files

from bridge.demo.data import TOPICS
from bridge.local import Cluster

CHECKPOINTS = "stock-checkpoints"
INTERVAL_SECONDS = "2"
_STOCK = "org.apache.kafka.connect.mirror."
_BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"

Config = dict[str, str]


def mirror(source: Cluster, target: Cluster, service: str) -> tuple[str, Config]:
    """Returns connectors/source/connector.json for all topics, with a single replica."""
    name, config = _shipped("source", source, target, service)
    return name, config | {
        "topics": ",".join(TOPICS),
        "replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        "heartbeats.replication.enabled": "false",
        "sync.topic.acls.enabled": "false",
    }


def checkpoints(source: Cluster, target: Cluster) -> Config:
    """Stock's MirrorCheckpointConnector, with an interval of a second. It only writes checkpoints: ours commits the
    groups' offsets."""
    return _stock("MirrorCheckpointConnector", source, target) | {
        "groups": ".*",
        "sync.group.offsets.enabled": "false",
        "emit.checkpoints.interval.seconds": "1",
        "refresh.groups.interval.seconds": "1",
        "consumer.poll.timeout.ms": "200",
        "checkpoints.topic.replication.factor": "1",
    }


def ours(source: Cluster, target: Cluster, service: str) -> tuple[str, Config]:
    """Returns connectors/group_offset/connector.json, with shorter intervals."""
    name, config = _shipped("group_offset", source, target, service)
    return name, config | {
        "sync.group.offsets.interval.seconds": INTERVAL_SECONDS,
        "refresh.groups.interval.seconds": INTERVAL_SECONDS,
    }


def _shipped(kind: str, source: Cluster, target: Cluster, service: str) -> tuple[str, Config]:
    """Name and configuration of one of our connectors as shipped, with the addresses of this stack."""
    shipped = json.loads(files(f"connectors.{kind}").joinpath("connector.json").read_text("utf-8"))
    addresses = {
        "source.cluster.alias": source.name,
        "target.cluster.alias": target.name,
        "source.cluster.bootstrap.servers": source.bootstrap,
        "target.cluster.bootstrap.servers": target.bootstrap,
        "bridge.url": service,
    }
    return str(shipped["name"]), {**shipped["config"], **addresses}


def _stock(kind: str, source: Cluster, target: Cluster) -> Config:
    return {
        "connector.class": _STOCK + kind,
        "tasks.max": "1",
        "key.converter": _BYTES,
        "value.converter": _BYTES,
        "source.cluster.alias": source.name,
        "target.cluster.alias": target.name,
        "source.cluster.bootstrap.servers": source.bootstrap,
        "target.cluster.bootstrap.servers": target.bootstrap,
        "replication.factor": "1",
    }
