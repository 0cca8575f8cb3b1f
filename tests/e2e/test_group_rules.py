"""The rules of group offset sync by name, on real clusters."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition

from tests.e2e.ground import SHIFT, WAIT, Ground, exactly, stays
from tests.support import (
    Record,
    active_member,
    add_partitions,
    admin,
    commit,
    connector,
    create_topic,
    delete_records,
    delete_topic,
    eventually,
    mirroring,
    produce,
    read,
    resume,
    stock_config,
    unique,
    wait_mirrored,
)

INTERVALS = 3.0
ODD = {
    "commas": "rules,with,commas",
    "quotes": "rules \"double\" and 'single' `back`",
    "slashes": "rules/with/../slashes\\and%2Fpercent",
    "unicode": "rules-grüße-消費者-🚚",
    "spaces": " rules with  spaces ",
    "question": "rules?group=x&y=#z",
    "regex": "rules.*(a|b)[c]+$",
    "long": "rules-" + "x" * 240,
}


@pytest.fixture(scope="module")
def rules(ground: Ground) -> Iterator[str]:
    """One connector with default rules for all tests here whose groups begin with `rules`."""
    with ground.connector(r"\s?rules.*", tasks_max=2) as name:
        yield name


def _group() -> str:
    return unique("rules")


# -- never backward ------------------------------------------------------------------------------------------------


def test_an_offset_on_the_target_never_moves_back(ground: Ground, rules: str) -> None:
    topic, group = ground.topic(), _group()
    commit(ground.source.bootstrap, group, {(topic, 0): 60})
    ground.wait_there(group, {(topic, 0): 60 + SHIFT})
    commit(ground.source.bootstrap, group, {(topic, 0): 20})
    row = ground.wait_reason(group, topic, "target_ahead")
    assert (row["written"], row["detail"]["target_ahead_by"]) == (60 + SHIFT, 40)
    assert not ground.service.report(group)["ready"]
    ground.wait_rounds(rules)
    assert ground.there(group) == {(ground.remote(topic), 0): 60 + SHIFT}
    commit(ground.source.bootstrap, group, {(topic, 0): 61})
    ground.wait_there(group, {(topic, 0): 61 + SHIFT})
    assert ground.service.report(group)["ready"]


def test_what_somebody_else_wrote_on_the_target_is_not_moved_back(ground: Ground, rules: str) -> None:
    topic, group = ground.topic(), _group()
    commit(ground.target.bootstrap, group, {(ground.remote(topic), 0): 90})
    commit(ground.source.bootstrap, group, {(topic, 0): 20})
    ground.wait_reason(group, topic, "target_ahead")
    assert ground.there(group) == {(ground.remote(topic), 0): 90}


def test_one_partition_that_is_ahead_does_not_hold_up_the_others(ground: Ground, rules: str) -> None:
    topic, group = ground.topic(partitions=2), _group()
    commit(ground.target.bootstrap, group, {(ground.remote(topic), 0): 90})
    commit(ground.source.bootstrap, group, {(topic, 0): 20, (topic, 1): 20})
    ground.wait_there(group, {(topic, 0): 90, (topic, 1): 20 + SHIFT})
    ground.wait_reason(group, topic, "target_ahead")
    assert ground.service.partition(group, topic, 1)["verdict"] == "exact"


# -- active groups -------------------------------------------------------------------------------------------------


def test_a_group_that_becomes_active_on_the_target_is_left_alone_and_says_so(
    ground: Ground, rules: str
) -> None:
    topic, group = ground.topic(), _group()
    commit(ground.source.bootstrap, group, {(topic, 0): 20})
    ground.wait_there(group, {(topic, 0): 20 + SHIFT})
    assert ground.service.report(group)["ready"]
    with active_member(ground.target.bootstrap, group, [ground.remote(topic)]):
        commit(ground.source.bootstrap, group, {(topic, 0): 50})

        def said() -> None:
            report = ground.service.report(group)
            assert (report["reason"], report["target_state"]) == ("group_active_on_target", "ACTIVE"), report
            assert not report["ready"]
            (row,) = report["partitions"]
            assert (row["committed"], row["written"]) == (50, 20 + SHIFT)
            assert row["detail"]["answer"] == 50 + SHIFT

        eventually(said, WAIT, what=f"{group} says that it is active", watched=ground.watched)
        assert ground.service.status(rules)["reasons"]["group_active_on_target"] >= 1
        explained = " ".join(ground.service.get(f"/v1/groups/{group}/explain")["lines"])
        assert "group_active_on_target" in explained
        stays(
            lambda: set(ground.there(group).values()) == {20 + SHIFT},
            INTERVALS,
            what=f"{group} is left alone",
        )
    ground.wait_there(group, {(topic, 0): 50 + SHIFT})


def test_a_consumer_resumes_at_the_exact_record(ground: Ground, rules: str) -> None:
    topic, group = ground.topic(), _group()
    commit(ground.source.bootstrap, group, {(topic, 0): 42})
    ground.wait_there(group, {(topic, 0): 42 + SHIFT})
    (on_source,) = resume(ground.source.bootstrap, group, [topic])
    (on_target,) = resume(ground.target.bootstrap, group, [ground.remote(topic)])
    assert on_target.content == on_source.content
    assert on_target.value == b"value-42"


# -- beside stock --------------------------------------------------------------------------------------------------


@pytest.fixture
def stock_copy(ground: Ground) -> Iterator[str]:
    """A topic that stock MirrorSourceConnector copies for the time of the test, 1,000 records behind foreign ones."""
    topic = create_topic(ground.source.bootstrap, unique("mirrored"))
    create_topic(ground.target.bootstrap, ground.remote(topic))
    ground.foreign(topic, SHIFT)
    ground.fill(topic, 1000, copy=False)
    with mirroring(ground.worker, ground.source, ground.target, [topic]):
        wait_mirrored(ground.source, ground.target, [topic], ground.worker)
        yield topic


@contextmanager
def _stock_sync(ground: Ground, groups: str) -> Iterator[str]:
    config = stock_config(
        "Checkpoint", ground.source, ground.target, groups=groups, sync_group_offsets_enabled="true"
    )
    with connector(ground.worker, config) as name:
        yield name


def test_ours_never_regresses_what_stock_wrote(ground: Ground, stock_copy: str) -> None:
    """Side by side: stock's answer for a group that lags is lower, ours is exact; neither is ever moved back."""
    mark = unique("side")
    offsets = {f"{mark}-{number}": 100 * number + 50 for number in range(1, 6)}
    places = {group: {(stock_copy, 0): offset} for group, offset in offsets.items()}
    for group, place in places.items():
        commit(ground.source.bootstrap, group, place)
    answers: dict[str, int] = {}
    with _stock_sync(ground, f"{mark}.*"):

        def stock_wrote() -> None:
            for group in offsets:
                (answers[group],) = ground.there(group).values()

        eventually(stock_wrote, 60, what="stock has synced every group", watched=ground.watched)
        assert all(answers[group] < offset + SHIFT for group, offset in offsets.items()), answers
        seen = {group: [answers[group]] for group in offsets}
        with ground.connector(f"{mark}.*") as name:

            def exact_now() -> bool:
                for group, found in seen.items():
                    found.extend(ground.there(group).values())
                return all(found[-1] == offsets[group] + SHIFT for group, found in seen.items())

            eventually(exact_now, WAIT, what="ours has made every group exact", watched=ground.watched)
            stays(exact_now, INTERVALS, what="exact, with both connectors running")
            ahead = next(iter(offsets))
            commit(ground.source.bootstrap, ahead, {(stock_copy, 0): 980})
            offsets[ahead] = 980
            eventually(exact_now, WAIT, what=f"{ahead} has moved on", watched=ground.watched)
            assert ground.service.status(name)["reasons"] == {}
        assert all(found == sorted(found) for found in seen.values()), f"something moved back: {seen}"


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


