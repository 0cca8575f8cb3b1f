"""A program that copies a topic by a stream of Spark until all of it is there, for tests that kill it.

    python -m tests.integration.sink_query SOURCE TARGET TOPIC FOLDER

FOLDER keeps the checkpoint. A query that fails is started again from it; what it failed with goes to FOLDER/errors.
Tasks are tried four times, as on a cluster. Each start has another number of cores, and each query splits its rows
otherwise: so does a replay of what was not committed.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.support.spark import spark_session

OFFSETS_A_BATCH = 800


def run(spark: SparkSession, source: str, target: str, topic: str, folder: Path) -> None:
    """One query, to the end of what is there when it begins."""
    records = (
        spark.readStream.format("mirror-records")
        .option("kafka.bootstrap.servers", source)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("minPartitions", random.randint(1, 6))
        .option("maxOffsetsPerTrigger", OFFSETS_A_BATCH)
        .load()
    )
    query = (
        records.repartition(random.randint(1, 6), "key")
        .writeStream.format("mirror-records")
        .option("kafka.bootstrap.servers", target)
        .option("kafka.compression.type", "lz4")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def main(source: str, target: str, topic: str, folder: str) -> None:
    home = Path(folder)
    cores = random.randint(1, 4)
    with spark_session(home / "warehouse", {"spark.master": f"local[{cores},4]"}) as spark:
        while True:
            try:
                return run(spark, source, target, topic, home)
            except PySparkException as error:
                with (home / "errors").open("a") as errors:
                    errors.write(f"{str(error).strip()}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
