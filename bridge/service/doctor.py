"""Runs doctor for a connector of the service, with its configuration and from the service's machine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bridge.errors import BridgeError, ErrorCode
from bridge.mm2.replication_policy import ALIASES, TOPIC_MAP, TOPIC_MAP_FILE
from bridge.protocol.operators import DoctorReport
from bridge.service.checks.answer import scrubbed
from bridge.service.checks.context import Naming
from bridge.service.service import Service
from bridge.service.state.task_table import Connector, comparable
from connectors.base import Kind
from connectors.config.configdef import given
from connectors.config.mirror_options import POLICY_CLASS, SEPARATOR, SOURCE_ALIAS, TARGET_ALIAS

_NAMING = (POLICY_CLASS, SEPARATOR, ALIASES, TOPIC_MAP, TOPIC_MAP_FILE)


class NoDoctor(BridgeError):
    code = ErrorCode.NO_SUCH_ROUTE
    status = 404


async def examined(service: Service, name: str, worker_cluster_id: str | None) -> DoctorReport:
    """Examines a connector, in threads of doctor's own. Raises NotFound and Overloaded."""
    connector = service.table.connector(name)
    doctor, kind = service.checker.doctor, service.checker.kind(connector.kind)
    if doctor is None:
        raise NoDoctor("doctor is not available in this service")
    props = {**given(comparable(connector.config)), "name": name}
    others = namings(connector, service.table, service.checker.kinds)
    report = await service.checker.reachability.run(
        lambda: doctor(kind, name, props, others, worker_cluster_id)
    )
    findings = [
        finding.model_copy(
            update={
                "found": scrubbed(kind, connector.config, finding.found),
                "remedy": scrubbed(kind, connector.config, finding.remedy),
            }
        )
        for finding in report.findings
        # A node of dedicated mode writes to the target itself.
        if not (connector.dedicated and finding.check == "worker")
    ]
    return report.model_copy(update={"findings": findings})


def namings(connector: Connector, all_of: Iterable[Connector], kinds: Mapping[str, Kind]) -> list[Naming]:
    """How other connectors of the same flow name topics, without heartbeat connectors, whose topic has one name."""
    flow = _flow(connector, kinds)
    return [
        _naming(connector, other_connector, kinds)
        for other_connector in all_of
        if other_connector.name != connector.name
        and _flow(other_connector, kinds) == flow
        and other_connector.kind != "heartbeat"
    ]


def _naming(connector: Connector, other: Connector, kinds: Mapping[str, Kind]) -> Naming:
    policy, separator, aliases, topic_map, topic_map_file = (_value(other, key, kinds) for key in _NAMING)
    same_groups = connector.shared_groups.get(other.name, 0)
    return Naming(other.name, policy, separator, aliases, topic_map, topic_map_file, same_groups)


def _flow(connector: Connector, kinds: Mapping[str, Kind]) -> tuple[str, ...]:
    return tuple(_value(connector, key, kinds) for key in (SOURCE_ALIAS, TARGET_ALIAS))


def _value(connector: Connector, key: str, kinds: Mapping[str, Kind]) -> str:
    value = connector.config.get(key)
    if value is not None:
        return value
    kind = kinds.get(connector.kind)
    default = kind.definition.keys[key].default_text if kind is not None else None
    return default or ""
