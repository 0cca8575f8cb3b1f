"""Checks of the configuration and of the machine. Pure."""

from __future__ import annotations

from bridge.doctor.facts import Facts, Unknown
from bridge.doctor.findings import Finds, Severity, unknown

P, W, OK = Severity.PROBLEM, Severity.WARNING, Severity.OK
LEAST_JAVA = 17


def configuration(facts: Facts) -> Finds:
    for key, message in facts.errors:
        yield P, message, f"correct {key}"


def ignored(facts: Facts) -> Finds:
    for key, reason in facts.ignored:
        yield W, f"{key} does nothing: {reason}", f"remove {key}"


def machine(facts: Facts) -> Finds:
    if facts.kind != "source":
        return
    found = facts.machine
    if isinstance(found, Unknown):
        yield unknown("Java and Spark", found)
        return
    if isinstance(found.java, Unknown):
        home = f" (JAVA_HOME is {found.java_home})" if found.java_home else " (JAVA_HOME is not set)"
        yield (
            P,
            f"{found.java.why}{home}",
            f"install a JDK {LEAST_JAVA} or newer where the service runs, set JAVA_HOME",
        )
    elif found.java < LEAST_JAVA:
        yield (
            P,
            f"Java is {found.java}",
            f"install a JDK {LEAST_JAVA} or newer where the service runs, set JAVA_HOME",
        )
    else:
        yield OK, f"Java is {found.java}", ""
    if isinstance(found.spark, Unknown):
        yield P, found.spark.why, "install the service's dependencies again: pip install -r requirements.txt"
    else:
        yield OK, f"pyspark is {found.spark}", ""
