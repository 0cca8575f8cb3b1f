"""What executors need of an audit is what the copy has packed for them; and it needs no pyarrow."""

from __future__ import annotations

import json
import subprocess
import sys


def imported(module: str) -> set[str]:
    """Top-level modules, in an interpreter of its own."""
    ask = f"import json, sys, {module}; print(json.dumps([name for name in sys.modules if '.' not in name]))"
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_a_comparison_imports_nothing_that_is_not_packed_but_spark() -> None:
    more = imported("bridge.spark.auditing.workers") - imported("bridge.pipeline.slices.running")
    assert not {"connectors", "pyarrow"} & more
    assert {each for each in more if each not in sys.stdlib_module_names and not each.startswith("_")} <= {
        "pyspark",
        "py4j",
        "regex",
    }


WITHOUT_PYARROW = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "pyarrow":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hidden())
from bridge.errors import ConfigRejected
from bridge.spark import audit
from bridge.spark.auditing import workers

try:
    audit(None, {})
except ConfigRejected as rejected:
    print("looked at")
"""


def test_an_audit_as_dataframes_needs_no_pyarrow() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_PYARROW], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.returncode) == ("looked at\n", 0), done.stderr
