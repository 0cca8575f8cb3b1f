"""What is wrong is named, by whoever can know it; nothing else stops, nothing is half written, no secret is told."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import httpx
import pytest

from bridge.local import NO_AUTHORITIES, ConnectFailed, LocalStack
from bridge.local.processes import ReservedPort
from tests.e2e.control import aliased
from tests.e2e.flow import CLASS, SHIFT, Flow, exactly
from tests.support import allow, commit, connector, eventually, unique
from tests.support.brokers import USERS, Secured
from tests.support.forms import mostly_long
from tests.support.waiting import wait_equal, wait_true
from tests.support.waits import WAIT

USER, WRONG_PASSWORD = "bad-input", "looking-glass-7743"
PASSWORD = USERS[USER]
MEGABYTES = 10 << 20


@pytest.fixture(scope="module")
def guarded(secured: Secured) -> Secured:
    """The target where it wants a login and ACLs; tests themselves come by its plain listener and may do everything."""
    allow(secured.bootstrap, f"User:{USER}", "*", "READ", "GROUP")
    return secured


def _login(side: str, broker: Secured, password: str) -> dict[str, str]:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    return {
        f"{side}.cluster.bootstrap.servers": broker.address("SASL_PLAINTEXT"),
        f"{side}.cluster.security.protocol": "SASL_PLAINTEXT",
        f"{side}.cluster.sasl.mechanism": "PLAIN",
        f"{side}.cluster.sasl.jaas.config": f'{module} required username="{USER}" password="{password}";',
    }


def _with(flow: Flow, side: str) -> Flow:
    """The flow with the target as this side, where it is `guarded`."""
    return aliased(flow, source=flow.target, target=flow.source) if side == "source" else aliased(flow)


def _no_secret_in_logs(flow: Flow) -> None:
    for process in (flow.worker.process, flow.process.process):
        log = process.log.read_text()
        assert log
        for secret in (PASSWORD, WRONG_PASSWORD):
            assert secret not in log, f"the log of {process.name} tells a password"


# -- clusters ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("side", mostly_long(["source", "target"]))
def test_an_unreachable_cluster_is_named_and_no_task_fails(flow: Flow, side: str) -> None:
    topic, group = flow.topic(), unique("unreachable")
    commit(flow.source.bootstrap, group, {(topic, 0): 40})
    port = ReservedPort()
    config = flow.config(exactly(group)) | {f"{side}.cluster.bootstrap.servers": port.address}
    with closing(_Releasing(port)), connector(flow.worker, config) as name:

        def reported() -> None:
            status = flow.service.status(name)
            assert port.address.rpartition(":")[2] in " ".join(status["errors"]), status
            assert side in " ".join(status["errors"]), status
            assert (status["state"] != "failed", status["failure"]) == (True, None)
            health = flow.service.health()
            assert health["status"] == "degraded", health
            (result,) = [each for each in health["connectors"] if each["name"] == name]
            assert (result["state"], f"{side} cluster" in result["waiting_for"]) == ("starting", True), result
            # The service can serve: it must go on being reached, by the configuration that mends this first of all.
            assert (
                httpx.get(f"{flow.service.url}/health/ready", timeout=60, verify=NO_AUTHORITIES).status_code
                == httpx.codes.OK
            )
            if side == "target":
                report = flow.service.report(group)
                assert (report["reason"], report["ready"]) == ("target_unreachable", False), report

        eventually(reported, WAIT, what=f"health says that the {side} can't be reached", watched=flow.watched)
        flow.worker.rest.wait_running(name)
        # Mended by its configuration, without a restart of anything.
        flow.worker.rest.put(name, flow.config(exactly(group)))
        flow.wait_there(group, {(topic, 0): 40 + SHIFT})
        eventually(lambda: flow.service.status(name)["errors"] == [], WAIT, what="the error is over")


class _Releasing:
    def __init__(self, port: ReservedPort) -> None:
        self.close = port.release


@pytest.mark.parametrize("side", mostly_long(["source", "target"]))
def test_wrong_credentials_fail_the_task_with_clear_words_and_no_secret(
    flow: Flow, guarded: Secured, side: str
) -> None:
    unique_flow = _with(flow, side)
    topic, group = unique_flow.topic(), unique("login")
    for name in (topic, unique_flow.remote(topic)):
        allow(guarded.bootstrap, f"User:{USER}", name, "READ")
    commit(unique_flow.source.bootstrap, group, {(topic, 0): 40})
    wrong = unique_flow.config(exactly(group)) | _login(side, guarded, WRONG_PASSWORD)
    with connector(unique_flow.worker, wrong) as name:

        def failed() -> str:
            (task,) = unique_flow.worker.rest.status(name)["tasks"]
            assert task["state"] == "FAILED", task
            return str(task["trace"])

        trace = eventually(failed, WAIT, what="the task fails", watched=unique_flow.watched)
        assert "uthentication" in trace
        assert side in trace
        status = unique_flow.service.status(name)
        assert status["state"] == "failed"
        assert "uthentication" in status["failure"]
        assert unique_flow.there(group) == {}
        right = unique_flow.config(exactly(group)) | _login(side, guarded, PASSWORD)
        unique_flow.worker.rest.put(name, right)
        unique_flow.wait_there(group, {(topic, 0): 40 + SHIFT})
        unique_flow.wait_verdict(group, topic)
        unique_flow.worker.rest.wait_running(name)
        wait_equal(lambda: unique_flow.service.status(name)["failure"], None, watched=unique_flow.watched)
        for answer in (
            unique_flow.service.health(),
            unique_flow.service.report(group),
            unique_flow.worker.rest.status(name),
            trace,
        ):
            assert PASSWORD not in str(answer)
            assert WRONG_PASSWORD not in str(answer)
    _no_secret_in_logs(unique_flow)


@pytest.mark.parametrize("side", mostly_long(["source", "target"]))
def test_one_topic_without_an_acl_does_not_hold_up_the_others(
    flow: Flow, guarded: Secured, side: str
) -> None:
    unique_flow = _with(flow, side)
    closed, described, open_ = unique_flow.topic(), unique_flow.topic(), unique_flow.topic()
    name_there = (lambda topic: topic) if side == "source" else unique_flow.remote
    allow(guarded.bootstrap, f"User:{USER}", name_there(described), "DESCRIBE")
    allow(guarded.bootstrap, f"User:{USER}", name_there(open_), "READ")
    both, alone = unique("acl"), unique("acl")
    commit(unique_flow.source.bootstrap, both, {(topic, 0): 40 for topic in (closed, described, open_)})
    commit(unique_flow.source.bootstrap, alone, {(open_, 0): 60})
    config = unique_flow.config(f"{exactly(both)}|{exactly(alone)}") | _login(side, guarded, PASSWORD)
    with connector(unique_flow.worker, config) as name:
        unique_flow.wait_there(alone, {(open_, 0): 60 + SHIFT})
        unique_flow.wait_there(both, {(open_, 0): 40 + SHIFT})
        visible = [described] if side == "source" else [closed, described]
        for topic in visible:
            row = unique_flow.wait_reason(both, topic, f"{side}_not_authorized")
            assert "uthoriz" in row["detail"]["said"], row
        if side == "source":
            # Offsets of a topic that may not even be described are not shown by the broker: there is nothing to tell.
            wait_true(
                lambda: (
                    closed not in [row["topic"] for row in unique_flow.service.report(both)["partitions"]]
                ),
                watched=unique_flow.watched,
            )
        unique_flow.wait_verdict(both, open_)
        wait_equal(lambda: unique_flow.service.report(both)["ready"], False, watched=unique_flow.watched)
        unique_flow.wait_ready(alone)
        unique_flow.worker.rest.wait_running(name)
        allow(guarded.bootstrap, f"User:{USER}", name_there(described), "READ")
        unique_flow.wait_there(both, {(open_, 0): 40 + SHIFT, (described, 0): 40 + SHIFT})
    _no_secret_in_logs(unique_flow)


@pytest.mark.long
def test_a_topic_that_does_not_exist_selects_nothing_and_stops_nothing(flow: Flow) -> None:
    topic, group = flow.topic(), unique("unknown")
    nowhere = unique("nowhere")
    commit(flow.source.bootstrap, group, {(topic, 0): 40})
    with flow.connector(exactly(group), topics=f"{nowhere},{topic}") as name:
        flow.wait_there(group, {(topic, 0): 40 + SHIFT})
        flow.worker.rest.put(name, flow.config(exactly(group), topics=nowhere))

        def nothing() -> None:
            status = flow.service.status(name)
            assert (status["state"], status["groups"], status["errors"]) == ("running", 0, []), status

        eventually(nothing, WAIT, what="no group has offsets of the topics", watched=flow.watched)
        flow.worker.rest.wait_running(name)


def test_a_copy_that_does_not_exist_is_a_reason(flow: Flow) -> None:
    """The same filter as the mirror's, but the mirror has not made the topic yet."""
    topic, group = flow.topic(), unique("nocopy")
    commit(flow.source.bootstrap, group, {(topic, 0): 40})
    with flow.connector(exactly(group), source_cluster_alias="other") as name:
        flow.wait_reason(group, topic, "target_topic_missing")
        flow.wait_rounds(name)
        assert flow.there(group) == {}


