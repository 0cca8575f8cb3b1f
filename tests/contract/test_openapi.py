"""The OpenAPI document that is checked in is the one that the code makes, and it declares what can go
wrong."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

import pytest

from bridge.service.contract import contract

CHECKED_IN = files("bridge.protocol").joinpath("openapi.json").read_text("utf-8")
DOCUMENT: dict[str, Any] = json.loads(CHECKED_IN)
OPERATIONS = [
    (method, path, operation)
    for path, item in DOCUMENT["paths"].items()
    for method, operation in item.items()
]


def test_the_document_has_not_drifted() -> None:
    assert contract() == CHECKED_IN, "run `mirror-bridge openapi bridge/protocol/openapi.json`"


def test_every_route_of_the_contract_is_there() -> None:
    assert {(method, path) for method, path, _ in OPERATIONS} == {
        ("get", "/v1/version"),
        ("get", "/v1/plugins"),
        ("post", "/v1/connectors/{name}/offsets"),
        ("post", "/v1/connectors/{name}/refresh"),
        ("post", "/v1/connectors/{name}/skip"),
        ("put", "/v1/plugins/{kind}/validate"),
        ("get", "/v1/connectors"),
        ("put", "/v1/connectors/{name}"),
        ("put", "/v1/connectors/{name}/stop"),
        ("get", "/v1/connectors/{name}/status"),
        ("get", "/v1/connectors/{name}/doctor"),
        ("get", "/v1/connectors/{name}/progress"),
        ("get", "/v1/connectors/{name}/gaps"),
        ("put", "/v1/connectors/{name}/tasks/{n}"),
        ("delete", "/v1/connectors/{name}/tasks/{n}"),
        ("post", "/v1/connectors/{name}/tasks/{n}/poll"),
        ("post", "/v1/connectors/{name}/tasks/{n}/idle"),
        ("post", "/v1/connectors/{name}/tasks/{n}/ack"),
        *(
            ("get", f"/v1/connectors/{{name}}/clusters/{{side}}/{question}")
            for question in (
                "replication-hops",
                "heartbeat-topics",
                "checkpoint-topics",
                "upstream-clusters",
                "remote-topics",
                "consumer-offsets",
            )
        ),
        ("get", "/v1/groups"),
        ("get", "/v1/groups/{group}"),
        ("get", "/v1/groups/{group}/explain"),
        ("get", "/v1/readiness"),
        ("post", "/v1/failover"),
        ("post", "/v1/failover/back"),
        ("post", "/v1/failover/rollback"),
        ("get", "/v1/failover/plan"),
        ("delete", "/v1/connectors/{name}"),
        ("get", "/health"),
        ("get", "/health/live"),
        ("get", "/health/ready"),
        ("get", "/metrics"),
        ("post", "/v1/sessions"),
    }


@pytest.mark.parametrize(("method", "path", "operation"), OPERATIONS)
def test_every_error_is_the_one_body(method: str, path: str, operation: dict[str, Any]) -> None:
    responses: dict[str, Any] = operation["responses"]
    assert "401" in responses
    assert "500" not in responses
    for status, response in responses.items():
        if int(status) >= 400 and (path, status) != ("/health/ready", "503"):
            schema = response["content"]["application/json"]["schema"]
            assert schema == {"$ref": "#/components/schemas/ErrorBody"}, (method, path, status)


def test_every_reference_leads_somewhere() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    referenced = {part.split('"')[0] for part in CHECKED_IN.split("#/components/schemas/")[1:]}
    assert referenced <= set(schemas)
    assert set(schemas) <= referenced | {"HTTPValidationError"}
