"""`mirror-bridge translate`: translates a file of positions of the source to positions on the target."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bridge.commands.exit_status import BAD_SETTINGS, CANNOT_START, end, note, reported
from bridge.commands.options import read_connector

if TYPE_CHECKING:
    import pyarrow as pa

    from bridge.positions.flow import Flow, Knowledge
    from bridge.positions.translator import PositionColumns, TranslatedPositions

SOME_UNKNOWN = 3
"""The exit status where some positions are pending, as `readiness` has it for what is not known."""
LOOKUPS = 10_000


def translate(
    config: Annotated[
        Path,
        typer.Option(
            help="Configuration of a connector of the flow, .properties or .json: of groups, of checkpoints, or the "
            "source connector's."
        ),
    ],
    input_: Annotated[
        Path | None,
        typer.Option(
            "--input", help="Positions: .csv or .parquet with the columns topic, partition, offset."
        ),
    ] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option(
            help="In place of --input: the checkpoint of a Spark query that reads topics, a path or a URI. Prints the "
            "startingOffsets with which the query goes on from the target."
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", help="Where the answers go: .csv, .parquet or .json. Required with --input."
        ),
    ] = None,
    lookups: Annotated[
        int,
        typer.Option(
            min=0,
            help="Most positions to look up in the logs, of those that offset runs don't settle exactly.",
        ),
    ] = LOOKUPS,
) -> None:
    """Translate any number of source positions, by the rules for offsets that groups have committed.

    Adds target_topic, target_offset, verdict, bound, not_on_target, evidence, reason and flags to the columns of the
    input. Exit status 0: each is exact or bounded; 3: some are pending, and `reason` says why; 1: a cluster does not
    answer, or the output can't be written; 2: usage, configuration or input is wrong. An existing --output file is
    replaced only with status 0 or 3.
    """
    if find_spec("pyarrow") is None:
        end("this needs pyarrow, which is not installed: pip install pyarrow", BAD_SETTINGS)
    import asyncio

    from bridge.positions.checkpoints import starting_offsets
    from bridge.positions.files import WRITTEN, write_table

    if (input_ is None) == (checkpoint is None):
        end("one of --input and --checkpoint is required", BAD_SETTINGS)
    if output is None and input_ is not None:
        end("--output is required with --input", BAD_SETTINGS)
    if output is not None and output.suffix.lower() not in WRITTEN:
        end(f"--output {output}: its name must end with {', '.join(WRITTEN)}", BAD_SETTINGS)
    if output is not None and not output.parent.is_dir():
        end(f"--output {output}: there is no folder {output.parent}", BAD_SETTINGS)
    with reported():
        props, flow = _flow(config)
        table, positions = _read(input_, checkpoint)
        translated, knowledge = asyncio.run(_translate(flow, props, positions, lookups))
    for remark in knowledge.remarks:
        note(remark)
    if knowledge.source_failure is not None:
        note(
            f"the source does not answer; only offset runs and the target are used: {knowledge.source_failure}"
        )
    if output is not None:
        try:
            write_table(output, table, translated)
        except OSError as error:
            end(f"can't write {output}: {error.strerror or error}", CANNOT_START)
    if checkpoint is not None:
        for source, offsets in starting_offsets(table, translated).items():
            if offsets is None:
                note(
                    f"source {source} can't go on from the target yet: some of its positions are not known there"
                )
            else:
                print(offsets)  # noqa: T201
    conclude(translated)


def _read(input_: Path | None, checkpoint: str | None) -> tuple[pa.Table, PositionColumns]:
    """Reads the positions; ends the command where they can't be read."""
    from bridge.positions.checkpoints import CheckpointRejected, checkpoint_table, read_checkpoint
    from bridge.positions.files import read_table
    from bridge.positions.tables import PositionsRejected

    if checkpoint is not None:
        try:
            query = read_checkpoint(checkpoint)
        except CheckpointRejected as rejected:
            end(f"--checkpoint: {rejected}", BAD_SETTINGS)
        done = f"up to micro-batch {query.batch}" if query.batch >= 0 else "nothing"
        again = "; one that was planned is read again" if query.planned else ""
        note(f"the query has committed {done}{again}")
        return checkpoint_table(query)
    assert input_ is not None
    try:
        return read_table(input_)
    except PositionsRejected as rejected:
        for line in str(rejected).splitlines():
            note(f"{input_}: {line}")
        raise typer.Exit(BAD_SETTINGS) from None


def _flow(path: Path) -> tuple[dict[str, str], Flow]:
    from bridge.kafka.config.settings import StaticClientCheck
    from bridge.positions.flow import Flow

    props = read_connector(path)
    return props, Flow.from_props(props, StaticClientCheck())


async def _translate(
    flow: Flow, props: Mapping[str, str], positions: PositionColumns, lookups: int
) -> tuple[TranslatedPositions, Knowledge]:
    """Raises KafkaFailure."""
    from bridge.kafka.cluster import KafkaClusters
    from bridge.positions.translator import translate_once

    clusters = KafkaClusters()
    try:
        return await translate_once(flow, clusters, props, positions, lookups)
    finally:
        await clusters.close()


def conclude(translated: TranslatedPositions) -> None:
    """Says how many there are of each, and ends with the status."""
    import numpy as np

    from bridge.model.values import Judgement
    from bridge.positions.translator import REASONS, VERDICTS

    answers = translated.answers
    counts = dict(zip(VERDICTS, np.bincount(answers.verdict, minlength=len(VERDICTS)).tolist(), strict=True))
    note(", ".join(f"{count} {verdict}" for verdict, count in counts.items()))
    pending = answers.reason[answers.verdict == VERDICTS.index(Judgement.PENDING)]
    for code, count in zip(*np.unique(pending, return_counts=True), strict=True):
        lacking = answers.not_on_target[answers.reason == code]
        most = f"; the target lacks up to {lacking.max():,} records behind one" if lacking.max() > 0 else ""
        note(f"pending, {REASONS[code]}: {count}{most}")
    if len(pending):
        raise typer.Exit(SOME_UNKNOWN)
