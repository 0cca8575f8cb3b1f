"""/v1/groups: for operators. A group id with a slash is written with %2F; `?group=` of the list takes any
id as well. The empty id, which Kafka allows, is an empty segment: `/v1/groups/` and `/v1/groups//explain`."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from bridge.errors import ErrorCode, NotFound
from bridge.protocol.messages import Explanation, GroupReport, GroupReports, Groups
from bridge.protocol.readiness import Readiness
from bridge.service.answers.groups import Filter, explain, page
from bridge.service.answers.missing_records import with_answer
from bridge.service.answers.readiness import Answers
from bridge.service.http.errors import declares
from bridge.service.http.path_params import GroupId, TheService
from bridge.service.service import Service

router = APIRouter(prefix="/v1/groups", tags=["groups"])


@router.get("", responses=declares())
async def groups(
    service: TheService,
    connector: Annotated[str | None, Query(description="Groups of this connector only.")] = None,
    group: Annotated[str | None, Query(description="This group id only.")] = None,
    ready: Annotated[bool | None, Query(description="Groups that can, or can't, fail over.")] = None,
    readiness: Annotated[
        Readiness | None, Query(description="Groups with this answer: `ready` leaves out `ready_as_of`.")
    ] = None,
    verdict: Annotated[str | None, Query(description="exact, bounded or pending.")] = None,
    reason: Annotated[str | None, Query(description="Groups with this reason code.")] = None,
    limit: Annotated[int, Query(ge=1, le=1000, description="Groups a page.")] = 100,
    next_: Annotated[str | None, Query(alias="next", description="`next` of the page before.")] = None,
) -> Groups:
    """A page of groups in order of connector and id; `total` and `ready` count every match."""
    chosen = Filter(connector, group, ready, readiness, verdict, reason)
    return await page(service.snapshots, service.views(), chosen, limit, next_)


@router.get("/{group}", responses=declares(404))
async def report(group: GroupId, service: TheService) -> GroupReports:
    """The group as every connector sees it, partition by partition."""
    return GroupReports(group=group, reports=_reports(service, group))


@router.get("/", responses=declares(404), include_in_schema=False)
async def report_of_empty_id(service: TheService) -> GroupReports:
    """The group of the empty id, which no path parameter matches."""
    return GroupReports(group="", reports=_reports(service, ""))


@router.get("//explain", responses=declares(404), include_in_schema=False)
async def explained_of_empty_id(service: TheService) -> Explanation:
    """The same in sentences."""
    reports = _reports(service, "")
    return Explanation(group="", lines=explain(reports), reports=reports)


@router.get("/{group}/explain", responses=declares(404))
async def explained(group: GroupId, service: TheService) -> Explanation:
    """The same in sentences: the committed offset, its translation, and the evidence."""
    reports = _reports(service, group)
    return Explanation(group=group, lines=explain(reports), reports=reports)


def _reports(service: Service, group: str) -> list[GroupReport]:
    reports = []
    for name, view in service.views().items():
        full, packed = service.snapshots.full(name, group), service.snapshots.report(name, group)
        if full is None or packed is None:
            continue
        known = service.snapshots.connector(name)
        answer = Answers(view, known).answer(packed)
        reports.append(with_answer(full, answer, known.missing, known.summary.rounds))
    if not reports:
        raise NotFound(f"No connector reports a group {group}", code=ErrorCode.UNKNOWN_GROUP)
    return reports
