"""`mirror-bridge legacy`: the options of kafka-mirror-maker.sh (MirrorMaker 1), carried out by our copy.

Keeps the committed offsets of MirrorMaker 1's consumer group: copying begins there, and tells how far it is.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from bridge import VERSION
from bridge.backoff import Backoff
from bridge.commands.exit_status import BAD_SETTINGS, end, note, reported
from bridge.commands.replicate import copying_until_stopped, log_to, validated, view_of
from bridge.commands.views import LocalPublisher
from bridge.errors import KafkaFailure, KafkaFault
from bridge.java_properties import PropertiesProblem, load_properties
from bridge.model.values import Committed, GroupState, Side, TopicPartition
from connectors.ports import Cluster, Clusters

log = logging.getLogger(__name__)

_FIRST_PAUSE, _MOST_PAUSE = 0.1, 5.0
ANSWER_SECONDS = 60.0
_FREE = (GroupState.EMPTY, GroupState.DEAD, GroupState.NOT_FOUND)


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


class GroupOffsets(LocalPublisher):
    """The Publisher of a copy that goes on where the group has come to, and commits for it how far it has come."""

    def __init__(self, group: str, interval: float) -> None:
        """`interval` in seconds."""
        super().__init__()
        self._group, self._interval = group, interval
        self._clusters: Clusters | None = None
        self._cluster: Cluster | None = None
        self._committed: dict[TopicPartition, int] = {}

    async def begin(self, clusters: Clusters, props: Mapping[str, str]) -> None:
        """Reads what the group has committed. Raises KafkaFailure, also for a group that has members: they copy."""
        self._clusters, source = clusters, clusters.open(Side.SOURCE, props)
        self._cluster = source
        state, offsets = await self._answered(source)
        if state not in _FREE:
            text = (
                f"group {self._group} is {state} on the source: another mirror uses it. Stop kafka-mirror-maker first, "
                "or give another group.id"
            )
            raise KafkaFailure(KafkaFault.FENCED, text, retriable=False)
        self._committed = {tp: offset.offset for tp, offset in offsets.items()}

    async def _answered(self, source: Cluster) -> tuple[GroupState, Mapping[TopicPartition, Committed]]:
        """Returns the group's state and offsets, once its coordinator says them: a cluster that has had no group yet
        makes the coordinators' topic when it is first asked, and a broker that has just started reads it first. Raises
        KafkaFailure."""
        backoff, until = Backoff(_FIRST_PAUSE, _MOST_PAUSE), time.monotonic() + ANSWER_SECONDS
        while True:
            state = (await source.group_states([self._group]))[self._group]
            offsets = (await source.committed([self._group]))[self._group]
            if not isinstance(offsets, KafkaFailure):
                if state is not GroupState.UNKNOWN:
                    return state, offsets
            elif not offsets.retriable or time.monotonic() > until:
                raise offsets
            if time.monotonic() > until:
                text = (
                    f"group {self._group} can't be described on the source: whether another mirror uses it is not "
                    "known. See that the broker that coordinates it runs, and start again"
                )
                raise KafkaFailure(KafkaFault.TIMEOUT, text, retriable=False)
            await asyncio.sleep(backoff.next())

    async def stored_offsets(
        self, partitions: Sequence[Mapping[str, str | int]]
    ) -> Sequence[Mapping[str, int] | None]:
        places = [
            TopicPartition(str(partition["topic"]), int(partition["partition"])) for partition in partitions
        ]
        return [{"position": self._committed[tp]} if tp in self._committed else None for tp in places]

    async def run(self) -> None:
        """Commits every interval, until cancelled."""
        while True:
            await asyncio.sleep(self._interval)
            await self.commit()

    async def finish(self) -> None:
        if self._clusters is not None and self._cluster is not None:
            await self.commit()
            await self._clusters.release(self._cluster)

    async def commit(self) -> None:
        """Commits what has moved. What fails is tried again next time: it stands for nothing but what others are
        shown, and where kafka-mirror-maker would go on."""
        moved = {
            tp: row.position
            for tp, row in self.rows.items()
            if row.position >= 0 and self._committed.get(tp) != row.position
        }
        if self._cluster is None or not moved:
            return
        try:
            done = await self._cluster.alter(
                self._group, {tp: Committed(position) for tp, position in moved.items()}
            )
        except KafkaFailure as failure:
            log.warning("offsets of group %s are not committed: %s", self._group, failure)
            return
        for tp, failed in done.items():
            if failed is None:
                self._committed[tp] = moved[tp]
            else:
                log.warning("offset of group %s for %s-%d is not committed: %s", self._group, *tp, failed)
