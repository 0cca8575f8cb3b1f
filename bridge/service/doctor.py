"""Doctor for a connector of the service: with its configuration, from where the service runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bridge.errors import BridgeError, ErrorCode
from bridge.protocol.doctor import DoctorReport
from bridge.service.checks.context import Naming
from bridge.service.checks.validation import scrubbed
from bridge.service.service import Service
from bridge.service.state.task_table import Connector, comparable
from connectors.base import Kind
from connectors.config.configdef import given
from connectors.config.mirror_options import POLICY_CLASS, SEPARATOR, SOURCE_ALIAS, TARGET_ALIAS


class NoDoctor(BridgeError):
    code = ErrorCode.NO_SUCH_ROUTE
    status = 404


async def examined(service: Service, name: str, worker_cluster_id: str | None) -> DoctorReport:
    """In the threads that try clusters, so that nothing else waits. Raises NotFound and Overloaded."""
    known = service.table.connector(name)
    doctor, kind = service.checker.doctor, service.checker.kind(known.kind)
    if doctor is None:
        raise NoDoctor("this service examines no connectors")
    props = {**given(comparable(known.config)), "name": name}
    others = namings(known, service.table, service.checker.kinds)
    report = await service.checker.reachability.run(
        lambda: doctor(kind, name, props, others, worker_cluster_id)
    )
    findings = [
        each.model_copy(
            update={
                "found": scrubbed(kind, known.config, each.found),
                "remedy": scrubbed(kind, known.config, each.remedy),
            }
        )
        for each in report.findings
    ]
    return report.model_copy(update={"findings": findings})


def namings(known: Connector, all_of: Iterable[Connector], kinds: Mapping[str, Kind]) -> list[Naming]:
    """How other connectors of the same flow name topics; heartbeats have one name."""
    flow = _flow(known, kinds)
    return [
        Naming(each.name, _value(each, POLICY_CLASS, kinds), _value(each, SEPARATOR, kinds))
        for each in all_of
        if each.name != known.name and _flow(each, kinds) == flow and each.kind != "heartbeat"
    ]


def _flow(known: Connector, kinds: Mapping[str, Kind]) -> tuple[str, ...]:
    return tuple(_value(known, key, kinds) for key in (SOURCE_ALIAS, TARGET_ALIAS))


def _value(known: Connector, key: str, kinds: Mapping[str, Kind]) -> str:
    given = known.config.get(key)
    if given is not None:
        return given.strip()
    kind = kinds.get(known.kind)
    default = kind.definition.keys[key].default_text if kind is not None else None
    return default or ""
