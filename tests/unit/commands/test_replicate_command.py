"""`mirror-bridge replicate` without a cluster and without Spark: bad configurations, how it ends, what it shows."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner, Result

from bridge.cli import app
from bridge.commands import replicate, views
from bridge.commands.views import LineView, LiveTable, LocalPublisher, rendered
from bridge.kafka import cluster as clusters
from bridge.model.copying import (
    Copied,
    CopySample,
    PipelineSpec,
    PipelineState,
    PipelineStatus,
    Progress,
)
from bridge.model.partition_states import Skip
from bridge.model.values import TopicPartition
from bridge.pipeline.driver import launch
from bridge.protocol.messages import CopyTotals
from connectors.base import CopyReport, Summary
from connectors.source import task
from tests.support.messages import message
from tests.unit.connectors.fake_clusters import FakeCluster, FakeClusters, Log

CONFIG = {
    "source.cluster.alias": "A",
    "target.cluster.alias": "B",
    "source.cluster.bootstrap.servers": "a:9092",
    "target.cluster.bootstrap.servers": "b:9092",
}
SECRET = "s3cret-s3cret"


def run(file: Path, *options: str) -> Result:
    done = CliRunner().invoke(app, ["replicate", "--config", str(file), *options], env={"COLUMNS": "80"})
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    assert "Traceback" not in done.output
    return done


def write(folder: Path, **more: object) -> Path:
    """A configuration as it is PUT to Connect; `more` with `_` for dots."""
    file = folder / "connector.json"
    given = {key.replace("_", "."): value for key, value in more.items()}
    file.write_text(json.dumps({"name": "mirror", "config": CONFIG | given}))
    return file


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("c.json", "{", "is not JSON"),
        ("c.json", "[]", "must be a JSON object"),
        ("c.json", '{"name": "m", "config": {"topics": ["a"]}}', "topics must be text"),
        ("c.json", "{}", "has no name for the connector: give --name"),
        ("c.properties", "topics=a\n", "has no name for the connector: give --name"),
        (
            "c.properties",
            "name=m\nconnector.class=x.Y\n",
            "connector.class is x.Y; it must be dev.mirrorbridge.BridgeMirrorSourceConnector or "
            "dev.mirrorbridge.BridgeMirrorSinkConnector; without the key it is the first",
        ),
        (
            "c.properties",
            "name=m\nconnector.class=BridgeMirrorHeartbeatConnector\n",
            "connector.class is BridgeMirrorHeartbeatConnector; it must be dev.mirrorbridge.",
        ),
        (
            "c.properties",
            "name=m\nconnector.class=BridgeMirrorSink\ntopics=a\ntopics.regex=b\n",
            "topics and topics.regex are mutually exclusive",
        ),
        ("c.properties", "name=m\nenabled=${file:/x:y}\n", "enabled refer to config providers"),
    ],
)
def test_files_that_can_not_be_used(tmp_path: Path, name: str, text: str, message: str) -> None:
    file = tmp_path / name
    file.write_text(text)
    done = run(file)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("mirror-bridge: ")
    assert message in done.stderr


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    done = run(tmp_path / "none.json")
    assert done.exit_code == 2
    assert "No such file" in done.stderr


def test_all_errors_at_once_and_no_secret(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        offset_lag_max="many",
        replication_factor=0,
        source_gap_policy="sometimes",
        spark_speculation="true",
        target_cluster_sasl_jaas_config=f"nonsense {SECRET}",
    )
    done = run(file)
    assert done.exit_code == 2
    for key in ("offset.lag.max", "replication.factor", "source.gap.policy", "spark.speculation"):
        assert key in done.stderr
    assert SECRET not in done.output


def test_what_is_switched_off_is_said(tmp_path: Path) -> None:
    done = run(write(tmp_path, enabled=False))
    assert done.exit_code == 2
    assert "enabled is false" in done.stderr


class FakePipeline:
    def __init__(self, spec: PipelineSpec, status: PipelineStatus) -> None:
        self.spec, self.status = spec, status
        self.stopped = False

    def assign(self, partitions: Sequence[Copied]) -> None:
        progress = {
            each.source: Progress(*each.source, each.target_topic, 10, 10, 10, 1000, 0.0, 0.0, 40, 40)
            for each in partitions
        }
        self.status = PipelineStatus(
            self.status.state, 1, progress, failure=self.status.failure, errors=self.status.errors
        )

    def release(self, topics: Sequence[str]) -> None:
        return None

    def skip(self, skip: Skip) -> None:
        raise AssertionError("nothing is skipped")

    def drain_samples(self) -> Sequence[CopySample]:
        return ()

    async def stop(self) -> None:
        self.stopped = True


class FakePipelines:
    """`outcome`: what a pipeline says from the beginning."""

    outcome = PipelineStatus(PipelineState.COPYING)

    def __init__(self) -> None:
        made.append(self)
        self.started: list[FakePipeline] = []

    def start(self, spec: PipelineSpec) -> FakePipeline:
        self.started.append(FakePipeline(spec, self.outcome))
        return self.started[-1]


made: list[FakePipelines] = []


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCluster]:
    """The source."""
    made.clear()
    source, target = FakeCluster(), FakeCluster()
    source.topic("orders", Log(), Log())

    class Clusters(FakeClusters):
        def __init__(self) -> None:
            super().__init__(source, target)

        async def close(self) -> None:
            assert self.released == [source, target]

    monkeypatch.setattr(clusters, "KafkaClusters", Clusters)
    monkeypatch.setattr(launch, "DriverPipelines", FakePipelines)
    monkeypatch.setattr(task, "WATCH_SECONDS", 0.01)
    monkeypatch.setattr(replicate, "REFRESH_SECONDS", 0.01)
    yield source
    assert all(each.stopped for one in made for each in one.started)


def outcome(monkeypatch: pytest.MonkeyPatch, state: PipelineState, **more: object) -> None:
    monkeypatch.setattr(FakePipelines, "outcome", PipelineStatus(state, **more))  # type: ignore[arg-type]


def test_once_it_ends_when_all_is_copied(
    cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome(monkeypatch, PipelineState.CAUGHT_UP)
    done = run(write(tmp_path), "--until-caught-up", "--log", str(tmp_path / "log"))
    assert (done.exit_code, done.stderr) == (0, "")
    assert "A -> B caught_up, 2 partition(s), lag 0" in done.stdout
    assert "20 records, 2.0 kB in all" in done.stdout
    (pipeline,) = made[0].started
    assert (pipeline.spec.until_caught_up, pipeline.spec.name) == (True, "mirror")
    assert (tmp_path / "log").exists()


def test_the_name_of_the_command_line_wins(
    cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome(monkeypatch, PipelineState.CAUGHT_UP)
    assert run(write(tmp_path), "--until-caught-up", "--name", "other").exit_code == 0
    assert made[0].started[0].spec.name == "other"


def test_once_without_a_topic_there_is_nothing_to_do(cluster: FakeCluster, tmp_path: Path) -> None:
    done = run(write(tmp_path, topics="nothing"), "--until-caught-up")
    assert done.exit_code == 0
    assert "0 partition(s)" in done.stdout


def test_once_with_something_left_over_is_no_success(
    cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome(monkeypatch, PipelineState.CAUGHT_UP, errors=["the target is away"])
    done = run(write(tmp_path), "--until-caught-up")
    assert done.exit_code == 1
    assert "not all is copied: the target is away" in done.stderr


@pytest.mark.parametrize("options", [[], ["--until-caught-up"]])
def test_what_is_permanent_ends_it_with_the_cause(
    cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    failure = "not authorized to read topic orders"
    outcome(monkeypatch, PipelineState.FAILED, failure=failure)
    done = run(write(tmp_path), *options)
    assert done.exit_code == 1
    assert done.stderr.splitlines()[-1] == f"mirror-bridge: {failure}"


@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(("options", "code"), [([], 0), (["--until-caught-up"], 130)])
def test_a_signal_ends_it_in_good_order(
    cluster: FakeCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    which: signal.Signals,
    options: list[str],
    code: int,
) -> None:
    stopped = threading.Event()
    shown = LineView.show

    def show(view: LineView, copying: LocalPublisher) -> None:
        shown(view, copying)
        if copying.totals is not None and not stopped.is_set():
            stopped.set()
            os.kill(os.getpid(), which)

    monkeypatch.setattr(LineView, "show", show)
    done = run(write(tmp_path), *options)
    assert (done.exit_code, done.stderr) == (code, "")
    assert "A -> B stopped" in done.stdout.splitlines()[-1]


def test_an_unexpected_error_is_a_line(
    cluster: FakeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("as it happens")

    monkeypatch.setattr(FakePipelines, "start", broken)
    done = run(write(tmp_path), "--log", str(tmp_path / "log"))
    assert done.exit_code == 1
    assert message("commands.unexpected", error="RuntimeError: as it happens") in done.stderr
    assert "Traceback" in (tmp_path / "log").read_text()


def test_a_log_that_can_not_be_written(cluster: FakeCluster, tmp_path: Path) -> None:
    done = run(write(tmp_path), "--log", "/no/such/folder/log")
    assert (done.exit_code, made) == (2, [])
    assert "can't write /no/such/folder/log" in done.stderr


# -- what is shown ----------------------------------------------------------------------------------


def row(topic: str, partition: int, lag: int = 0, latency: int = 40) -> Progress:
    end = 5 + lag if lag >= 0 else -1
    return Progress(topic, partition, f"A.{topic}", 5, end, 1000, 5000, 10.0, 2500.0, latency, latency)


def copying(*rows: Progress, **changes: object) -> LocalPublisher:
    of_copy = {"source": "A", "target": "B", "state": "copying", "partitions": len(rows), "lag": 3}
    totals = CopyTotals.model_validate(of_copy | changes)
    result = LocalPublisher()
    result.progress(CopyReport(totals, rows, whole=True))
    return result


def test_rows_that_come_change_and_go() -> None:
    result = copying(row("a", 0), row("a", 1))
    totals = CopyTotals(source="A", target="B", state="stopped")
    result.progress(CopyReport(totals, [row("a", 1, lag=9)], [TopicPartition("a", 0)]))
    assert result.rows == {TopicPartition("a", 1): row("a", 1, lag=9)}
    assert result.totals == totals


def test_topics_are_summed_up_and_those_with_most_lag_come_first() -> None:
    rows = [row("a", 0), row("a", 1, lag=7, latency=90), row("b", 0, lag=8), row("c", 0, lag=-1, latency=-1)]
    first, second, third = views.by_topic(rows)
    assert first.topic == "b"
    assert second == views.TopicFigures("a", "A.a", 2, 7, 2000, 20.0, 5000.0, 90)
    assert (third.lag, third.latency) == (None, None)


@pytest.mark.parametrize(
    ("value", "message"),
    [(0, "0 B"), (999, "999 B"), (999.99, "1.0 kB"), (75_750_060, "75.8 MB"), (5e15, "5000.0 TB")],
)
def test_sizes(value: float, message: str) -> None:
    assert views.size(value) == message


@pytest.mark.parametrize(
    ("ms", "message"),
    [(None, "-"), (48, "48 ms"), (3_250, "3.2 s"), (90_000, "1.5 min"), (86_400_000, "24.0 h")],
)
def test_durations(ms: int | None, message: str) -> None:
    assert views.duration(ms) == message


def test_sums_in_a_line() -> None:
    totals = CopyTotals(
        source="A",
        target="B\x1b[2J",
        state="copying",
        partitions=12,
        lag=5200,
        records=4_000_000,
        bytes=480_000_000,
        record_rate=631_250.5,
        byte_rate=75_750_060.0,
        replication_latency_ms=48,
        gaps={"truncated": 2},
    )
    said = message(
        "commands.progress",
        source="A",
        target="B\\x1b[2J",
        state="copying",
        partitions=12,
        lag="5,200",
        records_rate="631,250",
        bytes_rate="75.8 MB",
        records="4,000,000",
        bytes="480.0 MB",
    )
    assert views.sums(totals) == f"{said}, age at commit 48 ms, 2 gap(s)"


def test_lines_come_now_and_then_and_what_is_wrong_at_once_and_once(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    view, result = LineView(), copying(row("a", 0))
    result.summary(Summary(errors=("away",), gaps=("gap in a-0",)))
    view.show(result)
    view.show(result)
    assert capsys.readouterr() == ("", "".join(f"mirror-bridge: {line}\n" for line in ("away", "gap in a-0")))
    now[0] += views.LINE_SECONDS
    view.show(result)
    view.show(result)
    assert capsys.readouterr().out.count("A -> B copying") == 1
    view.close(result)
    assert capsys.readouterr().out.count("A -> B copying") == 1


def text(copying: LocalPublisher, most: int) -> str:
    console = Console(width=120, record=True, file=open(os.devnull, "w"))  # noqa: SIM115
    with console.file:
        console.print(rendered(copying, most))
    return console.export_text()


def test_a_picture_fits_its_terminal() -> None:
    result = copying(*(row(f"topic-{number}", 0, lag=number) for number in range(30)))
    result.summary(Summary(errors=("the target is \x1b[2Jaway",)))
    shown = text(result, 11)
    assert len(shown.splitlines()) <= 11 + 8
    assert "topic-29" in shown
    assert "topic-19 " not in shown
    assert "and 20 more topic(s) with less lag" in shown
    assert "the target is \\x1b[2Jaway" in shown
    assert text(LocalPublisher(), 10).strip() == "looking for topics"


def test_a_live_table_ends_with_the_last_word() -> None:
    console = Console(width=120, record=True, force_terminal=True, file=open(os.devnull, "w"))  # noqa: SIM115
    with console.file:
        view = LiveTable(console)
        view.show(copying(row("a", 0)))
        view.close(copying(row("a", 0, lag=77)))
    assert "77" in console.export_text()


def test_reset_is_for_what_copies(tmp_path: Path) -> None:
    """The configuration of another connector of ours, and of nobody's."""
    file = tmp_path / "c.properties"
    for name in ("BridgeMirrorHeartbeatConnector", "x.Y"):
        file.write_text(f"name=m\nconnector.class={name}\n")
        done = CliRunner().invoke(app, ["reset", "m", "--config", str(file), "--to", "earliest"])
        assert (done.exit_code, f"connector.class is {name}; it must be" in done.stderr) == (2, True), (
            done.output
        )
