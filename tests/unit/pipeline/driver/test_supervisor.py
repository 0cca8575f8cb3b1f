"""What comes while a supervisor waits for a cluster is not lost."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from bridge.kafka.config.settings import client_settings
from bridge.kafka.network.client import NetworkClient
from bridge.model.copying import Copied
from bridge.model.values import Side
from bridge.pipeline.driver.progress_watcher import Watcher
from bridge.pipeline.driver.supervisor import Supervisor
from tests.unit.pipeline.values import copied, spec

SPEC = spec({f"{side}.cluster.bootstrap.servers": "127.0.0.1:1" for side in ("source", "target")})


def test_partitions_that_are_assigned_while_ids_are_asked_for_are_copied() -> None:
    supervisor = Supervisor(SPEC)

    class Assigning(Watcher):
        async def with_current_ids(self, partitions: Sequence[Copied]) -> list[Copied]:
            supervisor.assign([copied(0), copied(1)])
            return list(partitions)

    clients = [NetworkClient(client_settings(side, SPEC.props).raw) for side in (Side.SOURCE, Side.TARGET)]
    supervisor.assign([copied(0)])
    asyncio.run(supervisor.assign_current_ids(Assigning(SPEC, *clients)))
    assert supervisor.assigned == [copied(0), copied(1)]
