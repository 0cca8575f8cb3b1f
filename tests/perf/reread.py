"""Records that groups read twice after a failover, and the file of `accuracy`'s figures, which is of two benchmarks:
one whose source lives, and one whose source is dead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from confluent_kafka import Consumer, KafkaError
from confluent_kafka import TopicPartition as LibTopicPartition

from tests.perf.results import rows_of, write
from tests.support import unique

ALIVE, DEAD = "alive", "dead"
SUM = "sum"


def lags(most: int, count: int) -> list[int]:
    """So many: 0, and up to `most` in even steps of their logarithm, for most groups are near the end."""
    steps = {round(most ** (number / (count - 2))) for number in range(count - 1)}
    step = 2
    while len(steps) < count - 1:  # small ones round to the same number
        steps.add(step)
        step += 1
    return [0, *sorted(steps)]


def first_records(bootstrap: str, topic: str, offsets: Mapping[int, int], end: int) -> dict[int, int]:
    """For each lag the source record that a consumer at its offset of the topic reads first: its key tells which. `end`
    where there is none."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": unique("reader"),
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "max.partition.fetch.bytes": 65536,
            "fetch.wait.max.ms": 10,
        }
    )
    collected = {}
    for lag, offset in offsets.items():
        consumer.assign([LibTopicPartition(topic, 0, offset)])
        message = consumer.poll(30)
        assert message is not None
        error = message.error()
        if error is None:
            key = message.key()
            assert isinstance(key, bytes)
            collected[lag] = int(key)
        else:
            assert error.code() == KafkaError._PARTITION_EOF, error
            collected[lag] = end
    consumer.close()
    return collected


def keep(source: str, rows: Sequence[Mapping[str, object]]) -> None:
    """These rows in place of what was measured of the kind before. The row of lag `sum` has what counts."""
    others = [row for row in rows_of("accuracy") if row.get("source") != source]
    every = [*others, *({"source": source, **row} for row in rows)]
    sums = [row for row in every if row["lag"] == SUM]
    # One is added to both sides: nothing read twice would make the ratio infinite.
    write(
        "accuracy",
        ours=1 + sum(int(str(row["ours_reread"])) for row in sums),
        other=1 + sum(int(str(row["stock_reread"])) for row in sums),
        unit="records read twice, of 40 groups, + 1",
        better="less",
        rows=every,
    )
