"""The functions that users call; what they need is loaded when they are called, for workers import this package too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bridge.spark.rejected import verify_pyarrow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from bridge.spark.translating.job import TranslatedSource


def translate_offsets(
    positions: DataFrame, config: Mapping[str, str] | str | Path, *, lookups: int | None = None
) -> DataFrame:
    """Adds to positions of a source cluster where each of them stands on the target (docs/translate.md).

        translate_offsets(positions, "flow.json").where("verdict = 'pending'").show()

    `positions`: has the columns topic, partition, offset, and any others. `config`: the configuration of a connector
    of the flow, or the .properties or .json file that has it. `lookups`: positions of each Spark task that may be
    looked up in the logs, 10,000 by default. Returns the positions with target_topic, target_offset, verdict, bound,
    not_on_target, evidence, reason and flags. Runs and syncs are read now, once; log bounds when the result is
    computed. Raises SourceRejected, ConfigRejected, KafkaFailure.
    """
    verify_pyarrow()
    from bridge.spark.translating.job import translated

    return translated(positions, config, lookups)


def translate_checkpoint(
    checkpoint: str | Path, config: Mapping[str, str] | str | Path, *, lookups: int | None = None
) -> Sequence[TranslatedSource]:
    """Says where a Spark query that reads topics of the source goes on from the target, by its checkpoint, which stays
    as it is (docs/translate.md).

        (orders,) = translate_checkpoint("/checkpoints/billing", "flow.json")
        spark.readStream.format("mirror-records").option("startingOffsets", orders.starting_offsets)

    `checkpoint`: of a query of Spark's own Kafka source or of mirror-records, a path or a URI. `config`, `lookups`: as
    for translate_offsets. Returns one for each such source of the query. Raises SourceRejected, ConfigRejected,
    KafkaFailure.
    """
    verify_pyarrow()
    from bridge.spark.translating.job import translated_checkpoint

    return translated_checkpoint(str(checkpoint), config, lookups)
