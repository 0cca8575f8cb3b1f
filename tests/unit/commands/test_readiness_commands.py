"""`mirror-bridge readiness`, `groups` and `explain`: answers for people, for programs, and as exit status."""

from __future__ import annotations

import json
import time

import httpx
import pytest
from typer.testing import CliRunner

from bridge.cli import app
from bridge.protocol.base import Message
from bridge.protocol.messages import (
    CountedReason,
    ErrorBody,
    Explanation,
    FlowReadiness,
    Groups,
    GroupSummary,
    ReadinessReason,
    ReadinessReport,
)
from tests.support.messages import message
from tests.unit.mock_http import serve
from tests.unit.service.service_fakes import report

AT_MS = 1_795_000_000_000
PAUSED = CountedReason(reason="connector_stopped", detail=message("health.connector_paused", connector="c"))


def run(*arguments: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, [*arguments], env={"COLUMNS": "200"})
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.stdout, done.stderr


def answering(monkeypatch: pytest.MonkeyPatch, **answers: Message) -> list[str]:
    """A service that gives these answers by the last part of the path; the queries that it was asked."""
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(str(request.url.query, "ascii"))
        last = request.url.path.rpartition("/")[2]
        result = answers["more"] if "next=more" in asked[-1] else answers.get(last)
        if result is None:
            result = ErrorBody(error_code="unknown_group", message="No connector reports a group \x1b[2J")
            return httpx.Response(404, content=result.model_dump_json())
        return httpx.Response(200, content=result.model_dump_json())

    serve(monkeypatch, answer)
    return asked


def flows(answer: str, *reasons: CountedReason) -> ReadinessReport:
    result = FlowReadiness(
        connector="c",
        source="A",
        target="B",
        readiness=answer,
        as_of_ms=AT_MS,
        groups=3,
        ready=2,
        ready_as_of=0,
        not_ready=0,
        cannot_tell=1,
        missing_records=12,
        reasons=list(reasons),
    )
    return ReadinessReport(readiness=answer, as_of_ms=AT_MS, missing_records=12, flows=[result])


def summary(group: str, answer: str, *reasons: ReadinessReason) -> GroupSummary:
    return GroupSummary(
        group=group,
        connector="c",
        ready=answer == "ready",
        verdict="exact",
        bound=0,
        reason=None,
        partitions=2,
        readiness=answer,
        reasons=list(reasons),
    )


@pytest.mark.parametrize(
    ("answer", "status", "words"),
    [
        ("ready", 0, "ready as of"),
        ("not_ready", 1, "not_ready as of"),
        ("ready_as_of", 3, "ready_as_of as of"),
        ("cannot_tell", 3, "cannot_tell as of"),
        ("something_newer", 3, "something_newer as of"),
    ],
)
def test_readiness_ends_with_a_status_of_its_own(
    monkeypatch: pytest.MonkeyPatch, answer: str, status: int, words: str
) -> None:
    answering(monkeypatch, readiness=flows(answer, PAUSED, PAUSED))
    code, out, err = run("readiness")
    assert (code, err) == (status, "")
    lines = out.splitlines()
    counts, missing = "3 group(s), 1 cannot_tell, 2 ready", "at most 12 record(s) missing"
    assert lines[0] == f"{words} 2026-11-18T11:06:40+00:00: {counts}; {missing}"
    (row,) = (line.split() for line in lines if line.lstrip().startswith("A -> B"))
    assert row[-1] == "12"
    assert lines[-1] == f"connector_stopped: {message('health.connector_paused', connector='c')}"
    code, out, _ = run("readiness", "--output", "json")
    assert (code, json.loads(out)["readiness"]) == (status, answer)


@pytest.mark.parametrize(
    ("answers", "status"),
    [
        ([], 3),
        (["ready", "ready"], 0),
        (["ready", "cannot_tell"], 3),
        (["ready", "ready_as_of"], 3),
        (["cannot_tell", "not_ready"], 1),
    ],
)
def test_groups_end_with_the_status_of_the_weakest(
    monkeypatch: pytest.MonkeyPatch, answers: list[str], status: int
) -> None:
    result = [summary(f"g{number}", each, PAUSED) for number, each in enumerate(answers)]
    half = len(result) // 2
    page = Groups(groups=result[:half], total=len(result), ready=0, next="more")
    asked = answering(
        monkeypatch, groups=page, more=page.model_copy(update={"groups": result[half:], "next": None})
    )
    code, out, err = run("groups", "--connector", "c", "--readiness", "ready")
    assert (code, err) == (status, "")
    assert out.startswith(f"{len(answers)} group(s)"), "the sums come first"
    assert [line.split()[0] for line in out.splitlines() if "connector_stopped" in line] == [
        each.group for each in result
    ]
    assert asked == [
        "connector=c&readiness=ready&limit=1000",
        "connector=c&readiness=ready&limit=1000&next=more",
    ]
    code, out, _ = run("groups", "-o", "json")
    assert (code, [each["readiness"] for each in json.loads(out)]) == (status, answers)


