"""Which files of a run in lanes (pytest-xdist) one lane takes together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

_SHARED = {
    "one Spark session": """integration/test_audit integration/test_spark_sink integration/test_spark_sources
        integration/test_translate""",
    "one service": """unit/service/ipc/test_frames unit/service/state/test_operations
        unit/service/state/test_source_offsets unit/service/test_service_process unit/service/test_service_records""",
    "trees of all files": "unit/repository/test_repository unit/repository/test_rooms unit/repository/test_tests",
}
TOGETHER = {f"tests/{file}.py": what for what, files in _SHARED.items() for file in files.split()}
"""Files that share something dear which a lane has once."""


def scheduler(config: pytest.Config, log: Any) -> Any:
    """Returns the scheduler that gives a lane one file at a time, or all files of a set."""
    from xdist.scheduler import LoadFileScheduling

    class Lanes(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            return TOGETHER.get(file, file)

    return Lanes(config, log)
