"""`mirror-bridge mirror` as far as it needs no cluster: what is wrong with a file is said, and nothing starts."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from bridge.cli import app
from bridge.commands.mirror import named_clusters, unknown_keys
from bridge.dedicated.config.reading import read_plan
from bridge.kafka.config.settings import StaticClientCheck

FILE = """
clusters = A, B
A.bootstrap.servers = localhost:1
B.bootstrap.servers = localhost:2
A->B.enabled = true
"""


def mirror(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["mirror", *arguments])


def written(folder: Path, text: str) -> str:
    path = folder / "mm2.properties"
    path.write_text(text)
    return str(path)


def test_all_errors_of_a_file_come_at_once(tmp_path: Path) -> None:
    wrong = FILE + "A->B.offset.lag.max = soon\nA->B.emit.checkpoints.interval.seconds = often\n"
    result = mirror(written(tmp_path, wrong + "B.session.timeout.ms = soon\n"))
    assert result.exit_code == 2
    assert "B.session.timeout.ms" in result.output
    assert "A->B.offset.lag.max" in result.output
    assert "A->B.emit.checkpoints.interval.seconds" in result.output
    assert "Traceback" not in result.output


def test_worker_keys_are_checked_too(tmp_path: Path) -> None:
    result = mirror(written(tmp_path, FILE + "B.session.timeout.ms = soon\n"))
    assert result.exit_code == 2
    assert "B.session.timeout.ms" in result.output


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    result = mirror(str(tmp_path / "nowhere.properties"))
    assert result.exit_code == 2
    assert "nowhere.properties" in result.output


def test_a_cluster_that_the_file_does_not_have(tmp_path: Path) -> None:
    result = mirror(written(tmp_path, FILE), "--clusters", "B,C")
    assert result.exit_code == 2
    assert "C" in result.output


def test_settings_are_those_of_serve(tmp_path: Path) -> None:
    result = mirror(written(tmp_path, FILE), "--host", "0.0.0.0")
    assert result.exit_code == 2
    assert "auth_token_file" in result.output


def test_a_file_names_the_credentials_of_its_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its API may be for others; the file is that of whoever runs the node."""
    monkeypatch.setenv("MIRROR_BRIDGE_AUTH_TOKEN", "0123456789abcdef0123456789abcdef")
    store = tmp_path / "nowhere.p12"
    text = FILE + f"A.security.protocol = SSL\nA.ssl.keystore.location = {store}\n"
    result = mirror(written(tmp_path, text))
    assert result.exit_code == 2
    assert str(store) in result.output
    assert "MIRROR_BRIDGE_ALLOWED_FOLDERS" not in result.output


@pytest.mark.parametrize(
    ("option", "more", "expected"),
    [
        (None, [], None),
        (["B"], [], ["B"]),
        (["B,C"], [], ["B", "C"]),
        (["B"], ["C", "D"], ["B", "C", "D"]),
        (["B, C", "D"], [], ["B", "C", "D"]),
    ],
)
def test_clusters_as_stocks_flag_takes_them(
    option: list[str] | None, more: list[str], expected: list[str] | None
) -> None:
    assert named_clusters(option, more) == expected


def test_a_second_file_is_an_error(tmp_path: Path) -> None:
    result = mirror(written(tmp_path, FILE), "another.properties")
    assert result.exit_code == 2
    assert "another.properties" in result.output


def test_strict_refuses_what_stock_passes_over(tmp_path: Path) -> None:
    """A misspelt key of a flow, a cluster that the file does not have, and a key that nobody knows."""
    wrong = "A->B.topic = x\nA->C.enabled = true\nzzz = 1\n"
    result = mirror(written(tmp_path, FILE + wrong), "--strict")
    assert result.exit_code == 2
    for told in ("did you mean 'A->B.topics'?", "C is not among the clusters (A, B)", "'zzz'"):
        assert told in result.output
    # What means something to stock alone is none of it.
    plan = read_plan(
        Path(written(tmp_path, FILE + "offset.storage.topic = f\n")), clients=StaticClientCheck()
    )
    assert unknown_keys(plan) == []