# -- configurations ------------------------------------------------------------------------------------------------

REFUSED: dict[str, tuple[dict[str, str], str, str]] = {
    "regex": ({"groups": "orders-["}, "groups", "orders-["),
    "regex of topics": ({"topics.exclude": "*"}, "topics.exclude", "*"),
    "separator in an alias": ({"target.cluster.alias": "b.c"}, "target.cluster.alias", "separator"),
    "other separator": (
        {"replication.policy.separator": "-", "source.cluster.alias": "a-b"},
        "source.cluster.alias",
        "separator '-'",
    ),
    "equal aliases": (
        {"target.cluster.alias": "A", "source.cluster.alias": "A"},
        "target.cluster.alias",
        "must differ",
    ),
    "negative sync interval": (
        {"sync.group.offsets.interval.seconds": "-5"},
        "sync.group.offsets.interval.seconds",
        "at least 1",
    ),
    "negative refresh interval": (
        {"refresh.groups.interval.seconds": "-5"},
        "refresh.groups.interval.seconds",
        "at least 1",
    ),
    "negative timeout": ({"admin.timeout.ms": "-1"}, "admin.timeout.ms", "at least 1"),
    "empty groups": ({"groups": ""}, "groups", "empty"),
    "empty topics": ({"topics": " "}, "topics", "empty"),
    "no tasks": ({"tasks.max": "0"}, "tasks.max", "at least 1"),
}


