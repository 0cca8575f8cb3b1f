"""/v1/connectors/{name}/doctor: what is wrong with a connector, its clusters and the service's machine."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from bridge.protocol.operators import DoctorReport
from bridge.service.doctor import examined
from bridge.service.http.errors import declares
from bridge.service.http.path_params import ConnectorName, TheService

router = APIRouter(prefix="/v1/connectors/{name}", tags=["connectors"])


@router.get("/doctor", responses=declares(404, 503))
async def doctor(
    name: ConnectorName,
    service: TheService,
    worker_cluster_id: Annotated[
        str | None,
        Query(description="`kafka_cluster_id` of the Connect worker, which is compared with the target's."),
    ] = None,
) -> DoctorReport:
    """Examines a connector without changing anything; waits for both clusters. 503 while others are examined."""
    return await examined(service, name, worker_cluster_id)
