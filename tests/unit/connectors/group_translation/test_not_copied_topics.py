"""Topics that groups read and the configuration leaves out: named where they were never copied, and a no where what was
copied is behind."""

from __future__ import annotations

import pytest

from bridge.model.values import GroupState, Reason
from bridge.translation.plan import GroupPlan, NotCopied
from connectors.group_translation.records import record_of, report_of
from connectors.group_translation.report import report
from tests.unit.connectors.copied_orders import ORIGINAL
from tests.unit.connectors.fake_clusters import Log
from tests.unit.connectors.group_translation.mirrored_topic import COPY, Flow

WITHOUT_ORDERS = {"topics_exclude": "orders|audit"}


def copied(count: int, committed: int, **offsets: int) -> Flow:
    """A flow that has copied so many of a hundred records; group `g` is committed there, and in other topics."""
    flow = Flow()
    flow.produce(100)
    flow.copy(count)
    flow.commit("g", committed)
    flow.a.group("g", {("orders", 0): committed, **{(name, 0): offset for name, offset in offsets.items()}})
    for name in offsets:
        flow.a.topic(name, Log(epoch=1))
    return flow


@pytest.mark.parametrize(
    ("given", "key"),
    [({"topics_exclude": "audit"}, "topics.exclude"), ({"topics": "orders"}, "topics")],
    ids=["excluded", "not chosen"],
)
def test_a_topic_that_was_never_copied_is_named_and_is_no_reason(given: dict[str, str], key: str) -> None:
    flow = copied(100, 50, audit=3)
    flow.begin_service(**given)
    plan = flow.plan("g")
    assert plan.not_copied == (NotCopied("audit", key),)
    assert said(plan) == (True, None, [("audit", key)])


def test_unless_a_key_says_so() -> None:
    flow = copied(100, 50, audit=3)
    flow.begin_service(topics_exclude="audit")
    assert said(flow.plan("g"), strict=True) == (False, "topic_not_copied", [("audit", "topics.exclude")])


def test_all_topics_of_a_group_are_copied() -> None:
    assert copied(100, 50).plan("g").not_copied == ()


@pytest.mark.parametrize(("committed", "missing"), [(50, 40), (60, 40), (100, 40)])
def test_a_topic_that_was_copied_and_is_left_out_now_is_a_reason_while_it_is_behind(
    committed: int, missing: int
) -> None:
    flow = copied(60, committed)
    assert flow.answer("g").reason is None
    flow.begin_service(**WITHOUT_ORDERS)
    (row,) = flow.plan("g").rows
    assert row.verdict.reason is Reason.TOPIC_LEFT_OUT
    assert row.verdict.detail["not_copied"] == missing
    flow.copy(100)
    assert flow.answer("g").reason is None, "all of it is there"


def test_what_is_left_out_is_no_reason_once_its_copy_is_deleted_or_left_behind() -> None:
    flow = copied(60, 50, invoices=1)
    flow.b.topic("A.invoices", Log(epoch=1))
    left_behind = WITHOUT_ORDERS | {"bridge_topics_left_behind": "orders"}
    flow.begin_service(**left_behind)
    assert [row.source.topic for row in flow.plan("g").rows] == ["invoices"]
    flow.begin_service(**WITHOUT_ORDERS)
    assert {row.verdict.reason for row in flow.plan("g").rows} >= {Reason.TOPIC_LEFT_OUT}
    del flow.b.ids["A.orders"], flow.b.logs[COPY]
    plan = flow.plan("g")
    assert [row.source.topic for row in plan.rows] == ["invoices"]
    assert plan.not_copied == (NotCopied("orders", "topics.exclude"),)
    assert ORIGINAL not in flow.behind, "nobody waits for it"


def said(plan: GroupPlan, *, strict: bool = False) -> tuple[bool, str | None, list[tuple[str, str]]]:
    """Whether the group is ready, why not, and which topics are named: by the report and by the record alike."""
    state = GroupState.EMPTY.value
    made = report(
        plan,
        connector="c",
        source="A",
        target="B",
        task=0,
        state=state,
        synced_at_ms=0,
        needs_all_topics=strict,
    )
    record = record_of(plan, 0, 0, 1, state)
    kept = report_of(
        type(record).read(record.fields()),
        "g",
        connector="c",
        source="A",
        target="B",
        task=0,
        reason=None,
        needs_all_topics=strict,
    )
    one, other = (
        (each.ready, each.reason, [(left.topic, left.key) for left in each.not_copied])
        for each in (made, kept)
    )
    assert one == other
    return one
