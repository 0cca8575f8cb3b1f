"""Every endpoint, with what the OpenAPI document allows and what it does not: no 500, ever, and no
undeclared answer.

The real kinds are behind it, so that configurations of any form reach the real checks; the rounds are a fake.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import httpx
import pytest
import requests
import uvicorn
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bridge.local import NO_AUTHORITIES
from bridge.protocol.messages import ErrorBody
from bridge.service.checks.context import CheckContext
from bridge.service.checks.validation import Checker
from bridge.service.http.app import create_app
from bridge.service.ipc.messages import pack_report
from connectors.registry import KINDS
from tests.support.forms import examples
from tests.unit.service.service_fakes import FakeKind, NoCheck, fake_service, report, session

TIMES = int(os.environ.get("MIRROR_BRIDGE_FUZZ", "1"))
"""How many times as many examples as usual."""
CONTRACT = json.loads(files("bridge.protocol").joinpath("openapi.json").read_text("utf-8"))
OPERATIONS = [(path, method) for path, item in CONTRACT["paths"].items() for method in item]


def app() -> Any:
    service = fake_service(queue=1000)
    service.checker = Checker(CheckContext({**KINDS, "fake": FakeKind()}, NoCheck()), service.pools)
    service.snapshots.groups("c", 1, [pack_report(name, report(name)) for name in ("0", "g", "a/b")])
    service.table.start_task("c", 0, session(1), "fake", 2, {})
    # More acknowledgements than the contract takes are more than a megabyte: 422 is what they are after here.
    return create_app(service, max_body=64 << 20)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A real server on a real socket: what uvicorn does to strange requests counts too."""
    server = uvicorn.Server(uvicorn.Config(app(), port=0, ws="none", log_config=None, access_log=False))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join(60)


@pytest.fixture(scope="module")
def client(address: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=address, timeout=60, verify=NO_AUTHORITIES) as made:
        yield made


@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_any_request_gets_a_declared_answer(path: str, method: str, address: str) -> None:
    # Schemathesis takes a second to import, and as a plugin of pytest makes its cases when it collects.
    import schemathesis
    from schemathesis.checks import not_a_server_error
    from schemathesis.generation.hypothesis.builder import (
        HypothesisTestConfig,
        HypothesisTestMode,
        create_test,
    )
    from schemathesis.specs.openapi import checks

    schema = schemathesis.openapi.from_dict(CONTRACT)
    # A body that breaks the schema by its size is refused by its size, before it is looked at.
    rejected = schema.config.checks.negative_data_rejection
    rejected.expected_statuses = [*rejected.expected_statuses, "413"]
    checked = [
        checks.status_code_conformance,
        checks.content_type_conformance,
        checks.response_headers_conformance,
        checks.response_schema_conformance,
        checks.allow_header_conformance,
        checks.negative_data_rejection,
        checks.unsupported_method,
        *([] if path == "/health/ready" else [not_a_server_error]),  # its 503 is an answer
    ]

    with requests.Session() as session:
        session.trust_env = False  # it would look for proxies with each request
        session.headers["Connection"] = "close"  # an idle one may end while it is asked

        @settings(
            max_examples=examples(3, 25) * TIMES, deadline=None, suppress_health_check=list(HealthCheck)
        )
        def ask(case: schemathesis.Case[Any]) -> None:
            case.call_and_validate(base_url=address, session=session, checks=checked)

        config = HypothesisTestConfig(project=schema.config, modes=list(HypothesisTestMode))
        create_test(operation=schema[path][method], test_func=ask, config=config)()


PATHS = [
    "/v1/plugins/{}/validate",
    "/v1/connectors/{}",
    "/v1/connectors/{}/tasks/0",
    "/v1/connectors/{}/tasks/0/poll",
]
TEXT = st.text(st.characters(blacklist_categories=()), max_size=12)
"""All of Unicode, NUL and unpaired surrogates too."""
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=examples(20, 300) * TIMES, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    path=st.sampled_from(PATHS),
    name=st.sampled_from(["c", "fake", "group_offset"])
    | st.binary(min_size=1, max_size=8).map(lambda raw: "".join(f"%{byte:02x}" for byte in raw)),
    method=st.sampled_from(["PUT", "POST", "DELETE", "GET", "PATCH", "TRACE", "HEAD", "OPTIONS"]),
    body=st.binary(max_size=40)
    | JSON.map(lambda value: json.dumps(value).encode())
    | st.dictionaries(
        st.sampled_from(["session", "kind", "config", "task_count", "wait_ms", "protocol", "acked"]), JSON
    ).map(lambda value: json.dumps(value).encode()),
    kind=st.sampled_from(["application/json", "application/json; charset=utf-16", "text/plain", "", "\xff"]),
)
def test_any_bytes_get_the_one_error_body(
    client: httpx.Client, path: str, name: str, method: str, body: bytes, kind: str
) -> None:
    answer = client.request(
        method, path.format(name), content=body, headers={b"content-type": kind.encode("latin-1")}
    )
    assert answer.status_code < 500, answer.text
    if answer.status_code >= 400 and method != "HEAD":
        ErrorBody.model_validate_json(answer.content)


CONFIG_KEYS = [
    *sorted({key for kind in KINDS.values() for key in kind.definition.keys}),
    "source.cluster.ssl.keystore.location",
    "source.cluster.sasl.jaas.config",
    "target.admin.request.timeout.ms",
]
SAID = st.sampled_from(
    ["", "-1", "0", "true", "a,b", "[", "(?", "*", "\\", "9" * 5000, "https://x:y", "A.B", "\x00", "🦊"]
)


@settings(max_examples=examples(20, 200) * TIMES, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    config=st.dictionaries(
        st.sampled_from(CONFIG_KEYS) | st.text(max_size=5), SAID | st.text(max_size=20) | st.none()
    )
)
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_any_configuration_is_judged(client: httpx.Client, kind: str, config: dict[str, str | None]) -> None:
    answer = client.put(f"/v1/plugins/{kind}/validate", json={"config": config})
    assert answer.status_code == 200, answer.text
    judged = answer.json()
    assert judged["error_count"] == sum(len(entry["value"]["errors"]) for entry in judged["configs"])
    start = {"session": session(2), "kind": kind, "config": config}
    started = client.put("/v1/connectors/fuzzed", json=start)
    assert started.status_code == (400 if judged["error_count"] else 200), started.text
