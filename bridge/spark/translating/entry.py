"""The function that users call; what it needs is loaded when it is called, for workers import this package too."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from bridge.spark.rejected import verify_pyarrow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def translate_offsets(
    positions: DataFrame, config: Mapping[str, str] | str | Path, *, lookups: int | None = None
) -> DataFrame:
    """Adds to positions of a source cluster where each of them stands on the target (docs/translate.md).

    `positions`: has the columns topic, partition, offset, and any others. `config`: the configuration of a connector
    of the flow, or the .properties or .json file that has it. `lookups`: positions of each Spark task that may be
    looked up in the logs, 10,000 by default. Returns the positions with target_topic, target_offset, verdict, bound,
    not_on_target, evidence, reason and flags. Runs and syncs are read now, once; log bounds when the result is
    computed. Raises SourceRejected, ConfigRejected, KafkaFailure.
    """
    verify_pyarrow()
    from bridge.spark.translating.job import translated

    return translated(positions, config, lookups)
