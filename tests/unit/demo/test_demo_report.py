"""The demo's rows, its file, its exit status, and where its groups stand."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest
from rich.console import Console

from bridge.demo import run
from bridge.demo.answers import align
from bridge.demo.data import PARTITIONS, Amounts, Groups, Shape, choose, ticks
from bridge.demo.failover import Resumed
from bridge.demo.logs import DemoFailed, Entry, PartitionLog, Tp
from bridge.demo.report import Judged, Report, closing, make_rows, table
from bridge.local import service
from bridge.protocol.messages import PartitionReport
from tests.support.messages import message, message_pattern

TP: Tp = ("orders", 0)
KEYS = [
    *("group", "topic", "partition", "committed", "exact", "timestamp", "stock", "ours"),
    *("reread_timestamp", "reread_stock", "reread_ours", "evidence", "verdict"),
]


def report(ours: int | None, *, matches: bool = True) -> Report:
    """One group at 5 of ten records; the timestamp rule says 3 and stock nothing."""
    log = PartitionLog([Entry(number, b"%d" % number) for number in range(10)], 10)
    groups: Groups = {"g": {TP: 5}}
    verdict = PartitionReport(
        topic="orders",
        partition=0,
        target_topic="A.orders",
        committed=5,
        target_offset=ours,
        written=ours,
        verdict="exact",
        evidence="verified",
    )
    answers = {} if ours is None else {("g", TP): ours}
    judged = Judged({("g", TP): 3}, {}, answers, {("g", TP): verdict})
    rows = make_rows(groups, {TP: align(log.entries, log.entries)}, {TP: log}, judged)
    return Report(rows, [Resumed("g", TP, matches)], 12.34)


def test_the_file_has_the_promised_form(tmp_path: Path) -> None:
    written = json.loads(report(5).write(tmp_path).read_text("utf-8"))
    assert tmp_path / "report.json" == report(5).write(tmp_path)
    assert list(written) == ["rows", "failover", "seconds"]
    assert [list(row) for row in written["rows"]] == [KEYS]
    values = ["g", "orders", 0, 5, 5, 3, None, 5, 2, None, 0, "verified", "exact"]
    assert list(written["rows"][0].values()) == values
    failover = {"group": "g", "topic": "orders", "partition": 0, "first_record_matches": True}
    assert written["failover"] == [failover]
    assert written["seconds"] == 12.3


@pytest.mark.parametrize(
    ("made", "passed"),
    [
        pytest.param(report(5), True, id="exact"),
        pytest.param(report(4), False, id="re-read"),
        pytest.param(report(6), False, id="skipped"),
        pytest.param(report(None), False, id="no answer"),
        pytest.param(report(5, matches=False), False, id="wrong first record"),
    ],
)
def test_the_demo_can_fail(made: Report, passed: bool) -> None:
    assert made.passed is passed
    assert closing(made, 10).startswith("FAILED") is not passed


def test_table_and_sentence_show_the_sums() -> None:
    file = io.StringIO()
    shown = Console(file=file, width=200)
    shown.print(table(report(4, matches=False)))
    text = file.getvalue()
    assert "orders-0" in text
    assert "differs" in text
    sentence = closing(report(4), 1_000)
    counts = {"groups": 1, "partitions": 1, "records": "1,000", "ours": 1, "timestamp": 2, "stock": 0}
    assert message("demo.closing", **counts, unanswered=1) in sentence


def test_a_failure_is_one_line_and_the_rest_is_in_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise DemoFailed("broker A has gone\nand much more")

    monkeypatch.setattr(run, "play", fail)
    assert run.run_demo(tmp_path, records=2_000, keep=False) == run.FAILED
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1
    assert re.match(message_pattern("demo.failed", error="broker A has gone"), lines[0])
    assert "and much more" in (tmp_path / run.LOG).read_text("utf-8")


def test_ctrl_c_ends_it_without_a_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "play", interrupted)
    assert run.run_demo(tmp_path, records=2_000, keep=False) == run.INTERRUPTED
    assert capsys.readouterr().out == message("demo.stopped")


def test_a_second_demo_leaves_the_first_ones_directory_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def again(*_: object) -> None:
        assert run.run_demo(tmp_path, records=2_000, keep=False) == run.FAILED
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "play", again)
    run.run_demo(tmp_path, records=2_000, keep=False)
    assert "another demo runs in" in capsys.readouterr().out


@pytest.mark.parametrize("total", [2_000, 20_000, 230_000])
def test_amounts_add_up(total: int) -> None:
    amounts = Amounts.for_total(total)
    assert amounts.orders + amounts.payments + amounts.profiles + 3 * amounts.burst == total
    assert min(amounts.orders, amounts.payments, amounts.profiles, amounts.burst) > 0


def test_the_demo_as_shipped_has_ten_thousand_ticks_in_one_ms() -> None:
    times = [record.timestamp for record in ticks(Amounts.for_total(230_000).burst)]
    assert times == sorted(times)
    assert times.count(times[10_000]) == 10_000


def test_groups_stand_at_head_tail_and_in_every_kind_of_hole() -> None:
    plain = Shape(range(1_000), 1_000)
    # Every tenth offset is a marker, as is the last one.
    paid = Shape([number for number in range(1_000) if number % 10 != 9], 1_000, aborted=range(500, 509))
    holes = Shape([*range(300, 320), *range(400, 1_000)], 1_000)
    special = {"payments": paid, "profiles": holes}
    groups = choose({tp: special.get(tp[0], plain) for tp in PARTITIONS}, burst=300)
    for offsets in groups.values():
        topics = {topic for topic, _ in offsets}
        assert set(offsets) == {tp for tp in PARTITIONS if tp[0] in topics}
    assert groups["analytics"]["orders", 0] == 0
    assert groups["billing"]["orders", 0] == 1_000
    assert groups["settlement"]["payments", 0] % 10 == 9
    assert groups["settlement"]["payments", 1] == 999
    assert groups["audit"]["payments", 0] == 500
    assert groups["crm"] == {("profiles", 0): 150, ("profiles", 1): 0}
    assert groups["search"]["profiles", 0] == 300
    assert groups["charts"]["ticks", 0] == 450


def test_what_is_left_running_says_what_was_killed_and_what_to_type() -> None:
    lines = run.what_runs("http://s:1", "http://w:2", "a:3", "b:4")
    (killed,) = [line for line in lines if "a:3" in line]
    assert killed.split() == ["broker", "A", "a:3", "was", "killed"]
    assert "  export MIRROR_BRIDGE_URL=http://s:1" in lines
    assert any(line.split()[:2] == ["mirror-bridge", "readiness"] for line in lines)


def test_without_a_checkout_nothing_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def started(*_: object) -> None:
        raise AssertionError("a broker was started")

    monkeypatch.setattr(service, "SHIM", tmp_path / "none")
    monkeypatch.setattr(run, "play", started)
    assert run.run_demo(tmp_path, records=2_000, keep=False) == run.FAILED
    assert "run from a checkout" in capsys.readouterr().out
