"""Registering with a session."""

from __future__ import annotations

from typing import Any

import pytest

from bridge.spark import register, registering, rejected
from bridge.spark.rejected import SourceRejected, verify_streams


def test_without_pyarrow_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registering, "find_spec", lambda name: None)
    session: Any = object()
    with pytest.raises(SourceRejected, match="needs pyarrow, which is not installed: pip install pyarrow"):
        register(session)


def test_streams_need_a_newer_spark_than_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    verify_streams()
    monkeypatch.setattr(rejected, "find_spec", lambda name: None)
    monkeypatch.setattr(rejected, "version", lambda name: "4.1.3")
    with pytest.raises(SourceRejected, match=r"streams need PySpark 4\.2 or newer; this is 4\.1\.3"):
        verify_streams()