def test_what_stock_overwrites_is_repaired_within_one_interval(
    ground: Ground, stock_copy: str, record_property: Callable[[str, object], None]
) -> None:
    """KAFKA-19794: a group that is not EMPTY when stock looks, and is when stock writes, is moved back by stock.

    Stock looks at every group before it writes the first: the more groups, the wider that gap.
    """
    mark = unique("overwrite")
    others = [f"{mark}-other-{number}" for number in range(60)]
    victims = [f"{mark}-victim-{number}" for number in range(3)]
    exact = {(stock_copy, 0): 500}
    for group in (*others, *victims):
        commit(ground.source.bootstrap, group, exact)
    with ground.connector(f"{mark}.*") as name:
        for group in (*others, *victims):
            ground.wait_there(group, {(stock_copy, 0): 500 + SHIFT})
        back: dict[str, int] = {}

        def moved_back() -> bool:
            for group in victims:
                (offset,) = ground.there(group).values()
                if offset < 500 + SHIFT:
                    back[group] = offset
            return bool(back)

        with _stock_sync(ground, f"{mark}.*"):
            with ExitStack() as flapping:
                for group in victims:
                    flapping.enter_context(
                        Flapping(ground.target.bootstrap, group, ground.remote(stock_copy))
                    )
                eventually(moved_back, 90, what="stock moves a group back", watched=ground.watched)
            record_property("stock moved back", str(back))
        # With stock gone nothing else moves them on: what stands there now, or soon, is ours.
        ground.wait_rounds(name, 1)
        for group in back:
            ground.wait_there(group, {(stock_copy, 0): 500 + SHIFT}, timeout=2.0)


