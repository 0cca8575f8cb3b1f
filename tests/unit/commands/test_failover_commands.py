"""`mirror-bridge failover`, `rollback` and `plan`: answers for people and programs, exit statuses, and the CSV."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from bridge.cli import app
from bridge.commands.failover import as_csv
from bridge.protocol.base import Message
from bridge.protocol.messages import (
    CountedReason,
    ErrorBody,
    Failover,
    FailoverPlan,
    MovedGroup,
    MoveGroups,
    NotBegunPartition,
    PlannedOffset,
    Refusal,
    RolledBack,
)
from tests.unit.mock_http import serve

AT_MS = 1_795_000_000_000


def group(name: str, topic: str = "A.orders") -> MovedGroup:
    rows = [
        PlannedOffset(
            topic="orders",
            partition=n,
            committed=9,
            target_topic=topic,
            offset=400 + n,
            verdict="exact",
            bound=0,
        )
        for n in range(2)
    ]
    return MovedGroup(group=name, connector="c", moved_at_ms=AT_MS, as_of_ms=AT_MS, partitions=rows)


MOVED = Failover(
    flow="A-to-B",
    source="A",
    target="B",
    groups=[group("g\x1b[2J")],
    next=["Start the consumers\x1b[2J on B."],
)


def run(
    monkeypatch: pytest.MonkeyPatch, answer: Message, *arguments: str, status: int = 200
) -> tuple[int, str, str, list[httpx.Request]]:
    asked: list[httpx.Request] = []

    def respond(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(status, content=answer.model_dump_json())

    with monkeypatch.context() as patched:
        serve(patched, respond)
        done = CliRunner().invoke(
            app, [*arguments], env={"COLUMNS": "200", "MIRROR_BRIDGE_AUTH_TOKEN": "t0ken"}
        )
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.stdout, done.stderr, asked


def test_failover_asks_for_what_was_given_and_tells_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    flags = ("--flow", "A-to-B", "--dry-run", "--accept-as-of", "--timeout", "3")
    code, out, err, (asked,) = run(monkeypatch, MOVED, "failover", "g", "h", *flags)
    assert (code, err) == (0, "")
    assert (asked.method, asked.url.path) == ("POST", "/v1/failover")
    assert asked.headers["authorization"] == "Bearer t0ken"
    body = MoveGroups.model_validate_json(asked.content)
    assert body == MoveGroups(
        flow="A-to-B", groups=["g", "h"], dry_run=True, accept_as_of=True, timeout_ms=3000
    )
    assert "\x1b" not in out
    first = out.splitlines()[0]
    assert first == "Start the consumers\\x1b[2J on B.", "what was done, and what to do, comes first"
    assert [line.split()[5] for line in out.splitlines() if "orders" in line] == ["400", "401"]
    code, out, _, (asked,) = run(monkeypatch, MOVED, "failover", "--all", "--flow", "A-to-B", "-o", "json")
    assert MoveGroups.model_validate_json(asked.content).all
    assert (code, json.loads(out)) == (0, MOVED.model_dump())


def test_rollback_asks_for_what_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    done = RolledBack(flow="A-to-B", groups=["g"], next=["g set back"])
    code, out, err, (asked,) = run(monkeypatch, done, "rollback", "g", "--flow", "A-to-B")
    assert (code, out, err) == (0, "g set back\n", "")
    assert asked.url.path == "/v1/failover/rollback"
    assert MoveGroups.model_validate_json(asked.content) == MoveGroups(flow="A-to-B", groups=["g"])
    code, out, _, (asked,) = run(
        monkeypatch, done, "failover", "--back", "g", "--flow", "A-to-B", "--dry-run"
    )
    assert (code, out, asked.url.path) == (0, "g set back\n", "/v1/failover/back")
    assert MoveGroups.model_validate_json(asked.content).dry_run
    assert run(monkeypatch, done, "failover", "--back", "g", "--flow", "A-to-B", "--accept-as-of")[0] == 2
    code, out, _, _ = run(monkeypatch, done, "rollback", "--all", "--flow", "A-to-B", "-o", "json")
    assert (code, json.loads(out)) == (0, done.model_dump())


def refused(*reasons: CountedReason, **fields: Any) -> ErrorBody:
    facts = Refusal(groups=10_000, refused=9_050, reasons=list(reasons), **fields)
    return ErrorBody(error_code="cannot_tell", message="no", refusal=facts)


def counted(code: str, *names: str, follows: str | None = None) -> CountedReason:
    return CountedReason(
        reason=code, detail=f"{code} it is", follows_from=follows, groups=len(names), names=list(names)
    )


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        ("not_ready", 409, 1),
        ("refused", 409, 1),
        ("unknown_connector", 404, 3),
        ("unknown_group", 404, 3),
        ("cannot_tell", 409, 3),
        ("not_answered", 503, 3),
        ("kafka", 503, 3),
        ("unauthorized", 401, 3),
    ],
)
@pytest.mark.parametrize("command", ["failover", "rollback", "plan"])
def test_a_refusal_has_a_status_and_is_told_whole(
    monkeypatch: pytest.MonkeyPatch, command: str, error: str, status: int, code: int
) -> None:
    body = refused(counted("away", "g\x1b[2J")).model_copy(update={"error_code": error})
    result, out, err, _ = run(monkeypatch, body, command, "g", "--flow", "A-to-B", status=status)
    assert (result, out) == (code, "")
    told = [line.removeprefix("mirror-bridge: ") for line in err.splitlines()]
    assert told == ["no", r"away, 1 group(s) (g\x1b[2J): away it is"]
    result, out, _, _ = run(monkeypatch, body, command, "g", "--flow", "A-to-B", "-o", "json", status=status)
    assert (result, json.loads(out)) == (code, body.model_dump())


def test_for_programs_no_answer_is_json_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def away(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused", request=request)

    serve(monkeypatch, away)
    done = CliRunner().invoke(app, ["failover", "--all", "--flow", "A-to-B", "-o", "json"])
    assert (done.exit_code, json.loads(done.stdout)["error_code"]) == (3, "not_answered")


def test_ten_thousand_refusals_fit_on_a_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is the same of many groups is told once; what most have comes first, and what follows from it behind it."""
    away = [f"g{number:04}" for number in range(9_000)]
    body = refused(
        *(counted(f"own_{number}", f"h{number}") for number in range(50)),
        counted("copying_stopped", *away[:7_000], follows="source_unreachable"),
        counted("source_unreachable", *away),
    )
    _, _, err, _ = run(monkeypatch, body, "failover", "--all", "--flow", "A-to-B", status=409)
    shown = [line.removeprefix("mirror-bridge: ") for line in err.splitlines()]
    assert len(shown) == 20
    named = " group(s) (g0000, g0001, g0002 and "
    assert [line.partition(named)[::2] for line in shown[1:3]] == [
        ("source_unreachable, 9000", "8997 more): source_unreachable it is"),
        ("  so copying_stopped, 7000", "6997 more): copying_stopped it is"),
    ]
    assert shown[3] == "own_0, 1 group(s) (h0): own_0 it is"
    assert shown[-1] == "and 34 more reasons: --output json has all"


