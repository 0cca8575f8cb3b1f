"""Logs outages: one line when a cluster stops answering, however many connectors need it, one line for anything else
that fails, and one line when it is over."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from bridge.errors import AWAY, KafkaFailure
from bridge.logs.changes import Changes
from bridge.model.cluster_names import cluster_name
from bridge.model.values import Side

log = logging.getLogger(__name__)

ROUND = "round"
_CLUSTERS = Changes(log, "does not answer", "answers again")
_ROUNDS = Changes(log, "failed, retrying", "recovered")


class Outages:
    """The outages that one connector notices; a cluster's outage is shared by all connectors of the process. `duty`
    names what the connector does again and again, such as its rounds."""

    def __init__(self, name: str, props: Mapping[str, str | None]) -> None:
        self._name = name
        self._clusters = {side: cluster_name(side, props) for side in Side}

    def cluster_failed(self, side: Side, failure: KafkaFailure, duty: str = ROUND) -> None:
        """Logs that a cluster as a whole refused or did not answer."""
        if failure.fault in AWAY:
            _CLUSTERS.failed(self._clusters[side], str(failure), self._who(duty), connector=self._name)
        else:
            self.failed(f"{self._clusters[side]}: {failure}", duty)

    def failed(self, why: str, duty: str = ROUND) -> None:
        _ROUNDS.failed(self._who(duty), why, connector=self._name)

    def well(self, duty: str = ROUND, sides: Sequence[Side] = tuple(Side)) -> None:
        """Logs the end of outages: the duty succeeded, and these clusters answered."""
        for side in sides:
            _CLUSTERS.succeeded(self._clusters[side], self._who(duty), connector=self._name)
        _ROUNDS.succeeded(self._who(duty), connector=self._name)

    def answered(self, side: Side, duty: str = ROUND) -> None:
        _CLUSTERS.succeeded(self._clusters[side], self._who(duty), connector=self._name)

    def left(self, duty: str = ROUND) -> None:
        """Forgets the duty: it is not done any more."""
        _CLUSTERS.forget(self._who(duty))

    def _who(self, duty: str) -> str:
        return f"{duty} of {self._name}"
