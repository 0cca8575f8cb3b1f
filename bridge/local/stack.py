"""The local stack: source cluster A, target cluster B, Connect workers on B, the bridge service.

    with LocalStack(Path(".local/demo")) as stack:
        worker = stack.worker()
        worker.rest.put("groups", config | {"bridge.url": stack.service().url})

It starts only what is asked for, and ends everything with the `with`: also on Ctrl-C, on SIGTERM and when this
interpreter is killed (processes.py). Logs stay in the directory.
"""

from __future__ import annotations

import ssl
from collections import ChainMap
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from bridge.local.archives import spark_environment
from bridge.local.broker import Broker
from bridge.local.clusters import Cluster
from bridge.local.jars import DEFAULT_KAFKA, kafka_jars
from bridge.local.processes import Watched, unwinding_on_signals
from bridge.local.security import Security
from bridge.local.service import BridgeService, unpack_shim
from bridge.local.worker import ConnectWorker

SOURCE, TARGET = "A", "B"
"""Names of the two clusters, and the aliases under which demo and tests mirror them."""


class LocalStack:
    """Clusters, workers and services by name, each started when first asked for."""

    def __init__(
        self,
        directory: Path,
        *,
        version: str = DEFAULT_KAFKA,
        clusters: Mapping[str, Cluster] | None = None,
        broker_properties: Mapping[str, str] | None = None,
        broker_heap: str = "512m",
        security: Security | None = None,
    ) -> None:
        """`security`: of A and B, and of other clusters that are asked for by name alone."""
        self.directory = directory.absolute()
        self._version = version
        self._clusters: MutableMapping[str, Cluster] = dict(clusters or {})
        self._started: set[str] = set()
        self._broker_properties = dict(broker_properties or {})
        self._broker_heap = broker_heap
        self._security = security
        self._workers: MutableMapping[str, ConnectWorker] = {}
        self._services: MutableMapping[str, BridgeService] = {}
        self._plugins: Path | None = None
        self._whole: LocalStack | None = None
        self._closing = ExitStack()

    def __enter__(self) -> Self:
        self._closing.enter_context(unwinding_on_signals())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends everything, last started first, whatever fails on the way."""
        self._closing.close()

    @contextmanager
    def part(self) -> Iterator[LocalStack]:
        """This stack once more, for the time of the block: what is started in it, beside what runs already, ends with
        it."""
        part = LocalStack(
            self.directory,
            version=self._version,
            broker_properties=self._broker_properties,
            broker_heap=self._broker_heap,
            security=self._security,
        )
        part._whole = self
        part._clusters = ChainMap({}, self._clusters)
        part._started = set(self._started)
        part._workers = ChainMap({}, self._workers)
        part._services = ChainMap({}, self._services)
        try:
            yield part
        finally:
            part.close()

    @property
    def source(self) -> Cluster:
        return self.cluster(SOURCE)

    @property
    def target(self) -> Cluster:
        return self.cluster(TARGET)

    @property
    def watched(self) -> list[Watched]:
        """All processes of the stack, for waits that have to fail when one dies."""
        processes = [watched for cluster in self._clusters.values() for watched in cluster.watched]
        processes += [worker.process for worker in self._workers.values()]
        processes += [service.process for service in self._services.values()]
        return processes

    def start_clusters(self) -> None:
        """Starts A and B at the same time."""
        pair = [self._launched(name) for name in (SOURCE, TARGET)]
        for cluster in pair:
            cluster.wait_ready()

    def cluster(self, name: str) -> Cluster:
        """The cluster of that name, A or B or another, started when first asked for; a broker from jars unless
        `clusters` has one of that name."""
        fresh = name not in self._started
        cluster = self._launched(name)
        if fresh:
            cluster.wait_ready()
        return cluster

    def broker(
        self,
        name: str,
        *,
        version: str | None = None,
        properties: Mapping[str, str] | None = None,
        security: Security | None = None,
        joins: Broker | None = None,
    ) -> Broker:
        """Starts one more broker from jars, with settings of its own, in a new cluster or in that of the broker that it
        joins."""
        broker = self._new_broker(name, version or self._version, properties or {}, security, joins)
        self._clusters[name] = broker
        self.cluster(name)
        return broker

    def worker(
        self,
        name: str = "worker",
        *,
        version: str | None = None,
        group_id: str | None = None,
        on: str = TARGET,
        shim: bool = True,
        plugins: Sequence[Path] = (),
        properties: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
        heap: str = "512m",
    ) -> ConnectWorker:
        """The Connect worker of that name, started with these options when first asked for."""
        if name not in self._workers:
            cluster = self.cluster(on)
            worker = ConnectWorker(
                name,
                kafka_jars(version or self._version),
                self.directory,
                bootstrap=cluster.bootstrap,
                group_id=group_id or f"connect-{name}",
                plugin_path=[*([self._shim()] if shim else []), *plugins],
                heap=heap,
                properties=properties,
                environment=environment,
                needs=cluster.watched,
            )
            self._closing.callback(worker.close)
            self._workers[name] = worker
            worker.start()
        return self._workers[name]

    def service(
        self,
        name: str = "service",
        *,
        environment: Mapping[str, str] | None = None,
        arguments: Sequence[str] = (),
        tls: ssl.SSLContext | None = None,
    ) -> BridgeService:
        """The bridge service of that name, started with these options when first asked for."""
        if name not in self._services:
            service = BridgeService(
                self.directory,
                name=name,
                environment={**spark_environment(), **(environment or {})},
                arguments=arguments,
                tls=tls,
            )
            self._closing.callback(service.close)
            self._services[name] = service
            service.start()
        return self._services[name]

    def _launched(self, name: str) -> Cluster:
        if name not in self._clusters:
            self._clusters[name] = self._new_broker(name, self._version, {}, self._security)
        cluster = self._clusters[name]
        if name not in self._started:
            self._started.add(name)
            self._closing.callback(cluster.close)
            cluster.launch()
        return cluster

    def _new_broker(
        self,
        name: str,
        version: str,
        properties: Mapping[str, str],
        security: Security | None,
        joins: Broker | None = None,
    ) -> Broker:
        return Broker(
            name,
            kafka_jars(version),
            self.directory,
            heap=self._broker_heap,
            properties={**self._broker_properties, **properties},
            security=security,
            joins=joins,
        )

    def _shim(self) -> Path:
        if self._whole is not None:
            return self._whole._shim()  # a worker may have it open: it is unpacked once
        if self._plugins is None:
            self._plugins = unpack_shim(self.directory / "plugins")
        return self._plugins
