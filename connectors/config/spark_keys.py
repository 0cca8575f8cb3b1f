"""The `spark.*` keys that every configuration may have: sizes, times, numbers of attempts, names.

Not among them is what loads code, starts commands, reads or writes files, sets options of a JVM or variables of an
environment, talks to other machines than the master's, or takes protection away.
"""

from __future__ import annotations

import re
from typing import Final

LOCAL_MASTER: Final = re.compile(r"local(\[(\*|\d{1,4})(,\d{1,4})?\])?")
"""On the service's own machine; any other gets the configuration with its passwords, and answers that are unpickled."""

_GENERAL = (
    *(
        "spark.app.name",
        "spark.master",
        "spark.remote",
        "spark.connect.authenticate.token",
        "spark.speculation",
        "spark.shared",
        "spark.default.parallelism",
        "spark.cores.max",
    ),
    *("spark.log.level", "spark.log.structuredLogging.enabled", "spark.log.callerContext"),
    *("spark.authenticate", "spark.authenticate.secret", "spark.authenticate.secretBitLength"),
    *(
        "spark.io.encryption.enabled",
        "spark.network.crypto.enabled",
        "spark.network.crypto.authEngineVersion",
        "spark.network.crypto.cipher",
    ),
    *("spark.broadcast.blockSize", "spark.broadcast.compress", "spark.broadcast.checksum"),
)
_SIZES = (
    *("spark.driver.cores", "spark.driver.memory", "spark.driver.memoryOverhead"),
    *("spark.driver.memoryOverheadFactor", "spark.driver.maxResultSize", "spark.driver.minMemoryOverhead"),
    *("spark.executor.instances", "spark.executor.cores", "spark.executor.memory"),
    *(
        "spark.executor.memoryOverhead",
        "spark.executor.memoryOverheadFactor",
        "spark.executor.pyspark.memory",
    ),
    *(
        "spark.executor.minMemoryOverhead",
        "spark.executor.heartbeatInterval",
        "spark.executor.maxNumFailures",
    ),
    *("spark.executor.decommission.*", "spark.python.worker.memory", "spark.python.worker.reuse"),
    *("spark.memory.fraction", "spark.memory.storageFraction", "spark.memory.offHeap.*"),
    *(
        "spark.task.cpus",
        "spark.task.maxFailures",
        "spark.task.reaper.*",
        "spark.stage.maxConsecutiveAttempts",
    ),
    *("spark.dynamicAllocation.*", "spark.cleaner.*", "spark.excludeOnFailure.*", "spark.locality.wait*"),
    *("spark.scheduler.maxRegisteredResourcesWaitingTime", "spark.scheduler.minRegisteredResourcesRatio"),
    *("spark.scheduler.mode", "spark.scheduler.revive.interval", "spark.scheduler.listenerbus.eventqueue.*"),
)
_NETWORK = (
    *("spark.driver.host", "spark.driver.port", "spark.driver.blockManager.port", "spark.blockManager.port"),
    *("spark.port.maxRetries", "spark.network.timeout", "spark.network.timeoutInterval"),
    *("spark.network.maxRemoteBlockSizeFetchToMem", "spark.rpc.askTimeout", "spark.rpc.lookupTimeout"),
    *("spark.rpc.message.maxSize", "spark.rpc.numRetries", "spark.rpc.retry.wait", "spark.rpc.io.*"),
    *("spark.ui.enabled", "spark.ui.port", "spark.ui.showConsoleProgress", "spark.ui.retained*"),
    *("spark.ui.killEnabled", "spark.ui.dagGraph.retainedRootRDDs", "spark.ui.liveUpdate.*"),
)
_CLUSTERS = (
    *("spark.kubernetes.namespace", "spark.kubernetes.executor.podNamePrefix"),
    *("spark.kubernetes.executor.request.cores", "spark.kubernetes.executor.limit.cores"),
    *("spark.kubernetes.executor.label.*", "spark.kubernetes.node.selector.*"),
    *("spark.kubernetes.executor.node.selector.*", "spark.kubernetes.memoryOverheadFactor"),
    *("spark.kubernetes.allocation.batch.*", "spark.kubernetes.allocation.maxPendingPods"),
    *("spark.kubernetes.allocation.executor.timeout", "spark.kubernetes.driver.pod.name"),
    *("spark.yarn.queue", "spark.yarn.priority", "spark.yarn.tags", "spark.yarn.maxAppAttempts"),
    *("spark.yarn.am.cores", "spark.yarn.am.memory", "spark.yarn.am.memoryOverhead"),
    *("spark.yarn.am.nodeLabelExpression", "spark.yarn.executor.nodeLabelExpression"),
    "spark.yarn.executor.failuresValidityInterval",
)
HARMLESS: Final = _GENERAL + _SIZES + _NETWORK + _CLUSTERS
NEED_A_VALUE: Final = (
    *("spark.kubernetes.*image", "spark.kubernetes.*serviceAccountName", "spark.kubernetes.*podTemplateFile"),
    *(
        "spark.kubernetes.*volumes.*",
        "spark.*ClassPath",
        "spark.*JavaOptions",
        "spark.plugins",
        "spark.jars*",
    ),
    *("spark.submit.pyFiles", "spark.extraListeners", "spark.sql.extensions", "spark.ui.proxyBase"),
    *("spark.ui.reverseProxy*", "spark.driver.bindAddress", "spark.kubernetes.authenticate*"),
)
"""Keys that say which code runs, as whom, or who may reach it: an operator allows them with a value, never by the name
alone."""
