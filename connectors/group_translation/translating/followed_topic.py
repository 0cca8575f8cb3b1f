"""Follows an internal topic, record by record."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from bridge.errors import KafkaFault
from bridge.mm2.records import SchemaError
from bridge.model.state_records.unreadable import UnreadableRecords
from bridge.model.values import LogRecord, LogRecords, Side
from connectors.cluster_away import ClusterAway, ask
from connectors.ports import Tail

log = logging.getLogger(__name__)

_TOPIC_FAULTS = (KafkaFault.UNKNOWN_TOPIC, KafkaFault.NOT_AUTHORIZED)


class TopicFollower:
    """Reads a topic to its end, again and again. `apply` gets every record in the log's order, `restart` is called
    before the first one of a topic that was created again or is gone. A record that `apply` can't decode (SchemaError)
    is skipped alone (stock loses the rest of the batch, and all that follows a null value): of such a record `apply`
    keeps at most that it has replaced an earlier one."""

    def __init__(
        self,
        side: Side,
        tail: Tail,
        apply: Callable[[LogRecord], None],
        restart: Callable[[], None],
        timeout_ms: int,
        *,
        apply_all: Callable[[LogRecords], bool] | None = None,
        optional: bool = False,
    ) -> None:
        """`apply_all` applies what was read together, if it can: False has each applied by itself. `optional`: it is no
        error that there is no such topic."""
        self._side, self._tail, self._timeout_ms = side, tail, timeout_ms
        self._apply, self._restart = apply, restart
        self._apply_all, self._optional = apply_all, optional
        self._unreadable = UnreadableRecords([tail.topic])
        self.remark: str | None = None
        """Why the topic can't be read now."""
        self.missing = False
        """Whether there is no such topic."""

    @property
    def unreadable(self) -> Mapping[str, int]:
        """Records that were left out, by topic."""
        return self._unreadable.counts

    async def follow(self) -> None:
        """Reads up to the end of the log as it is now. Raises ClusterAway when the cluster does not answer; a topic
        that is missing or forbidden is a remark."""
        topic = self._tail.topic
        try:
            while True:
                part = await ask(self._side, self._tail.read(), self._timeout_ms)
                if part.restarted:
                    self._start_over()
                if self._apply_all is None or not self._apply_all(part.records):
                    self._apply_each(part.records)
                self._unreadable.add_batches(topic, part.unreadable)
                if part.at_end:
                    break
        except ClusterAway as away:
            if away.failure.fault not in _TOPIC_FAULTS:
                raise
            self.missing = away.failure.fault is KafkaFault.UNKNOWN_TOPIC
            if self.missing:
                self._start_over()
            if self.missing and self._optional:
                self._set_remark(None)
                return
            self._set_remark(f"{topic} on the {self._side.value} cluster can't be read: {away.failure}")
        else:
            self.missing = False
            self._set_remark(None)
        for line in self._unreadable.drain_lines():
            log.warning("%s", line)

    def _apply_each(self, records: LogRecords) -> None:
        for record in records:
            try:
                self._apply(record)
            except SchemaError as problem:
                self._unreadable.add(self._tail.topic, record.offset, str(problem))

    def _start_over(self) -> None:
        self._unreadable.restarted(self._tail.topic)
        self._restart()

    def _set_remark(self, remark: str | None) -> None:
        if remark is not None and remark != self.remark:
            log.warning(remark)
        self.remark = remark