@pytest.mark.parametrize("flags", [(), ("--dry-run",)])
def test_ten_thousand_moved_groups_fit_on_a_screen(
    monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...]
) -> None:
    many = MOVED.model_copy(update={"groups": [group(f"g{number}") for number in range(10_000)]})
    code, out, err, _ = run(monkeypatch, many, "failover", "--all", "--flow", "A-to-B", *flags)
    lines = out.splitlines()
    assert (code, err, len(lines)) == (0, "", 20)
    assert lines[0].startswith("Start the consumers")
    assert lines[-1].startswith("and 19984 more offsets: --output json")


@pytest.mark.parametrize("command", ["failover", "rollback", "plan"])
@pytest.mark.parametrize(
    "arguments",
    [["--flow", "A-to-B"], ["g", "--all", "--flow", "A-to-B"], ["g"]],
    ids=["none", "both", "no flow"],
)
def test_a_wrong_call_is_a_matter_of_usage(
    monkeypatch: pytest.MonkeyPatch, command: str, arguments: Sequence[str]
) -> None:
    assert run(monkeypatch, MOVED, command, *arguments)[0] == 2


def test_a_plan_is_csv_for_one_group_and_for_several(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = FailoverPlan(flow="A-to-B", as_of_ms=AT_MS, groups=[group("g")])
    code, out, err, (asked,) = run(monkeypatch, plan, "plan", "g", "--flow", "A-to-B", "--accept-as-of")
    assert (code, out, err) == (0, "A.orders,0,400\nA.orders,1,401\n", "")
    assert dict(asked.url.params) == {"flow": "A-to-B", "group": "g", "accept_as_of": "true"}
    both = plan.model_copy(update={"groups": [group("g"), group('a,"b"')]})
    code, out, _, (asked,) = run(monkeypatch, both, "plan", "--all", "--flow", "A-to-B")
    assert out.splitlines()[2] == '"a,""b""",A.orders,0,400'
    assert "group" not in asked.url.params
    code, out, _, _ = run(monkeypatch, both, "plan", "--all", "--flow", "A-to-B", "-o", "json")
    assert (code, json.loads(out)) == (0, both.model_dump())
    assert as_csv([]) == ""


@pytest.mark.parametrize(
    ("lacks", "said"), [(100, "at most 100 of its records"), (None, "is not known"), (0, "")]
)
def test_a_plan_names_partitions_in_which_a_group_has_committed_nothing(
    monkeypatch: pytest.MonkeyPatch, lacks: int | None, said: str
) -> None:
    part = NotBegunPartition(topic="orders", partition=2, not_on_target=lacks, missing_records=lacks)
    beginning = group("g").model_copy(update={"not_begun": [part]})
    plan = FailoverPlan(flow="A-to-B", as_of_ms=AT_MS, groups=[beginning])
    code, out, err, _ = run(monkeypatch, plan, "plan", "g", "--flow", "A-to-B")
    assert (code, out) == (0, "A.orders,0,400\nA.orders,1,401\n")
    assert len(err.splitlines()) == bool(said)
    assert not said or ("g has committed nothing in orders-2: " in err and said in err)


@pytest.mark.parametrize(("missing", "status"), [(100, 1), (None, 3)])
def test_a_plan_that_skips_records_says_so(
    monkeypatch: pytest.MonkeyPatch, missing: int | None, status: int
) -> None:
    first, second = group("g").partitions
    lost = first.model_copy(update={"reason": "records_not_on_target", "missing_records": missing})
    plan = FailoverPlan(
        flow="A-to-B",
        as_of_ms=AT_MS,
        groups=[group("g").model_copy(update={"partitions": [lost, second]})],
    )
    code, out, err, _ = run(monkeypatch, plan, "plan", "g", "--flow", "A-to-B")
    assert (code, out) == (status, "A.orders,0,400\nA.orders,1,401\n")
    (line,) = err.splitlines()
    assert "A.orders-0 offset 400" in line
    assert missing is None or "100 record(s)" in line
    assert run(monkeypatch, plan, "plan", "g", "--flow", "A-to-B", "-o", "json")[0] == status
