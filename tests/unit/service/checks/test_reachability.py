"""Validation and start try to reach the clusters: for a bounded time, in nobody's way, without secrets."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence

import pytest

from bridge.kafka.config.settings import StaticClientCheck
from bridge.model.values import Side
from bridge.protocol.messages import ConnectorStatus, StartConnector, ValidateResponse
from bridge.service.answers.status import connector_status
from bridge.service.checks.context import CheckContext, Probe, Probed
from bridge.service.checks.validation import Checker, Reachability
from bridge.service.service import Service
from bridge.service.state.delivery import Traffic
from bridge.service.state.snapshots import ConnectorSnapshot, RoundsState
from bridge.service.state.task_table import Connector
from connectors.base import Summary
from connectors.registry import KINDS
from tests.support.messages import message
from tests.unit.connectors.configs import CONFIGS
from tests.unit.service.service_fakes import fake_service

SERVERS = "source.cluster.bootstrap.servers"
SECRET = "wonderland-9137"
AWAY = {Side.SOURCE: f"a:9092 refuses connections, {SECRET}"}


class FakeProbe:
    """A probe that finds what it is given, and remembers what it was asked."""

    def __init__(
        self, errors: Mapping[Side, str], until: threading.Event | None = None, ids: tuple[str, ...] = ()
    ) -> None:
        """`ids`: of the source and of the target cluster."""
        self.errors, self._until, self._ids = errors, until, dict(zip(Side, ids, strict=False))
        self.sides: list[Sequence[Side]] = []

    def __call__(self, props: Mapping[str, str], sides: Sequence[Side], seconds: float) -> Probed:
        self.sides.append(sides)
        if self._until is not None:
            self._until.wait(10)
        return Probed(self.errors, self._ids)


def serving(probe: Probe, seconds: float = 5.0) -> Service:
    service = fake_service()
    service.checker = Checker(CheckContext(KINDS, StaticClientCheck(), probe), service.pools)
    service.checker.reachability = Reachability(probe, seconds)
    return service


def validated(probe: Probe, kind: str = "group_offset", **changes: str) -> ValidateResponse:
    config: dict[str, str | None] = {**CONFIGS[kind], "bridge.auth.token": SECRET, **changes}
    return ValidateResponse.model_validate_json(asyncio.run(serving(probe).checker.validate(kind, config)))


def errors(answer: ValidateResponse) -> dict[str, list[str]]:
    return {each.value.name: each.value.errors for each in answer.configs if each.value.errors}


@pytest.mark.parametrize("mode", [{}, {"bridge.validate.reachability": "warn"}])
def test_a_cluster_that_is_away_is_a_warning_that_refuses_nothing(mode: dict[str, str]) -> None:
    answer = validated(FakeProbe(AWAY), **mode)
    assert answer.error_count == 0
    (warning,) = answer.warnings
    assert warning.key == SERVERS
    assert warning.message.startswith(
        f"Invalid value {CONFIGS['group_offset'][SERVERS]} for configuration {SERVERS}: "
    )
    assert message("health.refused_connection", side="source", address="a:9092") in warning.message
    assert SECRET not in answer.model_dump_json()


def test_with_error_it_is_an_error_of_its_key() -> None:
    answer = validated(FakeProbe(AWAY), **{"bridge.validate.reachability": "error"})
    assert list(errors(answer)) == [SERVERS]
    assert "a:9092 refuses connections" in errors(answer)[SERVERS][0]
    assert answer.warnings == []
    assert SECRET not in answer.model_dump_json()


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"heartbeat"}))
def test_a_target_that_is_the_source_is_refused_unless_a_key_allows_it(kind: str) -> None:
    same, servers = FakeProbe({}, ids=("x1", "x1")), "target.cluster.bootstrap.servers"
    answer = validated(same, kind)
    assert list(errors(answer)) == [servers]
    (why,) = errors(answer)[servers]
    for named in (str(CONFIGS[kind][servers]), "x1", "bridge.same.cluster"):
        assert named in why
    assert validated(same, kind, **{"bridge.same.cluster": "true"}).error_count == 0
    assert validated(FakeProbe({}, ids=("x1", "x2")), kind).error_count == 0


def test_a_target_that_is_the_source_is_a_condition_where_nobody_could_refuse_it() -> None:
    async def started() -> ConnectorStatus:
        service = serving(FakeProbe({}, ids=("x1", "x1")))
        body = StartConnector(session="1795000000001-a", kind="source", config={**CONFIGS["source"]})
        await service.start_connector("c", body)
        connector = service.table.connector("c")
        for _ in range(2_000):
            if connector.same_cluster:
                break
            await asyncio.sleep(0.01)
        return status(connector, Summary())

    (condition,) = (each for each in asyncio.run(started()).conditions if each.condition == "same_cluster")
    assert "bridge.same.cluster" in condition.detail


def test_with_off_none_is_tried_nor_where_something_else_is_wrong() -> None:
    probe = FakeProbe(AWAY)
    assert validated(probe, **{"bridge.validate.reachability": "off"}).warnings == []
    assert errors(validated(probe, groups="(")).keys() == {"groups"}
    assert probe.sides == []
    assert "bridge.validate.reachability" in errors(
        validated(probe, **{"bridge.validate.reachability": "yes"})
    )


def test_only_clusters_that_the_connector_connects_to_are_tried() -> None:
    probe = FakeProbe({})
    for kind in KINDS:
        assert validated(probe, kind).warnings == []
    assert [list(sides) for sides in probe.sides].count([Side.TARGET]) == 1
    assert [list(sides) for sides in probe.sides].count([Side.SOURCE, Side.TARGET]) == len(KINDS) - 1


def test_many_validations_of_clusters_that_hang_are_in_nobodys_way() -> None:
    async def many() -> None:
        until = threading.Event()
        service = serving(FakeProbe({}, until), seconds=2)
        config: dict[str, str | None] = {**CONFIGS["group_offset"]}
        try:
            asked = [asyncio.create_task(service.checker.validate("group_offset", config)) for _ in range(8)]
            await asyncio.sleep(0)
            await service.checker.check("group_offset", config)
            assert not any(validation.done() for validation in asked)
            answers = await asyncio.gather(*asked)
        finally:
            until.set()
            service.checker.reachability.close()
        texts = [ValidateResponse.model_validate_json(answer).warnings[0].message for answer in answers]
        assert sum("no broker has answered within 2 s" in text for text in texts) == 4
        assert sum("can be reached: all 4 threads are busy" in text for text in texts) == 4

    asyncio.run(many())


def status(known: Connector, summary: Summary) -> ConnectorStatus:
    snapshot = ConnectorSnapshot(summary)
    return connector_status(
        known, snapshot, Traffic(0, 0, 0, None), RoundsState.RUNNING, lambda _: 0, 0, 0, 0
    )


def test_a_start_is_never_refused_and_status_says_what_is_away_until_it_answers() -> None:
    async def start() -> None:
        service = serving(FakeProbe(AWAY))
        config: dict[str, str | None] = {**CONFIGS["group_offset"], "bridge.validate.reachability": "error"}
        body = StartConnector(
            session="1795230000123-9b2f0c5e", protocol=1, kind="group_offset", config=config
        )
        await service.start_connector("c", body)
        known = service.table.connector("c")
        for _ in range(200):
            if known.unreachable:
                break
            await asyncio.sleep(0.01)
        assert any("a:9092 refuses connections" in error for error in status(known, Summary()).errors)
        seen = Summary(clusters_seen=frozenset({"source", "target"}))
        assert not any("refuses" in error for error in status(known, seen).errors)

    asyncio.run(start())
