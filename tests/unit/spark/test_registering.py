"""Registering with a session."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import pytest

from bridge.errors import ConfigError, ConfigRejected
from bridge.spark import register, rejected, translate_offsets
from bridge.spark.internal_topics import MirrorRuns
from bridge.spark.records import MirrorRecords
from bridge.spark.rejected import SourceRejected, in_one_line, verify_streams
from tests.support.messages import message_pattern


def test_without_pyarrow_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rejected, "find_spec", lambda name: None)
    session: Any = object()
    for call in (lambda: register(session), lambda: translate_offsets(session, {})):
        with pytest.raises(SourceRejected, match=message_pattern("commands.no_pyarrow")):
            call()


def test_streams_need_a_newer_spark_than_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    verify_streams()
    monkeypatch.setattr(rejected, "find_spec", lambda name: None)
    monkeypatch.setattr(rejected, "version", lambda name: "4.1.3")
    with pytest.raises(SourceRejected, match=message_pattern("spark.old_pyspark", version="4.1.3")):
        verify_streams()


def test_a_configuration_that_is_wrong_on_an_executor_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HIDE_TRACEBACK", "0")
    errors = [ConfigError("a", "a is wrong"), ConfigError("b", "b too")]
    with (
        pytest.raises(SourceRejected, match=r"^mirror-groups: a is wrong; b too$"),
        in_one_line("mirror-groups"),
    ):
        raise ConfigRejected(errors)
    assert os.environ["SPARK_HIDE_TRACEBACK"] == "1"


def test_headers_are_a_column_unless_they_are_left_out() -> None:
    options = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "orders"}
    columns = [
        MirrorRecords({**options, **more}).schema().names for more in ({}, {"includeHeaders": "false"})
    ]
    assert [name for name in columns[0] if name not in columns[1]] == ["headers"]
    with pytest.raises(SourceRejected, match="includeHeaders is for mirror-records only"):
        MirrorRuns({**options, "includeHeaders": "false"}).schema()


def test_positions_of_a_stream_are_translated_by_batches() -> None:
    stream: Any = SimpleNamespace(isStreaming=True)
    with pytest.raises(SourceRejected, match="call it in foreachBatch"):
        translate_offsets(stream, {})
