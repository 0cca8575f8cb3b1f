"""Large configurations are checked in processes of their own, with the answers that all others get."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import pytest

from bridge.errors import ConfigRejected, NotAnswered, Overloaded
from bridge.model.values import Side
from bridge.policy import Policy
from bridge.service.checks.context import CheckContext, Probed
from bridge.service.checks.large_configs import LARGE, LargeConfigs, is_large
from bridge.service.checks.validation import Checker
from bridge.service.ipc.messages import Config
from bridge.service.pool import pools
from bridge.service.wiring import check_context
from connectors.base import CopiedTopics
from connectors.registry import KINDS
from tests.support.messages import message_pattern
from tests.unit.connectors.configs import CONFIGS

NAMES = ",".join(f"orders{n}.*" for n in range(4_000))
POLICY = Policy(spark_keys=("spark.allowed.*",))
PATIENCE = 120.0
"""Seconds of a check whose time is not the subject: a busy machine starts a process in many."""


@pytest.fixture(scope="module")
def large() -> Iterator[LargeConfigs]:
    large = LargeConfigs(POLICY)
    yield large
    large.close()


def away(props: Mapping[str, str], sides: Sequence[Side], seconds: float) -> Probed:
    return Probed(dict.fromkeys(sides, f"nobody at {props['source.cluster.bootstrap.servers']}"), {})


def checker(large: LargeConfigs | None, copied: Sequence[CopiedTopics] = ()) -> Checker:
    context = replace(check_context(POLICY), large=large, probe=away)
    return Checker(context, pools(2, 32, PATIENCE), lambda: copied)


def config(kind: str, **more: str) -> Config:
    return {**CONFIGS[kind], "topics": NAMES, **more}


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        ("group_offset", {}),
        ("group_offset", {"bridge.validate.reachability": "error"}),
        ("group_offset", {"tasks.max": "none", "groups": "("}),
        ("checkpoint", {"source.cluster.ssl.key.password": "geheim", "emit.checkpoints.enabled": "geheim"}),
        ("source", {"spark.allowed.a": "1", "spark.plugins": "org.example.Evil", "nobodys.key": "x"}),
        ("source", {"replication.policy.separator": "é"}),
    ],
)
def test_answers_are_those_of_others(kind: str, more: dict[str, str], large: LargeConfigs) -> None:
    given = config(kind, **more)
    assert is_large(given)

    async def answers(checker: Checker) -> tuple[bytes, object, object]:
        checked: object = None
        rejected: object = None
        try:
            checked = await checker.check(kind, given)
        except ConfigRejected as errors:
            rejected = [(error.key, error.message) for error in errors.errors]
        return await checker.validate(kind, given), checked, rejected

    there = asyncio.run(answers(checker(large)))
    assert there == asyncio.run(answers(checker(None)))
    assert b"geheim" not in there[0]


def test_a_conflict_is_found_too(large: LargeConfigs) -> None:
    given = config("source", **{"replication.policy.class": "IdentityReplicationPolicy"})
    others = [CopiedTopics("other", given, [("orders1", "orders1")])]
    there, here = (asyncio.run(checker(each, others).validate("source", given)) for each in (large, None))
    assert there == here
    assert large.conflicts(KINDS["source"], given, others) == KINDS["source"].conflicts(given, others) != []


def test_a_small_configuration_starts_no_process() -> None:
    large = LargeConfigs(POLICY, "no.such.module")
    small = {**CONFIGS["group_offset"], "topics": "t" * (LARGE // 2)}
    asyncio.run(checker(large).validate("group_offset", small))
    ended = message_pattern("service.checker_ended", how="exit status 1")
    with pytest.raises(Overloaded, match=ended):
        asyncio.run(checker(large).validate("group_offset", config("group_offset")))


def test_a_process_is_kept_and_replaced(large: LargeConfigs) -> None:
    kind, given = KINDS["group_offset"], config("group_offset")
    large.judged(kind, given)
    (pid,) = large.idle
    large.judged(kind, given)
    assert large.idle == [pid]
    os.kill(pid, signal.SIGKILL)
    assert large.judged(kind, given).errors == ()
    assert large.idle != [pid]


def test_a_question_that_takes_too_long_ends_its_process() -> None:
    large = LargeConfigs(POLICY, seconds=0.001)
    with pytest.raises(NotAnswered):
        large.judged(KINDS["group_offset"], config("group_offset"))
    assert large.idle == []


def test_what_waits_is_told_that_processes_are_busy(large: LargeConfigs) -> None:
    """Calls whose time is over keep theirs for a while."""
    busy = LargeConfigs(POLICY, seconds=0.001, most=0)
    with pytest.raises(Overloaded, match="are busy"):
        busy.judged(KINDS["group_offset"], config("group_offset"))


def test_a_context_without_processes_checks_here() -> None:
    context = CheckContext(KINDS, check_context(POLICY).clients)
    answer = asyncio.run(
        Checker(context, pools(1, 1, PATIENCE)).validate("group_offset", config("group_offset"))
    )
    assert b'"error_count":0' in answer
