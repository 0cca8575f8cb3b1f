"""Layouts as queries: sealed slices are the rows of a DataFrame, and what they have copied comes out of it as rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from bridge.pipeline.layouts.slots import Slice
from bridge.pipeline.queries.arrow_function import arrow_function
from bridge.pipeline.queries.sealing import new_key, seal
from bridge.pipeline.slices.progress_row import SCHEMA

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import DataFrame, SparkSession

_PARTITIONS = "spark.sql.leafNodeDefaultParallelism"
_BUFFER, _ROW = "spark.sql.execution.pandas.udf.buffer.size", "512"
"""Bytes that a Python worker keeps back at most: with Spark's 64 KB a row of progress would be seen minutes late."""


class RowJobs:
    """Runs layouts under a session. Blocking."""

    def __init__(self, session: SparkSession, archive: str = "") -> None:
        """`archive`: see arrow_function."""
        self._session, self._archive, self._key = session, archive, new_key()
        session.conf.set(_BUFFER, _ROW)

    def run(self, name: str, slices: Sequence[Slice]) -> list[str]:
        """Returns why each slice has ended, once all have. `name`: shown in plans."""
        rows = pa.table({"slice": pa.array([seal(work, self._key) for work in slices], pa.binary())})
        self._session.conf.set(_PARTITIONS, str(len(slices)))  # one row, one partition
        copied = self._map(
            self._session.createDataFrame(rows), arrow_function(name, self._key, self._archive)
        )
        return [row[0] for row in copied.where("ended is not null").select("ended").collect()]

    def _map(self, slices: DataFrame, function: Any) -> DataFrame:
        return slices.mapInArrow(function, SCHEMA)


class ClassicRowJobs(RowJobs):
    """Runs queries in a context of this process."""

    def __init__(self, context: SparkContext) -> None:
        from pyspark.sql import SparkSession

        # Of its own: settings of a session are for one layout, and connectors may share the context.
        session = SparkSession(context).newSession()
        # Above it (48 MB) Spark would put all rows into one partition.
        session.conf.set("spark.sql.execution.arrow.localRelationThreshold", "2g")
        super().__init__(session)

    def _map(self, slices: DataFrame, function: Any) -> DataFrame:
        """As mapInArrow does, which asks for pandas and has no use for it."""
        from pyspark.sql.classic.dataframe import DataFrame as Classic
        from pyspark.sql.types import StructType
        from pyspark.sql.udf import UserDefinedFunction
        from pyspark.util import PythonEvalType

        kind = PythonEvalType.SQL_MAP_ARROW_ITER_UDF
        called = cast(
            Any, UserDefinedFunction(function, StructType.fromDDL(SCHEMA), evalType=kind)(slices["slice"])
        )
        mapped = cast(Any, slices)._jdf.mapInArrow(called._jc, False, None)
        return Classic(mapped, self._session)
