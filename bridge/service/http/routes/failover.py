"""/v1/failover: moves groups to the target, rolls them back after a drill, and fails them back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Depends, Query

from bridge.errors import BodyErrors, ConfigError
from bridge.protocol.messages import Failover, FailoverPlan, MoveGroups, RolledBack
from bridge.service.failover.failback import fail_back
from bridge.service.failover.failover import fail_over, roll_back
from bridge.service.failover.plan import plan
from bridge.service.http.audit_log import add_details
from bridge.service.http.errors import declares
from bridge.service.http.path_params import TheService
from bridge.service.http.request_bodies import accepts, read

_NOTED = 100
"""Groups that the audit log names."""
router = APIRouter(prefix="/v1/failover", tags=["failover"])

Body = Annotated[MoveGroups, Depends(read(MoveGroups, long_list="groups"))]


@router.post("", responses=declares(404, 409, 413, 503), openapi_extra=accepts(MoveGroups))
async def failover(service: TheService, body: Body) -> Failover:
    """Moves groups to the target: runs a round, checks that all are ready, and then their connectors no longer commit
    them. Moves all of them, or none (409, with the reasons by group). Idempotent."""
    _check(body.groups, all_=body.all)
    done = await fail_over(service, body)
    _note(body, [group.group for group in done.groups])
    return done


@router.post("/rollback", responses=declares(404, 409, 413, 503), openapi_extra=accepts(MoveGroups))
async def rollback(service: TheService, body: Body) -> RolledBack:
    """Ends a drill: the groups' offsets on the target are set back to what they were when the groups were moved, and
    their connectors commit them again. Refused while a group has members on the target. Idempotent."""
    _check(body.groups, all_=body.all)
    done = await roll_back(service, body)
    _note(body, done.groups)
    return done


@router.post("/back", responses=declares(404, 409, 413, 503), openapi_extra=accepts(MoveGroups))
async def failback(service: TheService, body: Body) -> RolledBack:
    """Fails moved groups back: refused unless the flow back, which this service has to run too, has committed on the
    source what the consumers have committed on the target. Then their connectors commit them on the target again.
    Idempotent."""
    _check(body.groups, all_=body.all)
    done = await fail_back(service, body)
    _note(body, done.groups)
    return done


@router.get("/plan", responses=declares(404, 409))
async def failover_plan(
    service: TheService,
    flow: Annotated[str, Query(min_length=1, description="<source alias>-to-<target alias>.")],
    group: Annotated[list[str] | None, Query(description="These groups; all without any.")] = None,
    accept_as_of: Annotated[bool, Query(description="Also while the source is away.")] = False,
) -> FailoverPlan:
    """Returns where groups would resume on the target now; refused (409) unless every offset of them is translated."""
    return plan(service, flow, group or [], accept_as_of=accept_as_of)


def _note(body: MoveGroups, groups: Sequence[str]) -> None:
    add_details(
        before={
            "flow": body.flow,
            "all": body.all,
            "accept_as_of": body.accept_as_of,
            "dry_run": body.dry_run,
        },
        after={"moved": 0 if body.dry_run else len(groups), "groups": [*groups[:_NOTED]]},
    )


def _check(groups: list[str], *, all_: bool) -> None:
    if bool(groups) == all_:
        raise BodyErrors([ConfigError("body.groups", "give either groups or all")])
    if len(set(groups)) < len(groups) or "" in groups:
        raise BodyErrors([ConfigError("body.groups", "must be different, and not empty")])