def test_a_mirror_without_offset_syncs_is_enough(ground: Ground) -> None:
    """emit.offset-syncs.enabled=false: the seed's promise that no internal topic is needed."""
    topic, group = create_topic(ground.source.bootstrap, unique("quiet")), unique("quiet")
    ground.fill(topic, 300, copy=False)
    alias = unique("b")
    quiet = stock_config("Source", ground.source, ground.target, topics=topic)
    quiet = {
        key: value for key, value in quiet.items() if not key.startswith(("offset-syncs", "emit.offset"))
    }
    quiet |= {"emit.offset-syncs.enabled": "false", "target.cluster.alias": alias}
    commit(ground.source.bootstrap, group, {(topic, 0): 123})
    with connector(ground.worker, quiet):
        wait_mirrored(ground.source, ground.target, [topic], ground.worker)
        with ground.connector(exactly(group), target_cluster_alias=alias):
            ground.wait_there(group, {(topic, 0): 123})
            assert ground.service.partition(group, topic)["verdict"] == "exact"
    topics = admin(ground.source.bootstrap).list_topics(timeout=10).topics
    assert f"mm2-offset-syncs.{alias}.internal" not in topics


# -- what is written, and when -------------------------------------------------------------------------------------


def test_a_dry_run_writes_nothing_and_shows_the_plan(ground: Ground) -> None:
    topic, fresh, there = ground.topic(), unique("dry"), unique("dry")
    commit(ground.target.bootstrap, there, {(ground.remote(topic), 0): 3})
    for group in (fresh, there):
        commit(ground.source.bootstrap, group, {(topic, 0): 30})
    with ground.connector(f"{exactly(fresh)}|{exactly(there)}", dry_run="true") as name:

        def planned() -> None:
            for group, written in ((fresh, None), (there, 3)):
                report = ground.service.report(group)
                (row,) = report["partitions"]
                assert (report["reason"], report["ready"]) == ("dry_run", False), report
                assert (row["target_offset"], row["written"], row["verdict"]) == (
                    30 + SHIFT,
                    written,
                    "exact",
                )

        eventually(planned, WAIT, what="both groups show what would be written", watched=ground.watched)
        ground.wait_rounds(name)
        assert (ground.there(fresh), ground.there(there)) == ({}, {(ground.remote(topic), 0): 3})


def test_rewind_moves_back_only_what_is_still_ours(ground: Ground) -> None:
    topic, ours, theirs = ground.topic(), unique("rewind"), unique("rewind")
    groups = f"{exactly(ours)}|{exactly(theirs)}"
    with ground.connector(groups, sync_group_offsets_rewind="empty-groups") as name:
        for group in (ours, theirs):
            commit(ground.source.bootstrap, group, {(topic, 0): 60})
            ground.wait_there(group, {(topic, 0): 60 + SHIFT})
        # Somebody has worked on with the second group on the target.
        commit(ground.target.bootstrap, theirs, {(ground.remote(topic), 0): 80})
        for group in (ours, theirs):
            commit(ground.source.bootstrap, group, {(topic, 0): 20})
        ground.wait_there(ours, {(topic, 0): 20 + SHIFT})
        ground.wait_reason(theirs, topic, "target_ahead")
        ground.wait_rounds(name)
        assert ground.there(theirs) == {(ground.remote(topic), 0): 80}
        assert ground.service.report(ours)["ready"]
        # Also not while somebody works with it.
        with active_member(ground.target.bootstrap, ours, [ground.remote(topic)]):
            commit(ground.source.bootstrap, ours, {(topic, 0): 10})
            eventually(
                lambda: ground.service.report(ours)["reason"] == "group_active_on_target",
                WAIT,
                what="ours is active",
            )
            assert ground.there(ours) == {(ground.remote(topic), 0): 20 + SHIFT}
        ground.wait_there(ours, {(topic, 0): 10 + SHIFT})


