"""`mirror-bridge read`: prints records of internal topics as stock's formatters do (stock §1.11)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from bridge.commands.exit_status import BAD_SETTINGS, end, note, reported
from bridge.commands.options import Bootstrap, Config, SingleOptionsApp, properties

if TYPE_CHECKING:
    from bridge.mm2.replication_policy import ReplicationPolicy

app = SingleOptionsApp(
    name="read", help="Print MirrorMaker's internal topics, a record a line.", no_args_is_help=True
)

TopicOf = Callable[["ReplicationPolicy"], str]
"""The topic to read, which may depend on the replication policy."""
Topic = Annotated[str | None, typer.Option(help="Name of the topic, where no alias is given.")]
FromBeginning = Annotated[
    bool, typer.Option("--from-beginning", help="Read from the beginning instead of new records only.")
]
MaxMessages = Annotated[int | None, typer.Option(min=1, help="Exit after this many records.")]
TimeoutMs = Annotated[
    int | None, typer.Option(min=0, help="Exit after this many milliseconds without a record.")
]


@app.command()
def heartbeats(
    topic: Topic = None,
    source_alias: Annotated[
        str | None,
        typer.Option(help="Read the heartbeats mirrored from this cluster instead of the cluster's own."),
    ] = None,
    from_beginning: FromBeginning = False,
    max_messages: MaxMessages = None,
    timeout_ms: TimeoutMs = None,
    bootstrap: Bootstrap = None,
    config: Config = None,
) -> None:
    """Print heartbeats, by default of the topic heartbeats."""
    from bridge.mm2.records import Heartbeat

    def topic_of(policy: ReplicationPolicy) -> str:
        own = policy.heartbeats_topic()
        return own if source_alias is None else policy.format_remote_topic(source_alias, own)

    if topic is not None and source_alias is not None:
        end("give one of --topic and --source-alias", BAD_SETTINGS)
    limits = from_beginning, max_messages, timeout_ms
    _print(properties(config, bootstrap), _given(topic, topic_of), Heartbeat.decode, *limits)


@app.command()
def checkpoints(
    topic: Topic = None,
    source_alias: Annotated[str | None, typer.Option(help="Cluster that the groups are of.")] = None,
    from_beginning: FromBeginning = False,
    max_messages: MaxMessages = None,
    timeout_ms: TimeoutMs = None,
    bootstrap: Bootstrap = None,
    config: Config = None,
) -> None:
    """Print checkpoints, from the target cluster."""
    from bridge.mm2.records import Checkpoint

    if (topic is None) == (source_alias is None):
        end("give one of --topic and --source-alias", BAD_SETTINGS)
    limits = from_beginning, max_messages, timeout_ms
    topic_of = _given(topic, lambda policy: policy.checkpoints_topic(source_alias or ""))
    _print(properties(config, bootstrap), topic_of, Checkpoint.decode, *limits)


@app.command()
def offset_syncs(
    topic: Topic = None,
    target_alias: Annotated[
        str | None, typer.Option(help="On the source cluster: the alias of the target.")
    ] = None,
    source_alias: Annotated[
        str | None,
        typer.Option(help="On the target cluster (offset-syncs.topic.location=target): of the source."),
    ] = None,
    from_beginning: FromBeginning = False,
    max_messages: MaxMessages = None,
    timeout_ms: TimeoutMs = None,
    bootstrap: Bootstrap = None,
    config: Config = None,
) -> None:
    """Print offset syncs."""
    from bridge.mm2.records import OffsetSync

    if sum(option is not None for option in (topic, target_alias, source_alias)) != 1:
        end("give one of --topic, --target-alias and --source-alias", BAD_SETTINGS)
    limits = from_beginning, max_messages, timeout_ms
    topic_of = _given(topic, lambda policy: policy.offset_syncs_topic(target_alias or source_alias or ""))
    _print(properties(config, bootstrap), topic_of, OffsetSync.decode, *limits)


def _given(topic: str | None, topic_of: TopicOf) -> TopicOf:
    """The topic that --topic names, or else the one of the policy."""
    return topic_of if topic is None else lambda _policy: topic


def _print(
    props: dict[str, str],
    topic: TopicOf,
    decode: Callable[[bytes | None, bytes | None], object],
    from_beginning: bool,
    max_messages: int | None,
    timeout_ms: int | None,
) -> None:
    import asyncio

    from bridge.client.console import Reading, print_records

    def out(lines: str) -> None:
        sys.stdout.write(lines)
        sys.stdout.flush()

    idle = None if timeout_ms is None else timeout_ms / 1000
    reading = Reading(topic, decode, from_beginning, max_messages, idle)
    with reported():
        asyncio.run(print_records(props, reading, out, note))
