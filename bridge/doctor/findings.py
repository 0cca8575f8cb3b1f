"""What a check has found. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from bridge.doctor.facts import Unknown

_NAMED = 5
"""Topics that a finding names; of more it says how many."""


class Severity(StrEnum):
    PROBLEM = "problem"
    """Something does not work, or will not."""
    WARNING = "warning"
    """It works, and something about it is to be known."""
    NOT_CHECKED = "not_checked"
    """It could not be checked."""
    SKIPPED = "skipped"
    """It was not to be checked, for lack of an option that says where."""
    OK = "ok"


@dataclass(frozen=True, slots=True)
class Finding:
    """`check`: the check's name in the table; `remedy`: what to do, "" for nothing."""

    check: str
    severity: Severity
    found: str
    remedy: str = ""


def exit_status(findings: Iterable[Finding]) -> int:
    """0: no problem; 1: problems; 3: none, but not all could be checked."""
    there = {finding.severity for finding in findings}
    if Severity.PROBLEM in there:
        return 1
    return 3 if Severity.NOT_CHECKED in there else 0


Finds = Iterator[tuple[Severity, str, str]]


def named(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def unknown(what: str, why: Unknown) -> tuple[Severity, str, str]:
    """What could not be checked, and why."""
    if why.skipped:
        return Severity.SKIPPED, f"{what}: not checked", why.why
    return (
        Severity.NOT_CHECKED,
        f"{what}: not checked, {why.why}",
        "mend what is in the way, and run doctor again",
    )
