"""Which files of a run in lanes (pytest-xdist) one lane takes together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

TOGETHER = {
    f"tests/integration/test_{name}.py": "one Spark session"
    for name in ("audit", "spark_sink", "spark_sources", "translate")
}
"""Files that share something dear which a lane has once."""


def scheduler(config: pytest.Config, log: Any) -> Any:
    """Returns the scheduler that gives a lane one file at a time, or all files of a set."""
    from xdist.scheduler import LoadFileScheduling

    class Lanes(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            return TOGETHER.get(file, file)

    return Lanes(config, log)
