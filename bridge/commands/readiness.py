"""`mirror-bridge readiness`, `groups` and `explain`: whether consumer groups can fail over now, by a service's answer.

Exit status 0: all groups are ready, or moved; 1: some are not ready; 3: it is not known (cannot_tell, ready_as_of), or
the service does not answer.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

import typer

from bridge.commands.service_client import URL, ServiceClient, TokenFileOption, UrlOption
from bridge.commands.show import Output, OutputOption, printable, show_json, show_table
from bridge.commands.watching import WatchOption, show_repeatedly
from bridge.protocol.readiness import Readiness
from bridge.protocol.times import iso_time

if TYPE_CHECKING:
    from bridge.protocol.messages import GroupSummary, ReadinessReason, ReadinessReport

NOT_READY, CANNOT_TELL = 1, 3
_STATUSES = {"ready": 0, "moved": 0, "not_ready": NOT_READY}
_WORDS = {
    "ready": "ready",
    "ready_as_of": "was ready",
    "not_ready": "not ready",
    "cannot_tell": "can't tell",
    "moved": "moved",
}
_PAGE = 1000
_FLOWS = (
    "flow",
    "connector",
    "readiness",
    "as of",
    "groups",
    "ready",
    "was ready",
    "not ready",
    "can't tell",
    "moved",
    "missing",
)
_GROUPS = ("group", "connector", "readiness", "verdict", "bound", "missing", "why")
_NOT_COPIED = "not copied"


def readiness(
    url: UrlOption = URL,
    auth_token_file: TokenFileOption = None,
    output: OutputOption = Output.TABLE,
    watch: WatchOption = None,
) -> None:
    """Show whether all groups can fail over now, as of when, and if not, why."""
    from bridge.protocol.messages import ReadinessReport

    client = ServiceClient(url, auth_token_file, failed=CANNOT_TELL)

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

    client = ServiceClient(url, auth_token_file, failed=CANNOT_TELL)
    filters = {"connector": connector, "readiness": only, "limit": _PAGE}
    query = {key: value for key, value in filters.items() if value is not None}

    def show() -> int:
        listed = [group for page in client.pages("/v1/groups", Groups, query) for group in page.groups]
        if output is Output.JSON:
            show_json([each.model_dump() for each in listed])
        else:
            _show_groups(listed)
        return _status(each.readiness for each in listed)

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

    client = ServiceClient(url, auth_token_file, failed=CANNOT_TELL)

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
    _show_line(f"{_word(report.readiness)} as of {_as_of(report.as_of_ms)}")
    rows = [
        {
            "flow": f"{each.source} -> {each.target}",
            "connector": each.connector,
            "readiness": _word(each.readiness),
            "as of": _as_of(each.as_of_ms),
            "groups": each.groups,
            "ready": each.ready,
            "was ready": each.ready_as_of,
            "not ready": each.not_ready,
            "can't tell": each.cannot_tell,
            "moved": each.moved,
            "missing": each.missing_records,
        }
        for each in report.flows
    ]
    show_table(rows, _FLOWS, right=_FLOWS[4:])
    _show_reasons(reason for each in report.flows for reason in each.reasons)


def _show_groups(listed: Sequence[GroupSummary]) -> None:
    rows = [
        {
            "group": each.group,
            "connector": each.connector,
            "readiness": _word(each.readiness),
            "verdict": each.verdict,
            "bound": each.bound,
            "missing": each.missing_records,
            "why": ", ".join(reason.reason for reason in each.reasons),
            _NOT_COPIED: ", ".join(each.not_copied),
        }
        for each in listed
    ]
    more = (_NOT_COPIED,) if any(each.not_copied for each in listed) else ()
    show_table(rows, (*_GROUPS, *more), right=("bound", "missing"))


def _word(readiness: str) -> str:
    """An answer in words. A newer service may have further answers, none of which means ready."""
    return _WORDS.get(readiness, readiness)


def _status(answers: Iterable[str]) -> int:
    """The exit status for the answers of several groups; of no group it is not known."""
    statuses = {_STATUSES.get(each, CANNOT_TELL) for each in answers} or {CANNOT_TELL}
    return NOT_READY if NOT_READY in statuses else max(statuses)


def _show_reasons(reasons: Iterable[ReadinessReason]) -> None:
    for each in {reason.detail: reason for reason in reasons}.values():
        since = "" if each.since_ms is None else f" (since {iso_time(each.since_ms)})"
        _show_line(f"{each.reason}{since}: {each.detail}")


def _as_of(at_ms: int | None) -> str:
    return "-" if at_ms is None else iso_time(at_ms)


def _show_line(text: str) -> None:
    sys.stdout.write(printable(text) + "\n")
