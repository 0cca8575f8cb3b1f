"""Which task this process runs, and what tasks tell the driver."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from pyspark import TaskContext

from bridge.errors import KafkaFailure, KafkaFault
from bridge.spark.rejected import SourceRejected
from bridge.spark.writing import tasks
from bridge.spark.writing.commits import SinkTask
from bridge.spark.writing.options import SinkOptions

MICRO_BATCH = {"sql.streaming.queryId": "query", "streaming.sql.batchId": "7"}


class Context:
    """Of a task of Spark's, as far as the sink asks."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._properties = properties

    def getLocalProperty(self, key: str) -> str | None:
        return self._properties.get(key)

    def partitionId(self) -> int:
        return 3


def inside(monkeypatch: pytest.MonkeyPatch, context: Context | None) -> None:
    monkeypatch.setattr(TaskContext, "get", classmethod(lambda _: context))


def test_a_task_of_a_micro_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    inside(monkeypatch, Context({**MICRO_BATCH, "__is_continuous_processing": "false"}))
    assert tasks.stream_task() == SinkTask("query", 3, 7)
    assert tasks.batch_task("job") == SinkTask("job", 3, 0)


@pytest.mark.parametrize(
    "context",
    [
        None,
        Context({}),
        Context({"sql.streaming.queryId": "query"}),
        Context({**MICRO_BATCH, "__is_continuous_processing": "true"}),
    ],
)
def test_a_task_without_an_epoch_is_refused(monkeypatch: pytest.MonkeyPatch, context: Context | None) -> None:
    inside(monkeypatch, context)
    with pytest.raises(SourceRejected, match="in micro-batches only"):
        tasks.stream_task()


def test_a_task_without_rows_asks_nobody() -> None:
    unreachable = SinkOptions({"bootstrap.servers": "127.0.0.1:1"})
    for wrote in (
        tasks.write_epoch_task(unreachable, SinkTask("query", 0), iter([])),
        tasks.write_batch_task(unreachable, SinkTask("job", 0), iter([]), 0),
    ):
        assert (wrote.written, wrote.prepared) == ((0, 0), None)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (KafkaFault.FENCED, "somebody else has taken over transactional id mirror-records-query-3"),
        (KafkaFault.RECORD_TOO_LARGE, r"\(kafka.batch.size\), is larger than the topic's max.message.bytes"),
        (KafkaFault.NOT_AUTHORIZED, "^planted$"),
    ],
)
def test_errors_say_what_to_do(fault: KafkaFault, words: str) -> None:
    failed = KafkaFailure(fault, "planted", retriable=False)
    with pytest.raises(KafkaFailure, match=words):
        raise tasks.explained(failed, SinkOptions({}), SinkTask("query", 3, 7))
