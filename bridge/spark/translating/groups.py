"""`mirror-groups` with a configuration: what groups have committed now, and the verdicts on it, worked out as they are
read."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from bridge.connector_files import load_connector, unresolved
from bridge.errors import ConfigRejected
from bridge.java_properties import PropertiesProblem
from bridge.kafka.cluster import KafkaClusters
from bridge.kafka.config.settings import StaticClientCheck
from bridge.model.values import Judgement
from bridge.positions.flow import Flow
from bridge.positions.groups import GroupPosition, GroupsLook, look_at_groups
from bridge.spark.rejected import SourceRejected, in_one_line
from bridge.spark.schema import columns_of
from bridge.spark.tables import TABLES

Row = tuple[Any, ...]


class GroupsReader(DataSourceReader):
    """Reads a batch, in one Spark task: a round asks for all groups at once."""

    def __init__(self, name: str, path: str, schema: StructType) -> None:
        """`path`: of the configuration of a connector of the flow. Raises SourceRejected."""
        self._name, self._schema = name, schema
        self._props = load_flow(path)

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[Row]:
        with in_one_line(self._name):
            look = asyncio.run(_look(self._props))
        columns = columns_of(self._schema, TABLES[self._name].columns)
        for answer in look.answers:
            yield tuple(map(_fields(answer, look, self._props["name"]).get, columns))


def load_flow(path: str) -> dict[str, str]:
    """Returns the configuration that the option names. Raises SourceRejected."""
    try:
        props = load_connector(Path(path))
    except PropertiesProblem as problem:
        raise SourceRejected(f"option config: {problem}") from None
    if left := unresolved(props):
        raise SourceRejected(
            f"option config: {', '.join(left)} in {path} refer to config providers, which only Connect can read: write "
            "the values out"
        )
    if not props.get("name"):
        raise SourceRejected(
            f"option config: {path} has no name; what the service keeps of groups stands under the connector's name"
        )
    try:
        Flow.from_props(props, StaticClientCheck())
    except ConfigRejected as rejected:
        why = "; ".join(error.message for error in rejected.errors)
        raise SourceRejected(f"option config: {path}: {why}") from None
    return props


async def _look(props: Mapping[str, str]) -> GroupsLook:
    clusters = KafkaClusters()
    try:
        flow = Flow.from_props(props, StaticClientCheck())
        return await look_at_groups(flow, props["name"], clusters, props)
    finally:
        await clusters.close()


def _fields(position: GroupPosition, look: GroupsLook, connector: str) -> dict[str, Any]:
    as_of = None if look.as_of_ms is None else datetime.fromtimestamp(look.as_of_ms / 1000, UTC)
    fields: dict[str, Any] = {
        "group": position.group,
        "reason": position.reason,
        "flags": [],
        "state": position.state or None,
        "as_of": as_of,
        "fresh": look.fresh,
        "connector": connector,
        "deleted": False,
    }
    if position.partition is None:
        return fields
    row = position.partition
    proved = look.fresh and row.verdict != Judgement.PENDING
    return fields | {
        "topic": row.topic,
        "partition": row.partition,
        "offset": row.committed,
        "lag": position.lag,
        "target_topic": row.target_topic,
        "target_offset": row.target_offset,
        "verdict": row.verdict,
        "bound": row.bound,
        "not_on_target": 0 if proved else row.detail.get("not_on_target"),
        "evidence": row.evidence,
        "flags": list(row.flags),
        "committed": row.written,
    }
