"""A program that reads a topic with one of Spark's sources, several times, and prints how long each took as JSON.

    python spark_reader.py SOURCE BOOTSTRAP TOPIC SINK TIMES FOLDER [JARS]

SOURCE is `mirror-records` or `kafka`; SINK is `noop` or `parquet`. For environments with nothing but PySpark, too.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path


def main(source: str, bootstrap: str, topic: str, sink: str, times: str, folder: str, jars: str = "") -> None:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable  # else Spark takes the first python3 on the PATH
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = SparkSession.builder.master("local[2]").appName("spark_read")
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
    if source == "mirror-records":
        from bridge.spark import register

        register(spark)
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic}
    seconds = []
    for number in range(int(times)):
        began = time.perf_counter()
        frame = spark.read.format(source).options(**options).load()
        writer = frame.write.format(sink).mode("overwrite")
        if sink == "noop":
            writer.save()
        else:
            writer.save(str(Path(folder) / f"out-{number}"))
        seconds.append(time.perf_counter() - began)
    rows = spark.read.parquet(str(Path(folder) / "out-0")).count() if sink == "parquet" else None
    spark.stop()
    print(json.dumps({"seconds": seconds, "rows": rows}))


if __name__ == "__main__":
    main(*sys.argv[1:])
