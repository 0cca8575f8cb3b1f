"""Registering with a session."""

from __future__ import annotations

from typing import Any

import pytest

from bridge.spark import register, registering
from bridge.spark.rejected import SourceRejected


def test_without_pyarrow_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registering, "find_spec", lambda name: None)
    session: Any = object()
    with pytest.raises(SourceRejected, match="needs pyarrow, which is not installed: pip install pyarrow"):
        register(session)
