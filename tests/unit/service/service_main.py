"""`mirror-bridge serve` with the fake kind, as a process: `python -m tests.unit.service.service_main`."""

from __future__ import annotations

import sys

from bridge.service.serve import CannotListen, run
from bridge.settings import load_settings
from tests.unit.service.service_fakes import FACTORY, checks

if __name__ == "__main__":
    try:
        run(load_settings(), checks(), FACTORY)
    except CannotListen as error:
        sys.exit(f"mirror-bridge: {error}")
