"""The only place where the service meets its adapters. Importing it opens and imports nothing of Kafka."""

from __future__ import annotations

from bridge.service.context import CheckContext, MirrorQuestions, RoundsContext

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
