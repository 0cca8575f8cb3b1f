"""`mirror-bridge legacy`: the options of kafka-mirror-maker.sh (MirrorMaker 1), carried out by our copy."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from bridge import VERSION
from bridge.commands.exit_status import BAD_SETTINGS, end, note, reported
from bridge.commands.replicate import copying_until_stopped, log_to, validated, view_of
from bridge.java_properties import PropertiesProblem, load_properties
from bridge.model.values import Side


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"mirror-bridge {VERSION}")
        raise typer.Exit


def legacy(
    consumer_config: Annotated[
        Path,
        typer.Option(
            "--consumer.config", "--consumer", help="Properties of the consumer, which reads the source."
        ),
    ],
    producer_config: Annotated[
        Path,
        typer.Option(
            "--producer.config", "--producer", help="Properties of the producer, which writes the target."
        ),
    ],
    include: Annotated[
        str | None, typer.Option("--include", help="Java regex of the topics to mirror.")
    ] = None,
    whitelist: Annotated[str | None, typer.Option("--whitelist", help="Old name of --include.")] = None,
    blacklist: Annotated[str | None, typer.Option("--blacklist", hidden=True)] = None,
    num_streams: Annotated[int, typer.Option("--num.streams", help="How many slices copy at a time.")] = 1,
    offset_commit_interval_ms: Annotated[
        int,
        typer.Option(
            "--offset.commit.interval.ms", min=1, help="How often the group's offsets are committed."
        ),
    ] = 60_000,
    abort_on_send_failure: Annotated[
        str,
        typer.Option(
            "--abort.on.send.failure",
            help="true: end at a record that the target refuses; false: leave it out, and write it to the gap ledger.",
        ),
    ] = "true",
    message_handler: Annotated[
        str | None, typer.Option("--message.handler", help="Transform of records: python:module.function.")
    ] = None,
    message_handler_args: Annotated[
        str | None, typer.Option("--message.handler.args", help="Its parameter args.")
    ] = None,
    rebalance_listener: Annotated[
        str | None, typer.Option("--consumer.rebalance.listener", hidden=True)
    ] = None,
    rebalance_listener_args: Annotated[
        str | None, typer.Option("--rebalance.listener.args", hidden=True)
    ] = None,
    more: Annotated[list[str] | None, typer.Argument(hidden=True)] = None,
    new_consumer: Annotated[bool, typer.Option("--new.consumer", hidden=True)] = False,
    log_file: Annotated[
        Path | None,
        typer.Option("--log", help="File for the log; default: standard error, or no log on a terminal."),
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Mirror topics under their own names, with the options of kafka-mirror-maker.sh.

    Continues at the committed offsets of --consumer.config's group, exactly once, and commits its offsets. SIGINT and
    SIGTERM stop it after a last commit.

    Exit status 0: it was stopped by a signal; 1: a permanent error; 2: bad options.
    """

    import asyncio

    from bridge.commands import legacy_config
    from bridge.commands.legacy_config import Clients, LegacyOptions, in_own_words
    from bridge.commands.legacy_offsets import GroupOffsets

    options = LegacyOptions(
        include,
        whitelist,
        num_streams,
        abort_on_send_failure,
        message_handler,
        message_handler_args,
        rebalance_listener,
        rebalance_listener_args,
        new_consumer,
        blacklist,
        more or (),
    )
    try:
        clients = Clients.from_properties(load_properties(consumer_config), load_properties(producer_config))
    except PropertiesProblem as problem:
        end(str(problem), BAD_SETTINGS)
    if wrong := legacy_config.problems(options, clients):
        for line in wrong[:-1]:
            note(line)
        end(wrong[-1], BAD_SETTINGS)
    for line in legacy_config.remarks(options, clients):
        note(line)
    with reported(in_own_words):
        ids = asyncio.run(_cluster_ids(legacy_config.connection(clients)))
    made = legacy_config.connector_config(options, clients, ids[Side.SOURCE], ids[Side.TARGET])
    config = validated(made, in_own_words)
    offsets = GroupOffsets(config["name"], offset_commit_interval_ms / 1000)
    with log_to(log_file, "text"), reported(in_own_words):
        abort = config["source.record.policy"] == "fail"
        code = asyncio.run(copying_until_stopped(config, view_of(), offsets, in_own_words, abort=abort))
    raise typer.Exit(code)


async def _cluster_ids(props: Mapping[str, str]) -> dict[Side, str]:
    """Raises KafkaFailure and ConfigRejected."""
    from bridge.kafka.admin.inspection import describe
    from bridge.kafka.config.settings import client_settings
    from bridge.kafka.network.client import NetworkClient

    cluster_ids = {}
    for side in Side:
        client = NetworkClient(client_settings(side, props).raw)
        try:
            cluster_ids[side] = (await describe(client)).cluster_id
        finally:
            await client.close()
    if cluster_ids[Side.SOURCE] == cluster_ids[Side.TARGET]:
        end("source and target are the same cluster: every topic would be copied onto itself", BAD_SETTINGS)
    return cluster_ids
