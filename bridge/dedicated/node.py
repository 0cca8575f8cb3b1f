"""A node of dedicated mode: beside a service, in its process, a member of the group of each flow that it may run."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Mapping
from urllib.parse import urlsplit

from bridge.dedicated.config.plan import FlowPlan, MirrorPlan, WorkerSettings
from bridge.dedicated.flow_run import FlowRun
from bridge.dedicated.membership import TargetGroups, given_up
from bridge.kafka.config.settings import client_settings
from bridge.model.values import Side
from bridge.service.service import Service

log = logging.getLogger(__name__)

_PUBLISH_SECONDS = 0.25
_LOOK_SECONDS = 2.0
"""Between two questions of who runs what."""


class Node:
    """Implements bridge.service.serve.Beside."""

    def __init__(
        self, service: Service, url: str, plan: MirrorPlan, workers: Mapping[str, WorkerSettings]
    ) -> None:
        """`workers`: by flow."""
        self._service, self._url, self._plan, self._workers = service, url, plan, workers
        service.table.dedicated = True
        self.name = f"{socket.gethostname()}:{urlsplit(url).port}"
        self._groups: dict[str, TargetGroups] = {}
        self._flows: list[FlowRun] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        for flow in self._plan.flows:
            log.info("flow %s: %s", flow.name, _described(flow, self._workers[flow.name]))
        log.info("node %s: health is at %s/health", self.name, self._url)
        for flow in self._plan.flows:
            groups = self._groups.get(flow.target)
            if groups is None:
                settings = client_settings(Side.TARGET, flow.connectors[0].config)
                groups = self._groups[flow.target] = TargetGroups(settings)
            run = FlowRun(self._service, flow, self._workers[flow.name], groups, self.name)
            self._flows.append(run)
            run.start()
        self._publish()
        self._tasks = [
            asyncio.create_task(self._publish_always(), name="state of the flows"),
            asyncio.create_task(self._look_always(), name="who runs what"),
        ]

    async def close(self) -> None:
        """Gives all flows back: each ends after a last commit, and another node gets it at once."""
        log.info("node %s: leaving the groups of %d flow(s)", self.name, len(self._flows))
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*(flow.close() for flow in self._flows))
        await asyncio.gather(*(groups.close() for groups in self._groups.values()))
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _publish_always(self) -> None:
        while True:
            await asyncio.sleep(_PUBLISH_SECONDS)
            self._publish()

    def _publish(self) -> None:
        self._service.flows = [flow.status() for flow in self._flows]

    async def _look_always(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            try:
                await asyncio.gather(*(flow.look() for flow in self._flows))
                self._share()
            except Exception:
                log.exception("asking who runs the flows failed, asking again in %.0f s", _LOOK_SECONDS)

    def _share(self) -> None:
        """Gives up a flow where another node runs fewer. Only with the whole picture: a cluster that is away leaves
        everything as it is."""
        copying = {flow.flow.name: flow for flow in self._flows if flow.flow.copies}
        known = {name: run.members for name, run in copying.items() if run.members is not None}
        if len(known) < len(copying):
            return
        flow = given_up(self.name, known)
        if flow is not None and copying[flow].own:
            copying[flow].give_up()


def _described(flow: FlowPlan, worker: WorkerSettings) -> str:
    what = ", ".join(connector.name for connector in flow.connectors)
    return (
        f"{'copies' if flow.copies else 'copies nothing'} ({what}); shared by the members of group {worker.group} on "
        f"{flow.target}"
    )
