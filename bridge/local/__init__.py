"""The embedded stack: brokers, Connect workers and the service as processes; for demo, tests, benchmarks."""

from bridge.local.broker import Broker
from bridge.local.clusters import Cluster, ContainerCluster, GivenCluster
from bridge.local.connect_client import ConnectClient
from bridge.local.jars import DEFAULT_KAFKA, OLDEST_WORKER, kafka_jars
from bridge.local.processes import (
    NO_AUTHORITIES,
    ConnectFailed,
    LocalStackError,
    ManagedProcess,
    ProcessDied,
    WaitTimedOut,
    eventually,
)
from bridge.local.security import Security, TlsFiles, make_tls
from bridge.local.service import BridgeService, MirrorNode, shim_zip, unpack_shim
from bridge.local.stack import LocalStack
from bridge.local.worker import ConnectWorker

__all__ = [
    "DEFAULT_KAFKA",
    "NO_AUTHORITIES",
    "OLDEST_WORKER",
    "BridgeService",
    "Broker",
    "Cluster",
    "ConnectClient",
    "ConnectFailed",
    "ConnectWorker",
    "ContainerCluster",
    "GivenCluster",
    "LocalStack",
    "LocalStackError",
    "ManagedProcess",
    "MirrorNode",
    "ProcessDied",
    "Security",
    "TlsFiles",
    "WaitTimedOut",
    "eventually",
    "kafka_jars",
    "make_tls",
    "shim_zip",
    "unpack_shim",
]
