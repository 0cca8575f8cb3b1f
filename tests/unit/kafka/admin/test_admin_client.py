"""The library's futures in an event loop: answers, errors, and a cluster that does not answer."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.admin import admin_client
from bridge.kafka.admin.admin_client import AsyncAdminClient, failure_of, words
from bridge.kafka.config.tokens import LibraryTokens, TokenFile
from bridge.kafka.protocol.errors import failure
from tests.support.waiting import until
from tests.unit.kafka.admin.library import Library, done

_TIMED_OUT = KafkaError(KafkaError._TIMED_OUT, "Failed while waiting for controller: Local: Timed out")


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    return Library(monkeypatch)


def pending() -> Future[Any]:
    future: Future[Any] = Future()
    future.set_running_or_notify_cancel()
    return future


async def asks(client: AsyncAdminClient) -> dict[str, Any]:
    return await client.call("ask", AdminClient.create_topics, ["a", "b"])


def test_each_key_has_its_answer_or_its_error(library: Library) -> None:
    denied = KafkaError(29)
    library.answers("create_topics", lambda _: {"a": done(1), "b": done(denied)})
    assert library.run(asks) == {"a": 1, "b": denied}
    assert library.asked == [("create_topics", ["a", "b"], {"request_timeout": 5.0})]
    assert library.network.asked == 0, "nobody else is asked"


def test_a_cluster_that_does_not_answer_fails_the_call(library: Library) -> None:
    library.answers("create_topics", lambda _: {"a": done(_TIMED_OUT), "b": done(_TIMED_OUT)})
    with pytest.raises(KafkaFailure, match="waiting for controller: Local: Timed out") as caught:
        library.run(asks)
    assert (caught.value.fault, caught.value.retriable) == (KafkaFault.TIMEOUT, True)


def test_what_the_library_takes_no_request_for_is_a_failure(library: Library) -> None:
    def refuse(_: object) -> dict[str, Future[Any]]:
        raise ValueError("replication_factor out of expected range")

    library.answers("create_topics", refuse)
    with pytest.raises(KafkaFailure, match="out of expected range"):
        library.run(asks)


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin_client, "SOON", 0.01)


@pytest.mark.usefixtures("soon")
def test_the_network_client_says_why_an_answer_is_late(
    library: Library, caplog: pytest.LogCaptureFixture
) -> None:
    """Long before the library gives up; and its error, which comes later, is nobody's."""
    late = pending()
    library.answers("create_topics", lambda _: {"a": done(_TIMED_OUT), "b": late})
    library.network.failure = failure(KafkaFault.CREDENTIALS, "connect", "Authentication failed")

    async def work(client: AsyncAdminClient) -> None:
        with pytest.raises(KafkaFailure) as caught:
            await asks(client)
        assert caught.value.fault is KafkaFault.CREDENTIALS

    library.run(work)
    late.set_result(None)
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


@pytest.mark.usefixtures("soon")
def test_a_late_answer_is_an_answer(library: Library) -> None:
    late = pending()
    library.answers("create_topics", lambda _: {"a": late})

    async def work(client: AsyncAdminClient) -> dict[str, Any]:
        asyncio.get_running_loop().call_later(0.1, late.set_result, 7)
        return await asks(client)

    assert library.run(work) == {"a": 7}
    assert library.network.asked == 1


def counted(monkeypatch: pytest.MonkeyPatch) -> list[AdminClient]:
    """The clients that are made from now on."""
    made: list[AdminClient] = []
    make = AsyncAdminClient.make_client

    def counting(client: AsyncAdminClient) -> AdminClient:
        made.append(make(client))
        return made[-1]

    monkeypatch.setattr(AsyncAdminClient, "make_client", counting)
    return made


