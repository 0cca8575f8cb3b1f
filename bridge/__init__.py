"""Mirror Bridge: Kafka's MirrorMaker 2 as a Kafka Connect Python bridge."""

VERSION = "0.1.0"
"""Distribution version; the Java shim carries the same one (tests/unit/repository/test_version.py)."""

PROTOCOL = 1
"""Version of the HTTP contract; a shim of version N works with a service of N-1 and N+1."""
