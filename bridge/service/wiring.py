"""The only place where the service meets its adapters. Importing it opens and imports nothing of Kafka."""

from __future__ import annotations

import asyncio

from bridge.service.context import AlterOffsets, CheckContext, MirrorQuestions, RoundsContext

_STOP_SECONDS = 20.0
"""A connector that was stopped just now still commits what it has copied."""
ROUNDS_FACTORY = "bridge.service.wiring:rounds_context"


def rounds_context() -> RoundsContext:
    """Called in the rounds process, inside its running event loop."""
    from bridge.kafka.clusters import KafkaClusters
    from bridge.kafka.garbage import collect_seldom
    from bridge.pipeline.launch import DriverPipelines
    from connectors.registry import KINDS

    collect_seldom()
    clusters = KafkaClusters()
    return RoundsContext(KINDS, clusters, DriverPipelines(), clusters.close)


def check_context() -> CheckContext:
    """Called in the HTTP process: definitions and checks, no client."""
    from bridge.kafka.client_config import StaticClientCheck
    from connectors.registry import KINDS

    return CheckContext(KINDS, StaticClientCheck())


def mirror_questions() -> MirrorQuestions:
    """Called in the HTTP process, in a thread of the pool, when somebody asks."""
    from bridge.client import once

    return once


def alter_offsets() -> AlterOffsets:
    """Called in the HTTP process, in a thread of the pool, when an operator alters offsets in Connect."""
    from collections.abc import Sequence

    from bridge.errors import NothingCopied
    from bridge.kafka.client_config import StaticClientCheck
    from bridge.pipeline.reset import reset
    from bridge.service.context import Props
    from bridge.translation.resetting import Row
    from connectors.source.altering import Offsets, destinations
    from connectors.source.options import SourceOptions

    def alter(name: str, props: Props, offsets: Offsets) -> Sequence[Row]:
        options = SourceOptions.from_props(props, StaticClientCheck())
        alias, latest = options.source_alias, options.from_latest
        try:
            return asyncio.run(
                reset(
                    options.spec(name, props),
                    options.remote_of,
                    lambda copied: destinations(offsets, alias, copied, from_latest=latest),
                    patience=_STOP_SECONDS,
                )
            )
        except NothingCopied:
            return ()  # copying begins where Connect's offsets say, which are altered with this answer

    return alter
