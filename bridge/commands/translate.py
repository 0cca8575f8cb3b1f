"""`mirror-bridge translate`: translates a file of positions of the source to positions on the target."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bridge.commands.connector_config import read_connector
from bridge.commands.exit_status import BAD_SETTINGS, CANNOT_START, end, note, reported

if TYPE_CHECKING:
    from bridge.positions.flow import Flow
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
        Path,
        typer.Option(
            "--input", help="Positions: .csv or .parquet with the columns topic, partition, offset."
        ),
    ],
    output: Annotated[Path, typer.Option("--output", help="Where the answers go: .csv, .parquet or .json.")],
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

    from bridge.positions.files import WRITTEN, read_table, write_table
    from bridge.positions.tables import PositionsRejected

    if output.suffix.lower() not in WRITTEN:
        end(f"--output {output}: its name must end with {', '.join(WRITTEN)}", BAD_SETTINGS)
    if not output.parent.is_dir():
        end(f"--output {output}: there is no folder {output.parent}", BAD_SETTINGS)
    with reported():
        props, flow = _flow(config)
        try:
            table, positions = read_table(input_)
        except PositionsRejected as rejected:
            for line in str(rejected).splitlines():
                note(f"{input_}: {line}")
            raise typer.Exit(BAD_SETTINGS) from None
        translated = asyncio.run(_translate(flow, props, positions, lookups))
    try:
        write_table(output, table, translated)
    except OSError as error:
        end(f"can't write {output}: {error.strerror or error}", CANNOT_START)
    conclude(translated)


def _flow(path: Path) -> tuple[dict[str, str], Flow]:
    from bridge.kafka.config.settings import StaticClientCheck
    from bridge.positions.flow import Flow

    props = read_connector(path)
    return props, Flow.from_props(props, StaticClientCheck())


async def _translate(
    flow: Flow, props: Mapping[str, str], positions: PositionColumns, lookups: int
) -> TranslatedPositions:
    """Raises KafkaFailure."""
    from bridge.kafka.clusters import KafkaClusters
    from bridge.positions.translator import PositionTranslator
    from connectors.cluster_away import ClusterAway

    clusters = KafkaClusters()
    try:
        translator = PositionTranslator(flow, clusters, props, lookups)
        knowledge = await translator.load()
        for remark in knowledge.remarks:
            note(remark)
        if knowledge.source_failure is not None:
            note(
                f"the source does not answer; only offset runs and the target are used: {knowledge.source_failure}"
            )
        translator.use(knowledge)
        return await translator.translate(positions)
    except ClusterAway as away:
        raise away.with_side() from None
    finally:
        await clusters.close()


def conclude(translated: TranslatedPositions) -> None:
    """Says how many there are of each, and ends with the status."""
    import numpy as np

    from bridge.model.values import Judgement
    from bridge.positions.answers import REASONS, VERDICTS

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
