"""Asks "can I fail over now?" every tenth of a second, and holds each answer against both logs.

An answer is wrong only where the look at the logs that ended before it was asked, and the one that began after it was
answered, both contradict it: what changes meanwhile is neither.
"""

from __future__ import annotations

import json
import threading
import time
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any
from urllib.parse import quote

import httpx

from bridge.local import NO_AUTHORITIES
from tests.soak.both_logs import GroupTruth, Truth

EVERY_SECONDS = 0.1
STALE = ", stale"
START_SECONDS = 60.0
"""A service that was started so long ago knows what there is, on a busy machine too; or one that has said yes."""
LASTING_SECONDS = 10.0
"""A no for longer than that, with all copied, committed and alive, is a lasting one."""

Json = Any


@dataclass(frozen=True)
class Sample:
    """One question. `reports`: by group, from its own page; `listed`: from the list of groups."""

    began: float
    ended: float
    readiness: Json
    listed: Mapping[str, Json]
    reports: Mapping[str, Json]


@dataclass
class Finding:
    """Answers of one kind about one subject that were wrong, one after the other."""

    kind: str
    subject: str
    first: float
    last: float
    answer: str
    truth: str
    count: int = 1
    newest: str = ""
    """The last answer, where it is not the first."""

    @property
    def seconds(self) -> float:
        return self.last - self.first

    def told(self, began: float, marks: Sequence[tuple[float, str]]) -> str:
        event, name = max((mark for mark in marks if mark[0] <= self.first), default=(began, "the start"))
        return (
            f"{self.kind:16} {self.subject:12} {self.count:4} samples, {self.first - began:6.1f} s to "
            f"{self.last - began:6.1f} s ({self.first - event:+.1f} s to {self.last - event:+.1f} s of «{name}»)\n"
            f"      answer {self.answer}\n      truth  {self.truth}"
            + (f"\n      last   {self.newest}" if self.newest and "LASTING" in self.kind else "")
        )


class Sampler:
    """Asks a service, in a thread, from before it is there. `connector`: whose answers count, where it is not all."""

    def __init__(self, url: str, connector: str | None = None) -> None:
        self.url, self.connector = url, connector
        self.groups: Sequence[str] = ()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler")
        self.samples: list[Sample] = []
        self.unanswered = 0

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        self._thread.join(60)

    def _run(self) -> None:
        with httpx.Client(base_url=self.url, timeout=5.0, verify=NO_AUTHORITIES) as client:
            due = time.monotonic()
            while not self._stop.is_set():
                try:
                    self.samples.append(self._ask(client))
                except (httpx.HTTPError, json.JSONDecodeError):
                    self.unanswered += 1
                due = max(due + EVERY_SECONDS, time.monotonic())
                self._stop.wait(max(0.0, due - time.monotonic()))

    def _ask(self, client: httpx.Client) -> Sample:
        began = time.time()
        readiness = _got(client, "/v1/readiness")
        if self.connector is not None:
            # Where the connector is not known, nothing is said of it.
            flows = [each for each in readiness["flows"] if each["connector"] == self.connector]
            readiness = {**(flows[0] if flows else readiness), "flows": flows}
        answers = _got(client, "/v1/groups?limit=1000")["groups"]
        listed = {each["group"]: each for each in answers if self._asks(each)}
        reports: dict[str, Json] = {}
        for group in self.groups:
            answer = client.get(f"/v1/groups/{quote(group, safe='')}")
            if answer.status_code != httpx.codes.NOT_FOUND:
                for report in filter(self._asks, answer.raise_for_status().json()["reports"]):
                    reports[group] = report
        return Sample(began, time.time(), readiness, listed, reports)

    def _asks(self, answer: Json) -> bool:
        return self.connector in (None, answer["connector"])


def _got(client: httpx.Client, path: str) -> Json:
    return client.get(path).raise_for_status().json()


