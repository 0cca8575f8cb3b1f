"""The start of Spark's JVM, with nothing of a configuration where other users of the machine could read it: a command
line is open to all of them, an environment to whoever has the same user.

spark-submit reads the properties from a file that is in memory (bridge.kafka.config.tls) and empty once they
are read, so that none stays whatever happens. On a system without such files it is one on the disk, of mode 0600, and
removed at once, also by a process that ends meanwhile (leave_nothing).

A JVM that runs already and waits for us: that of spark-submit, with its settings, or one that connectors share.
"""

from __future__ import annotations

import os
import shlex
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bridge.errors import ConfigError
from bridge.kafka.config.tls import memory_file, path_of
from bridge.pipeline.driver.frames import Gateway

if TYPE_CHECKING:
    from pyspark import SparkContext


_PORT = "PYSPARK_GATEWAY_PORT"
"""The variable by which spark-submit says where its JVM listens; the drivers that we start inherit it."""
_SECRET = "PYSPARK_GATEWAY_SECRET"  # noqa: S105
_NAME = "spark.app.name"
_OF_SUBMIT = (_NAME, "spark.app.submitTime", "spark.submit.")
_OF_THE_JVM = (
    *("spark.driver.memory", "spark.driver.memoryOverhead", "spark.driver.extraJavaOptions"),
    *("spark.driver.defaultJavaOptions", "spark.driver.extraClassPath", "spark.driver.extraLibraryPath"),
)
JAVA_OPTIONS = ("spark.driver.extraJavaOptions", "spark.driver.defaultJavaOptions")
_APART = "-XX:+PerfDisableSharedMem"
_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"
_on_the_disk: set[Path] = set()
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/:")


def is_submitted() -> bool:
    return _PORT in os.environ


def submitted_settings() -> dict[str, str]:
    """The `spark.*` settings that spark-submit was given, on its command line and in its files. Blocking."""
    from pyspark import SparkConf

    gateway = _gateway()
    return dict(SparkConf(_jvm=gateway.jvm).getAll())


def contradictions(config: Mapping[str, str], submitted: Mapping[str, str]) -> list[ConfigError]:
    """Returns an error for each `spark.*` key that has another value for spark-submit, or that a running JVM can no
    longer take. Pure."""
    settings = {key: value for key, value in config.items() if key.startswith("spark.")}
    errors = [
        ConfigError(
            key,
            f"{key} has one value for spark-submit and another in the configuration: give it in one place",
        )
        for key, value in sorted(settings.items())
        if key in submitted and not key.startswith(_OF_SUBMIT) and submitted[key] != value
    ]
    return errors + [
        ConfigError(
            key, f"{key} is for a JVM that runs already: give it to spark-submit, not in the configuration"
        )
        for key in _OF_THE_JVM
        if key in settings and key not in submitted
    ]


def merged(config: Mapping[str, str], submitted: Mapping[str, str]) -> dict[str, str]:
    """A configuration with what spark-submit was given besides. Pure."""
    more = {key: value for key, value in submitted.items() if not key.startswith(_OF_SUBMIT)}
    return {**more, **config}


def use(gateway: Gateway) -> None:
    """Makes PySpark connect to this JVM instead of starting one. Sets variables of this process only, so that no
    secret shows in /proc."""
    os.environ[_PORT], os.environ[_SECRET] = str(gateway.port), gateway.secret


def context(settings: Mapping[str, str], tag: str) -> SparkContext:
    """A context in a JVM that runs already; that of a driver before this one goes on, without its jobs, which have
    `tag`."""
    from pyspark import SparkConf, SparkContext

    gateway = _gateway()
    # The object of Scala's that has it: the class does not.
    active = getattr(getattr(gateway.jvm.org.apache.spark, "SparkContext$"), "MODULE$").getActive()
    if not active.isDefined():
        return SparkContext(gateway=gateway, conf=SparkConf(_jvm=gateway.jvm).setAll(list(settings.items())))
    running = gateway.jvm.JavaSparkContext(active.get())
    running.sc().cancelJobsWithTag(tag)
    return SparkContext(gateway=gateway, jsc=running, conf=SparkConf(_jconf=running.getConf()))


def _gateway() -> Any:
    from pyspark.java_gateway import launch_gateway

    launch: Any = launch_gateway
    return launch()


def start(settings: Mapping[str, str], own_java_options: str, folder: Path, tag: str) -> SparkContext:
    """A context with these settings, or that of a JVM which runs already, without jobs of this tag. `own_java_options`
    may be on a command line; `folder` is for what can't be in memory."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    if is_submitted():
        return context(settings, tag)
    with ExitStack() as files:
        held: list[int] = []

        def path(name: str, text: str) -> str:
            descriptor = files.enter_context(memory_file(text.encode()))
            if descriptor is None:
                return files.enter_context(_on_disk(folder / name, text))
            held.append(descriptor)
            return path_of(descriptor)

        passed = dict(settings)
        for key in JAVA_OPTIONS:
            if (options := settings.get(key)) and options != own_java_options:
                # java itself reads options from a file that an argument names by @. It must not copy them to one of its
                # own then, where jps and jstat look (/tmp/hsperfdata_*).
                passed[key] = f"@{path(key, java_arguments(f'{_APART} {options}'))}"
        file = path("spark.properties", properties(passed))
        with environment(_ARGUMENTS, f"--load-spark-defaults --properties-file {file} {_given_arguments()}"):
            launch: Callable[..., Any] = launch_gateway
            gateway = launch(popen_kwargs={"pass_fds": tuple(held)})
    return SparkContext(gateway=gateway, conf=SparkConf().setAll(list(settings.items())))


def properties(settings: Mapping[str, str]) -> str:
    """As a file of Java properties, whatever characters are in it."""
    return "".join(f"{_escaped(key)}={_escaped(value)}\n" for key, value in settings.items())


def java_arguments(options: str) -> str:
    """Options as the shell would split them, as a file of arguments that java reads."""
    quoted = (text.replace("\\", "\\\\").replace('"', '\\"') for text in shlex.split(options))
    return "".join(f'"{text}"\n' for text in quoted)


def _escaped(text: str) -> str:
    return "".join(character if character in _PLAIN else _as_utf16(character) for character in text)


def _as_utf16(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[first : first + 2].hex()}" for first in range(0, len(units), 2))


def _given_arguments() -> str:
    """Those of an operator, which end with what is to be started."""
    return os.environ.get(_ARGUMENTS, "pyspark-shell")


def leave_nothing() -> None:
    """Removes what the start of Spark has on a disk. For a process that ends without waiting for the thread that starts
    it."""
    for path in list(_on_the_disk):
        path.unlink(missing_ok=True)


def leave_nothing_when_terminated() -> None:
    """Does so before SIGTERM ends the process as ever. For the main thread; where files are in memory, nothing is to be
    done."""
    with memory_file(b"") as descriptor:
        if descriptor is not None:
            return

    def end(number: int, _: object) -> None:
        leave_nothing()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    signal.signal(signal.SIGTERM, end)


@contextmanager
def _on_disk(path: Path, text: str) -> Iterator[str]:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    _on_the_disk.add(path)
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        yield str(path)
    finally:
        path.unlink(missing_ok=True)
        _on_the_disk.discard(path)


@contextmanager
def environment(name: str, value: str) -> Iterator[None]:
    """Has a variable of the environment for the time of the block."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
