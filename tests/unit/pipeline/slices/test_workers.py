"""Where Spark's Python workers import from."""

from __future__ import annotations

from pathlib import Path

import pyspark

from bridge.pipeline.slices.workers import without_zips

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