@pytest.mark.parametrize("case", mostly_long(REFUSED, short=3))
def test_a_put_that_is_refused_names_the_key_and_leaves_nothing_behind(flow: Flow, case: str) -> None:
    changes, key, words = REFUSED[case]
    name = unique("refused")
    with pytest.raises(ConnectFailed) as refused:
        flow.worker.rest.put(name, {**flow.config("x"), **changes})
    assert refused.value.status == httpx.codes.BAD_REQUEST
    assert key in str(refused.value)
    assert words in str(refused.value)
    errors = flow.worker.rest.validation_errors(CLASS, {**flow.config("x"), "name": name, **changes})
    assert list(errors) == [key]
    wait_true(lambda: name not in flow.worker.rest.connectors(), watched=flow.watched)
    assert (
        httpx.get(f"{flow.service.url}/v1/connectors/{name}/status", verify=NO_AUTHORITIES).status_code
        == httpx.codes.NOT_FOUND
    )


def test_a_refused_change_leaves_the_running_connector_as_it_was(flow: Flow) -> None:
    topic, group = flow.topic(), unique("kept")
    commit(flow.source.bootstrap, group, {(topic, 0): 40})
    with flow.connector(exactly(group)) as name:
        flow.wait_there(group, {(topic, 0): 40 + SHIFT})
        before, sessions = flow.worker.rest.config(name), flow.service.sessions(name)
        with pytest.raises(ConnectFailed, match="groups"):
            flow.worker.rest.put(name, flow.config("("))
        wait_equal(lambda: flow.worker.rest.config(name), before, watched=flow.watched)
        commit(flow.source.bootstrap, group, {(topic, 0): 50})
        flow.wait_there(group, {(topic, 0): 50 + SHIFT})
        wait_equal(lambda: flow.service.sessions(name), sessions, watched=flow.watched)


