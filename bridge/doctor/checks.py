"""The table of doctor's checks; each is a function from facts to findings. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from bridge.doctor.facts import Facts
from bridge.doctor.findings import CheckResults, Finding, Severity
from bridge.doctor.of_clusters import clocks, reachability, replication, versions, worker
from bridge.doctor.of_settings import configuration, ignored, machine
from bridge.doctor.of_topics import partitions, policies, second_mirror, timestamps
from bridge.doctor.rights import rights


class Check(NamedTuple):
    """A check. `finds` and `remedy` are for the documentation."""

    name: str
    finds: str
    remedy: str
    run: Callable[[Facts], CheckResults]
    fine: str = "nothing found"
    """What is said where it finds nothing."""


def examine(facts: Facts) -> list[Finding]:
    """The findings of all checks. Each has one at least, so that no check is left out in silence."""
    findings = []
    for check in CHECKS:
        results = [Finding(check.name, *each) for each in check.run(facts)]
        findings += results or [Finding(check.name, Severity.OK, check.fine)]
    return findings


CHECKS = (
    Check(
        "configuration",
        "a key is wrong, misspelt, missing, or names a key store that can't be read",
        "correct the key that is named",
        configuration,
    ),
    Check("ignored", "a setting does nothing", "remove it, or use what the reason names", ignored),
    Check("reachability", "a cluster does not answer, with the cause", "by cause, as above", reachability),
    Check(
        "versions", "brokers are too old", "brokers from 3.0 on for groups, from 2.5 on for copying", versions
    ),
    Check(
        "rights",
        "the user may not do what this kind of connector does, by operation and resource",
        "grant the operation on the resource",
        rights,
        "all there",
    ),
    Check(
        "replication",
        "a replication factor is above the number of brokers",
        "set the key that is named",
        replication,
    ),
    Check(
        "worker",
        "the worker of a checkpoint or heartbeat connector writes to another cluster than the target",
        "deploy it on a worker of the target",
        worker,
    ),
    Check(
        "second mirror",
        "another connector has claimed a copy, or commits the same groups; a stock mirror has written offset syncs, or "
        "copies beside this one",
        "exclude its topics, stop it, or take over; other groups for one of the two",
        second_mirror,
    ),
    Check("timestamps", "a copy has `message.timestamp.type=LogAppendTime`", "set `CreateTime`", timestamps),
    Check(
        "partitions",
        "a topic and its copy have other numbers of partitions",
        "add partitions to the copy",
        partitions,
    ),
    Check(
        "policies",
        "connectors of one flow name copies differently",
        "set one policy, one separator, one list of aliases and one map",
        policies,
    ),
    Check(
        "clocks", "records are from the future, or the service's clock differs", "set clocks by NTP", clocks
    ),
    Check(
        "machine",
        "no Java, a Java that is too old, or no pyspark",
        "install a JDK 17, set JAVA_HOME",
        machine,
    ),
)