@dataclass
class Judge:
    """Holds samples against the looks at both logs."""

    looks: Sequence[Truth]
    short: Mapping[str, str]
    """Names of groups for people."""
    starts: Sequence[float] = ()
    """When the service was started: a no is none for a while then."""
    causes: Sequence[tuple[float, float]] = ()
    """From when to when a no has its cause."""
    _first_yes: dict[float, float] = field(default_factory=dict)
    """By start: when everything was ready first."""
    findings: list[Finding] = field(default_factory=list)

    def judge(self, samples: Sequence[Sample]) -> list[Finding]:
        ended, began = [look.ended for look in self.looks], [look.began for look in self.looks]
        open_: dict[tuple[str, str], Finding] = {}
        for sample in samples:
            if sample.readiness["readiness"] == "ready":
                for start in self.starts:
                    if start < sample.ended:
                        self._first_yes.setdefault(start, sample.ended)
            before, after = bisect_left(ended, sample.began) - 1, bisect_right(began, sample.ended)
            wrong: dict[tuple[str, str], tuple[str, str]] = {}
            if before >= 0 and after < len(self.looks):
                pair = self.looks[before], self.looks[after]
                for kind, subject, answer, truth in self._wrong(sample, *pair):
                    wrong[kind, subject] = (answer, truth)
            for key in open_.keys() - wrong.keys():
                self.findings.append(open_.pop(key))
            for key, (answer, truth) in wrong.items():
                if key in open_:
                    open_[key].last, open_[key].count = sample.ended, open_[key].count + 1
                    open_[key].newest = answer
                else:
                    open_[key] = Finding(*key, sample.began, sample.ended, answer, truth)
        self.findings += open_.values()
        self.findings = [
            each
            for each in self.findings
            if not each.kind.startswith("LASTING") or each.seconds > LASTING_SECONDS
        ]
        return sorted(self.findings, key=lambda each: each.first)

    def _wrong(self, sample: Sample, before: Truth, after: Truth) -> Iterator[tuple[str, str, str, str]]:
        alive = self._alive(sample, before, after)
        for group, name in self.short.items():
            first, second = before.groups.get(group), after.groups.get(group)
            if first is None or second is None:
                continue
            listed, report = sample.listed.get(group), sample.reports.get(group)
            for page, answer in (("list", listed), ("page", report)):
                if answer is None:
                    continue
                for kind, truth in self._of_group(answer, group, first, second):
                    yield f"{page}: {kind}", name, _group_told(answer), truth
            if report is not None:
                for part in report["partitions"]:
                    for kind, truth in _of_partition(part, first, second):
                        old = self._old(report, partial(_is_wrong, part), group)
                        if report["readiness"] == "cannot_tell" and (old or report["as_of_ms"] is None):
                            continue  # of an earlier time, and said to be so
                        yield f"{kind}{old}", name, _part_told(part, report), truth
            yes = listed is not None and listed["readiness"] in ("ready", "moved")
            if alive and first.whole and second.whole and not yes:
                told = "not in the list" if listed is None else _group_told(listed)
                yield "LASTING NO", name, told, second.told()
        yield from self._of_flows(sample, before, after)

    def _alive(self, sample: Sample, before: Truth, after: Truth) -> bool:
        fresh = any(
            start <= sample.ended <= min(start + START_SECONDS, self._first_yes.get(start, sample.ended))
            for start in self.starts
        )
        caused = any(first <= sample.ended and sample.began <= last for first, last in self.causes)
        return len(before.alive & after.alive) == 2 and not fresh and not caused

    def _of_group(
        self, answer: Json, group: str, before: GroupTruth, after: GroupTruth
    ) -> Iterator[tuple[str, str]]:
        word = {"ready": "FALSE YES", "ready_as_of": "FALSE AS-OF"}.get(answer["readiness"])
        if word is None:
            return
        named = answer["missing_records"] or 0
        for wrong, truth in (
            (min(before.lost, after.lost) > named, after.told()),
            (bool(before.unset) and bool(after.unset), after.told()),
        ):
            if wrong:
                old = self._old(answer, lambda look: look.lost > named or bool(look.unset), group)
                yield f"{word}{old}", truth
                return
        if min(before.uncommitted, after.uncommitted) > named:
            old = self._old(answer, lambda look: look.uncommitted > named, group)
            yield f"{word}, NEW PARTITION{old}", after.told()

    def _old(self, answer: Json, wrong: Callable[[GroupTruth], bool], group: str | None = None) -> str:
        """`, stale` where it was right when both clusters were last queried, as the answer says."""
        asked = (answer["as_of_ms"] or 0) / 1000
        look = next((look for look in reversed(self.looks) if look.ended <= asked), None)
        groups = [] if look is None else [look.groups[each] for each in look.groups if group in (None, each)]
        return STALE if groups and not any(wrong(each) for each in groups) else ""

    def _of_flows(self, sample: Sample, before: Truth, after: Truth) -> Iterator[tuple[str, str, str, str]]:
        everything = sample.readiness
        told = json.dumps(_flow_told(everything))
        alive = self._alive(sample, before, after)
        lost = {
            group: min(before.groups[group].lost, after.groups[group].lost)
            for group in self.short
            if group in before.groups and group in after.groups
        }
        if everything["readiness"] == "ready":
            counts = [each["missing_records"] or 0 for each in everything["flows"]]
            for group, count in lost.items():
                if count > max(counts, default=0):
                    least = max(counts, default=0)
                    old = self._old(everything, partial(_loses_more, least), group)
                    yield f"FALSE YES (all){old}", self.short[group], told, after.groups[group].told()
                if group not in sample.listed and before.groups[group].committed:
                    yield "YES, UNKNOWN", self.short[group], told, after.groups[group].told()
        elif (
            alive
            and lost
            and sample.listed.keys() <= self.short.keys()
            and all(look.groups[group].whole for look in (before, after) for group in lost)
            and everything["readiness"] != "moved"
        ):
            yield "LASTING NO (all)", "everything", told, "all groups are whole"


