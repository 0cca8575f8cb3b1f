"""`mirror-bridge audit` without a cluster and without Spark: bad input, what it shows, how it ends."""

from __future__ import annotations

import errno
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyarrow import parquet
from pyspark.sql.connect import session as connect
from rich.progress import Progress
from typer.testing import CliRunner, Result

from bridge.audit.report import (
    DIFFERENCES,
    SUMMARY,
    AuditReport,
    AuditWindow,
    Difference,
    DifferenceKind,
    Findings,
    NotCompared,
    PartitionResult,
)
from bridge.cli import app
from bridge.commands import audit
from bridge.errors import KafkaFailure, KafkaFault
from bridge.local import eventually
from bridge.model.values import TopicPartition
from bridge.pipeline.driver import submitting
from bridge.spark.auditing import frames, running
from bridge.spark.auditing.options import AuditOptions
from bridge.spark.rejected import SourceRejected
from tests.support.messages import message

CONFIG = {
    "source.cluster.alias": "A",
    "target.cluster.alias": "B",
    "source.cluster.bootstrap.servers": "a:9092",
    "target.cluster.bootstrap.servers": "b:9092",
    "topics": "orders",
}
SECRET = "s3cret-s3cret"
DAY = 86_400_000


def run(folder: Path, *options: str, command: str = "audit", **config: str) -> Result:
    file = folder / "connector.json"
    given = {name.replace("_", "."): value for name, value in config.items()}
    file.write_text(json.dumps({**CONFIG, **given}))
    done = CliRunner().invoke(app, [command, "--config", str(file), *options], env={"COLUMNS": "200"})
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    assert "Traceback" not in done.output
    return done


@pytest.fixture
def finding(monkeypatch: pytest.MonkeyPatch) -> Callable[[AuditReport | KafkaFailure], None]:
    """Has the audit come to this."""

    class Spark:
        sparkContext = None

    @contextmanager
    def nothing(props: object) -> Iterator[Spark]:
        yield Spark()

    def find(outcome: AuditReport | KafkaFailure) -> None:
        def audited(spark: object, options: AuditOptions, started: object) -> AuditReport:
            if isinstance(outcome, KafkaFailure):
                raise outcome
            return outcome

        monkeypatch.setattr(running, "audited", audited)

    monkeypatch.setattr(running, "session", nothing)
    return find


def partition(*differences: Difference, failures: tuple[str, ...] = ()) -> PartitionResult:
    findings = Findings({0: AuditWindow(1234, 1234, 1, 1, 1234)}, list(differences))
    for each in differences:
        findings.windows[0].count(each.kind)
    findings.leave(NotCompared.NOT_COPIED_YET, 5)
    tp = TopicPartition("orders", 0)
    return PartitionResult(tp, TopicPartition("A.orders", 0), True, findings, list(failures))


def test_all_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    done = run(
        tmp_path,
        *("--from", "yesterday", "--sample", "5", "--window", "soon", "--topics", "orders,("),
        replication_factor="many",
    )
    assert done.exit_code == 2
    for named in ("replication.factor", "--topics", "--from 'yesterday'", "--sample 5.0", "--window 'soon'"):
        assert named in done.stderr


def test_times_and_files_are_checked(tmp_path: Path) -> None:
    done = run(tmp_path, "--from", "2026-11-22T21:00:00Z", "--to", "2026-11-22T20:00:00Z")
    assert (done.exit_code, "is not later than --from" in done.stderr) == (2, True)
    done = run(tmp_path, "--output", "found.csv")
    assert (done.exit_code, done.stderr) == (2, message("audit.output", path="found.csv"))
    done = run(tmp_path, source_cluster_sasl_jaas_config="${file:/x:y}")
    assert (done.exit_code, "refer to config providers" in done.stderr) == (2, True)
    absent = CliRunner().invoke(app, ["audit", "--config", str(tmp_path / "none.properties")])
    assert (absent.exit_code, "can't read" in absent.stderr) == (2, True)


def test_equal_is_status_0(tmp_path: Path, finding: Callable[..., None]) -> None:
    finding(AuditReport([partition()], [], DAY, 0.05))
    done = run(tmp_path)
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[-2:] == [
        "not compared: 5 not copied yet",
        message("audit.equal_of_sample", share="0.05", records="1,234", partitions=1),
    ]


