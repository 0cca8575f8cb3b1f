"""Addresses of Spark Connect servers, and servers that can't be used."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys

import pyspark
import pytest
from pyspark.sql.connect.session import SparkSession as Session

from bridge.model.addresses import endpoint, problem, shown, with_token
from bridge.model.copying import PipelineState
from bridge.pipeline.driver import connect_jobs
from bridge.pipeline.driver import main as driver
from bridge.pipeline.driver.connect_jobs import ConnectJobs
from bridge.pipeline.driver.frames import LONGEST, pack_spec, pack_stop
from bridge.pipeline.driver.spark_problem import SparkProblem
from tests.support.messages import message_pattern
from tests.unit.pipeline.driver.connect_session import Server
from tests.unit.pipeline.values import spec


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("sc://localhost", None),
        ("sc://127.0.0.1:15003", None),
        ("sc://[::1]:15003/", None),
        ("sc://spark.example.org:443/;use_ssl=true", None),
        ("sc://spark.example.org:443/;user_id=mirror;use_ssl=TRUE", None),
        ("sc://spark.example.org", "/;use_ssl=true"),
        ("sc://spark.example.org/;use_ssl=false", "/;use_ssl=true"),
        ("sc://localhost.example.org", "/;use_ssl=true"),
        ("sc://localhost/;token=planted", "spark.connect.authenticate.token"),
        ("sc://localhost/path", "it must be"),
        ("sc://user@localhost", "it must be"),
        ("spark://localhost:7077", "it must be"),
        ("local[2]", "it must be"),
        ("", "it must be"),
    ],
)
def test_an_address_says_where_passwords_go(address: str, words: str | None) -> None:
    found = problem(address)
    assert (found is None) == (words is None)
    assert words is None or (found is not None and words in found)


def test_what_is_shown_of_an_address_is_where_it_leads() -> None:
    assert shown("sc://a.example.org/;use_ssl=true;x=planted") == "sc://a.example.org:15002"
    assert endpoint("sc://[::1]:7") == ("::1", 7)
    given = {"spark.remote": "sc://a/;use_ssl=true", "spark.connect.authenticate.token": "a;b="}
    assert with_token(given) == "sc://a/;use_ssl=true;token=a%3Bb%3D"
    assert with_token({**given, "spark.remote": "sc://localhost"}) == "sc://localhost/;token=a%3Bb%3D"


def test_a_server_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect_jobs, "check_packages", lambda: None)
    address = "sc://127.0.0.1:1"
    with pytest.raises(SparkProblem, match=message_pattern("spark.no_server", address=address)) as raised:
        ConnectJobs("mirror", {"spark.remote": address})
    assert not raised.value.permanent, "it may come back"


def test_a_server_of_another_version_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    session = Server("3.5.1")
    monkeypatch.setattr(Session.Builder, "create", lambda builder: session)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"sc://127.0.0.1:{listening.getsockname()[1]}"
        with pytest.raises(SparkProblem) as raised:
            ConnectJobs("mirror", {"spark.remote": address, "spark.archives": ""})
    for named in (address, session.version, pyspark.__version__):
        assert named in str(raised.value)
    assert raised.value.permanent
    assert session.stopped, "nothing of us is left on the server"


def test_packages_that_are_missing_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.sql.connect.session", None)  # its import fails
    with pytest.raises(SparkProblem, match=r"pip install 'mirror-bridge\[connect\]'$") as raised:
        ConnectJobs("mirror", {"spark.remote": "sc://localhost"})
    assert raised.value.permanent


def drive(
    monkeypatch: pytest.MonkeyPatch, problems: list[SparkProblem], *then: bytes
) -> list[dict[str, object]]:
    """The statuses of a driver whose attempts to start Spark end so; it is told `then` after the last one."""

    async def run(output: int) -> None:
        reader = asyncio.StreamReader(limit=LONGEST)
        reader.feed_data(pack_spec(spec()))
        left = list(problems)

        def failing(*_: object) -> None:
            failed = left.pop(0)
            if not left:
                for each in then:
                    loop.call_soon_threadsafe(reader.feed_data, each)
            raise failed

        loop = asyncio.get_running_loop()
        monkeypatch.setattr(driver, "SparkJobs", failing)
        await driver.drive(reader, output)

    monkeypatch.setattr(driver, "FIRST_PAUSE", 0.01)
    ours, theirs = os.pipe()
    try:
        asyncio.run(run(theirs))
        return [json.loads(line)["status"] for line in os.read(ours, 65536).splitlines()]
    finally:
        os.close(ours)
        os.close(theirs)


def test_a_server_that_is_away_is_tried_again_until_the_driver_is_to_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    last = drive(monkeypatch, [SparkProblem("gone")] * 3, pack_stop())[-1]
    assert (last["state"], last["errors"]) == (PipelineState.RETRYING, ["gone"])


def test_what_only_another_installation_changes_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    last = drive(monkeypatch, [SparkProblem("too old", permanent=True)])[-1]
    assert (last["state"], last["failure"], last["failure_code"]) == (
        PipelineState.FAILED,
        "too old",
        "spark",
    )


WITHOUT_JVM = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if any(name == each or name.startswith(each + ".") for each in ("py4j", "pyspark.core", "pyspark.sql.classic")):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hidden())
import pyspark.sql.connect.session as connect
from bridge.pipeline.driver import main as driver
from bridge.pipeline.driver.connect_jobs import ConnectJobs
from tests.unit.pipeline.driver.connect_session import Server
import pyspark

connect.SparkSession.Builder.create = lambda builder: Server(pyspark.__version__)
jobs = ConnectJobs("mirror", {"spark.remote": sys.argv[1], "spark.archives": "", "spark.default.parallelism": "2"})
print(jobs.slots, sorted({"py4j", "pyspark.core"} & sys.modules.keys()))
jobs.close()
"""


def test_a_driver_needs_no_more_of_pyspark_than_its_client_has() -> None:
    """As docs/spark.md says of pyspark-client, which has neither jars nor py4j."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"sc://127.0.0.1:{listening.getsockname()[1]}"
        done = subprocess.run(
            [sys.executable, "-c", WITHOUT_JVM, address], capture_output=True, text=True, check=False
        )
    assert (done.stdout.strip(), done.returncode) == ("2 []", 0), done.stderr