def _is_wrong(part: Json, look: GroupTruth) -> bool:
    return any(_of_partition(part, look, look))


def _loses_more(least: int, look: GroupTruth) -> bool:
    return look.lost > least


def _of_partition(part: Json, before: GroupTruth, after: GroupTruth) -> Iterator[tuple[str, str]]:
    place = part["topic"], part["partition"]
    copy = part["target_topic"], part["partition"]
    if any(look.committed.get(place) != part["committed"] for look in (before, after)):
        return
    again = min(look.again.get(place, 0) for look in (before, after))
    if part["verdict"] == "exact" and again:
        yield "NOT EXACT", after.told()
    if part["verdict"] == "bounded" and part["bound"] is not None and again > part["bound"]:
        yield "OVER ITS BOUND", after.told()
    if part["verdict"] == "exact" and part["written"] not in (
        before.there.get(copy),
        after.there.get(copy),
        None,
    ):
        yield "WRITTEN WRONG", after.told()
    missed = min(look.missed.get(place, 0) for look in (before, after))
    if (
        part["verdict"] != "pending"
        and part["missing_records"] is not None
        and missed > part["missing_records"]
    ):
        yield "COUNT TOO LOW", after.told()


def _group_told(answer: Json) -> str:
    reasons = [each["reason"] for each in answer["reasons"]]
    return (
        f"{answer['readiness']} verdict={answer['verdict']} missing={answer['missing_records']} "
        f"reasons={reasons} as_of={_clock(answer['as_of_ms'])}"
    )


def _part_told(part: Json, report: Json) -> str:
    keys = ("topic", "partition", "committed", "target_offset", "written", "verdict", "evidence", "bound")
    more = ("reason", "missing_records", "detail")
    return f"{report['readiness']} " + json.dumps({key[:9]: part[key] for key in (*keys, *more)})


def _flow_told(everything: Json) -> Json:
    keys = ("connector", "readiness", "groups", "ready", "missing_records")
    return [everything["readiness"]] + [
        {key: flow[key] for key in keys} | {"reasons": [each["reason"] for each in flow["reasons"]]}
        for flow in everything["flows"]
    ]


def _clock(ms: int | None) -> str:
    return "never" if ms is None else time.strftime("%T", time.localtime(ms / 1000)) + f".{ms % 1000:03}"


def answers(samples: Sequence[Sample], began: float, name: Callable[[str], str]) -> list[str]:
    """Lines of what was answered when: each change of any group's or flow's answer."""
    words: dict[str, str] = {}
    lines: list[str] = []
    for sample in samples:
        now = {name(group): _group_word(answer) for group, answer in sample.listed.items()}
        now["everything"] = str(sample.readiness["readiness"]) + "".join(
            f" [{each['reason']}: {each['detail'][:150]}]"
            for flow in sample.readiness["flows"]
            for each in flow["reasons"]
        )
        for subject in words.keys() - now.keys():
            lines.append(f"  {sample.began - began:6.1f} s {subject:12} not in the list")
        for subject, word in now.items():
            if words.get(subject) != word:
                lines.append(f"  {sample.began - began:6.1f} s {subject:12} {word}")
        words = now
    return lines


def _group_word(answer: Json) -> str:
    reasons = ",".join(each["reason"] for each in answer["reasons"])
    return f"{answer['readiness']} {answer['verdict']} missing={answer['missing_records']} {reasons}".rstrip()


def truths(looks: Sequence[Truth], began: float, name: Callable[[str], str]) -> list[str]:
    """Lines of what was true when: each change."""
    lines: list[str] = []
    words: dict[str, str] = {}
    for look in looks:
        now = {name(group): truth.told() for group, truth in look.groups.items()}
        now["clusters"] = "alive: " + ", ".join(sorted(look.alive))
        for subject, word in now.items():
            if words.get(subject) != word:
                lines.append(f"  {look.began - began:6.1f} s {subject:12} {word}")
        words = now
    return lines


def longest_pause(samples: Sequence[Sample]) -> float:
    """The longest time between two answers."""
    return max((second.began - first.ended for first, second in pairwise(samples)), default=0.0)


def kinds(findings: Sequence[Finding]) -> Counter[str]:
    return Counter(each.kind for each in findings)
