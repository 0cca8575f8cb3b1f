"""Where Spark's Python workers import from, and how they end."""

from __future__ import annotations

import sys
from pathlib import Path
from socket import socket

import pyspark
import pytest
from pyspark import daemon

from bridge.pipeline.slices.workers import run_daemon, without_zips

SITE = Path(pyspark.__file__).parents[1]


def zips(lib: Path) -> list[str]:
    return [str(lib / "pyspark.zip"), str(lib / "py4j-0.10.9.9-src.zip")]


def test_an_installed_pyspark_is_not_imported_from_its_own_zips() -> None:
    lib = SITE / "pyspark" / "python" / "lib"
    assert sorted(map(str, lib.glob("*.zip"))) == sorted(zips(lib))
    kept = ["", str(lib / "no-zip"), str(SITE)]
    assert without_zips([*kept[:1], *zips(lib), *kept[1:]]) == kept


def test_a_python_that_has_no_pyspark_of_its_own_imports_it_from_zips() -> None:
    kept = ["", *zips(SITE / "pyspark" / "python" / "lib"), "/archive/site-packages"]
    assert without_zips(kept) == kept


def test_a_distribution_of_spark_has_its_modules_in_zips_only(tmp_path: Path) -> None:
    kept = ["", "a.zip", *zips(tmp_path / "spark" / "python" / "lib"), str(tmp_path)]
    assert without_zips(kept) == kept


@pytest.mark.parametrize("error", [BrokenPipeError(), ConnectionResetError()])
def test_a_worker_whose_jvm_is_gone_ends_in_silence(
    monkeypatch: pytest.MonkeyPatch, error: ConnectionError
) -> None:
    ends: list[int] = []

    def begun(_sock: object, _authenticated: bool) -> int:
        raise error

    monkeypatch.setattr(daemon, "worker", begun)
    with socket() as unused:
        monkeypatch.setattr(
            daemon, "manager", lambda: ends.append(daemon.worker(unused, authenticated=False))
        )
        monkeypatch.setattr(sys, "path", list(sys.path))
        run_daemon()
    assert ends == [1]
