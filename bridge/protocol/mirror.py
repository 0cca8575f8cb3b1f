"""Answers of /v1/connectors/{name}/clusters/{side}: what MirrorClient says of a cluster."""

from __future__ import annotations

from bridge.protocol.base import Message


class ReplicationHops(Message):
    """The distance of a cluster: `hops` from the cluster `alias` to the one that was asked, -1 when nothing comes from
    there."""

    alias: str
    hops: int


class Names(Message):
    """Names of topics or, where those are asked for, of clusters; in order."""

    names: list[str]


class RemoteOffset(Message):
    """Where a group resumes in a remote topic."""

    topic: str
    partition: int
    offset: int
    metadata: str


class RemoteGroup(Message):
    group: str
    offsets: list[RemoteOffset]


class RemoteOffsets(Message):
    groups: list[RemoteGroup]
