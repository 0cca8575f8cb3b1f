"""Why Spark could not be started, or reached, as one line for an operator."""

from __future__ import annotations


class SparkProblem(Exception):
    """Raised when Spark can't run. `permanent`: only another configuration or installation helps."""

    def __init__(self, line: str, *, permanent: bool = False) -> None:
        super().__init__(line)
        self.permanent = permanent
