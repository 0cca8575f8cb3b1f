"""The daemon of Python workers, without what slices need, which takes seconds to import:
`python -m tests.unit.pipeline.slices.light_daemon`."""

from __future__ import annotations

import sys
from types import ModuleType

from bridge.pipeline.slices.workers import main

if __name__ == "__main__":
    sys.modules["bridge.pipeline.slices.tasks"] = ModuleType("bridge.pipeline.slices.tasks")
    main()
