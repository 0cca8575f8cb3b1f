"""Answers as arrays: for each position an offset on the target, a bound, and codes for the words of a verdict."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bridge.model.values import Evidence, Flag, Judgement, Reason, Verdict
from bridge.translation.bulk.run_columns import Numbers, RunAnswers

UNKNOWN = -1
"""Of offset, bound and missing records, where there is none."""
VERDICTS = [each.value for each in Judgement]
EVIDENCES = [each.value for each in Evidence]
REASONS = [each.value for each in Reason]
FLAGS = [each.value for each in Flag]
_VERDICT_CODE = {each: code for code, each in enumerate(Judgement)}
_EVIDENCE_CODE: dict[Evidence | None, int] = {None: -1} | {each: code for code, each in enumerate(Evidence)}
_REASON_CODE: dict[Reason | None, int] = {None: -1} | {each: code for code, each in enumerate(Reason)}
_FLAG_BIT = {each: 1 << code for code, each in enumerate(Flag)}


@dataclass(frozen=True, slots=True)
class AnswerArrays:
    """Arrays with one element for each position. Codes are indices into VERDICTS, EVIDENCES and REASONS, -1 for none;
    `flags` has a bit for each of FLAGS."""

    offset: Numbers
    bound: Numbers
    not_on_target: Numbers
    """Records behind the position that the target lacks, at most: see `Verdict.not_on_target`."""
    verdict: npt.NDArray[np.int8]
    evidence: npt.NDArray[np.int8]
    reason: npt.NDArray[np.int8]
    flags: npt.NDArray[np.int8]

    @staticmethod
    def empty(count: int) -> AnswerArrays:
        """Answers that say nothing yet: pending, not looked at yet."""
        answers = AnswerArrays(
            np.empty(count, np.int64),
            np.empty(count, np.int64),
            np.empty(count, np.int64),
            *(np.empty(count, np.int8) for _ in range(4)),
        )
        answers.set(slice(None), Verdict.pending(Reason.NOT_LOOKED_AT_YET))
        return answers

    def set(self, at: slice | int | np.intp | npt.NDArray[np.intp], verdict: Verdict) -> None:
        """Sets the same verdict for some positions."""
        self.offset[at] = UNKNOWN if verdict.offset is None else verdict.offset
        self.bound[at] = UNKNOWN if verdict.bound is None else verdict.bound
        absent = None if verdict.offset is None else verdict.not_on_target
        self.not_on_target[at] = UNKNOWN if absent is None else absent
        self.verdict[at] = _VERDICT_CODE[verdict.judgement]
        self.evidence[at] = _EVIDENCE_CODE[verdict.evidence]
        self.reason[at] = _REASON_CODE[verdict.reason]
        self.flags[at] = sum(_FLAG_BIT[flag] for flag in verdict.flags)

    def set_runs(self, begin: int, runs: RunAnswers) -> None:
        """Sets what runs say, which is proved, for those of the positions from `begin` on of which they know."""
        of = np.flatnonzero(runs.known)
        at = begin + of
        bound = runs.bound[of]
        exact, bounded = _VERDICT_CODE[Judgement.EXACT], _VERDICT_CODE[Judgement.BOUNDED]
        self.offset[at], self.bound[at], self.not_on_target[at] = runs.offset[of], bound, 0
        self.verdict[at] = np.where(bound > 0, bounded, exact)
        self.evidence[at], self.reason[at] = _EVIDENCE_CODE[Evidence.RUN], -1
        self.flags[at] = (
            _FLAG_BIT[Flag.AHEAD_OF_MIRROR] * runs.ahead[of] + _FLAG_BIT[Flag.TRUNCATED] * runs.truncated[of]
        )

    def with_last(self, verdict: Verdict) -> AnswerArrays:
        """These answers, and one more behind them."""
        last = AnswerArrays.empty(1)
        last.set(0, verdict)
        both = (np.append(getattr(self, name), getattr(last, name)) for name in self.__slots__)
        return AnswerArrays(*both)

    def take(self, which: npt.NDArray[np.intp]) -> AnswerArrays:
        """The answers at these places, in this order."""
        return AnswerArrays(*(getattr(self, name)[which] for name in self.__slots__))


def verdict_by_runs(runs: RunAnswers, at: int | np.intp) -> Verdict:
    """Returns one of the answers by runs, as `ConsistentRuns.translate` returns it."""
    bound = int(runs.bound[at])
    flags = (Flag.TRUNCATED, runs.truncated[at]), (Flag.AHEAD_OF_MIRROR, runs.ahead[at])
    return Verdict(
        Judgement.BOUNDED if bound else Judgement.EXACT,
        int(runs.offset[at]),
        bound,
        Evidence.RUN,
        flags=tuple(flag for flag, has in flags if has),
    )
