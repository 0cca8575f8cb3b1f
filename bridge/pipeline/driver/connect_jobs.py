"""Runs layouts on a Spark Connect server: this process has no JVM, and our modules go there as an archive."""

from __future__ import annotations

import socket
import tempfile
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pyspark

from bridge.kafka.config.oauth import login_modules
from bridge.model.addresses import REMOTE, endpoint, shown, with_token
from bridge.pipeline.driver import archive
from bridge.pipeline.driver.jobs import RowJobs, in_thread
from bridge.pipeline.driver.spark_problem import SparkProblem, error_line, missing_package
from bridge.pipeline.layouts.slots import Slice

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ANSWER_SECONDS = 10.0
_RETRIES = 5
"""Of one request, over some 17 s. Spark's client would try for ten minutes, and nobody be told."""
_PARALLELISM, _ARCHIVES = "spark.default.parallelism", "spark.archives"
_SPECULATION = "spark.speculation"
_MANY = 100_000


class ConnectJobs:
    """One session of a server; a new one when the server has lost it. Blocking calls are made in threads of their
    own."""

    ui = ""
    """A server does not say where its UI is."""

    def __init__(self, name: str, props: Mapping[str, str], functions: Sequence[str] = ()) -> None:
        """`functions`: the transforms that slices call. Raises SparkProblem."""
        self._name, self._props, self._address = name, props, shown(props[REMOTE])
        self._lock = threading.Lock()
        self._session: SparkSession | None = None
        self._rows: RowJobs | None = None
        self._tag = ""
        check_packages()
        _reach(props[REMOTE])
        self._temporary = tempfile.TemporaryDirectory(prefix="mirror-bridge-")
        self._archive = props.get(_ARCHIVES)
        if self._archive is None:
            packed = Path(self._temporary.name) / f"{archive.NAME}.tar.gz"
            archive.build(packed, functions, login_modules(props))
            self._archive = f"{packed}#{archive.NAME}"
        try:
            self._connect()
        except SparkProblem:
            self._temporary.cleanup()
            raise
        self.slots = int(props.get(_PARALLELISM) or self._partitions())

    def start(self, slices: Sequence[Slice]) -> Future[list[str]]:
        """Starts a layout's job; its result is why each slice has ended. Its exception is a SparkProblem, which names
        the server."""
        name = f"{self._name}, layout {slices[0].layout}"
        self._tag = tag = name.replace(",", " ")

        def run() -> list[str]:
            _reach(self._props[REMOTE])
            session, rows = self._connect()
            session.addTag(tag)
            try:
                return rows.run(name, slices)
            except Exception as error:
                self._forget()
                raise self._problem(error) from None

        return in_thread(name, run)

    def cancel(self) -> None:
        """Kills the Python workers of what still runs, without any `finally` of theirs."""
        session = self._session
        if session is not None:
            session.interruptTag(self._tag)

    def lost(self) -> str:
        """A server that is away is asked again, with a new session."""
        return ""

    def close(self) -> None:
        session = self._session
        if session is not None:
            session.stop()
        self._temporary.cleanup()

    def _connect(self) -> tuple[SparkSession, RowJobs]:
        """Raises SparkProblem."""
        with self._lock:
            if self._session is None or self._rows is None:
                try:
                    self._session, self._rows = self._opened()
                except SparkProblem:
                    raise
                except Exception as error:
                    raise self._problem(error) from None
            return self._session, self._rows

    def _opened(self) -> tuple[SparkSession, RowJobs]:
        from pyspark.sql.connect.client.retries import DefaultPolicy
        from pyspark.sql.connect.session import SparkSession as Session

        # Spark's Connect classes do not share a base with the classic ones that type checkers see.
        builder: Any = Session.builder
        opened = builder.remote(with_token(self._props)).create()
        opened.client.set_retry_policies([DefaultPolicy(max_retries=_RETRIES)])
        session = cast("SparkSession", opened)
        try:
            return session, self._rows_of(session)
        except SparkProblem:  # not where the server is away: it would be waited for
            session.stop()
            raise

    def _rows_of(self, session: SparkSession) -> RowJobs:
        """Raises SparkProblem for a server that can't be used."""
        from bridge.pipeline.queries import rows

        check_version(self._address, session.version)
        if (session.conf.get(_SPECULATION, "false") or "").lower() == "true":
            why = f"{_SPECULATION} is true there: a second attempt of a slice would write beside the first"
            raise SparkProblem(f"{REMOTE} {self._address} can't be used: {why}", permanent=True)
        name = ""
        if self._archive:
            session.addArtifacts(self._archive, archive=True)
            name = self._archive.rpartition("#")[2] if "#" in self._archive else Path(self._archive).name
        return rows.RowJobs(session, name)

    def _forget(self) -> None:
        """Another session next time: this one may be gone with its server."""
        with self._lock:
            self._session = self._rows = None

    def _partitions(self) -> int:
        """How many tasks the server runs at a time, as it cuts a table that nobody has cut."""
        session, _ = self._connect()
        return session.range(_MANY).selectExpr("spark_partition_id() AS slot").distinct().count()

    def _problem(self, error: Exception) -> SparkProblem:
        try:
            _reach(self._props[REMOTE])
        except SparkProblem as gone:
            return gone
        if package := missing_package(error):
            why = f"the server's Python has no {package}, which {REMOTE} needs there"
            return SparkProblem(f"{REMOTE} {self._address}: {why}: pip install 'mirror-bridge[connect]'")
        return SparkProblem(f"{REMOTE} {self._address}: {error_line(error)}")


def _reach(address: str) -> None:
    """Raises SparkProblem for a server that nobody answers for."""
    host, port = endpoint(address)
    try:
        socket.create_connection((host, port), _ANSWER_SECONDS).close()
    except OSError as error:
        why = error.strerror or str(error) or type(error).__name__
        raise SparkProblem(f"{REMOTE}: no Spark Connect server answers at {shown(address)}: {why}") from None


def check_packages() -> None:
    try:
        import pyspark.sql.connect.session  # noqa: F401
    except ImportError as error:
        lines = str(error).strip().splitlines()
        raise SparkProblem(
            f"{REMOTE} needs packages that are not installed ({lines[0]}): pip install 'mirror-bridge[connect]'",
            permanent=True,
        ) from None


def check_version(address: str, version: str) -> None:
    here = pyspark.__version__
    if here.split(".")[:2] != version.split(".")[:2]:
        raise SparkProblem(
            f"{REMOTE} {address} is Spark {version}, and PySpark here is {here}: both must be of one minor version, "
            "as functions pass between them",
            permanent=True,
        )
