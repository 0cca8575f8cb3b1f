"""Where Spark's Python workers import from."""

from __future__ import annotations

from pathlib import Path

import pyspark

from bridge.pipeline.workers import without_zips


def test_an_installed_pyspark_is_not_imported_from_its_own_zips() -> None:
    zips = [str(each) for each in (Path(pyspark.__file__).parent / "python" / "lib").glob("*.zip")]
    assert {Path(each).name.partition("-")[0] for each in zips} == {"pyspark.zip", "py4j"}
    assert without_zips(["", *zips, "/opt/site-packages"]) == ["", "/opt/site-packages"]


def test_a_distribution_of_spark_has_its_modules_in_zips_only(tmp_path: Path) -> None:
    lib = tmp_path / "pyspark" / "python" / "lib"
    kept = ["", "a.zip", str(lib / "pyspark.zip"), str(lib / "py4j-0.10.9.9-src.zip"), str(tmp_path)]
    assert without_zips(kept) == kept
