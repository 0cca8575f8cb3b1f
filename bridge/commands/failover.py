"""`mirror-bridge failover`, `rollback` and `plan`: move groups to the target, and back."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bridge.commands.connector import SECONDS, TimeoutOption
from bridge.commands.exit_status import BAD_SETTINGS, CANNOT_TELL, NOT_READY, end, note
from bridge.commands.service_client import URL, ServiceClient, TokenFileOption, UrlOption
from bridge.commands.show import SCREEN, Output, OutputOption, listed, printable, show_json, show_rows

if TYPE_CHECKING:
    from bridge.protocol.messages import MovedGroup, MoveGroups, NotBegunPartition, PlannedOffset

_STEPS = 4
"""Rounds and writes that a command waits for at most, each as long as --timeout."""
_REFUSED = {"not_ready": NOT_READY, "refused": NOT_READY}
"""Exit status by error code; of others it is not known whether groups can be moved."""
_COLUMNS = (
    "group",
    "topic",
    "partition",
    "committed",
    "target topic",
    "offset",
    "verdict",
    "bound",
    "missing",
)

GroupsArgument = Annotated[list[str] | None, typer.Argument(metavar="GROUP…", help="Ids of the groups.")]
AllOption = Annotated[bool, typer.Option("--all", help="All groups of the flow.")]
FlowOption = Annotated[str, typer.Option("--flow", help="<source alias>-to-<target alias>, as A-to-B.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Check everything, and do nothing.")]
AsOfOption = Annotated[
    bool, typer.Option("--accept-as-of", help="Also groups that were ready when the source answered last.")
]


def failover(
    flow: FlowOption,
    groups: GroupsArgument = None,
    all_: AllOption = False,
    dry_run: DryRunOption = False,
    accept_as_of: AsOfOption = False,
    back: Annotated[bool, typer.Option("--back", help="Fail moved groups back to the source.")] = False,
    url: UrlOption = URL,
    timeout: TimeoutOption = SECONDS,
    auth_token_file: TokenFileOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Move groups to the target: check now that all are ready, and have the mirror commit them no more."""
    from bridge.protocol.messages import Failover

    request = _request(flow, groups, all_=all_, dry_run=dry_run, timeout=timeout)
    request = request.model_copy(update={"accept_as_of": accept_as_of})
    if back:
        if accept_as_of:
            end("--accept-as-of is for the way there: home is a cluster that answers", BAD_SETTINGS)
        _undo("/v1/failover/back", request, url, timeout, auth_token_file, output)
        return
    done = _client(url, auth_token_file, timeout, output).post("/v1/failover", Failover, body=request)
    if output is Output.JSON:
        show_json(done.model_dump())
        return
    _show_lines(done.next)
    rows = _rows(done.groups)
    # Header and rule are two lines, and what is left out is told in one.
    most = SCREEN - len(done.next) - 2
    shown = rows if len(rows) <= most else rows[: max(most - 1, 0)]
    show_rows(shown, _COLUMNS, Output.TABLE)
    if left := len(rows) - len(shown):
        _show_lines([f"and {left} more offsets: --output json has all, and mirror-bridge plan"])


