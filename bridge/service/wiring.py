"""Connects the service with its adapters; no other module does. Importing it imports nothing of Kafka."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from bridge.model.values import Side
from bridge.policy import Policy
from bridge.protocol.operators import DoctorFinding, DoctorReport
from bridge.service.checks.context import (
    AlterOffsets,
    CheckContext,
    MirrorQueries,
    Naming,
    Probed,
    Props,
    RoundsContext,
)
from bridge.service.checks.large_configs import LargeConfigs
from bridge.service.checks.plugin_process import PluginProcess
from bridge.service.checks.plugin_questions import (
    AlterInPluginProcess,
    DoctorInPluginProcess,
    ProbeInPluginProcess,
    QueriesInPluginProcess,
)
from bridge.service.ipc.messages import Config
from connectors.base import Kind
from connectors.config.allowed_names import allowed
from connectors.config.configdef import given

_STOP_SECONDS = 20.0
"""A connector that was just stopped still commits what it has copied."""
ROUNDS_FACTORY = "bridge.service.wiring:rounds_context"


def rounds_context() -> RoundsContext:
    """Called in the rounds process, inside its running event loop."""
    from bridge.kafka.cluster import KafkaClusters
    from bridge.kafka.gc_tuning import collect_seldom
    from bridge.pipeline.driver.launch import DriverPipelines
    from connectors.registry import KINDS

    collect_seldom()
    clusters = KafkaClusters()
    return RoundsContext(KINDS, clusters, DriverPipelines(), open_key_stores, clusters.close)


def open_key_stores(config: Config) -> None:
    from bridge.kafka.config.settings import StaticClientCheck

    if any(".ssl." in key for key in config):
        StaticClientCheck().check(given(config))


def check_context(policy: Policy) -> CheckContext:
    """Called in the HTTP process: definitions and checks; clients only when a cluster is to be reached."""
    from bridge.kafka.config.files import Files
    from bridge.kafka.config.settings import StaticClientCheck
    from connectors.registry import KINDS

    clients = allowed(StaticClientCheck(Files(policy.folders)), policy)
    return CheckContext(
        KINDS,
        clients,
        ProbeInPluginProcess(probe),
        DoctorInPluginProcess(doctor_here),
        PluginProcess(policy),
        LargeConfigs(policy),
    )


def probe(props: Props, sides: Sequence[Side], seconds: float) -> Probed:
    """The Probe of the HTTP process, for configurations without users' code."""
    from bridge.kafka.admin.inspection import reach
    from bridge.kafka.config.settings import client_settings

    async def probed() -> Probed:
        reached = await asyncio.gather(
            *(reach(client_settings(side, props).raw_admin, seconds) for side in sides)
        )
        unreachable, cluster_ids = dict[Side, str](), dict[Side, str]()
        for side, found in zip(sides, reached, strict=True):
            if isinstance(found, list):
                unreachable[side] = "; ".join(map(str, found))
            else:
                cluster_ids[side] = found.cluster_id
        return Probed(unreachable, cluster_ids)

    return asyncio.run(probed())


def doctor_here(
    kind: Kind, name: str, props: Props, others: Sequence[Naming], worker_cluster_id: str | None
) -> DoctorReport:
    """The Doctor of the HTTP process, for configurations without users' code."""
    from dataclasses import replace

    from bridge.doctor.checks import examine
    from bridge.doctor.collecting import collect
    from bridge.doctor.facts import Other
    from bridge.kafka.config.settings import StaticClientCheck

    facts = asyncio.run(collect(kind, name, props, StaticClientCheck()))
    facts = replace(facts, others=[Other(*naming) for naming in others], service_skew=0.0)
    if worker_cluster_id is not None:
        facts = replace(facts, worker_cluster_id=worker_cluster_id)
    findings = [
        DoctorFinding(
            check=finding.check, severity=finding.severity, found=finding.found, remedy=finding.remedy
        )
        for finding in examine(facts)
    ]
    return DoctorReport(name=name, findings=findings)


def mirror_queries() -> MirrorQueries:
    """Called in the HTTP process, in a thread of the pool, for each request."""
    return QueriesInPluginProcess(queries_here())


def queries_here() -> MirrorQueries:
    from bridge.client import blocking

    return blocking


def alter_offsets() -> AlterOffsets:
    """Called in the HTTP process, in a thread of the pool, when an operator alters offsets in Connect."""
    return AlterInPluginProcess(alter_here())


def alter_here() -> AlterOffsets:
    from bridge.errors import NothingCopied
    from bridge.kafka.config.settings import StaticClientCheck
    from bridge.pipeline.positions import check_first_positions, reset
    from bridge.translation.runs.reset_positions import PartitionReset
    from connectors.registry import KINDS
    from connectors.source.options import SourceOptions
    from connectors.source.take_over import Offsets, destinations, of_group

    def alter(kind: str, name: str, props: Props, offsets: Offsets) -> Sequence[PartitionReset]:
        options = SourceOptions.from_props(props, StaticClientCheck(), KINDS[kind].definition)
        alias, latest = options.source_alias, options.from_latest
        chosen = of_group if kind == "sink" else destinations
        try:
            return asyncio.run(
                reset(
                    options.spec(name, props),
                    options.remote_of,
                    lambda copied: chosen(offsets, alias, copied, from_latest=latest),
                    patience=_STOP_SECONDS,
                )
            )
        except NothingCopied:
            first = chosen(offsets, alias, (), from_latest=latest)
            asyncio.run(check_first_positions(options.spec(name, props), first))
            return ()  # copying starts at Connect's offsets, which Connect alters after this answer

    return alter
