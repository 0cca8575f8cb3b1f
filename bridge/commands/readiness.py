"""`mirror-bridge readiness`, `groups` and `explain`: whether groups can fail over now, by a service's answer.

`--watch SECONDS`: shows an answer again and again, until Ctrl-C.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

import typer

from bridge.commands.exit_status import BAD_SETTINGS, CANNOT_TELL, NOT_READY
from bridge.commands.service_client import URL, ServiceClient, TokenFileOption, UrlOption
from bridge.commands.show import SCREEN, Output, OutputOption, printable, reason_lines, show_json, show_table
from bridge.model.values import iso_time
from bridge.protocol.readiness import Readiness

if TYPE_CHECKING:
    from bridge.protocol.messages import FlowReadiness, GroupSummary, ReadinessReport


WatchOption = Annotated[
    float | None,
    typer.Option("--watch", "-w", min=0.1, help="Show it again every so many seconds, until Ctrl-C."),
]
_CLEAR = "\x1b[2J\x1b[H"
_STATUSES = {"ready": 0, "moved": 0, "home": 0, "not_ready": NOT_READY}
_PAGE = 1000
_FLOWS = ("flow", "connector", "readiness", "groups", "missing")
_COUNTS = ("ready", "ready_as_of", "not_ready", "cannot_tell", "moved", "home")
_GROUPS = ("group", "flow", "connector", "readiness", "verdict", "bound", "missing", "why")
_NOT_COPIED = "not copied"
_SHOWN_FLOWS = 6
_WORST = ("not_ready", "cannot_tell", "ready_as_of", "ready", "moved", "home")


def show_repeatedly(show: Callable[[], int], seconds: float | None) -> None:
    """Calls `show`, which prints an answer, and ends the command with the exit status that it returns.

    With `seconds` it calls it again and again, on a terminal in the same place. A service that does not answer is a
    line on standard error, and asked again. Ctrl-C ends the command with the status of the last answer.
    """
    status = _once(show)
    try:
        while seconds is not None:
            time.sleep(seconds)
            if sys.stdout.isatty():
                sys.stdout.write(_CLEAR)
            status = _once(show)
    except KeyboardInterrupt:
        sys.stdout.write("\n")
    raise typer.Exit(status)


def _once(show: Callable[[], int]) -> int:
    try:
        status = show()
    except typer.Exit as ended:
        if ended.exit_code == BAD_SETTINGS:
            raise
        status = ended.exit_code
    sys.stdout.flush()
    return status


def readiness(
    url: UrlOption = URL,
    auth_token_file: TokenFileOption = None,
    output: OutputOption = Output.TABLE,
    watch: WatchOption = None,
) -> None:
    """Show whether all groups can fail over now, as of when, and if not, why."""
    from bridge.protocol.messages import ReadinessReport

    client = ServiceClient(url, auth_token_file, failed=CANNOT_TELL, output=output)

    def show() -> int:
        report = client.get("/v1/readiness", ReadinessReport)
        if output is Output.JSON:
            show_json(report.model_dump())
        else:
            _show_flows(report)
        return _STATUSES.get(report.readiness, CANNOT_TELL)

    show_repeatedly(show, watch)


def groups(
    url: UrlOption = URL,
    connector: Annotated[str | None, typer.Option(help="Groups of this connector only.")] = None,
    only: Annotated[
        Readiness | None, typer.Option("--readiness", help="Groups with this answer only.")
    ] = None,
    auth_token_file: TokenFileOption = None,
    output: OutputOption = Output.TABLE,
    watch: WatchOption = None,
) -> None:
    """List the groups, and whether each can fail over now."""
    from bridge.protocol.messages import Groups

    client = ServiceClient(url, auth_token_file, failed=CANNOT_TELL, output=output)
    filters = {"connector": connector, "readiness": only, "limit": _PAGE}
    query = {key: value for key, value in filters.items() if value is not None}

    def show() -> int:
        listed = [group for page in client.pages("/v1/groups", Groups, query) for group in page.groups]
        if output is Output.JSON:
            show_json([summary.model_dump() for summary in listed])
        else:
            _show_groups(listed)
        return _status(summary.readiness for summary in listed)

    show_repeatedly(show, watch)


def explain(
    group: Annotated[str, typer.Argument(help="Id of the group.")],
    url: UrlOption = URL,
    auth_token_file: TokenFileOption = None,
    output: OutputOption = Output.TABLE,
    watch: WatchOption = None,
) -> None:
    """Explain in sentences whether a group can fail over now, and what each of its offsets rests on."""
    from bridge.protocol.messages import Explanation

    client = ServiceClient(url, auth_token_file, failed=CANNOT_TELL, output=output)

    def show() -> int:
        explanation = client.get(f"/v1/groups/{quote(group, safe='')}/explain", Explanation)
        if output is Output.JSON:
            show_json(explanation.model_dump())
        else:
            for line in explanation.lines:
                _show_line(line)
        return _status(report.readiness for report in explanation.reports)

    show_repeatedly(show, watch)


def _show_flows(report: ReadinessReport) -> None:
    _show_line(_headline(report))
    flows = sorted(report.flows, key=lambda each: _rank(each.readiness))
    left = len(flows) - _SHOWN_FLOWS
    used = 1
    if flows:
        rows = [_flow_row(flow) for flow in flows[:_SHOWN_FLOWS]]
        counts = [name for name in _COUNTS if any(getattr(flow, name) for flow in flows)]
        columns = (*_FLOWS[:4], *counts, _FLOWS[4])
        show_table(rows, columns, right=columns[3:])
        used += len(rows) + 2
    if left > 0:
        _show_line(f"and {left} more flows: --output json has all")
        used += 1
    hint = any(reason.groups > len(reason.names) for flow in flows for reason in flow.reasons)
    reasons = (reason for flow in flows for reason in flow.reasons)
    for line in reason_lines(reasons, SCREEN - used - hint, "--output json has all"):
        _show_line(line)
    if hint:
        _show_line("mirror-bridge groups lists all groups with their reasons; explain GROUP says more of one")


def _rank(readiness: str) -> int:
    """The worst first; a newer service may have further answers, none of which means ready."""
    return _WORST.index(readiness) if readiness in _WORST else 0


def _headline(report: ReadinessReport) -> str:
    if not report.flows:
        return f"{report.readiness}: the service has no connector that follows groups yet"
    groups = sum(flow.groups for flow in report.flows)
    parts = [f"{sum(getattr(flow, name) for flow in report.flows)} {name}" for name in _WORST]
    counts = ", ".join(part for part in parts if not part.startswith("0 "))
    missing = report.missing_records
    lost = "missing records not known" if missing is None else f"at most {missing} record(s) missing"
    as_of = "" if report.as_of_ms is None else f" as of {iso_time(report.as_of_ms)}"
    return f"{report.readiness}{as_of}: {groups} group(s){f', {counts}' if counts else ''}; {lost}"


def _flow_row(readiness: FlowReadiness) -> dict[str, object]:
    return {
        "flow": f"{readiness.source} -> {readiness.target}",
        "connector": readiness.connector,
        "readiness": readiness.readiness,
        "groups": readiness.groups,
        **{name: getattr(readiness, name) for name in _COUNTS},
        "missing": readiness.missing_records,
    }


def _show_groups(listed: Sequence[GroupSummary]) -> None:
    counts = Counter(summary.readiness for summary in listed)
    counted = ", ".join(f"{counts[name]} {name}" for name in sorted(counts, key=_rank))
    _show_line(f"{len(listed)} group(s){f': {counted}' if counted else ''}")
    rows = [
        {
            "group": summary.group,
            "flow": f"{summary.source} -> {summary.target}",
            "connector": summary.connector,
            "readiness": summary.readiness,
            "verdict": summary.verdict,
            "bound": summary.bound,
            "missing": summary.missing_records,
            "why": ", ".join(reason.reason for reason in summary.reasons),
            _NOT_COPIED: ", ".join(summary.not_copied),
        }
        for summary in listed
    ]
    more = (_NOT_COPIED,) if any(summary.not_copied for summary in listed) else ()
    show_table(rows, (*_GROUPS, *more), right=("bound", "missing"))


def _status(answers: Iterable[str]) -> int:
    """The exit status for the answers of several groups; of no group it is not known."""
    statuses = {_STATUSES.get(answer, CANNOT_TELL) for answer in answers} or {CANNOT_TELL}
    return NOT_READY if NOT_READY in statuses else max(statuses)


def _show_line(text: str) -> None:
    sys.stdout.write(printable(text) + "\n")
