"""A refresh: groups and topics are looked for now, in a round that begins after it was asked for."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import httpx
import pytest
from typer.testing import CliRunner

from bridge.cli import app
from bridge.errors import KafkaFailure, KafkaFault, OperationRefused
from bridge.model.values import TopicPartition
from bridge.protocol.messages import ErrorBody, Refreshed
from connectors import cluster_away, internal_topics
from connectors.base import Assignment, RequestedRounds
from connectors.checkpoint.task import CheckpointInstance
from connectors.group_offset.task import GroupOffsetInstance
from connectors.group_translation import instance as groups_instance
from connectors.source import discovery, task
from connectors.source.task import SourceInstance
from tests.unit.connectors.checkpoint.checkpoint_harness import CheckpointHarness, committed_at
from tests.unit.connectors.fake_clusters import JUNK, FakeCluster, Log, mirrored
from tests.unit.connectors.group_offset.group_offset_harness import GroupOffsetHarness
from tests.unit.connectors.run_instance import ALONE, NOBODY
from tests.unit.connectors.source.source_harness import SourceHarness
from tests.unit.mock_http import serve

COPY = TopicPartition("A.orders", 0)
UNREACHABLE = KafkaFailure(KafkaFault.UNREACHABLE, "nobody there")
SELDOM = 3600.0


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_away, "FIRST_RETRY_SECONDS", 0.005)
    monkeypatch.setattr(cluster_away, "LONGEST_RETRY_SECONDS", 0.02)
    monkeypatch.setattr(internal_topics, "PAUSES", (0.0, 0.0, 0))
    monkeypatch.setattr(discovery, "LOOK_AGAIN_SECONDS", 0.005)
    monkeypatch.setattr(task, "WATCH_SECONDS", 0.005)
    monkeypatch.setattr(task, "FIRST_RETRY_SECONDS", 0.005)


def seldom(source: FakeCluster, target: FakeCluster, **given: str) -> GroupOffsetHarness:
    """An instance whose next round is an hour away."""
    harness = GroupOffsetHarness(source, target, **given)
    harness.options = replace(harness.options, sync_interval=SELDOM, refresh_groups_interval=SELDOM)
    return harness


def test_groups_are_looked_for_and_synced_now() -> None:
    source, target = mirrored()
    source.group("old", {("orders", 0): 5})
    source.group("gone", {("orders", 0): 5})
    harness = seldom(source, target, refresh_groups_enabled="false")

    async def script(instance: GroupOffsetInstance) -> None:
        await harness.rounds(1)
        source.group("new", {("orders", 0): 7})
        source.delete_group("gone")
        answer = await instance.operate("refresh", {})
        assert answer == {"found": 2, "added": ["new"], "removed": ["gone"]}
        assert target.offsets["new"][COPY].offset == 7 + JUNK
        assert set(harness.published.reports) == {"old", "new"}
        assert harness.published.summaries[-1].rounds == 2
        assert (await instance.operate("refresh", {}))["added"] == []

    harness.play(script)


def test_copies_that_are_to_come_are_looked_for_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both connectors are PUT together: the copy takes seconds, and the next round is an hour away."""
    monkeypatch.setattr(groups_instance, "COPIES_SOON", 0.01)
    source, target = mirrored()
    source.group("g", {("orders", 0): 5})
    del target.ids["A.orders"]
    copies = target.logs.pop(COPY)
    harness = seldom(source, target)

    async def script(_: GroupOffsetInstance) -> None:
        await harness.rounds(1)
        assert harness.published.reports["g"].reason == "target_topic_missing"
        target.topic("A.orders", copies)
        while not harness.published.reports["g"].ready:
            await harness.rounds(1)

    harness.play(script)


def test_a_round_under_way_is_not_waited_for() -> None:
    async def go() -> None:
        rounds = RequestedRounds[int]()
        assert not rounds.begin()
        asking = asyncio.create_task(rounds.round())
        await asyncio.sleep(0)
        rounds.end(1)
        assert rounds.begin()
        rounds.end(2)
        assert await asking == 2

    asyncio.run(go())


def test_a_round_that_is_requested_during_one_follows_it() -> None:
    """The one under way may have read what was before."""
    source, target = mirrored()
    source.group("g", {("orders", 0): 5})
    harness = seldom(source, target)

    async def script(instance: GroupOffsetInstance) -> None:
        await harness.rounds(1)
        answers: list[asyncio.Task[object]] = []

        def during(call: str) -> None:
            if call == "list_groups" and len(answers) == 1:  # in the first one's round
                answers.append(asyncio.ensure_future(instance.operate("refresh", {})))

        target.before = during
        answers.append(asyncio.ensure_future(instance.operate("refresh", {})))
        await answers[0]
        assert harness.published.summaries[-1].rounds == 2
        assert not answers[1].done()
        await answers[1]
        assert harness.published.summaries[-1].rounds == 3

    harness.play(script)


