"""Chooses what a node runs that is near some clusters only: `--clusters B,C`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from bridge.dedicated.config.meaning import KINDS
from bridge.dedicated.config.plan import FlowPlan, MirrorPlan
from bridge.dedicated.config.planning import NO_FLOWS
from bridge.errors import ConfigError, ConfigRejected

_OPTION = "--clusters"
_HEARTBEAT = KINDS["MirrorHeartbeatConnector"].kind


def restricted(plan: MirrorPlan, clusters: Sequence[str]) -> MirrorPlan:
    """Returns the plan with the flows whose target is among `clusters`; without any, the whole plan.

    A flow that copies from A needs heartbeats in A, and in stock those come from the flows into A: where B->A is not
    among the chosen ones, its heartbeats stay, alone. Raises ConfigRejected for names that the file does not have.
    """
    if not clusters:
        return plan
    known = ", ".join(plan.clusters)
    unknown = [name for name in clusters if name not in plan.clusters]
    if unknown:
        raise ConfigRejected(
            [
                ConfigError(_OPTION, f"Invalid value {name} for {_OPTION}: the file's clusters are {known}")
                for name in unknown
            ]
        )
    flows = tuple(_chosen(plan, frozenset(clusters)))
    if not flows:
        why = f"None of the file's flows has {' or '.join(clusters)} as its target"
        raise ConfigRejected([ConfigError(_OPTION, f"{NO_FLOWS} {why}")])
    return replace(plan, flows=flows)


def _chosen(plan: MirrorPlan, clusters: frozenset[str]) -> Iterator[FlowPlan]:
    copied = {(flow.source, flow.target) for flow in plan.flows if flow.copies and flow.target in clusters}
    for flow in plan.flows:
        if flow.target in clusters:
            yield flow
        elif flow.heartbeats and (flow.target, flow.source) in copied:
            alone = tuple(each for each in flow.connectors if each.kind == _HEARTBEAT)
            yield replace(flow, copies=False, connectors=alone)