@pytest.mark.parametrize("metadata", ["", "plain", 'a "quoted" ü 消費 🚚, {json: 1}', "x" * 3000])
def test_metadata_is_copied_byte_for_byte(ground: Ground, rules: str, metadata: str) -> None:
    topic, group = ground.topic(10), _group()
    commit(ground.source.bootstrap, group, {(topic, 0): 5}, metadata=metadata)
    ground.wait_there(group, {(topic, 0): 5 + SHIFT})
    client = admin(ground.target.bootstrap)
    (future,) = client.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
    (found,) = future.result(WAIT).topic_partitions
    assert isinstance(found, TopicPartition)
    assert (found.metadata or "") == metadata


@pytest.mark.parametrize("group", ODD.values(), ids=ODD)
def test_group_ids_of_any_kind(ground: Ground, rules: str, group: str) -> None:
    topic = ground.topic(10)
    commit(ground.source.bootstrap, group, {(topic, 0): 5})
    ground.wait_there(group, {(topic, 0): 5 + SHIFT})

    def reported() -> None:
        report = ground.service.report(group)
        assert (report["group"], report["connector"], report["verdict"]) == (group, rules, "exact")

    eventually(reported, WAIT, what=f"{group!r} is reported")
    assert group in ground.service.groups(rules)


def test_a_group_id_with_a_comma_is_two_where_a_list_is_given(ground: Ground) -> None:
    """task.assigned.groups is a list, as stock's: an id with a comma can't be in it, and takes nobody else with it."""
    topic, mark = ground.topic(10), unique("assigned")
    groups = [f"{mark}-a", f"{mark}-b", f"{mark}-c", f"{mark}-a,{mark}-b"]
    for group in groups:
        commit(ground.source.bootstrap, group, {(topic, 0): 5})
    with ground.connector(f"{mark}.*", task_assigned_groups=f"{mark}-a,{mark}-b") as name:
        for group in groups[:2]:
            ground.wait_there(group, {(topic, 0): 5 + SHIFT})
        ground.wait_rounds(name)
        assert sorted(ground.service.groups(name)) == groups[:2]
        assert (ground.there(groups[2]), ground.there(groups[3])) == ({}, {})


# -- topics that change --------------------------------------------------------------------------------------------


def test_a_source_topic_recreated_between_two_rounds(ground: Ground, rules: str) -> None:
    topic, group = ground.topic(), _group()
    commit(ground.source.bootstrap, group, {(topic, 0): 60})
    ground.wait_there(group, {(topic, 0): 60 + SHIFT})
    delete_topic(ground.source.bootstrap, topic)
    create_topic(ground.source.bootstrap, topic)
    records = ground.fill(topic, 100, start=1000, copy=False)
    commit(ground.source.bootstrap, group, {(topic, 0): 60})
    # The same offset of another log: what was true of the old one must not be said of the new one.
    ground.wait_rounds(rules)
    row = ground.service.partition(group, topic)
    assert (row["verdict"], row["written"]) == ("pending", 60 + SHIFT), row
    assert not ground.service.report(group)["ready"]
    ground.copy(topic, records)
    ground.wait_there(group, {(topic, 0): SHIFT + 100 + 60})
    assert ground.service.partition(group, topic)["verdict"] == "exact"


def test_a_target_topic_recreated_between_two_rounds(ground: Ground, rules: str) -> None:
    topic, group = ground.topic(), _group()
    commit(ground.source.bootstrap, group, {(topic, 0): 60})
    ground.wait_there(group, {(topic, 0): 60 + SHIFT})
    delete_topic(ground.target.bootstrap, ground.remote(topic))
    # A group without offsets is gone with its topic; until there is a copy again there is nothing to write.
    ground.wait_reason(group, topic, "target_topic_missing")
    create_topic(ground.target.bootstrap, ground.remote(topic))
    ground.copy(topic, read(ground.source.bootstrap, topic)[40:])
    ground.wait_there(group, {(topic, 0): 20})
    assert ground.service.partition(group, topic)["verdict"] == "exact"


