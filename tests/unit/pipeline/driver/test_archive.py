"""What is packed for executors on other machines."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridge.pipeline.driver.archive import files


def test_arrow_and_users_modules_are_packed_for_transforms_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_module.py").write_text("import own_package.inner\n\ndef f(batch):\n    return batch\n")
    (tmp_path / "own_package").mkdir()
    (tmp_path / "own_package" / "__init__.py").touch()
    (tmp_path / "own_package" / "inner.py").touch()
    (tmp_path / "own_package" / "data.txt").touch()
    (tmp_path / "own_login.py").touch()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    plain = {name for _, name in files()}
    assert {"bridge/pipeline/slices/running.py", "numba/__init__.py", "regex/__init__.py"} <= plain
    assert not [name for name in plain if name.startswith(("pyarrow", "msgspec", "own_"))]
    more = {name for _, name in files(["own_module.f", "bridge.transforms.mask_fields"], ["own_login"])}
    assert more > plain
    assert {"own_login.py", "own_module.py", "own_package/inner.py", "own_package/data.txt"} <= more
    assert {"pyarrow/__init__.py", "msgspec/__init__.py"} <= more
    assert not [name for name in more - plain if not name.startswith(("pyarrow", "msgspec", "own_"))]
