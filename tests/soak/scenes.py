"""Two clusters, who mirrors between them, groups of topics, and what is answered about them meanwhile."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from typer.testing import CliRunner

from bridge.cli import app
from bridge.local import Broker, LocalStack
from bridge.local.processes import Watched
from tests.soak.both_logs import BothLogs
from tests.soak.moments import STALE, Finding, Judge, Sampler, answers, kinds, longest_pause, truths
from tests.support import Record, commit, create_topic, eventually, produce, unique
from tests.support.processes import processes
from tests.support.waits import WAIT

RECORDS, MORE = 1000, 100
COPY = ("bridge.pipeline.driver.main", "SparkSubmit", "bridge.pipeline.slices.workers", "pyspark")
STALE_SECONDS = 8.0
"""For so long a yes may rest on what was true when both clusters were last queried: three intervals, and a round."""


@dataclass
class Scene:
    """Two clusters, and groups of topics at several offsets. `samplers`: by whom they ask; `watched`: processes that
    have to live while something is waited for; `logs`: what they write; `seconds`: for which answers are looked at
    behind an event."""

    stack: LocalStack
    both: BothLogs
    samplers: Mapping[str, Sampler]
    watched: Sequence[Watched]
    logs: Sequence[Path]
    seconds: float
    groups: dict[str, str] = field(default_factory=dict)
    topics: dict[str, str] = field(default_factory=dict)
    marks: list[tuple[float, str]] = field(default_factory=list)
    starts: list[float] = field(default_factory=list)
    causes: list[tuple[float, float]] = field(default_factory=list)
    """From when to when somebody has stopped what an answer needs."""
    printed: list[str] = field(default_factory=list)
    began: float = field(default_factory=time.time)

    @property
    def source(self) -> Broker:
        return _broker(self.stack, "A")

    @property
    def target(self) -> Broker:
        return _broker(self.stack, "B")

    def topic(self, name: str, records: int = RECORDS, partitions: int = 1) -> str:
        """A topic of A with so many records; `name`: for people."""
        topic = self.topics.setdefault(name, unique(name))
        create_topic(self.source.bootstrap, topic, partitions)
        self.fill(name, 0, records)
        self.both.topics.append(topic)
        return topic

    def fill(self, name: str, start: int, count: int, partition: int = 0, life: str = "first") -> None:
        records = [
            Record(b"%s-%d-%d" % (life.encode(), partition, number), partition=partition)
            for number in range(start, start + count)
        ]
        produce(self.source.bootstrap, self.topics[name], records)

    def group(self, name: str, offsets: Mapping[tuple[str, int], int]) -> None:
        """A group of A at these offsets of topics by their names for people."""
        group = self.groups.setdefault(name, unique(name))
        commit(
            self.source.bootstrap, group, {(self.topics[t], n): offset for (t, n), offset in offsets.items()}
        )
        if group not in self.both.groups:
            self.both.groups.append(group)

    def ask(self) -> None:
        """Asks for these groups from now on."""
        for sampler in self.samplers.values():
            sampler.groups = list(self.groups.values())
            sampler.start()
        self.both.start()
        self.look(1.0)

    def mark(self, event: str) -> None:
        self.marks.append((time.time(), event))

    @contextmanager
    def within(self, event: str) -> Iterator[None]:
        """A no has its cause for the time of the block."""
        self.mark(event)
        began = time.time()
        try:
            yield
        finally:
            self.causes.append((began, time.time()))
            self.mark(f"no more: {event}")

    def look(self, seconds: float | None = None) -> None:
        time.sleep(self.seconds if seconds is None else seconds)

    def wait_whole(self, *names: str) -> None:
        """Until by both logs these groups, or all, could fail over now."""
        groups, asked = [self.groups[name] for name in names or self.groups], time.time()

        def whole() -> None:
            look = self.both.looks[-1]
            assert look.began > asked
            last = look.groups
            assert all(last[group].whole for group in groups), {g: last[g].told() for g in groups}

        eventually(whole, WAIT, what="all is copied and committed", watched=self.watched)

    def wait_ready(self, *names: str) -> None:
        """Until the answer is yes for these groups, or all, whoever is asked."""
        asked = time.time()

        def ready() -> None:
            for sampler in self.samplers.values():
                last = sampler.samples[-1]
                assert last.began > asked
                found = {name: last.listed.get(self.groups[name]) for name in names or self.groups}
                assert all(each is not None and each["ready"] for each in found.values()), found

        eventually(ready, WAIT, what="the answer is yes", watched=self.watched)

    def wait_round(self) -> None:
        """Until a round has ended."""

        def ended() -> None:
            for sampler in self.samplers.values():
                assert sampler.samples, "no answer"
                answer = sampler.samples[-1].readiness
                assert answer["as_of_ms"] is not None, answer

        eventually(ended, WAIT, what="a round has ended", watched=self.watched)

    def wait_copying(self) -> None:
        """Until it is known of each group what of it is copied."""
        unknown = {"not_looked_at_yet", "target_topic_missing", "copies_unknown"}

        def known() -> None:
            for sampler in self.samplers.values():
                listed = sampler.samples[-1].listed
                reasons = {name: listed[group]["reason"] for name, group in self.groups.items()}
                assert not unknown.intersection(reasons.values()), reasons

        eventually(known, WAIT, what="the copy has begun", watched=self.watched)

    def steady(self, *names: str) -> None:
        """Until all is copied and said to be ready."""
        self.wait_whole(*names)
        self.wait_ready(*names)
        self.mark("ready")
        self.look(5.0)

    def print_all(self, when: str) -> None:
        """Keeps what the commands print now."""
        commands = [
            ["readiness"],
            ["groups"],
            *(["explain", group] for group in self.groups.values()),
            ["failover", "--all", "--flow", "A-to-B", "--dry-run", "--timeout", "20"],
        ]
        self.printed.append(f"--- {when}, {time.time() - self.began:.1f} s")
        for command in commands:
            self.command(*command)

    def command(self, *words: str) -> int:
        """Runs a command as an operator does; returns its status."""
        url = next(iter(self.samplers.values())).url
        done = CliRunner().invoke(app, [*words, "--url", url])
        self.printed.append(f"$ mirror-bridge {' '.join(words)}   # status {done.exit_code}\n{done.output}")
        return done.exit_code

    @contextmanager
    def judged(self, name: str) -> Iterator[None]:
        """Judges what was answered, at the end of the block."""
        try:
            yield
        finally:
            for sampler in self.samplers.values():
                sampler.close()
            self.both.close()
        findings = self._report(name)
        assert all(each.samples for each in self.samplers.values())
        assert kinds(findings) == {}, "\n".join(each.told(self.began, self.marks) for each in findings)

    def _report(self, name: str) -> list[Finding]:
        """Writes what was asked, answered and true; returns what was wrong for longer than it may be."""
        names = {group: each for each, group in self.groups.items()}
        looks, lines, wrong = self.both.looks, list[str](), list[Finding]()
        for asked, sampler in self.samplers.items():
            samples = sampler.samples
            found = Judge(looks, names, self.starts, self.causes).judge(samples)
            short = [each for each in found if each.kind.endswith(STALE) and each.seconds <= STALE_SECONDS]
            mine = [each for each in found if each not in short]
            wrong += mine
            lines += [
                f"=== {name} by {asked}: {len(samples)} samples, {len(looks)} looks, {sampler.unanswered} "
                f"unanswered, longest pause {longest_pause(samples):.1f} s",
                *(each.told(self.began, self.marks) for each in mine),
                f"  and {len(short)} stale for {max((each.seconds for each in short), default=0.0):.1f} s at most: "
                f"{dict(kinds(short))}",
            ]
        lines += [f"  {at - self.began:6.1f} s EVENT {event}" for at, event in self.marks]
        print("\n".join(lines))
        folder = os.environ.get("MIRROR_BRIDGE_MOMENTS")
        if folder:
            Path(folder).mkdir(parents=True, exist_ok=True)
            for asked, sampler in self.samplers.items():
                lines += [f"answers by {asked}:"]
                lines += answers(sampler.samples, self.began, lambda group: names.get(group, group))
            lines += ["truth:", *truths(looks, self.began, lambda group: names.get(group, group))]
            safe = name.replace("[", "-").replace("]", "").replace("/", "-")
            Path(folder, f"{safe}.txt").write_text("\n".join([*lines, *self.printed]))
            for log in self.logs:
                if log.exists():
                    Path(folder, f"{safe}-{log.name}").write_bytes(log.read_bytes())
        return wrong


@contextmanager
def hung(*pids: int) -> Iterator[None]:
    """Stops these processes for the time of the block; they keep their connections."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def copying(pid: int) -> list[int]:
    """The processes below this one that copy."""
    return sorted({each for word in COPY for each in processes(pid, word)})


def _broker(stack: LocalStack, name: str) -> Broker:
    broker = stack.cluster(name)
    assert isinstance(broker, Broker)
    return broker
