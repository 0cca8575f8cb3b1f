"""What a Kafka source for Spark makes of options. Either side's Python runs it, over the same topics:

    python spark_cases.py FORMAT JARS BOOTSTRAP TOPIC FOLDER

Prints a JSON object: by the name of a case its rows, the offsets of its micro-batches, or its error. Needs PySpark, and
our code for our format alone.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

TIME = 1_700_000_000_000
"""Of the first record; one follows each second."""
COLUMNS = ("topic", "partition", "offset", "key", "value", "timestamp", "timestampType")


def batch_cases(topic: str) -> dict[str, dict[str, str]]:
    """Options by case. `topic` has partition 0 with offsets 5 to 29, 1 with 0 to 9, and 2 with none; `topic-2` one with
    records of transactions, of which some are aborted."""

    def offsets(zero: int, one: int = -2, two: int = -2) -> str:
        return json.dumps({topic: {"0": zero, "1": one, "2": two}})

    def times(zero: int, one: int, two: int) -> str:
        return json.dumps({topic: {"0": TIME + zero, "1": TIME + one, "2": TIME + two}})

    one: dict[str, str] = {"subscribe": topic}
    strategy = {"startingOffsetsByTimestampStrategy": "latest"}
    committed = {"kafka.isolation.level": "read_committed"}
    return {
        "subscribe": one,
        "several topics": {"subscribe": f"{topic},{topic}-2", **committed},
        "aborted records": {"subscribe": f"{topic}-2", "kafka.isolation.level": "read_uncommitted"},
        "subscribePattern": {"subscribePattern": f"{topic}.*", **committed},
        "assign": {"assign": json.dumps({topic: [0]})},
        "startingOffsets earliest": {**one, "startingOffsets": "earliest"},
        "startingOffsets": {**one, "startingOffsets": offsets(10)},
        "endingOffsets": {**one, "endingOffsets": offsets(20, -1, -1)},
        "both": {**one, "startingOffsets": offsets(10), "endingOffsets": offsets(20, 5, -1)},
        "startingTimestamp": {**one, "startingTimestamp": str(TIME + 12_000), **strategy},
        "startingTimestamp, none as late": {**one, "startingTimestamp": str(TIME + 12_000)},
        "endingTimestamp": {**one, "endingTimestamp": str(TIME + 12_000)},
        "startingOffsetsByTimestamp": {
            **one,
            "startingOffsetsByTimestamp": times(12_000, 2000, 0),
            **strategy,
        },
        "endingOffsetsByTimestamp": {**one, "endingOffsetsByTimestamp": times(12_000, 2000, 0)},
        "minPartitions": {**one, "minPartitions": "7"},
        "maxRecordsPerPartition": {**one, "maxRecordsPerPartition": "4"},
        "includeHeaders": {**one, "includeHeaders": "true"},
        "what is gone": {**one, "startingOffsets": offsets(2)},
        "what is gone, allowed": {**one, "startingOffsets": offsets(2), "failOnDataLoss": "false"},
        "end before start": {**one, "startingOffsets": offsets(20), "endingOffsets": offsets(10, -1, -1)},
        "no selection": {},
        "two selections": {**one, "assign": json.dumps({topic: [0]})},
        "startingOffsets latest": {**one, "startingOffsets": "latest"},
        "endingOffsets earliest": {**one, "endingOffsets": "earliest"},
        "a partition without an offset": {**one, "startingOffsets": json.dumps({topic: {"0": 10}})},
        "auto.offset.reset": {**one, "kafka.auto.offset.reset": "latest"},
        "enable.auto.commit": {**one, "kafka.enable.auto.commit": "true"},
        "key.deserializer": {**one, "kafka.key.deserializer": "x"},
        "minPartitions no number": {**one, "minPartitions": "many"},
        "groupIdPrefix": {**one, "groupIdPrefix": "mine"},
        "kafka.group.id": {**one, "kafka.group.id": "mine"},
        "maxOffsetsPerTrigger": {**one, "maxOffsetsPerTrigger": "7"},
        "an unknown option": {**one, "startingOffset": "earliest"},
    }


def stream_cases(topic: str) -> dict[str, dict[str, str]]:
    one: dict[str, str] = {"subscribe": topic, "startingOffsets": "earliest"}
    begin = json.dumps({topic: {"0": 10, "1": -2, "2": -1}})
    return {
        "stream": one,
        "stream, maxOffsetsPerTrigger": {**one, "maxOffsetsPerTrigger": "7"},
        "stream, startingOffsets": {**one, "startingOffsets": begin},
        "stream, startingTimestamp": {
            "subscribe": topic,
            "startingTimestamp": str(TIME + 12_000),
            "startingOffsetsByTimestampStrategy": "latest",
        },
        "stream, startingOffsets latest": {"subscribe": topic, "startingOffsets": "latest"},
        "stream, startingOffsetsByTimestamp": {
            "subscribe": topic,
            "startingOffsetsByTimestamp": json.dumps({topic: dict.fromkeys("012", TIME + 2000)}),
            "startingOffsetsByTimestampStrategy": "latest",
        },
        "stream, minOffsetsPerTrigger": {**one, "minOffsetsPerTrigger": "7"},
        "stream, min and max": {**one, "minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "7"},
        "stream, more than there is": {**one, "minOffsetsPerTrigger": "1000", "maxTriggerDelay": "1s"},
        "stream, min above max": {**one, "minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "7"},
        "stream, maxTriggerDelay": {**one, "minOffsetsPerTrigger": "7", "maxTriggerDelay": "soon"},
        "stream, a partition without an offset": {
            "subscribe": topic,
            "startingOffsets": json.dumps({topic: {"0": 10}}),
        },
        "stream, what is gone": {**one, "startingOffsets": begin.replace("10", "2")},
        "stream, endingOffsets": {**one, "endingOffsets": "latest"},
    }


def rows(frame: DataFrame) -> list[list[Any]]:
    chosen = frame.selectExpr(
        *("CAST(key AS string) AS key", "CAST(value AS string) AS value"),
        *("topic", "partition", "offset", "CAST(timestamp AS string) AS timestamp", "timestampType"),
    )
    return sorted([row[name] for name in COLUMNS] for row in chosen.collect())


def micro_batches(frame: DataFrame, folder: Path) -> list[list[list[int]]]:
    """Runs a query to its end, several times where its Python process was too slow to start."""
    batches: list[list[list[int]]] = []

    def keep(batch: DataFrame, _: int) -> None:
        offsets = sorted([row.partition, row.offset] for row in batch.select("partition", "offset").collect())
        if offsets:
            batches.append(offsets)

    writer = frame.writeStream.foreachBatch(keep).option("checkpointLocation", str(folder))
    for left in reversed(range(5)):
        try:
            writer.trigger(availableNow=True).start().awaitTermination()
        except Exception as error:
            if not left or "Python worker failed to connect back" not in str(error):
                raise
        else:
            break
    return batches


def outcome(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except Exception as error:
        return {"error": str(error)[:300]}


def main(source: str, jars: str, bootstrap: str, topic: str, folder: str) -> None:
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.log.level", "OFF").config("spark.sql.session.timeZone", "UTC")
    if jars:
        builder = builder.config("spark.jars", jars)
    spark = builder.config("spark.sql.warehouse.dir", folder).getOrCreate()
    if source == "mirror-records":
        from bridge.spark import register

        register(spark)
    servers = {"kafka.bootstrap.servers": bootstrap}

    def batch(options: dict[str, str]) -> DataFrame:
        return spark.read.format(source).options(**servers, **options).load()

    def stream(options: dict[str, str]) -> DataFrame:
        return spark.readStream.format(source).options(**servers, **options).load()

    found: dict[str, Any] = {
        "columns": outcome(lambda: batch({"subscribe": topic, "includeHeaders": "true"}).dtypes),
        "headers": outcome(
            lambda: sorted(
                str(row)
                for row in batch({"subscribe": topic, "includeHeaders": "true"}).select("headers").collect()
            )
        ),
    }
    for name, options in batch_cases(topic).items():
        found[name] = outcome(lambda options=options: rows(batch(options)))  # type: ignore[misc]
    for number, (name, options) in enumerate(stream_cases(topic).items()):
        place = Path(folder) / f"checkpoint-{number}"
        found[name] = outcome(lambda options=options, place=place: micro_batches(stream(options), place))  # type: ignore[misc]
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