def test_a_token_that_is_refused_is_told_under_its_key(flow: Flow, stack: LocalStack) -> None:
    token = "open-sesame-4711"
    guarded = stack.service(unique("guarded"), environment={"MIRROR_BRIDGE_AUTH_TOKEN": token})
    unique_flow, name = replace(flow, process=guarded), unique("token")
    for given in ({}, {"bridge.auth.token": WRONG_PASSWORD}):
        errors = unique_flow.worker.rest.validation_errors(
            CLASS, {**unique_flow.config("x"), "name": name, **given}
        )
        assert list(errors) == ["bridge.auth.token"], errors
        assert WRONG_PASSWORD not in str(errors)
        with pytest.raises(ConnectFailed, match=r"bridge\.auth\.token"):
            unique_flow.worker.rest.put(name, {**unique_flow.config("x"), **given})
    right = {**unique_flow.config("x"), "name": name, "bridge.auth.token": token}
    assert unique_flow.worker.rest.validation_errors(CLASS, right) == {}
    _no_secret_in_logs(unique_flow)
    assert token not in flow.worker.process.log.read_text()
    guarded.close()


# -- access to the service ------------------------------------------------------------------------------------------

BODIES: dict[str, tuple[bytes, int, str]] = {
    "10 MB": (
        b'{"session": "' + b"x" * MEGABYTES + b'"}',
        httpx.codes.REQUEST_ENTITY_TOO_LARGE,
        "max_body_bytes",
    ),
    "cut off": (b'{"session": "1795230000123-x", "kind":', httpx.codes.UNPROCESSABLE_ENTITY, "JSON"),
    "no JSON": (b"<config/>", httpx.codes.UNPROCESSABLE_ENTITY, "JSON"),
    "empty": (b"", httpx.codes.UNPROCESSABLE_ENTITY, "JSON"),
    "a list": (b"[1, 2]", httpx.codes.UNPROCESSABLE_ENTITY, "object"),
    "half of it": (b'{"session": "1795230000123-x"}', httpx.codes.UNPROCESSABLE_ENTITY, "config"),
    "bad session": (
        b'{"session": "yesterday", "kind": "group_offset", "config": {}}',
        httpx.codes.UNPROCESSABLE_ENTITY,
        "session",
    ),
    "no UTF-8": (b'{"session": "\xff\xfe"}', httpx.codes.UNPROCESSABLE_ENTITY, "unicode"),
    "bad config": (
        b'{"session": "1795230000123-x", "kind": "group_offset", "config": {"groups": "("}}',
        httpx.codes.BAD_REQUEST,
        "source.cluster.bootstrap.servers",
    ),
    "unknown kind": (
        b'{"session": "1795230000123-x", "kind": "teapot", "config": {}}',
        httpx.codes.NOT_FOUND,
        "teapot",
    ),
}


@pytest.mark.parametrize("chunked", mostly_long([False, True]), ids=["whole", "chunked"])
@pytest.mark.parametrize("case", BODIES)
def test_a_bad_body_is_refused_with_the_one_error_body(flow: Flow, case: str, chunked: bool) -> None:
    body, status, words = BODIES[case]
    name = unique("bad")
    pieces = (body[at : at + 65536] for at in range(0, len(body), 65536))
    url = f"{flow.service.url}/v1/connectors/{name}"
    answer = httpx.put(
        url,
        content=pieces if chunked else body,
        headers={"content-type": "application/json"},
        timeout=60,
        verify=NO_AUTHORITIES,
    )
    assert answer.status_code == status, answer.text[:500]
    error = answer.json()
    assert error["error_code"]
    assert words.lower() in answer.text.lower(), error
    assert len(answer.text) < 5000, "what was sent is not echoed"
    assert httpx.get(f"{url}/status", verify=NO_AUTHORITIES).status_code == httpx.codes.NOT_FOUND, (
        "nothing is half written"
    )
    wait_equal(lambda: flow.service.get("/health/live"), {"status": "ok"}, watched=flow.watched)