def rollback(
    flow: FlowOption,
    groups: GroupsArgument = None,
    all_: AllOption = False,
    dry_run: DryRunOption = False,
    url: UrlOption = URL,
    timeout: TimeoutOption = SECONDS,
    auth_token_file: TokenFileOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """End a drill: set moved groups on the target back to where they were, and have the mirror commit them again."""
    request = _request(flow, groups, all_=all_, dry_run=dry_run, timeout=timeout)
    _undo("/v1/failover/rollback", request, url, timeout, auth_token_file, output)


def plan(
    flow: FlowOption,
    groups: GroupsArgument = None,
    all_: AllOption = False,
    accept_as_of: AsOfOption = False,
    url: UrlOption = URL,
    auth_token_file: TokenFileOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Print where groups would go on on the target, as the CSV of kafka-consumer-groups --from-file.

    Where they would skip records there, standard error says so, and the exit status is 1; 3 where that is not known.
    """
    from bridge.protocol.messages import FailoverPlan

    request = _request(flow, groups, all_=all_)
    query = {"flow": flow, "group": request.groups, "accept_as_of": str(accept_as_of).lower()}
    planned = _client(url, auth_token_file, SECONDS, output).get("/v1/failover/plan", FailoverPlan, query)
    if output is Output.JSON:
        show_json(planned.model_dump())
    else:
        sys.stdout.write(as_csv(planned.groups))
        _note_first(
            [f"not copied: topic {left.topic}, read by {listed(left.groups)}" for left in planned.not_copied],
            "not copied: {} more topics, which --output json has",
        )
        if planned.at_home:
            note(printable(f"at home, nothing to do: {listed(planned.at_home)}"))
        for connector in sorted({out.connector for out in planned.left_out}):
            note(
                printable(
                    f"without the groups of connector {connector}, which Connect has stopped or deleted"
                )
            )
    # What is yet to be copied is no news here: of other partitions nothing is said of it either.
    not_begun = [
        (group.group, part) for group in planned.groups for part in group.not_begun if part.not_on_target != 0
    ]
    _note_first(
        [_not_begun(group, part) for group, part in not_begun],
        "and {} more such partitions, which --output json has",
    )
    skipping = [(group.group, row) for group in planned.groups for row in group.partitions if row.reason]
    _note_first(
        [_skipping(group, row) for group, row in skipping], "and {} more offsets, which --output json has"
    )
    if skipping:
        raise typer.Exit(NOT_READY if any(row.missing_records for _, row in skipping) else CANNOT_TELL)


def _note_first(lines: Sequence[str], more: str) -> None:
    """Writes a screen of lines to standard error; `more` has the place for the number of those beyond."""
    for line in lines[:SCREEN]:
        note(printable(line))
    if (beyond := len(lines) - SCREEN) > 0:
        note(more.format(beyond))


def _not_begun(group: str, part: NotBegunPartition) -> str:
    lacks = (
        "how many of its records are not on the target is not known"
        if part.not_on_target is None
        else f"at most {part.not_on_target} of its records, which the copy is past, are not on the target"
    )
    return f"{group} has committed nothing in {part.topic}-{part.partition}: {lacks}"


def _skipping(group: str, row: PlannedOffset) -> str:
    lost = (
        "records that it has not read may not be there"
        if row.missing_records is None
        else f"skips at most {row.missing_records} record(s) that it has not read and that are not there"
    )
    return f"{group} at {row.target_topic}-{row.partition} offset {row.offset}: {lost} ({row.reason})"


def _undo(
    path: str, request: MoveGroups, url: str, timeout: float, token_file: Path | None, output: Output
) -> None:
    from bridge.protocol.messages import RolledBack

    done = _client(url, token_file, timeout, output).post(path, RolledBack, body=request)
    if output is Output.JSON:
        show_json(done.model_dump())
    else:
        _show_lines(done.next)


def as_csv(groups: list[MovedGroup]) -> str:
    """Returns lines of `topic,partition,offset` for one group, `group,topic,partition,offset` for several."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for group in groups:
        named = [group.group] if len(groups) > 1 else []
        writer.writerows([*named, row.target_topic, row.partition, row.offset] for row in group.partitions)
    return text.getvalue()


def _client(url: str, token_file: Path | None, timeout: float, output: Output) -> ServiceClient:
    return ServiceClient(
        url, token_file, failed=CANNOT_TELL, statuses=_REFUSED, seconds=_STEPS * timeout, output=output
    )


def _request(
    flow: str, groups: list[str] | None, *, all_: bool, dry_run: bool = False, timeout: float = SECONDS
) -> MoveGroups:
    from bridge.protocol.messages import MoveGroups

    if bool(groups) == all_:
        end("give either ids of groups or --all", BAD_SETTINGS)
    return MoveGroups(
        flow=flow, groups=groups or [], all=all_, dry_run=dry_run, timeout_ms=int(timeout * 1000)
    )


def _rows(groups: list[MovedGroup]) -> list[dict[str, object]]:
    return [
        {
            "group": group.group,
            "topic": row.topic,
            "partition": row.partition,
            "committed": row.committed,
            "target topic": row.target_topic,
            "offset": row.offset,
            "verdict": row.verdict,
            "bound": row.bound,
            "missing": row.missing_records,
        }
        for group in groups
        for row in group.partitions
    ]


def _show_lines(lines: list[str]) -> None:
    for line in lines:
        typer.echo(printable(line))
