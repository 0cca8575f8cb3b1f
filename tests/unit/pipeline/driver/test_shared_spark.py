"""A Spark that connectors share: started once, started again, ended with the last of them."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from bridge.pipeline.driver import shared_spark
from bridge.pipeline.driver.jobs import job_tag
from bridge.pipeline.driver.shared_spark import SharedSpark, SharedSparks
from tests.support.messages import message
from tests.support.waiting import until

HOLDS = """
import pathlib
import sys
from bridge.pipeline.driver.frames import Gateway, pack_gateway, read_line
read_line(sys.stdin.buffer.readline())["settings"]
log = pathlib.Path(__file__).with_name("log")
with log.open("a") as lines:
    lines.write("started\\n")
sys.stdout.buffer.write(pack_gateway(Gateway(len(log.read_text().splitlines()), "secret")))
sys.stdout.buffer.flush()
for line in sys.stdin.buffer:
    with log.open("a") as lines:
        lines.write(line.decode())
    if b"stop" in line or b"dies" in line:
        sys.exit(b"dies" in line)
"""
ALIKE = {"spark.shared": "true", "topics": "a"}


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "holding_spark.py").write_text(HOLDS)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    monkeypatch.setattr(shared_spark, "FIRST_BACKOFF", 0.05)
    monkeypatch.setattr(
        shared_spark, "SharedSpark", lambda settings: SharedSpark(settings, module="holding_spark")
    )
    return tmp_path / "log"


def test_connectors_that_are_alike_join_one_and_it_ends_with_the_last(log: Path) -> None:
    async def play() -> None:
        sparks = SharedSparks()
        one, two = sparks.join("one", ALIKE), sparks.join("two", {**ALIKE, "topics": "b"})
        other = sparks.join("three", {**ALIKE, "spark.driver.memory": "2g"})
        try:
            assert one is two is not other
            assert (await one.gateway()).secret == "secret"
            await sparks.leave("one", one)
            assert one.pid is not None
        finally:
            await sparks.leave("two", two)
            await sparks.leave("three", other)
        assert one.pid is None

    asyncio.run(play())
    assert '{"cancel":"one"}' in log.read_text().replace(" ", "")


def test_one_that_ends_says_so_until_it_runs_again(log: Path) -> None:
    async def play() -> None:
        sparks = SharedSparks()
        spark = sparks.join("one", ALIKE)
        try:
            await spark.gateway()
            spark.cancel("dies")
            await until(lambda: bool(spark.problem))
            ended = message("copying.spark_restarts", connectors="one", how="exit status 1")
            assert spark.problem == ended
            await until(lambda: not spark.problem)
            assert (await spark.gateway()).port > 1
        finally:
            await sparks.leave("one", spark)

    asyncio.run(play())


def test_a_tag_tells_connectors_apart() -> None:
    names = ["a", "a b", "a,b", "a%2Cb"]
    assert len({job_tag(name) for name in names}) == len(names)
    assert not any("," in job_tag(name) for name in names)
