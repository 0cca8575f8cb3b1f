"""For end-to-end tests of checkpoints and heartbeats: our connectors, and the internal topics as they are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from bridge.local import Cluster, GivenCluster
from bridge.mm2.records import Checkpoint, Heartbeat, OffsetSync
from bridge.model.values import TopicPartition
from tests.e2e.flow import LEASE_MS, Flow
from tests.support import Record, connector, eventually, exists, read, stock_config, unique
from tests.support.waits import WAIT


def aliased(flow: Flow, *, source: Cluster | None = None, target: Cluster | None = None) -> Flow:
    """The same clusters, or others, under aliases that nobody else has, so with internal topics of its own."""
    return replace(
        flow,
        source=GivenCluster(unique("a"), (source or flow.source).bootstrap),
        target=GivenCluster(unique("b"), (target or flow.target).bootstrap),
    )


def our_control(kind: str, flow: Flow, **settings: object) -> dict[str, str]:
    """Our connector by stock's own JSON: the class changed, the service's address added and nothing else."""
    config = stock_config(kind, flow.source, flow.target, **settings)
    return {
        **config,
        "connector.class": f"BridgeMirror{kind}Connector",
        "bridge.url": flow.process.url,
        "bridge.task.lease.ms": str(LEASE_MS),
    }


def checkpoints_topic(flow: Flow) -> str:
    """On the target."""
    return f"{flow.source.name}.checkpoints.internal"


def syncs_topic(flow: Flow) -> str:
    """On the source."""
    return f"mm2-offset-syncs.{flow.target.name}.internal"


def _read(cluster: Cluster, topic: str) -> list[Record]:
    """Partition 0 of an internal topic, from its beginning to its end as of now; nothing where there is no topic."""
    return read(cluster.bootstrap, topic) if exists(cluster.bootstrap, topic) else []


@contextmanager
def checkpointing(flow: Flow, groups: str, **settings: object) -> Iterator[str]:
    """Our checkpoint connector, running for the time of the block."""
    config = our_control("Checkpoint", flow, groups=groups, **settings)
    with connector(flow.worker, config, unique("checkpoints")) as name:
        yield name


def checkpoints(cluster: Cluster, alias: str) -> list[Checkpoint]:
    """All of `<alias>.checkpoints.internal`, in the log's order."""
    return [Checkpoint.decode(r.key, r.value) for r in _read(cluster, f"{alias}.checkpoints.internal")]


def latest(cluster: Cluster, alias: str, group: str) -> dict[TopicPartition, Checkpoint]:
    """The last checkpoint of each partition of a group."""
    return {each.topic_partition: each for each in checkpoints(cluster, alias) if each.group == group}


def heartbeats(cluster: Cluster) -> list[Heartbeat]:
    return [Heartbeat.decode(r.key, r.value) for r in _read(cluster, "heartbeats")]


def beats(flow: Flow) -> list[int]:
    """Timestamps of this flow's heartbeats, in the log's order."""
    aliases = (flow.source.name, flow.target.name)
    return [
        beat.timestamp
        for beat in heartbeats(flow.target)
        if (beat.source_alias, beat.target_alias) == aliases
    ]


def offset_syncs(cluster: Cluster, alias: str) -> list[OffsetSync]:
    topic = f"mm2-offset-syncs.{alias}.internal"
    return [OffsetSync.decode(r.key, r.value) for r in _read(cluster, topic)]


def wait_checkpoint(flow: Flow, group: str, topic: str, downstream: int, timeout: float = WAIT) -> Checkpoint:
    """Until the last checkpoint of a group for the copy of `topic`, partition 0, has this downstream offset."""
    place = TopicPartition(flow.remote(topic), 0)

    def stands() -> Checkpoint:
        checkpoints = latest(flow.target, flow.source.name, group)
        assert place in checkpoints, f"no checkpoint of {group}: {checkpoints}"
        assert checkpoints[place].downstream_offset == downstream, f"{checkpoints[place]}"
        return checkpoints[place]

    return eventually(stands, timeout, what=f"a checkpoint of {group} at {downstream}", watched=flow.watched)
