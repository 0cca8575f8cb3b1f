"""Checks of the configuration and of this machine. Pure."""

from __future__ import annotations

from bridge.doctor.facts import Facts, Unknown
from bridge.doctor.findings import CheckResults, Severity, unknown
from bridge.pipeline.driver.java import LEAST
from connectors.base import COPYING_KINDS

P, W, OK = Severity.PROBLEM, Severity.WARNING, Severity.OK


def configuration(facts: Facts) -> CheckResults:
    for key, message in facts.errors:
        yield P, message, f"correct {key}"


def ignored(facts: Facts) -> CheckResults:
    for key, reason in facts.ignored:
        yield W, f"{key} does nothing: {reason}", f"remove {key}"


def machine(facts: Facts) -> CheckResults:
    if facts.kind not in COPYING_KINDS:
        return
    machine_facts = facts.machine
    if isinstance(machine_facts, Unknown):
        yield unknown("Java and Spark", machine_facts)
        return
    if isinstance(machine_facts.java, Unknown):
        home = (
            f" (JAVA_HOME is {machine_facts.java_home})"
            if machine_facts.java_home
            else " (JAVA_HOME is not set)"
        )
        yield (
            P,
            f"{machine_facts.java.why}{home}",
            f"install a JDK {LEAST} or newer where the service runs, set JAVA_HOME",
        )
    elif machine_facts.java < LEAST:
        yield (
            P,
            f"Java is {machine_facts.java}",
            f"install a JDK {LEAST} or newer where the service runs, set JAVA_HOME",
        )
    else:
        yield OK, f"Java is {machine_facts.java}", ""
    if isinstance(machine_facts.spark, Unknown):
        yield (
            P,
            machine_facts.spark.why,
            "install the service's dependencies again: pip install -r requirements.txt",
        )
    else:
        yield OK, f"pyspark is {machine_facts.spark}", ""
