"""Processor time of tests with all processes that they start.

    python -m tests.support.processor_time tests/e2e/test_source.py -k pause

Brokers, workers and drivers end in many ways, some as orphans: those become children of this process (Linux), and the
kernel adds up what children took that have ended. Time on the clock says little on a machine that does other things.
"""

from __future__ import annotations

import ctypes
import os
import resource
import subprocess
import sys
from collections.abc import Sequence

_PR_SET_CHILD_SUBREAPER = 36


def main(arguments: Sequence[str]) -> int:
    """Answers pytest's exit status."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        print(
            f"Orphans are not counted: prctl says {os.strerror(ctypes.get_errno())}.",
            file=sys.stderr,
        )
    status = subprocess.run([sys.executable, "-m", "pytest", *arguments], check=False).returncode
    try:
        while True:  # pytest has ended what it started: these have ended or are about to
            os.waitpid(-1, 0)
    except ChildProcessError:
        pass
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{used.ru_utime + used.ru_stime:.1f} s of processor time")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
