"""The stack that integration, end-to-end and performance tests share, taken in one of three ways.

    pytest                                                   brokers from Kafka's jars (default)
    pytest --kafka=testcontainers                            brokers in containers, for those who have Docker
    pytest --kafka-source=host:port --kafka-target=host:port two clusters that run already

Workers and the service are processes of ours in all three. In lanes (`pytest -n 3`) the process that starts the lanes
has the stack, and all lanes use it (tests/support/shared.py).
"""

from __future__ import annotations

import gc
import os
import shutil
import signal
import warnings
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from bridge.local import (
    DEFAULT_KAFKA,
    BridgeService,
    Broker,
    Cluster,
    ConnectWorker,
    ContainerCluster,
    GivenCluster,
    LocalStack,
    TlsFiles,
)
from tests.support import forms
from tests.support.brokers import MORTAL, STEADY, Secured, shared_security, tls_files
from tests.support.lanes import TOGETHER, scheduler
from tests.support.shared import AttachedCluster, AttachedStack, Controller

# As in a terminal: whoever runs the tests in the background has had SIGINT ignored, and what they start inherits that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Machines are noisy: how long an example takes is no property of the code. A change is judged by the same examples each
# time; `make soak` looks for others.
_SAME_EXAMPLES = "MIRROR_BRIDGE_NEW_EXAMPLES" not in os.environ

_MEMORY, _ENOUGH = Path("/dev/shm"), 4 << 30
_TEMPORARY = "PYTEST_DEBUG_TEMPROOT"
"""Where pytest has its temporary directories, if not where others have theirs."""
_MAY_STAY = {
    "LOG4J_CONFIGURATION_FILE",
    "PYTEST_CURRENT_TEST",
    "PYSPARK_PYTHON",
    "SPARK_AUTH_SOCKET_TIMEOUT",
    "SPARK_BUFFER_SIZE",
    "SPARK_HIDE_TRACEBACK",
    "SPARK_LOCAL_IP",
}
"""Variables that a Spark in the process of tests, or pytest itself, sets for good, and that mislead nothing else."""
_SHOWN = 300
"""Characters of an error that are shown at once."""
_OWN = {"stack", "new_stack"}
"""Fixtures by which tests start servers of their own."""
_MARKED = ("integration", "e2e", "perf", "soak")
"""Folders whose tests carry the marker of the same name."""


class FailuresAtOnce:
    """Names a test when it fails, with the error: a run that is broken off shows no summary."""

    def __init__(self, terminal: pytest.TerminalReporter) -> None:
        self._terminal = terminal

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            lines = [line[1:].strip() for line in report.longreprtext.splitlines() if line.startswith("E")]
            said = next(filter(None, lines), "")
            self._terminal.ensure_newline()
            self._terminal.write_line(f"{report.nodeid} ({report.when}): {said[:_SHOWN]}")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("kafka", "where the two clusters come from")
    group.addoption(
        "--kafka", choices=("jars", "testcontainers"), help="how brokers are started (default jars)"
    )
    group.addoption("--kafka-version", help=f"of brokers and worker from jars (default {DEFAULT_KAFKA})")
    group.addoption("--kafka-source", metavar="HOST:PORT", help="a cluster that runs already, as the source")
    group.addoption("--kafka-target", metavar="HOST:PORT", help="a cluster that runs already, as the target")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leaves a file out, before it is imported, that has no test for the short form; not where it is asked for."""
    if not forms.short_form or not collection_path.match("test_*.py"):
        return None
    named = {Path(argument.partition("::")[0]).name for argument in config.args}
    return True if collection_path.name not in named and forms.is_wholly_long(collection_path) else None


def pytest_configure(config: pytest.Config) -> None:
    """Conflicting options are refused before anything is collected or started."""
    config.pluginmanager.register(Lanes(config))
    forms.short_form = "not long" in config.getoption("markexpr")
    settings.register_profile(
        "noisy", deadline=None, derandomize=_SAME_EXAMPLES, max_examples=forms.examples(40, 100)
    )
    settings.load_profile("noisy")
    if _in_memory(config):
        os.environ.setdefault(_TEMPORARY, str(_MEMORY))
    given = [name for name in ("--kafka-source", "--kafka-target") if config.getoption(name)]
    if len(given) == 1:
        raise pytest.UsageError(f"{given[0]} needs the other of --kafka-source and --kafka-target too")
    if given and config.getoption("--kafka"):
        raise pytest.UsageError(
            "--kafka starts brokers; --kafka-source and --kafka-target are for running ones"
        )
    if given and config.getoption("--kafka-source") == config.getoption("--kafka-target"):
        raise pytest.UsageError("--kafka-source and --kafka-target are the same cluster")
    if config.getoption("--kafka-version") and (given or config.getoption("--kafka") == "testcontainers"):
        raise pytest.UsageError("--kafka-version is for brokers from jars")
    if config.getoption("--kafka") == "testcontainers":
        # Its Docker client leaves sockets to the garbage collector, some until the very end of the run.
        config.addinivalue_line("filterwarnings", "ignore::pytest.PytestUnraisableExceptionWarning")
        warnings.simplefilter("ignore", pytest.PytestUnraisableExceptionWarning)


class Lanes:
    """In the process that starts the lanes: has the stack that all of them use."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._controller: Controller | None = None

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        if self._controller is None:
            self._controller = Controller.start(**_stack_options(self._config))
        node.workerinput["shared_stack"] = self._controller.contact

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Any) -> Any:
        return scheduler(config, log) if config.getoption("dist") == "loadfile" else None

    def pytest_unconfigure(self) -> None:
        if self._controller is not None:
            self._controller.close()


