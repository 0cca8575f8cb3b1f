"""A program that writes made-up records to a topic with one of Spark's sinks, several times, and prints how long each
took as JSON.

    python spark_writer.py SINK BOOTSTRAP TOPIC RECORDS BYTES TIMES FOLDER [JARS]

SINK is `mirror-records` or `kafka`. For environments with nothing but PySpark, too.
"""

from __future__ import annotations

import json
import os
import sys
import time

KEY = 16


def main(
    sink: str, bootstrap: str, topic: str, records: str, size: str, times: str, folder: str, jars: str = ""
) -> None:
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as F

    os.environ["PYSPARK_PYTHON"] = sys.executable  # else Spark takes the first python3 on the PATH
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = SparkSession.builder.master("local[2]").appName("spark_write")
    for key, value in {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.driver.memory": "1g",
        "spark.driver.host": "localhost",
        "spark.sql.warehouse.dir": folder,
        "spark.jars": jars,
    }.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    if sink == "mirror-records":
        from bridge.spark import register

        register(spark)
    number = F.col("id").cast("string")
    frame = spark.range(int(records), numPartitions=2).select(
        F.lpad(number, KEY, "0").cast("binary").alias("key"),
        F.rpad(number, int(size) - KEY, "x").cast("binary").alias("value"),
    )
    seconds = []
    for _ in range(int(times)):
        began = time.perf_counter()
        writer = frame.write.format(sink).mode("append").option("kafka.bootstrap.servers", bootstrap)
        writer.option("topic", topic).save()
        seconds.append(time.perf_counter() - began)
    spark.stop()
    print(json.dumps({"seconds": seconds}))


if __name__ == "__main__":
    main(*sys.argv[1:])
