"""`mirror-bridge demo` as its user runs it, with fewer records."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

ROWS = {
    *("group", "topic", "partition", "committed", "exact", "timestamp", "stock", "ours"),
    *("reread_timestamp", "reread_stock", "reread_ours", "evidence", "verdict"),
}
FAILOVER = {"group", "topic", "partition", "first_record_matches"}


def test_the_demo_re_reads_nothing_and_says_so(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bridge", "demo", "--records", "20000", "--directory", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    assert "ours re-reads 0;" in " ".join(done.stdout.split())

    report = json.loads((tmp_path / "report.json").read_text("utf-8"))
    assert list(report) == ["rows", "failover", "seconds"]
    rows, failover = report["rows"], report["failover"]
    assert {frozenset(row) for row in rows} == {frozenset(ROWS)}
    assert {frozenset(each) for each in failover} == {frozenset(FAILOVER)}
    assert [(row["group"], row["topic"], row["partition"]) for row in rows] == [
        (each["group"], each["topic"], each["partition"]) for each in failover
    ]
    assert {row["topic"] for row in rows} == {"orders", "payments", "profiles", "ticks"}

    assert {row["reread_ours"] for row in rows} == {0}
    assert {row["verdict"] for row in rows} == {"exact"}
    assert {each["first_record_matches"] for each in failover} == {True}
    # The others are no straw men: neither ever skips, and both are right somewhere.
    for way in ("reread_timestamp", "reread_stock"):
        known = [row[way] for row in rows if row[way] is not None]
        assert min(known) == 0 < max(known)
