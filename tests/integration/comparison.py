"""Random questions to stock's classes and to ours: many lines at once, and beside each question what ours answers."""

from __future__ import annotations

import base64
import os
import random
from collections.abc import Sequence

from bridge.model.values import TopicPartition
from tests.support.java import Oracle


class Comparison:
    """Lines for stock, and beside each question what ours answers.

    Where stock itself is asked, each run takes another seed; a failure names it, and MIRROR_BRIDGE_SEED runs it again.
    """

    def __init__(self, oracle: Oracle) -> None:
        self._oracle = oracle
        chosen = os.environ.get("MIRROR_BRIDGE_SEED", "0")
        self.seed = random.randrange(2**32) if oracle.live and chosen == "0" else int(chosen)
        self.rng = random.Random(self.seed)
        self._lines: list[str] = []
        self._ours: list[tuple[int, str]] = []
        self.answers: set[str] = set()
        """Different answers of ours: a comparison of nothing would have few."""

    def tell(self, *fields: object) -> None:
        self._lines.append("\t".join(map(str, fields)))

    def ask(self, ours: str, *fields: object) -> None:
        self._ours.append((len(self._lines), ours))
        self.answers.add(ours)
        self.tell(*fields)

    @property
    def count(self) -> int:
        return len(self._ours)

    def settle(self) -> None:
        for (line, ours), theirs in zip(self._ours, answers_of(self._oracle, self._lines), strict=True):
            assert ours == theirs, (
                f"line {line}: {self._lines[line]} (MIRROR_BRIDGE_SEED={self.seed} runs it again)"
            )


def answers_of(oracle: Oracle, lines: Sequence[str]) -> list[str]:
    """The lines that a program answers."""
    return oracle.run("\n".join(lines) + "\n").splitlines()


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def place(topic_partition: TopicPartition) -> tuple[str, int]:
    return b64(topic_partition.topic), topic_partition.partition
