"""The settings that Spark is started with: those of a configuration over our defaults."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from bridge.kafka.config.oauth import HTTP_HOSTS
from bridge.model.java_values import boolean
from bridge.pipeline.slices.workers import MODULE

MASTER = "spark.master"
DAEMON_MODULE = "spark.python.daemon.module"
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
UI = "spark.ui.enabled"
_LOCAL = re.compile(r"local(?:\[(?P<cores>\*|\d+)\])?")
_LOCAL_CORES = re.compile(r"local(?:\[(?P<cores>\*|\d+)(,\d+)?\])?")
_RETRIES = 4
_HIDDEN = "(?i)secret|pass(w|phrase)|token|credential|jaas|private|(access|account|api)[._-]?key"
SHARED = "spark.shared"
"""Ours: whether connectors have one Spark together. Spark does not get it."""
_PARALLELISM = "spark.default.parallelism"
_SLOTS_OF_ALL = 1000
"""How many slices of all connectors a shared Spark runs side by side; a task that waits costs it nothing."""
_DEFAULTS = {
    UI: "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "WARN",
    DAEMON_MODULE: MODULE,
    # What Spark hides, by name or value, in its UI, its event log and its own log lines.
    "spark.redaction.regex": _HIDDEN,
    # On a slow machine Spark would log events whole at INFO, with all settings and nothing hidden.
    "spark.scheduler.listenerbus.logSlowEvent": "false",
    # Slices carry the clients' passwords: without this PySpark hands them to the JVM by a file.
    "spark.io.encryption.enabled": "true",
}
_AUTHENTICATE = "spark.authenticate"
_ON_THIS_MACHINE = {
    "spark.driver.host": "localhost",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.extraJavaOptions": JAVA_OPTIONS,
}
"""With a local master nobody else has to reach the driver; and no record crosses its JVM, so what a JVM does to become
fast would only take processors from the slices beside it."""
_SOCKETS = "spark.python.unix.domain.socket."
_LONGEST_FOLDER = 60
"""Characters of a folder for sockets: the path of one has 104 at most."""


def spark_settings(name: str, props: Mapping[str, str]) -> dict[str, str]:
    """The `spark.*` keys of a configuration, over our defaults.

    `local[N]` becomes `local[N,4]`: with plain `local[N]` one lost worker ends the whole job.
    """
    given = {key: value for key, value in props.items() if key.startswith("spark.") and key != SHARED}
    master = given.get(MASTER, "local[*]")
    settings = {**_DEFAULTS, "spark.app.name": f"mirror-bridge {name}"}
    settings |= (_ON_THIS_MACHINE if master.startswith("local") else {}) | given
    local = _LOCAL.fullmatch(master)
    if local is not None:
        settings[MASTER] = f"local[{local['cores'] or 1},{_RETRIES}]"
    if master == "local" or master.startswith("local["):
        # Spark makes a secret of its own for each driver, and nobody else is told it.
        settings.setdefault(_AUTHENTICATE, "true")
    if boolean(settings.get(_AUTHENTICATE, "")):
        settings.setdefault("spark.network.crypto.enabled", "true")
    if (hosts := os.environ.get(HTTP_HOSTS)) and not master.startswith("local"):
        settings.setdefault(f"spark.executorEnv.{HTTP_HOSTS}", hosts)
    # A second attempt beside the first one would fence it, and be fenced by it.
    settings["spark.speculation"] = "false"
    return settings


def is_shared(props: Mapping[str, str]) -> bool:
    return boolean(props.get(SHARED, "")) is True


def for_sharing(props: Mapping[str, str]) -> dict[str, str]:
    """The `spark.*` keys with which a shared Spark is started: a connector's without what is its own, the number of its
    slices. Connectors of equal settings share one."""
    settings = {key: value for key, value in props.items() if key.startswith("spark.")}
    own = {SHARED, _PARALLELISM, MASTER}
    shared = {key: value for key, value in settings.items() if key not in own}
    return {"spark.app.name": "mirror-bridge", **shared, MASTER: f"local[{_SLOTS_OF_ALL}]"}


def own_slots(props: Mapping[str, str]) -> int:
    """How many slices of a connector a shared Spark runs side by side: as many as a Spark of its own would."""
    if parallelism := props.get(_PARALLELISM):
        return int(parallelism)
    local = _LOCAL_CORES.fullmatch(props.get(MASTER, "local[*]"))
    cores = (local["cores"] if local is not None else None) or "1"
    return (os.cpu_count() or 1) if cores == "*" else int(cores)


def shows_ui(settings: Mapping[str, str]) -> bool:
    """Whether Spark has its UI, and jobs are to show there what they copy."""
    return boolean(settings[UI]) is True


def sockets(folder: str) -> dict[str, str]:
    """Lets Python workers be reached by files that nobody else can open, without a token in their environment."""
    if len(folder) > _LONGEST_FOLDER:
        return {}
    return {f"{_SOCKETS}enabled": "true", f"{_SOCKETS}dir": folder}
