"""How the driver's JVM logs: one JSON object a line, as the driver itself does (see bridge.logs.forward)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

VARIABLE = "LOG4J_CONFIGURATION_FILE"
_OPTIONS = ("spark.driver.extraJavaOptions", "spark.driver.defaultJavaOptions")
_LINE = ",".join(
    (
        "{\"time\":\"%d{yyyy-MM-dd'T'HH:mm:ss.SSS'Z'}{UTC}\"",
        '"level":"%p"',
        '"process":"jvm"',
        '"logger":"%c"',
        '"message":"%enc{%m}{JSON}"',
        '"traceback":"%enc{%ex}{JSON}"}%n',
    )
)
_CONFIGURATION = f"""\
status = error
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.alwaysWriteExceptions = false
appender.stderr.layout.pattern = {_LINE}
"""


def configuration(settings: Mapping[str, str], environment: Mapping[str, str], folder: Path) -> Path | None:
    """The file, written to `folder`; None where an operator has chosen another configuration of log4j."""
    chosen = VARIABLE in environment or any("log4j" in settings.get(option, "") for option in _OPTIONS)
    if chosen:
        return None
    file = folder / "log4j2.properties"
    file.write_text(_CONFIGURATION, "utf-8")
    return file