def test_a_partition_added_between_two_rounds(ground: Ground, rules: str) -> None:
    topic, group = ground.topic(), _group()
    commit(ground.source.bootstrap, group, {(topic, 0): 60})
    ground.wait_there(group, {(topic, 0): 60 + SHIFT})
    add_partitions(ground.source.bootstrap, topic, 2)
    records = ground.fill(topic, 50, partition=1, copy=False)
    commit(ground.source.bootstrap, group, {(topic, 1): 25})
    ground.wait_reason(group, topic, "target_partition_missing", partition=1)
    assert ground.service.partition(group, topic, 0)["verdict"] == "exact"
    add_partitions(ground.target.bootstrap, ground.remote(topic), 2)
    ground.copy(topic, records)
    ground.wait_there(group, {(topic, 0): 60 + SHIFT, (topic, 1): 25})


def test_a_topic_whose_broker_stamps_records_says_so(ground: Ground, rules: str) -> None:
    topic, group = create_topic(ground.source.bootstrap, unique("late")), _group()
    plain = unique("plain")
    create_topic(
        ground.target.bootstrap, ground.remote(topic), configs={"message.timestamp.type": "LogAppendTime"}
    )
    ground.fill(topic, 50)
    for each in (group, plain):
        commit(ground.source.bootstrap, each, {(topic, 0): 25})
    ground.wait_reason(group, topic, "target_timestamp_type")
    with ground.connector(exactly(plain), translation_verify="false"):
        ground.wait_reason(plain, topic, "target_timestamp_type")
    assert (ground.there(group), ground.there(plain)) == ({}, {})


# -- the seed's plain rule -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Plain:
    ground: Ground
    mark: str
    name: str

    def group(self) -> str:
        return unique(self.mark)


@pytest.fixture(scope="module")
def plain(ground: Ground) -> Iterator[Plain]:
    mark = unique("plainly")
    with ground.connector(f"{mark}.*", translation_verify="false") as name:
        yield Plain(ground, mark, name)


def test_plain_what_is_not_mirrored_yet_is_a_debug_line_and_a_skip(plain: Plain) -> None:
    ground, group = plain.ground, plain.group()
    topic = ground.topic()
    commit(ground.source.bootstrap, group, {(topic, 0): 60})
    ground.wait_there(group, {(topic, 0): 60 + SHIFT})
    late = ground.fill(topic, 50, start=100, copy=False)
    commit(ground.source.bootstrap, group, {(topic, 0): 120})
    ground.wait_reason(group, topic, "not_mirrored_yet")
    log = ground.process.process.log.read_text().splitlines()
    said = [line for line in log if f"{topic}-0 offset 120" in line]
    assert said
    assert all("not_mirrored_yet" in line and "DEBUG" in line for line in said), said
    assert ground.there(group) == {(ground.remote(topic), 0): 60 + SHIFT}
    ground.copy(topic, late)
    ground.wait_there(group, {(topic, 0): 120 + SHIFT})
    row = ground.service.partition(group, topic)
    assert (row["verdict"], row["bound"], row["evidence"]) == ("bounded", None, "timestamp")


def test_plain_a_record_that_is_gone_is_deferred(plain: Plain) -> None:
    ground, group = plain.ground, plain.group()
    topic = ground.topic()
    commit(ground.source.bootstrap, group, {(topic, 0): 10})
    delete_records(ground.source.bootstrap, topic, {0: 30})
    ground.wait_reason(group, topic, "record_gone")
    ground.wait_rounds(plain.name)
    assert ground.there(group) == {}
    commit(ground.source.bootstrap, group, {(topic, 0): 31})
    ground.wait_there(group, {(topic, 0): 31 + SHIFT})


def test_plain_records_of_one_millisecond_are_read_again_from_the_first(plain: Plain) -> None:
    """The seed's example: 980 to 990 share a timestamp, 990 is answered by the copy of 980."""
    ground, group = plain.ground, plain.group()
    topic = ground.topic(20)
    burst = [Record(b"burst-%d" % number, timestamp=1_700_000_100_000) for number in range(11)]
    produce(ground.source.bootstrap, topic, burst)
    ground.copy(topic, burst)
    commit(ground.source.bootstrap, group, {(topic, 0): 30})
    ground.wait_there(group, {(topic, 0): 20 + SHIFT})


def test_plain_never_backward(plain: Plain) -> None:
    ground, group = plain.ground, plain.group()
    topic = ground.topic()
    commit(ground.target.bootstrap, group, {(ground.remote(topic), 0): 90})
    commit(ground.source.bootstrap, group, {(topic, 0): 20})
    ground.wait_reason(group, topic, "target_ahead")
    assert ground.there(group) == {(ground.remote(topic), 0): 90}
