"""How long tests wait for what has to come."""

import os

WAIT = float(os.environ.get("MIRROR_BRIDGE_TEST_WAIT", "120"))
"""Seconds. What comes ends the wait, so a high bound costs nothing but a hang's time; `make test-all` has a higher one,
for long forms beside each other."""