def pytest_collection(session: pytest.Session) -> None:
    """Modules and tests stay to the end: the garbage collector looks at none of them, which is a tenth of a run."""
    gc.disable()


def pytest_collection_finish(session: pytest.Session) -> None:
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    terminal = session.config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None and not hasattr(session.config, "workerinput"):
        session.config.pluginmanager.register(FailuresAtOnce(terminal))


def _in_memory(config: pytest.Config) -> bool:
    """Whether temporary directories, so the data of brokers, can be in memory: topics are made in a fifth of the time,
    and with less than half of the processor time. What is measured by benchmarks is written to a disk."""
    perf = Path(__file__).with_name("perf")
    given = [Path(config.invocation_params.dir, argument.partition("::")[0]) for argument in config.args]
    if any(path.resolve().is_relative_to(perf) for path in given):
        return False
    return _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free >= _ENOUGH


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        folder = item.path.relative_to(here).parts[0] if item.path.is_relative_to(here) else ""
        if folder in _MARKED:
            item.add_marker(folder)
    if hasattr(config, "workerinput"):
        # In lanes, what takes longest comes first, so that no lane is alone with it at the end: what one lane takes
        # together, then files that start brokers, workers or services of their own. Beside that files have an order
        # without meaning: those that wait run beside those that are busy.
        alone = {item.location[0] for item in items if _OWN.intersection(getattr(item, "fixturenames", ()))}
        order = {
            file: (file not in TOGETHER, file not in alone, zlib.crc32(file.encode()), file)
            for file in {item.location[0] for item in items}
        }
        items.sort(key=lambda item: order[item.location[0]])


@pytest.fixture(autouse=True)
def _same_environment() -> Iterator[None]:
    """Fails a test after which this process has another environment: all that is started later would inherit it."""
    before = dict(os.environ)
    yield
    left = {
        name for name in before.keys() | os.environ.keys() if before.get(name) != os.environ.get(name)
    } - _MAY_STAY
    for name in left:
        os.environ.pop(name, None)
        if name in before:
            os.environ[name] = before[name]
    assert not left, f"left in the environment: {sorted(left)}"


def chosen_clusters(config: pytest.Config) -> dict[str, Cluster]:
    """Clusters A and B by the options; none where the stack's own default, jars, is to be used."""
    if config.getoption("--kafka-source"):
        options = {"A": "--kafka-source", "B": "--kafka-target"}
        return {name: GivenCluster(name, config.getoption(option)) for name, option in options.items()}
    if config.getoption("--kafka") == "testcontainers":
        return {name: ContainerCluster(name) for name in ("A", "B")}
    return {}


def _stack_options(config: pytest.Config) -> dict[str, Any]:
    return {
        "version": config.getoption("--kafka-version") or DEFAULT_KAFKA,
        "clusters": chosen_clusters(config),
        "broker_properties": STEADY,
    }


@pytest.fixture(scope="session")
def shared_stack(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LocalStack]:
    """Two running clusters for all tests: never stop them, never reuse a topic or group name."""
    directory = tmp_path_factory.mktemp("stack")
    options = _stack_options(request.config)
    lane = getattr(request.config, "workerinput", None)
    stack = (
        LocalStack(directory, security=shared_security(directory / "tls"), **options)
        if lane is None
        else AttachedStack(
            directory, lane["shared_stack"], version=options["version"], broker_properties=STEADY
        )
    )
    with stack as running:
        running.start_clusters()
        yield running


@pytest.fixture(scope="module")
def stack(shared_stack: LocalStack) -> Iterator[LocalStack]:
    """The shared stack for one file: brokers, workers and services that its tests start ought to end with it, since an
    idle one takes processor time too."""
    with shared_stack.part() as part:
        yield part


@pytest.fixture(scope="session")
def secured(shared_stack: LocalStack, request: pytest.FixtureRequest) -> Secured:
    """The shared target by its listeners with logins and TLS, for USERS of tests/support/brokers.py."""
    target = shared_stack.target
    if not isinstance(target, Broker | AttachedCluster):
        pytest.skip("needs users and certificates, so brokers from jars")
    return target


@pytest.fixture(scope="session")
def tls(shared_stack: LocalStack, request: pytest.FixtureRequest) -> TlsFiles:
    """Certificates of the shared brokers and of a client."""
    lane = getattr(request.config, "workerinput", None)
    return tls_files(shared_stack.directory / "tls" if lane is None else Path(lane["shared_stack"]["tls"]))


@pytest.fixture(scope="session")
def source(shared_stack: LocalStack) -> Cluster:
    return shared_stack.source


@pytest.fixture(scope="session")
def target(shared_stack: LocalStack) -> Cluster:
    return shared_stack.target


@pytest.fixture(scope="session")
def worker(shared_stack: LocalStack) -> ConnectWorker:
    """A worker on the target with the shim and the stock mirror connectors, for all tests."""
    return shared_stack.worker()


@pytest.fixture(scope="session")
def stock_worker(shared_stack: LocalStack) -> ConnectWorker:
    """A worker on the target with the stock mirror connectors only; needs no build of the shim."""
    return shared_stack.worker("stock", shim=False)


@pytest.fixture(scope="session")
def service_process(shared_stack: LocalStack) -> BridgeService:
    """The bridge service as a process, for all tests."""
    return shared_stack.service()


@pytest.fixture
def new_stack(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], LocalStack]]:
    """Stacks of a test's own, from jars, whose processes it may kill."""
    if chosen_clusters(request.config):
        pytest.skip("kills brokers, so it needs brokers from jars")
    with ExitStack() as closing:
        count = 0

        def create() -> LocalStack:
            nonlocal count
            count += 1
            return closing.enter_context(LocalStack(tmp_path / f"stack-{count}", broker_properties=MORTAL))

        yield create
