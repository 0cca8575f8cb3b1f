"""Says why groups can't be moved, or planned: each reason once, with all groups that have it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from bridge.errors import ErrorCode, GroupsRefused
from bridge.model.times import iso_time
from bridge.protocol.messages import CountedReason, ReadinessReason, Refusal
from bridge.protocol.readiness import Readiness
from bridge.service.answers.readiness import counted
from bridge.service.answers.reasons import REASONS, under_causes

ACCEPT_AS_OF = "--accept-as-of"


class Refused(NamedTuple):
    """A group, "" for a flow without any, that can't be moved now, or only as of a time."""

    group: str
    readiness: Readiness
    reasons: Sequence[ReadinessReason]
    text: str = ""
    """What is said of this group, where it is more than the reasons."""

    @property
    def line(self) -> str:
        return self.text or "; ".join(f"{each.reason}: {each.detail}" for each in self.reasons)


class AsOf(NamedTuple):
    """Groups that were ready when the source answered last, which an option takes as they were then."""

    groups: int
    as_of_ms: int | None
    missing_records: int | None

    def __str__(self) -> str:
        as_of = "" if self.as_of_ms is None else f" as of {iso_time(self.as_of_ms)}"
        then = {
            None: "how many records were missing then is not known",
            0: "no record was missing then",
        }.get(self.missing_records, f"at most {self.missing_records} record(s) were missing then")
        return (
            f"; {self.groups} of them were ready{as_of}, and {then}: {ACCEPT_AS_OF} (accept_as_of) takes these as they "
            "were"
        )


def answer_of(code: str) -> Readiness:
    """The answer that a reason makes; a code of a newer rounds process makes a no."""
    known = REASONS.get(code)
    return Readiness.NOT_READY if known is None else Readiness(known.answer)


def refusal(text: str, refused: Sequence[Refused], groups: int, as_of: AsOf | None = None) -> GroupsRefused:
    """Builds the error of refused groups, of so many `groups` that were asked for. Its code is NOT_READY where one is
    known not to be ready, else CANNOT_TELL."""
    answers: dict[str, Readiness] = {}
    for each in refused:
        if answers.get(each.group) is not Readiness.NOT_READY:
            answers[each.group] = each.readiness
    given = list(answers.values())
    certain = Readiness.NOT_READY in given
    facts = Refusal(
        groups=groups,
        refused=len(answers.keys() - {""}),
        not_ready=given.count(Readiness.NOT_READY),
        cannot_tell=given.count(Readiness.CANNOT_TELL),
        ready_as_of=given.count(Readiness.READY_AS_OF),
        as_of_ms=None if as_of is None else as_of.as_of_ms,
        missing_records=None if as_of is None else as_of.missing_records,
        option="" if as_of is None else ACCEPT_AS_OF,
        reasons=under_causes(_by_sentence(refused)),
    )
    return GroupsRefused(
        f"{text}{'' if as_of is None else as_of}",
        [(f"group {each.group}" if each.group else "groups", each.line) for each in refused],
        code=ErrorCode.NOT_READY if certain else ErrorCode.CANNOT_TELL,
        facts=facts.model_dump(),
    )


def _by_sentence(refused: Iterable[Refused]) -> list[CountedReason]:
    groups: dict[str, dict[str, None]] = {}
    reasons: dict[str, ReadinessReason] = {}
    for each in refused:
        for reason in each.reasons:
            groups.setdefault(reason.detail, {})[each.group] = None
            reasons.setdefault(reason.detail, reason)
    shared = [
        counted(reason, len(names), sorted(name for name in names if name))
        for reason, names in ((reasons[detail], names) for detail, names in groups.items())
    ]
    return sorted(shared, key=lambda each: (-each.groups, each.names))
