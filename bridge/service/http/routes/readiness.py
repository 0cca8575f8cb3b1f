"""/v1/readiness: can everything fail over now?"""

from __future__ import annotations

import time

from fastapi import APIRouter

from bridge.protocol.messages import ReadinessReport
from bridge.service.answers.flows import readiness_report
from bridge.service.http.errors import declares
from bridge.service.http.path_params import TheService

router = APIRouter(prefix="/v1/readiness", tags=["groups"])


@router.get("", responses=declares())
async def readiness(service: TheService) -> ReadinessReport:
    """Counts the groups of every flow: ready, ready as of a time, not ready, can't tell; and why. /v1/groups names
    them."""
    others = [flow for flow in service.flows if flow.copies]
    return readiness_report(
        service.table, service.snapshots, service.views(), others, int(time.time() * 1000)
    )