def test_explain_says_the_services_sentences(monkeypatch: pytest.MonkeyPatch) -> None:
    not_ready = report("g").model_copy(update={"readiness": "not_ready"})
    answering(
        monkeypatch, explain=Explanation(group="g", lines=["Group \x1b[2J", "  why"], reports=[not_ready])
    )
    assert run("explain", "g") == (1, "Group \\x1b[2J\n  why\n", "")
    assert json.loads(run("explain", "g", "-o", "json")[1])["group"] == "g"


def test_of_a_group_that_no_connector_reports_nothing_can_be_told(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch)
    assert run("explain", "g") == (3, "", message("commands.no_group", group="\\x1b[2J"))


def test_a_service_that_does_not_answer_is_no_yes_and_no_no(monkeypatch: pytest.MonkeyPatch) -> None:
    def away(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("Connection refused", request=request)

    serve(monkeypatch, away)
    for command in (["readiness"], ["groups"], ["explain", "g"]):
        code, out, err = run(*command)
        assert (code, out) == (3, "")
        assert err == message("commands.no_answer", url="http://127.0.0.1:8900", why="Connection refused")


def test_a_wrong_option_is_a_matter_of_usage() -> None:
    assert run("groups", "--readiness", "maybe")[0] == 2
    assert run("readiness", "--url", "ftp://x")[0] == 2


def test_watch_shows_it_again_until_it_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [flows("ready"), None, flows("not_ready", PAUSED)]
    pauses: list[float] = []

    def answer(request: httpx.Request) -> httpx.Response:
        result = answers.pop(0)
        if result is None:
            raise httpx.ConnectError("Connection refused", request=request)
        return httpx.Response(200, content=result.model_dump_json())

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if not answers:
            raise KeyboardInterrupt

    serve(monkeypatch, answer)
    monkeypatch.setattr(time, "sleep", pause)
    code, out, err = run("readiness", "--watch", "0.5")
    assert (code, pauses) == (1, [0.5] * 3)
    assert [line.split()[0] for line in out.splitlines() if " as of 2026" in line] == ["ready", "not_ready"]
    assert err == message("commands.no_answer", url="http://127.0.0.1:8900", why="Connection refused")
    assert "\x1b" not in out


def test_ten_thousand_groups_and_many_flows_fit_on_a_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    reasons = [
        CountedReason(
            reason=f"own_{number}", detail=f"of {number}", groups=number, names=["g", "h", "i"][:number]
        )
        for number in range(1, 50)
    ]
    one = flows("not_ready", *reasons).flows[0].model_copy(update={"groups": 10_000})
    many = [one.model_copy(update={"connector": f"c{number}", "readiness": "ready"}) for number in range(30)]
    report = ReadinessReport(readiness="not_ready", as_of_ms=AT_MS, flows=[*many, one])
    answering(monkeypatch, readiness=report)
    code, out, _ = run("readiness")
    lines = out.splitlines()
    assert (code, len(lines)) == (1, 20)
    assert lines[3].split()[3:5] == ["c", "not_ready"], "the worst comes first"
    assert "and 25 more flows: --output json has all" in lines
    (first,) = (
        number for number, line in enumerate(lines) if line.startswith("own_49, 1519 group(s) (g, h, i")
    )
    assert lines[first + 1].startswith("own_48, ")
    assert lines[-2].startswith("and 41 more reasons: --output json")
    assert lines[-1].startswith("mirror-bridge groups lists all")
    assert json.loads(run("readiness", "-o", "json")[1]) == report.model_dump()


def test_a_service_without_connectors_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, readiness=ReadinessReport(readiness="cannot_tell", as_of_ms=None, flows=[]))
    code, out, _ = run("readiness")
    assert (code, out) == (3, message("commands.no_connector"))


@pytest.mark.parametrize("command", ["readiness", "groups", "explain", "failover", "rollback", "plan"])
def test_help_says_what_the_exit_statuses_mean(command: str) -> None:
    code, out, _ = run(command, "--help")
    assert code == 0
    text = " ".join(out.split())
    for status in ("Exit status 0: ", "1: ", "2: a wrong option", "3: "):
        assert status in text


def test_watch_ends_on_a_wrong_address() -> None:
    assert run("readiness", "--url", "ftp://x", "--watch", "1")[0] == 2
    assert run("readiness", "--watch", "0")[0] == 2
