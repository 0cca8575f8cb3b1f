"""How long tests wait for what has to come."""

import os

WAIT = float(os.environ.get("MIRROR_BRIDGE_TEST_WAIT", "60"))
"""Seconds. What comes ends the wait, so a high bound costs nothing but a hang's time. `make test` has more where the
machine is slow, `make test-all` more for long forms beside each other (tests/support/steps.py)."""