def test_a_controller_that_has_moved_is_looked_for_by_a_new_client(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not by describe_cluster, which ends the process where a broker knows of no broker."""
    codes, made = [41, 41, 0], counted(monkeypatch)
    library.answers("create_topics", lambda _: {"a": done(KafkaError(code) if (code := codes.pop(0)) else 1)})
    assert library.run(asks) == {"a": 1}
    assert [name for name, *_ in library.asked] == ["create_topics"] * 3
    assert len(made) == 3


def test_a_call_under_way_is_not_ended_by_a_new_client(library: Library) -> None:
    slow, codes = pending(), [0, 41, 0]

    def create(_: object) -> dict[str, Future[Any]]:
        code = codes.pop(0)
        return {"a": slow if len(codes) == 2 else done(KafkaError(code) if code else 1)}

    library.answers("create_topics", create)

    async def work(client: AsyncAdminClient) -> list[dict[str, Any]]:
        first = asyncio.create_task(asks(client))
        await asyncio.sleep(0)
        await until(lambda: len(codes) == 2)
        second = await asks(client)
        slow.set_result(2)
        return [await first, second]

    assert library.run(work) == [{"a": 2}, {"a": 1}]


def test_a_controller_that_keeps_moving_is_an_error(library: Library) -> None:
    library.answers("create_topics", lambda _: {"a": done(KafkaError(41))})
    assert library.run(asks) == {"a": KafkaError(41)}


def test_neither_drivers_nor_slices_load_it() -> None:
    """A broker's answer can end the process that has one (decision 0040)."""
    code = "import sys, bridge.pipeline.driver.main, bridge.pipeline.slices.running; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "bridge.kafka.admin.topic_configs" in loaded.stdout.split()
    assert "bridge.kafka.admin.admin_client" not in loaded.stdout.split()


def threads() -> set[int]:
    """The process's threads but Python's own: the loop's pool makes another one when its first is not yet idle."""
    pythons = {each.native_id for each in threading.enumerate()}
    return {int(each.name) for each in Path("/proc/self/task").iterdir()} - pythons


def test_nothing_of_the_library_is_left_after_close() -> None:
    """With a call under way, too: it ends as a failure."""

    class Never:
        async def controller(self, doing: str) -> int:
            await asyncio.sleep(0)
            return 1

    async def go() -> None:
        settings = {"bootstrap.servers": "127.0.0.1:9"}
        before = threads()
        client = AsyncAdminClient(settings, Never(), 60.0)  # type: ignore[arg-type]
        assert threads() == before, "who asks nothing has none"
        asking = asyncio.create_task(client.call("ask", AdminClient.create_topics, [NewTopic("a", 1, 1)]))
        await until(lambda: bool(threads() - before))
        await client.close()
        with pytest.raises(KafkaFailure):
            await asking
        # A thread that has been joined stays in /proc for a moment.
        await until(lambda: threads() <= before)

    asyncio.run(go())


def test_without_a_token_the_reason_is_said_at_once(tmp_path: Path) -> None:
    """The library's constructor would wait 10 s, and not say it."""
    settings = {
        "bootstrap.servers": "127.0.0.1:9",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "oauth_cb": LibraryTokens(TokenFile(str(tmp_path / "none"))),
    }

    class Verified:
        async def verify_logins(self, doing: str) -> None: ...

    async def go() -> None:
        client = AsyncAdminClient(settings, Verified(), 60.0)  # type: ignore[arg-type]
        with pytest.raises(KafkaFailure, match=r"no token from .*No such file") as caught:
            await client.call("ask", AdminClient.create_topics, [NewTopic("a", 1, 1)])
        assert caught.value.fault is KafkaFault.UNREACHABLE
        await client.close()

    asyncio.run(go())


def test_no_client_is_made_that_would_send_its_login_to_a_broker_that_may_not_have_it() -> None:
    class Refusing:
        async def verify_logins(self, doing: str) -> None:
            raise KafkaFailure(KafkaFault.CREDENTIALS, "the cluster names evil.example as a broker")

    class Tokens:
        def __call__(self, config: str) -> tuple[str, float]:
            raise AssertionError("asked for a token")

    async def go() -> None:
        settings = {"bootstrap.servers": "127.0.0.1:9", "oauth_cb": Tokens()}
        client = AsyncAdminClient(settings, Refusing(), 60.0)  # type: ignore[arg-type]
        before = threads()
        with pytest.raises(KafkaFailure, match=r"evil\.example"):
            await client.call("ask", AdminClient.create_topics, [NewTopic("a", 1, 1)])
        assert threads() == before
        await client.close()

    asyncio.run(go())


@pytest.mark.parametrize(
    ("error", "fault", "message"),
    [
        (KafkaError(29), KafkaFault.NOT_AUTHORIZED, ""),
        (KafkaError(40, "no such config"), KafkaFault.OTHER, "no such config"),
        (KafkaError(KafkaError._TRANSPORT), KafkaFault.UNREACHABLE, ""),
        (KafkaError(KafkaError._DESTROY), KafkaFault.UNREACHABLE, ""),
        (KafkaError(KafkaError._DESTROY_BROKER), KafkaFault.UNREACHABLE, ""),
    ],
)
def test_errors(error: KafkaError, fault: KafkaFault, message: str) -> None:
    assert (failure_of(error, "ask", "").fault, words(error)) == (fault, message)
