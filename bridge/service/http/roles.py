"""Maps each endpoint to the token that it requires: for access control, the OpenAPI document and docs/security.md."""

from __future__ import annotations

from enum import StrEnum

from starlette.routing import compile_path


class Role(StrEnum):
    READ = "read"
    """The read token is enough."""
    CHANGE = "change"
    """Changes something, or shows a connector's configuration: the read token is not enough."""


_CONNECTOR = "/v1/connectors/{name}"
_TASK = f"{_CONNECTOR}/tasks/{{n}}"
_CLUSTER = f"{_CONNECTOR}/clusters/{{side}}"
ROLES = {
    ("GET", "/health"): Role.READ,
    ("GET", "/health/live"): Role.READ,
    ("GET", "/health/ready"): Role.READ,
    ("GET", "/metrics"): Role.READ,
    ("GET", "/v1/openapi.json"): Role.READ,
    ("GET", "/v1/version"): Role.READ,
    ("GET", "/v1/plugins"): Role.READ,
    ("PUT", "/v1/plugins/{kind}/validate"): Role.CHANGE,
    ("GET", "/v1/readiness"): Role.READ,
    ("GET", "/v1/groups"): Role.READ,
    ("GET", "/v1/groups/"): Role.READ,
    ("GET", "/v1/groups//explain"): Role.READ,
    ("GET", "/v1/groups/{group}"): Role.READ,
    ("GET", "/v1/groups/{group}/explain"): Role.READ,
    ("GET", "/v1/connectors"): Role.READ,
    ("PUT", _CONNECTOR): Role.CHANGE,
    ("DELETE", _CONNECTOR): Role.CHANGE,
    ("PUT", f"{_CONNECTOR}/stop"): Role.CHANGE,
    ("POST", f"{_CONNECTOR}/refresh"): Role.CHANGE,
    ("POST", f"{_CONNECTOR}/skip"): Role.CHANGE,
    ("POST", f"{_CONNECTOR}/offsets"): Role.CHANGE,
    ("GET", f"{_CONNECTOR}/status"): Role.READ,
    ("GET", f"{_CONNECTOR}/progress"): Role.READ,
    ("GET", f"{_CONNECTOR}/gaps"): Role.READ,
    ("GET", f"{_CONNECTOR}/doctor"): Role.CHANGE,
    ("GET", f"{_CLUSTER}/replication-hops"): Role.READ,
    ("GET", f"{_CLUSTER}/heartbeat-topics"): Role.READ,
    ("GET", f"{_CLUSTER}/checkpoint-topics"): Role.READ,
    ("GET", f"{_CLUSTER}/upstream-clusters"): Role.READ,
    ("GET", f"{_CLUSTER}/remote-topics"): Role.READ,
    ("GET", f"{_CLUSTER}/consumer-offsets"): Role.READ,
    ("POST", "/v1/sessions"): Role.CHANGE,
    ("PUT", _TASK): Role.CHANGE,
    ("DELETE", _TASK): Role.CHANGE,
    ("POST", f"{_TASK}/poll"): Role.CHANGE,
    ("POST", f"{_TASK}/idle"): Role.CHANGE,
    ("POST", f"{_TASK}/ack"): Role.CHANGE,
    ("POST", "/v1/failover"): Role.CHANGE,
    ("POST", "/v1/failover/rollback"): Role.CHANGE,
    ("POST", "/v1/failover/back"): Role.CHANGE,
    ("GET", "/v1/failover/plan"): Role.READ,
}
_READING = tuple(compile_path(path)[0] for (_, path), role in ROLES.items() if role is Role.READ)


def role_of(method: str, path: str) -> Role:
    """The role that a request needs; CHANGE for what the table does not have."""
    reads = method in ("GET", "HEAD") and any(pattern.match(path) for pattern in _READING)
    return Role.READ if reads else Role.CHANGE
