"""Translates a DataFrame: offset runs and syncs are read once by the driver and sent to the tasks, each of which asks
the clusters about its own partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql.functions import col
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.types import (
    ArrayType,
    ByteType,
    DataType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
)

from bridge.kafka.cluster import KafkaClusters
from bridge.kafka.config.settings import StaticClientCheck
from bridge.positions.checkpoints import (
    CheckpointRejected,
    checkpoint_table,
    read_checkpoint,
    starting_offsets,
)
from bridge.positions.flow import Flow, Knowledge
from bridge.positions.tables import (
    INPUT,
    OUTPUT,
    PositionsRejected,
    answer_columns,
    column_errors,
    sound_rows,
    with_answers,
)
from bridge.positions.translator import (
    LOOKUPS,
    PositionColumns,
    PositionTranslator,
    TranslatedPositions,
    translate_once,
)
from bridge.spark.group_options import connector_config
from bridge.spark.rejected import SourceRejected, in_one_line
from connectors.cluster_away import ClusterAway

_TYPES: dict[pa.DataType, DataType] = {
    pa.string(): StringType(),
    pa.int64(): LongType(),
    pa.list_(pa.string()): ArrayType(StringType()),
}
_ANSWERS = StructType([StructField(each.name, _TYPES[each.type]) for each in OUTPUT])
_TOGETHER = "mirror-bridge answers"
"""The column that has all answers, until each gets its own."""
_NUMBERS = (ByteType, ShortType, IntegerType, LongType, StringType)


def translated(
    positions: DataFrame, config: Mapping[str, str] | str | Path, lookups: int | None = None
) -> DataFrame:
    """See bridge.spark.translate_offsets."""
    if positions.isStreaming:
        raise SourceRejected(
            "translate_offsets takes a batch; of a stream, call it in foreachBatch for each micro-batch"
        )
    _check(positions.schema)
    props = connector_config(config)
    flow = Flow.from_props(props, StaticClientCheck())
    # A notebook's thread may run an event loop already.
    with ThreadPoolExecutor(1) as pool:
        knowledge = pool.submit(asyncio.run, _knowledge(flow, props)).result()
    limit = LOOKUPS if lookups is None else lookups
    # Neighbours share fetches: a partition's offsets come to one task, in order.
    together = positions.repartition("topic", "partition")
    ordered = together.sortWithinPartitions("topic", "partition", "offset")
    # Not mapInArrow, which needs pandas.
    udf: Any = arrow_udf  # its stubs know no function whose kind its type hints say, which is what it prefers
    answers = udf(_task(props, knowledge, limit), _ANSWERS)(*(col(name) for name in INPUT))
    return ordered.withColumn(_TOGETHER, answers).select(*map(_column, positions.columns), f"`{_TOGETHER}`.*")


class TranslatedSource(NamedTuple):
    """A source of a Spark query, by its number. `starting_offsets`: the value of startingOffsets with which it goes on
    from the target; None where that is not known of all its partitions, or records that it has not read are missing
    there. `positions`: a row for each partition, with the columns of translate_offsets."""

    source: int
    starting_offsets: str | None
    positions: Sequence[Mapping[str, Any]]


def translated_checkpoint(
    location: str, config: Mapping[str, str] | str | Path, lookups: int | None = None
) -> list[TranslatedSource]:
    """See bridge.spark.translate_checkpoint."""
    props = connector_config(config)
    flow = Flow.from_props(props, StaticClientCheck())
    try:
        table, positions = checkpoint_table(read_checkpoint(location))
    except CheckpointRejected as rejected:
        raise SourceRejected(str(rejected)) from None
    limit = LOOKUPS if lookups is None else lookups
    with ThreadPoolExecutor(1) as pool:  # as above
        answers = pool.submit(asyncio.run, _translate(flow, props, positions, limit)).result()
    offsets = starting_offsets(table, answers)
    table = with_answers(table, answers)
    rows: dict[int, list[dict[str, Any]]] = {}
    for row in table.to_pylist():
        rows.setdefault(row.pop("source"), []).append(row)
    return [TranslatedSource(source, offsets[source], rows[source]) for source in rows]


async def _translate(
    flow: Flow, props: Mapping[str, str], positions: PositionColumns, lookups: int
) -> TranslatedPositions:
    clusters = KafkaClusters()
    try:
        translated, _ = await translate_once(flow, clusters, props, positions, lookups)
        return translated
    finally:
        await clusters.close()


def _column(name: str) -> Column:
    return col(f"`{name.replace('`', '``')}`")


def _check(schema: StructType) -> None:
    """Raises SourceRejected with all that is wrong with the columns."""
    errors = column_errors(schema.names)
    types = {field.name: field.dataType for field in schema}
    if not isinstance(types.get("topic", StringType()), StringType):
        errors.append(f"column topic has the type {types['topic'].simpleString()}: it must be string")
    errors += [
        f"column {name} has the type {types[name].simpleString()}: it must be a whole number, or its text"
        for name in ("partition", "offset")
        if not isinstance(types.get(name, LongType()), _NUMBERS)
    ]
    if errors:
        raise SourceRejected("; ".join(errors))


async def _knowledge(flow: Flow, props: Mapping[str, str]) -> Knowledge:
    clusters = KafkaClusters()
    try:
        return await PositionTranslator(flow, clusters, props).load()
    except ClusterAway as away:
        raise away.with_side() from None
    finally:
        await clusters.close()


def _task(
    props: Mapping[str, str], knowledge: Knowledge, lookups: int
) -> Callable[[Iterator[tuple[pa.Array, ...]]], Iterator[pa.Array]]:
    """Returns the function by which a Spark task translates its positions: columns of INPUT, batch after batch."""

    def run(batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        with asyncio.Runner() as runner:
            clusters = KafkaClusters()
            try:
                with in_one_line("translate_offsets"):  # a file that is on the driver may be missing here
                    flow = Flow.from_props(props, StaticClientCheck())
                    translator = PositionTranslator(flow, clusters, props, lookups)
                translator.use(knowledge)
                for columns in batches:
                    table = pa.table(list(columns), names=list(INPUT))
                    yield runner.run(_answered(translator, table))
            finally:
                runner.run(clusters.close())

    return run


async def _answered(translator: PositionTranslator, table: pa.Table) -> pa.StructArray:
    """Raises SourceRejected, whose text is one line, as Spark shows it."""
    with in_one_line("translate_offsets"):
        try:
            rows = sound_rows(table)
            columns = answer_columns(await translator.translate(rows.positions))
        except PositionsRejected as rejected:
            raise SourceRejected("; ".join(str(rejected).splitlines())) from None
        except ClusterAway as away:
            raise away.with_side() from None
    return pa.StructArray.from_arrays(rows.with_invalid(columns), fields=list(OUTPUT))
