"""Findings of checks. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from bridge.doctor.facts import Unknown

NOT_CHECKED = ": not checked, "
_NAMED = 5
"""Most names in a finding, which then says how many more there are."""


class Severity(StrEnum):
    PROBLEM = "problem"
    """Something does not work, or will not."""
    WARNING = "warning"
    """It works, but there is something that the operator should know."""
    NOT_CHECKED = "not_checked"
    """The check failed."""
    SKIPPED = "skipped"
    """Not checked, since no option says where to ask."""
    OK = "ok"


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding. `check`: the check's name in the table; `remedy`: what to do, "" for nothing."""

    check: str
    severity: Severity
    found: str
    remedy: str = ""


def exit_status(findings: Iterable[Finding]) -> int:
    """0: no problem; 1: problems; 3: none, but not all could be checked."""
    severities = {finding.severity for finding in findings}
    if Severity.PROBLEM in severities:
        return 1
    return 3 if Severity.NOT_CHECKED in severities else 0


CheckResults = Iterator[tuple[Severity, str, str]]
"""What a check yields: severity, what was found, and what to do."""


def named(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def unknown(what: str, why: Unknown) -> tuple[Severity, str, str]:
    """A finding that `what` could not be checked."""
    if why.skipped:
        return Severity.SKIPPED, f"{what}: not checked", why.why
    return (
        Severity.NOT_CHECKED,
        f"{what}{NOT_CHECKED}{why.why}",
        "remove the cause, and run doctor again",
    )