def test_a_refresh_that_can_not_be_is_an_error() -> None:
    source, target = mirrored()
    source.group("g", {("orders", 0): 5})
    harness = seldom(source, target)

    async def script(instance: GroupOffsetInstance) -> None:
        await harness.rounds(1)
        source.away = UNREACHABLE
        with pytest.raises(KafkaFailure, match="source cluster: nobody there"):
            await instance.operate("refresh", {})
        source.away = None
        target.away = UNREACHABLE
        with pytest.raises(KafkaFailure, match="target cluster: nobody there"):
            await instance.operate("refresh", {})
        target.away = None
        with pytest.raises(OperationRefused, match="no operation dance"):
            await instance.operate("dance", {})
        instance.assign(Assignment(1, frozenset()))
        with pytest.raises(OperationRefused, match="connector c does not run"):
            await instance.operate("refresh", {})

    harness.play(script)


def test_a_refresh_emits_checkpoints_and_syncs_offsets_whatever_their_intervals() -> None:
    source, target = committed_at(5)
    harness = CheckpointHarness(
        source,
        target,
        emit_interval=SELDOM,
        sync_interval=SELDOM,
        sync_group_offsets_enabled="true",
    )

    async def script(instance: CheckpointInstance) -> None:
        await instance.operate("refresh", {})
        source.group("g", {("orders", 0): 7})
        assert (await instance.operate("refresh", {}))["found"] == 1
        assert harness.published.offsets[-1] == (7, 7 + JUNK)
        assert target.offsets["g"][COPY].offset == 7 + JUNK

    harness.play(script)


def test_topics_are_looked_for_and_copied_now() -> None:
    harness = SourceHarness()
    harness.options = replace(harness.options, refresh_interval=SELDOM)

    async def script(instance: SourceInstance) -> None:
        with pytest.raises(OperationRefused, match="connector mirror does not run"):
            await instance.operate("refresh", {})
        await harness.begin(instance)
        harness.source.topic("later", Log())
        answer = await instance.operate("refresh", {})
        assert answer == {"found": 2, "added": ["later"], "removed": [], "errors": []}
        assert (TopicPartition("later", 0), "A.later") in harness.assigned
        harness.source.topic_trouble["orders"] = KafkaFailure(KafkaFault.NOT_AUTHORIZED, "not allowed")
        assert (await instance.operate("refresh", {}))["errors"] == ["source cluster: not allowed"]
        del harness.source.topic_trouble["orders"]
        harness.source.away = UNREACHABLE
        with pytest.raises(KafkaFailure, match="source cluster: nobody there"):
            await instance.operate("refresh", {})
        harness.source.away = None
        await instance.operate("refresh", {})
        with pytest.raises(OperationRefused, match="no operation dance"):
            await instance.operate("dance", {})

    harness.play(script)


def test_a_source_connector_that_is_paused_during_a_refresh_refuses_it() -> None:
    harness = SourceHarness()
    harness.options = replace(harness.options, refresh_interval=SELDOM)

    async def script(instance: SourceInstance) -> None:
        await harness.begin(instance)
        hangs = asyncio.Event()

        async def never() -> list[str]:
            hangs.set()
            await asyncio.Event().wait()
            raise AssertionError

        harness.source.topic_names = never  # type: ignore[method-assign]
        asking = asyncio.create_task(instance.operate("refresh", {}))
        await hangs.wait()
        instance.assign(NOBODY)
        with pytest.raises(OperationRefused, match="connector mirror does not run"):
            await asking
        instance.assign(ALONE)

    harness.play(script)


# -- the command -----------------------------------------------------------------------------------------------------

FOUND = Refreshed(name="a/b", kind="group_offset", seconds=0.42, found=2, added=["n\x1b[2J"], removed=["old"])


def _run(
    monkeypatch: pytest.MonkeyPatch, answer: httpx.Response, *arguments: str
) -> tuple[int, str, str, str]:
    asked: list[str] = []

    def respond(request: httpx.Request) -> httpx.Response:
        asked.append(f"{request.method} {request.url.raw_path.decode()}")
        return answer

    with monkeypatch.context() as patched:
        serve(patched, respond)
        done = CliRunner().invoke(app, ["refresh", "a/b", *arguments])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.stdout, done.stderr, asked[0]


def test_the_command_tells_what_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = httpx.Response(200, content=FOUND.model_dump_json())
    code, out, err, asked = _run(monkeypatch, answer, "--timeout", "3")
    assert (code, err) == (0, "")
    assert out.splitlines() == ["2 groups after a round of 0.4 s", "+ n\\x1b[2J", "- old"]
    assert asked == "POST /v1/connectors/a%2Fb/refresh?timeout_ms=3000"
    code, out, _, _ = _run(monkeypatch, answer, "--output", "json")
    assert (code, json.loads(out)) == (0, FOUND.model_dump())


def test_topics_that_could_not_be_looked_at_make_the_command_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    half = FOUND.model_copy(update={"kind": "source", "errors": ["source cluster: not allowed"]})
    code, out, err, _ = _run(monkeypatch, httpx.Response(200, content=half.model_dump_json()))
    assert code == 1
    assert out.startswith("2 topics after")
    assert err == "mirror-bridge: source cluster: not allowed\n"


def test_a_refusal_makes_the_command_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    body = ErrorBody(error_code="refused", message="connector a/b is paused: resume it in Connect")
    code, out, err, _ = _run(monkeypatch, httpx.Response(409, content=body.model_dump_json()))
    assert (code, out) == (1, "")
    assert err == f"mirror-bridge: {body.message}\n"
