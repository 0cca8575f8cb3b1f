"""A mirror of one topic that stock and ours take over from each other."""

from __future__ import annotations

import json
from typing import Any

from typer.testing import CliRunner

from bridge.cli import app
from bridge.model.values import CopyId, LogRecord, TopicPartition
from bridge.translation.runs.partition_runs import PartitionRuns
from bridge.translation.runs.run_evidence import read_runs
from bridge.translation.runs.runs import OffsetRun
from tests.e2e.control import our_control
from tests.e2e.copying import SHARED_SPARK
from tests.e2e.flow import Flow
from tests.support import (
    bounds,
    create_topic,
    eventually,
    exists,
    read,
    stock_config,
    unique,
)
from tests.support.waits import WAIT

PARTITIONS = 3


class Mirror:
    """One connector by its name, stock's or ours in turn, of one topic."""

    def __init__(self, unique_flow: Flow, **more: object) -> None:
        """`more`: settings of both."""
        self._mine, self._rest = unique_flow, unique_flow.worker.rest
        self.name, self.topic = unique("taken-source"), unique("taken")
        create_topic(unique_flow.source.bootstrap, self.topic, PARTITIONS)
        settings = {"topics": self.topic, "refresh_topics_interval_seconds": 1, **more}
        self._stock = stock_config("Source", unique_flow.source, unique_flow.target, **settings)
        self._ours = our_control("Source", unique_flow, **{**SHARED_SPARK, **settings})

    @property
    def config(self) -> dict[str, str]:
        """Of our connector."""
        return self._ours

    def stock(self) -> None:
        self._put(self._stock)

    def ours(self) -> None:
        self._put(self._ours)

    def stop(self) -> None:
        self._rest.stop(self.name)
        self._rest.wait_state(self.name, "STOPPED", tasks=0)

    def delete(self) -> None:
        if self.name in self._rest.connectors():
            self._rest.delete(self.name)

    def copies_on(self) -> None:
        """Until all is on the target that is on the source now."""
        ends = {at: end for at, (_, end) in bounds(self._mine.source.bootstrap, self.topic).items()}

        def there() -> None:
            assert all(len(self.copies(at)) >= end for at, end in ends.items())

        eventually(there, WAIT, what=f"{self.topic} is copied to {ends}", watched=self._mine.watched)

    def copies(self, partition: int) -> list[Any]:
        remote = self._mine.remote(self.topic)
        if not exists(self._mine.target.bootstrap, remote):
            return []
        result = read(self._mine.target.bootstrap, remote, partition, committed_only=True)
        return [each.content for each in result]

    def places(self, partition: int) -> list[int]:
        """The offsets of all copies."""
        remote = self._mine.remote(self.topic)
        return [
            each.offset for each in read(self._mine.target.bootstrap, remote, partition, committed_only=True)
        ]

    def originals(self, partition: int) -> list[Any]:
        return [each.content for each in read(self._mine.source.bootstrap, self.topic, partition)]

    def hand_back(self) -> tuple[int, list[dict[str, Any]], str]:
        """The command's exit status, its rows, and what it says beside."""
        url = self._mine.worker.rest.url
        done = CliRunner().invoke(app, ["hand-back", self.name, "--connect-url", url, "-o", "json"])
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done.exit_code, json.loads(done.stdout or "[]"), done.stderr

    def handed_back(self) -> list[dict[str, Any]]:
        """The rows, once the service has stopped copying."""

        def done() -> list[dict[str, Any]]:
            code, rows, message = self.hand_back()
            assert code == 0, message
            return rows

        return eventually(done, WAIT, what=f"{self.name} is handed back", watched=self._mine.watched)

    def stored(self) -> dict[int, int]:
        """What Connect keeps, by partition."""
        result = self._rest.offsets(self.name)
        assert all(
            (each["partition"]["cluster"], each["partition"]["topic"]) == (self._mine.source.name, self.topic)
            for each in result
        )
        return {each["partition"]["partition"]: each["offset"]["offset"] for each in result}

    def runs(self, partition: int) -> list[OffsetRun]:
        runs_topic = f"mm2-offset-runs.{self._mine.source.name}.internal"
        records = [
            LogRecord(each.offset, 0, each.key, each.value)
            for each in read(self._mine.target.bootstrap, runs_topic, committed_only=True)
        ]
        copy = CopyId(TopicPartition(self.topic, partition), self._mine.remote(self.topic))
        return list(read_runs(records).get(copy, PartitionRuns()).runs)

    def _put(self, config: dict[str, str]) -> None:
        self._rest.put(self.name, config)
        self._rest.resume(self.name)
        self._rest.wait_running(self.name)