def test_differences_are_status_1_and_listed(tmp_path: Path, finding: Callable[..., None]) -> None:
    some = [Difference(DifferenceKind.MISSING, offset, None, 0, offset + 1) for offset in range(30)]
    finding(AuditReport([partition(*some)], [], DAY))
    done = run(tmp_path, "--output", str(tmp_path / "found.json"))
    assert done.exit_code == 1
    assert (
        len([line for line in done.stdout.splitlines() if " missing " in line and " orders " in line])
        == audit.SHOWN
    )
    assert message("audit.not_shown", count=10) in done.stderr
    # What is said to be different is what is, not all that was compared.
    last = done.stdout.splitlines()[-1]
    assert last.startswith("different: 30 missing, in 1 of 1 part")
    found = json.loads((tmp_path / "found.json").read_text())
    assert (found["verdict"], len(found["differences"])) == ("different", 30)
    done = run(tmp_path, "--json")
    assert json.loads(done.stdout)["differences"][0]["source_offset"] == 0


def test_what_is_not_known_is_status_2(tmp_path: Path, finding: Callable[..., None]) -> None:
    finding(AuditReport([partition(failures=("orders-0: no answer",))], [], DAY))
    done = run(tmp_path)
    assert done.exit_code == 2
    assert "could not be compared: orders-0: no answer" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("not known: of 1 partition(s); no diff")
    finding(AuditReport([partition()], ["no copy of a", "no copy of b"], DAY))
    assert run(tmp_path).stdout.splitlines()[-1].startswith("not known: of 2 topic(s); no diff")
    failure = KafkaFailure(KafkaFault.UNREACHABLE, "source cluster: nobody answers", retriable=True)
    finding(failure)
    done = run(tmp_path)
    assert (done.exit_code, done.stderr) == (2, f"mirror-bridge: {failure}\n")


@pytest.mark.parametrize(
    ("output", "words"),
    [
        ("none/found.json", ": there is no folder "),
        ("none/found.parquet", ": there is no folder "),
        ("folder.json", " is a folder: give the name of a file"),
        ("file.parquet", " is a file, and .parquet is written as a folder: "),
        (
            "kept.parquet",
            " holds more than an audit (precious), and is not replaced: give another name",
        ),
        ("sealed/found.json", ": can't write into "),
        ("sealed/found.parquet", ": can't write into "),
    ],
)
def test_what_can_not_be_written_ends_the_command_before_the_audit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: str, words: str
) -> None:
    def audited(*_: object) -> AuditReport:
        raise AssertionError("it compares, and nobody will see the result")

    monkeypatch.setattr(audit, "run_audit", audited)
    (tmp_path / "folder.json").mkdir()
    (tmp_path / "file.parquet").touch()
    (tmp_path / "kept.parquet").mkdir()
    (tmp_path / "kept.parquet" / "precious").touch()
    sealed = tmp_path / "sealed"
    sealed.mkdir()
    real = tempfile.TemporaryFile

    def refusing(*, dir: Path) -> object:
        if dir == sealed:
            raise OSError(errno.EROFS, "Read-only file system")
        return real(dir=dir)

    monkeypatch.setattr(tempfile, "TemporaryFile", refusing)
    done = run(tmp_path, "--output", str(tmp_path / output))
    assert done.exit_code == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"mirror-bridge: --output {tmp_path / output}{words}")


def test_a_disk_that_is_full_in_the_end_leaves_what_was_there(
    tmp_path: Path, finding: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    finding(AuditReport([partition()], [], DAY))
    names = ("found.json", "found.parquet")
    for name in names:
        assert run(tmp_path, "--output", str(tmp_path / name)).exit_code == 0

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.name != "connector.json"}
    monkeypatch.setattr(os, "fsync", full)
    monkeypatch.setattr(parquet, "write_table", full)
    for name in names:
        done = run(tmp_path, "--output", str(tmp_path / name))
        assert (done.exit_code, done.stderr) == (
            2,
            f"mirror-bridge: can't write {tmp_path / name}: No space left on device\n",
        )
        assert done.stdout.splitlines()[-1] == "equal: 1,234 records in 1 partition(s)", "it is not lost"
    assert before.items() <= {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}.items()
    assert {path.name for path in tmp_path.iterdir()} == {*names, "connector.json"}, "nothing is left beside"


