"""Runs cases of a kind for some seconds, or one again; tells how many, and the slowest."""

from __future__ import annotations

import importlib
import resource
import sys
import time
from pathlib import Path
from random import Random

SLOWEST = 5.0
"""Seconds of processor time that a case may take; whoever watches it looks at the clock."""
MEMORY = 1536 * 1024 * 1024
"""Bytes that cases may take beside what the process has before them."""
_WARM = 20
"""Cases behind which memory and time are measured: what is loaded late is loaded then."""


def main(kind: str, seconds: float, seed: str, note: str, *numbers: str) -> int:
    case = importlib.import_module(f"tests.unit.kafka.fuzz.{kind}").case
    progress = Path(note)
    done, slowest, began = 0, (0.0, 0), time.monotonic()

    def run(number: int) -> float:
        progress.write_text(f"{number}\n")
        started = time.process_time()
        try:
            case(Random(f"{kind} {seed} {number}"))
        except BaseException:
            print(f"case {number} of {kind}, seed {seed}", file=sys.stderr, flush=True)
            raise
        return time.process_time() - started

    if numbers:
        for each in numbers:
            print(f"{run(int(each)):.3f} s")
        return 0
    while done < _WARM or time.monotonic() - began < seconds:
        took = run(done)
        slowest = max(slowest, (took, done))
        assert took < SLOWEST, f"case {done} of {kind}, seed {seed}, took {took:.1f} s"
        done += 1
        if done == _WARM:
            _limit_memory()
            began = time.monotonic()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(
        f"{done} cases of {kind} in {time.monotonic() - began:.0f} s, the slowest {slowest[0]:.2f} s, {peak} MiB"
    )
    return 0


def _limit_memory() -> None:
    pages = (
        int(Path("/proc/self/statm").read_text("ascii").split()[0])
        if Path("/proc/self/statm").exists()
        else 0
    )
    if pages:
        most = pages * resource.getpagesize() + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


if __name__ == "__main__":
    _, kind_, seconds_, seed_, note_, *numbers_ = sys.argv
    sys.exit(main(kind_, float(seconds_), seed_, note_, *numbers_))
