"""Clusters by their settings: equal settings share one set of clients, closed when the last user releases them."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from bridge.kafka.cluster import KafkaCluster
from bridge.kafka.config.settings import client_settings
from bridge.model.values import Side


class KafkaClusters:
    """The Clusters port. For use in one event loop."""

    def __init__(self) -> None:
        # The library logs each failed attempt as an error; a round logs once what lasts.
        logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
        self._open: dict[str, tuple[KafkaCluster, int]] = {}

    def open(self, side: Side, props: Mapping[str, str]) -> KafkaCluster:
        settings = client_settings(side, props)
        cluster, users = self._open.get(settings.fingerprint) or (KafkaCluster(settings), 0)
        self._open[settings.fingerprint] = (cluster, users + 1)
        return cluster

    async def release(self, cluster: object) -> None:
        for key, (shared, users) in list(self._open.items()):
            if shared is not cluster:
                continue
            if users > 1:
                self._open[key] = (shared, users - 1)
            else:
                del self._open[key]
                await shared.close()

    async def close(self) -> None:
        while self._open:
            _, (cluster, _) = self._open.popitem()
            await cluster.close()
