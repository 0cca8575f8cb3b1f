"""Ours beside stock MirrorCheckpointConnector with sync.group.offsets.enabled, and without its internal topics."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest
from confluent_kafka import Consumer

from tests.e2e.flow import SHIFT, Flow, exactly, stays
from tests.support import (
    admin,
    commit,
    connector,
    create_topic,
    eventually,
    mirroring,
    stock_config,
    unique,
    wait_mirrored,
)
from tests.support.waiting import wait_equal
from tests.support.waits import WAIT

INTERVALS = 3.0


@pytest.fixture
def stock_copy(flow: Flow) -> Iterator[str]:
    """A topic that stock MirrorSourceConnector copies for the time of the test, 1,000 records behind foreign ones."""
    topic = create_topic(flow.source.bootstrap, unique("mirrored"))
    create_topic(flow.target.bootstrap, flow.remote(topic))
    flow.foreign(topic, SHIFT)
    flow.fill(topic, 1000, copy=False)
    with mirroring(flow.worker, flow.source, flow.target, [topic]):
        wait_mirrored(flow.source, flow.target, [topic], flow.worker)
        yield topic


@contextmanager
def _stock_sync(flow: Flow, groups: str) -> Iterator[str]:
    config = stock_config(
        "Checkpoint", flow.source, flow.target, groups=groups, sync_group_offsets_enabled="true"
    )
    with connector(flow.worker, config) as name:
        yield name


@pytest.mark.long
def test_ours_never_regresses_what_stock_wrote(flow: Flow, stock_copy: str) -> None:
    """Side by side: stock's answer for a group that lags is lower, ours is exact; neither is ever moved back."""
    mark = unique("side")
    offsets = {f"{mark}-{number}": 100 * number + 50 for number in range(1, 6)}
    places = {group: {(stock_copy, 0): offset} for group, offset in offsets.items()}
    for group, place in places.items():
        commit(flow.source.bootstrap, group, place)
    answers: dict[str, int] = {}
    with _stock_sync(flow, f"{mark}.*"):

        def stock_wrote() -> None:
            for group in offsets:
                (answers[group],) = flow.there(group).values()

        eventually(stock_wrote, WAIT, what="stock has synced every group", watched=flow.watched)
        assert all(answers[group] < offset + SHIFT for group, offset in offsets.items()), answers
        seen = {group: [answers[group]] for group in offsets}
        with flow.connector(f"{mark}.*") as name:

            def exact_now() -> bool:
                for group, each in seen.items():
                    each.extend(flow.there(group).values())
                return all(each[-1] == offsets[group] + SHIFT for group, each in seen.items())

            eventually(exact_now, WAIT, what="ours has made every group exact", watched=flow.watched)
            stays(exact_now, INTERVALS, what="exact, with both connectors running")
            ahead = next(iter(offsets))
            commit(flow.source.bootstrap, ahead, {(stock_copy, 0): 980})
            offsets[ahead] = 980
            eventually(exact_now, WAIT, what=f"{ahead} has moved on", watched=flow.watched)
            wait_equal(lambda: flow.service.status(name)["reasons"], {}, watched=flow.watched)
        assert all(one == sorted(one) for one in seen.values()), f"something moved back: {seen}"


class Flapping:
    """A member that joins a group on the target and leaves it, over and over."""

    def __init__(self, bootstrap: str, group: str, topic: str) -> None:
        self._settings = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
        self._topic = topic
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"flapping {group}")

    def __enter__(self) -> Flapping:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(WAIT)

    def _run(self) -> None:
        while not self._ended.is_set():
            joined = threading.Event()
            consumer = Consumer(self._settings)
            consumer.subscribe([self._topic], on_assign=lambda *_, joined=joined: joined.set())
            while not joined.is_set() and not self._ended.is_set():
                consumer.poll(0.05)
            consumer.close()


@pytest.mark.long
def test_what_stock_overwrites_is_repaired_within_one_interval(
    flow: Flow, stock_copy: str, record_property: Callable[[str, object], None]
) -> None:
    """KAFKA-19794: a group that is not EMPTY when stock looks, and is when stock writes, is moved back by stock.

    Stock looks at every group before it writes the first: the more groups, the wider that gap.
    """
    mark = unique("overwrite")
    others = [f"{mark}-other-{number}" for number in range(60)]
    victims = [f"{mark}-victim-{number}" for number in range(3)]
    exact = {(stock_copy, 0): 500}
    for group in (*others, *victims):
        commit(flow.source.bootstrap, group, exact)
    with flow.connector(f"{mark}.*") as name:
        for group in (*others, *victims):
            flow.wait_there(group, {(stock_copy, 0): 500 + SHIFT})
        back: dict[str, int] = {}

        def moved_back() -> bool:
            for group in victims:
                (offset,) = flow.there(group).values()
                if offset < 500 + SHIFT:
                    back[group] = offset
            return bool(back)

        with _stock_sync(flow, f"{mark}.*"):
            with ExitStack() as flapping:
                for group in victims:
                    flapping.enter_context(Flapping(flow.target.bootstrap, group, flow.remote(stock_copy)))
                eventually(moved_back, WAIT, what="stock moves a group back", watched=flow.watched)
            record_property("stock moved back", str(back))
        # With stock gone nothing else moves them on: what stands there now, or soon, is ours.
        flow.wait_rounds(name, 1)
        for group in back:
            flow.wait_there(group, {(stock_copy, 0): 500 + SHIFT}, timeout=2.0)


def test_a_mirror_without_offset_syncs_is_enough(flow: Flow) -> None:
    """emit.offset-syncs.enabled=false: the seed's promise that no internal topic is needed."""
    topic, group = create_topic(flow.source.bootstrap, unique("quiet")), unique("quiet")
    flow.fill(topic, 300, copy=False)
    alias = unique("b")
    quiet = stock_config("Source", flow.source, flow.target, topics=topic)
    quiet = {
        key: value for key, value in quiet.items() if not key.startswith(("offset-syncs", "emit.offset"))
    }
    quiet |= {"emit.offset-syncs.enabled": "false", "target.cluster.alias": alias}
    commit(flow.source.bootstrap, group, {(topic, 0): 123})
    with connector(flow.worker, quiet):
        wait_mirrored(flow.source, flow.target, [topic], flow.worker)
        with flow.connector(exactly(group), target_cluster_alias=alias):
            flow.wait_there(group, {(topic, 0): 123})
            flow.wait_verdict(group, topic)
    topics = admin(flow.source.bootstrap).list_topics(timeout=60).topics
    assert f"mm2-offset-syncs.{alias}.internal" not in topics
