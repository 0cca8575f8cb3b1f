"""Tests. `unit` follows the source tree; `contract` and `golden` hold files that more than one language reads.

`integration` needs brokers, `e2e` a Connect worker and the service too; `perf` has the benchmarks. `support` has what
they share.
"""

from pathlib import Path

ROOT = Path(__file__).parents[1]
"""The repository."""