def test_a_folder_of_parquet_takes_the_place_of_an_older_one(
    tmp_path: Path, finding: Callable[..., None]
) -> None:
    folder = tmp_path / "found.parquet"
    for differences in (3, 0):
        some = [Difference(DifferenceKind.MISSING, offset, None) for offset in range(differences)]
        finding(AuditReport([partition(*some)], [], DAY))
        run(tmp_path, "--output", str(folder))
        found = parquet.read_table(folder / "differences")
        assert found.num_rows == differences
        assert found.column_names == list(DIFFERENCES)
    (row,) = parquet.read_table(folder / "summary").to_pylist()
    assert list(row) == list(SUMMARY)
    assert (row["same"], row["window_end"], row["not_compared"]) == (
        1234,
        datetime(1970, 1, 2, tzinfo=UTC),
        [("not copied yet", 5)],
    )


def test_parquet_without_pyarrow_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bridge.commands.audit_files.find_spec", lambda name: None)
    done = run(tmp_path, "--output", str(tmp_path / "found.parquet"))
    assert (done.exit_code, message("commands.no_pyarrow") in done.stderr) == (2, True)


def test_translate_without_pyarrow_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bridge.commands.translate.find_spec", lambda name: None)
    options = ("--input", str(tmp_path / "in.csv"), "--output", str(tmp_path / "out.csv"))
    done = run(tmp_path, *options, command="translate")
    line = "mirror-bridge: this needs pyarrow, which is not installed: pip install pyarrow\n"
    assert (done.exit_code, done.stderr) == (2, line)


@pytest.mark.parametrize("command", ["audit", "index"])
def test_spark_connect_is_for_copying(tmp_path: Path, command: str) -> None:
    done = run(tmp_path, command=command, spark_remote="sc://127.0.0.1")
    line = "this runs in a Spark of its own: spark.remote is for copying; give spark.master, or leave it out"
    assert (done.exit_code, line in done.stderr) == (2, True)


def test_a_session_of_spark_connect_is_refused() -> None:
    session = connect.SparkSession.__new__(connect.SparkSession)
    with pytest.raises(SourceRejected, match="needs a classic Spark session"):
        frames.audit_frames(session, None)  # type: ignore[arg-type]


@pytest.mark.parametrize(("command", "status"), [("audit", 2), ("index", 1)])
def test_a_spark_that_does_not_start_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, status: int
) -> None:
    master = "spark://127.0.0.1:1"
    none = run(tmp_path, command=command, spark_master=master, spark_authenticate="false")
    line = f"mirror-bridge: spark.master: no Spark master answers at {master}: Connection refused\n"
    assert (none.exit_code, none.stderr) == (status, line)

    error = "[JAVA_GATEWAY_EXITED] Java gateway process exited before sending its port number."

    def broken(*_: object) -> None:
        raise RuntimeError(error)

    monkeypatch.setattr(submitting, "start", broken)
    ended = run(tmp_path, command=command, spark_master="local[1]")
    said = message("spark.not_started", master="local[1,4]", error=error)
    assert (ended.exit_code, ended.stderr) == (status, said)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    no_java = run(tmp_path, command=command)
    assert no_java.exit_code == status
    assert no_java.stderr.startswith("mirror-bridge: there is no Java for Spark: ")


def test_a_terminal_shows_how_many_tasks_are_done(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stage:
        numCompletedTasks = 3

    class Tracker:
        def getActiveStageIds(self) -> list[int]:
            return [0]

        def getStageInfo(self, stage: int) -> Stage:
            return Stage()

    class Context:
        def statusTracker(self) -> Tracker:
            return Tracker()

    monkeypatch.setattr(audit, "POLL_SECONDS", 0.01)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    seen = list[str]()
    monkeypatch.setattr(Progress, "update", lambda self, task, **what: seen.append(repr(what)))
    with audit.progress_bar(Context()) as started:
        started(7)
        eventually(lambda: "{'completed': 3}" in seen, 60, what="the tasks that are done are shown")
    assert "{'total': 7}" in seen
