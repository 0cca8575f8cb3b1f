"""What is wrong with what an audit is asked for, in the words of whoever asks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from bridge.errors import ConfigRejected
from bridge.spark.auditing.options import OF_THE_COMMAND, read_options

CONFIG = {
    "source.cluster.alias": "A",
    "target.cluster.alias": "B",
    "source.cluster.bootstrap.servers": "a:9092",
    "target.cluster.bootstrap.servers": "b:9092",
}


def test_errors_name_arguments_as_they_were_given() -> None:
    with pytest.raises(ConfigRejected) as in_python:
        read_options(CONFIG, topics="(", since="2026-11-22", until="soon", sample=2, window="x")
    with pytest.raises(ConfigRejected) as by_command:
        read_options(
            CONFIG, topics="(", since="2026-11-22", until="soon", sample=2, window="x", names=OF_THE_COMMAND
        )
    assert [each.key for each in in_python.value.errors] == ["topics", "until", "sample", "window"]
    assert [each.key for each in by_command.value.errors] == ["--topics", "--to", "--sample", "--window"]
    for rejected in (in_python.value, by_command.value):
        assert all(each.message.startswith(each.key) for each in rejected.errors)


def test_times_may_be_datetimes() -> None:
    since = datetime(2026, 11, 22, 21, tzinfo=timezone(timedelta(hours=1)))
    options = read_options(CONFIG, since=since, until=datetime(2026, 11, 23))
    assert options.since == int(datetime(2026, 11, 22, 20, tzinfo=UTC).timestamp() * 1000)
    assert options.until == int(datetime(2026, 11, 23, tzinfo=UTC).timestamp() * 1000)
    with pytest.raises(ConfigRejected) as rejected:
        read_options(CONFIG, since=5, until=since)  # type: ignore[arg-type]
    assert [each.key for each in rejected.value.errors] == ["since"]
