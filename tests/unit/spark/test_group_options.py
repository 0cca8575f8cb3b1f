"""The two forms of `mirror-groups`, and what is wrong with a configuration that it is given."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import LongType, StructField, StructType

from bridge.positions.groups import GroupPosition, GroupsLook
from bridge.protocol.messages import PartitionReport
from bridge.spark.group_options import config_path
from bridge.spark.internal_topics import MirrorGroups
from bridge.spark.rejected import SourceRejected
from bridge.spark.translating.groups import GroupsReader, load_flow
from tests.support.messages import message_pattern

PROPS = {
    "name": "groups",
    "connector.class": "MirrorGroupOffsetConnector",
    "source.cluster.alias": "A",
    "source.cluster.bootstrap.servers": "a:9092",
    "target.cluster.bootstrap.servers": "b:9092",
}


def file(folder: Path, **changes: str) -> str:
    path = folder / "flow.json"
    props = {**PROPS, **{key.replace("_", "."): value for key, value in changes.items()}}
    path.write_text(json.dumps({key: value for key, value in props.items() if value}))
    return str(path)


def test_the_option_says_which_form_it_is() -> None:
    assert config_path({"config": "flow.json"}) == "flow.json"
    assert config_path({"Config": "flow.json", "path": "x"}) == "flow.json"
    assert config_path({"kafka.bootstrap.servers": "b:9092", "commandConfig": "x"}) is None
    with pytest.raises(
        SourceRejected, match=message_pattern("spark.no_option", option="confg", meant="config")
    ):
        config_path({"confg": "flow.json"})
    beside = {"config": "flow.json", "subscribe": "x", "kafka.bootstrap.servers": "b:9092"}
    options = "kafka.bootstrap.servers, subscribe"
    with pytest.raises(SourceRejected, match=message_pattern("spark.beside_config", options=options)):
        config_path(beside)


def test_what_is_wrong_with_the_file_names_the_option(tmp_path: Path) -> None:
    assert load_flow(file(tmp_path)) == PROPS
    absent = str(tmp_path / "none.json")
    with pytest.raises(SourceRejected, match=message_pattern("spark.unreadable_option", path=absent)):
        load_flow(absent)
    for changes, message in (
        ({"name": ""}, "has no name; what the service keeps"),
        ({"source_cluster_bootstrap_servers": "${file:/x:y}"}, "refer to config providers"),
        ({"connector_class": "Mine"}, "Invalid value 'Mine' for .*connector.class"),
        ({"admin_timeout_ms": "soon", "source_cluster_alias": ""}, "; .*admin.timeout.ms"),
    ):
        path = file(tmp_path, **changes)
        with pytest.raises(SourceRejected, match="option config: .*" + message) as rejected:
            load_flow(path)
        assert "\n" not in str(rejected.value)


def test_it_is_a_batch_whose_columns_may_be_chosen(tmp_path: Path) -> None:
    source = MirrorGroups({"config": file(tmp_path)})
    whole = source.schema()
    assert whole.names[:5] == ["group", "topic", "partition", "offset", "lag"]
    few = StructType([whole["group"], whole["lag"]])
    assert isinstance(source.reader(few), GroupsReader)
    with pytest.raises(SourceRejected, match=message_pattern("spark.no_column", column="lga", type="bigint")):
        source.reader(StructType([StructField("lga", LongType())]))
    with pytest.raises(SourceRejected, match="option config is for a batch only"):
        source.streamReader(whole).initialOffset()


@pytest.mark.parametrize(("fresh", "known"), [(True, 0), (False, None)])
def test_what_groups_lack_on_the_target_is_a_column(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, fresh: bool, known: int | None
) -> None:
    """Without the source nobody knows it of a group that was whole."""

    def partition(number: int, verdict: str, **detail: int) -> PartitionReport:
        return PartitionReport(
            topic="orders", partition=number, target_topic="A.orders", committed=1, target_offset=1,
            written=1, verdict=verdict, detail=dict(detail),
        )  # fmt: skip

    rows = [partition(0, "exact"), partition(1, "pending", not_on_target=12), partition(2, "pending")]

    async def look(*_: object) -> GroupsLook:
        return GroupsLook([GroupPosition("g", "EMPTY", row, None, 0) for row in rows], fresh, 0)

    monkeypatch.setattr("bridge.spark.translating.groups.look_at_groups", look)
    reader = GroupsReader(
        "mirror-groups", file(tmp_path), StructType([StructField("not_on_target", LongType())])
    )
    assert [lacks for (lacks,) in reader.read(InputPartition(0))] == [known, 12, None]
