"""MirrorClient, the formatters and .properties files beside stock's own classes, on the same broker."""

from __future__ import annotations

import asyncio
import random
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from bridge import client
from bridge.client import MirrorClient
from bridge.client.mirror_client import read_config
from bridge.errors import ConfigRejected, KafkaFailure, KafkaFault
from bridge.java_properties import PropertiesProblem, load_properties
from bridge.local import Broker, LocalStack
from bridge.mm2.java_regex import compile_java
from bridge.mm2.records import Checkpoint, Heartbeat, OffsetSync, SchemaError
from bridge.model.values import Committed, Side, TopicPartition
from bridge.service.wiring import mirror_queries
from tests.support import Record, create_topic, delete_topic, produce
from tests.support.forms import mostly_long
from tests.support.java import RECORDED_OR_LIVE, Ask, Field, Oracle, asking
from tests.support.messages import message_pattern


@pytest.fixture(scope="module")
def java(tmp_path_factory: pytest.TempPathFactory) -> Ask:
    """Asked of clusters that run."""
    source = Path(__file__).with_name("JavaMirrorClient.java")
    return asking(Oracle(source, tmp_path_factory.mktemp("java"), "JavaMirrorClient", live=True))


@pytest.fixture(scope="module", params=RECORDED_OR_LIVE)
def offline(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Oracle:
    source, live = Path(__file__).with_name("JavaMirrorClient.java"), request.param == "live"
    return Oracle(source, tmp_path_factory.mktemp("offline"), "JavaMirrorClient", live=live)


# -- topics and hops -------------------------------------------------------------------------------------------------

TOPICS = [
    *("orders", "A.orders", "B.A.orders", "C__orders", ".hidden", "a.", "A..b", "us-west.orders"),
    *("heartbeats", "A.heartbeats", "B.A.heartbeats", "C.B.A.heartbeats", "myheartbeats", "D__heartbeats"),
    *(
        "A.checkpoints.internal",
        "B.A.checkpoints.internal",
        "checkpoints.internal",
        "C__checkpoints__internal",
    ),
    *("mm2-offset-syncs.A.internal", "mm2-offset-syncs__A__internal", "foo.internal", "x-internal", "__mine"),
]
ENDS_WITH_HEARTBEATS = {"myheartbeats", "D__heartbeats"}
POLICIES: list[Mapping[str, str]] = [
    {},
    {"replication.policy.separator": "__"},
    {
        "replication.policy.separator": "__",
        "replication.policy.internal.topic.separator.enabled": "false",
    },
    {"replication.policy.internal.topic.separator.enabled": "false"},
    {"replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"},
    {
        "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
        "source.cluster.alias": "A",
    },
]


@pytest.fixture(scope="module")
def broker(stack: LocalStack) -> Broker:
    """With these topics only."""
    running = stack.broker("client")
    for topic in TOPICS:
        create_topic(running.bootstrap, topic)
    return running


def given(broker: Broker, policy: Mapping[str, str]) -> dict[str, str]:
    return {"bootstrap.servers": broker.bootstrap, **policy}


def text(props: Mapping[str, str]) -> str:
    return "".join(f"{key}={value}\n" for key, value in props.items())


@pytest.mark.long
@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: " ".join(policy.values()) or "default")
def test_topics_and_hops(broker: Broker, java: Ask, policy: Mapping[str, str]) -> None:
    props = given(broker, policy)
    aliases = ["A", "B", "C", "D", "us-west", "nobody", ""]

    async def ours() -> list[list[str]]:
        async with MirrorClient(props) as mirror:
            return [
                *[[str(await mirror.replication_hops(alias))] for alias in aliases],
                sorted(await mirror.heartbeat_topics()),
                sorted(await mirror.checkpoint_topics()),
                sorted(await mirror.upstream_clusters()),
                sorted(await mirror.remote_topics()),
                *[sorted(await mirror.remote_topics(alias)) for alias in aliases],
            ]

    questions: list[Sequence[str | None]] = [
        *[["hops", alias] for alias in aliases],
        *[[f"{name}_topics"] for name in ("heartbeat", "checkpoint")],
        ["upstream_clusters"],
        *[["remote_topics", alias] for alias in (None, *aliases)],
    ]
    theirs = java([["client", text(props), *question] for question in questions])
    result = asyncio.run(ours())
    if "source.cluster.alias" in policy:
        # B29: to stock whatever ends with heartbeats is one, and not mirrored under its own name.
        assert set(result[-len(aliases) - 1]) - set(theirs[-len(aliases) - 1]) == ENDS_WITH_HEARTBEATS
        result = [[each for each in row if each not in ENDS_WITH_HEARTBEATS] for row in result]
    assert result == theirs
    assert any(theirs[-len(aliases) - 1])


@pytest.mark.long
def test_one_question_without_an_event_loop(broker: Broker) -> None:
    props = given(broker, {})
    assert client.replication_hops(props, "A") == 1
    assert client.replication_hops(props, "nobody") == -1
    assert client.upstream_clusters(props) == {"A", "B", "C"}
    assert "B.A.heartbeats" in client.heartbeat_topics(props)
    assert client.checkpoint_topics(props) == {"A.checkpoints.internal", "B.A.checkpoints.internal"}
    assert client.remote_topics(props, "B") == {"B.A.orders", "B.A.heartbeats"}


def test_with_a_policy_of_ones_own_questions_are_answered_in_another_process(
    broker: Broker, checkpoints: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As here, and nothing of it is loaded here."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "policy_of_others.py").write_text(
        "from bridge.mm2.replication_policy import DefaultReplicationPolicy\n"
        "class Policy(DefaultReplicationPolicy): pass\n"
    )
    here = {"target.cluster.bootstrap.servers": broker.bootstrap}
    there = here | {"replication.policy.class": "python:policy_of_others.Policy"}
    side, mirror, group = Side.TARGET, mirror_queries(), compile_java("(?i)G-?1?")
    asked: list[Callable[[dict[str, str]], object]] = [
        lambda props: mirror.replication_hops(props, "A", side),
        lambda props: mirror.heartbeat_topics(props, side),
        lambda props: mirror.checkpoint_topics(props, side),
        lambda props: mirror.upstream_clusters(props, side),
        lambda props: mirror.remote_topics(props, "B", side),
        lambda props: mirror.translate_offsets(props, checkpoints, group, 20, side),
    ]
    for ask in asked:
        result = ask(there)
        assert result == ask(here)
        assert result
    assert "policy_of_others" not in sys.modules


# -- offsets of groups -----------------------------------------------------------------------------------------------


def some_checkpoints(rng: random.Random, count: int) -> Iterator[Record]:
    """Few groups and partitions, so that later ones replace earlier ones; one in ten is no checkpoint."""
    groups = ["g", "g-1", "g.1", "größe", "console-consumer-7", ""]
    for _ in range(count):
        place = TopicPartition(rng.choice(["A.orders", "A.t"]), rng.randrange(3))
        upstream, downstream = rng.randrange(-1, 2**40), rng.randrange(-1, 2**63 - 1)
        metadata = rng.choice(["", "m", "möchte", "x" * 500])
        result = Checkpoint(rng.choice(groups), place, upstream, downstream, metadata)
        key, value = result.key(), result.value()
        match rng.randrange(20):
            case 0:
                value = value[: rng.randrange(len(value))]
            case 1:
                key = key[: rng.randrange(len(key))]
            case 2:
                value = b"\0\x07" + value[2:] + b"more"
        yield Record(value, key=key)


def as_lines(offsets: Mapping[str, Mapping[TopicPartition, Committed]]) -> set[str]:
    return {
        f"{group} {place.topic} {place.partition} {at.offset} {at.metadata}"
        for group, some in offsets.items()
        for place, at in some.items()
    }


@pytest.fixture(scope="module")
def checkpoints(broker: Broker) -> str:
    """A topic of checkpoints of which some can't be read; its alias."""
    rng = random.Random(4)
    topic = create_topic(broker.bootstrap, "E.checkpoints.internal", 1, {"cleanup.policy": "compact"})
    produce(broker.bootstrap, topic, some_checkpoints(rng, 3000))
    return "E"


@pytest.mark.long
def test_offsets_of_groups(broker: Broker, java: Ask, checkpoints: str) -> None:
    props = given(broker, {})
    groups = ["g", "größe", "console-consumer-7", "", "nobody", "g."]
    answers = java([["client", text(props), "group", group, checkpoints] for group in groups])
    for group, theirs in zip(groups, answers, strict=True):
        result = client.translate_offsets(props, checkpoints, group, 30)
        assert as_lines({group: result}) == set(theirs)
        assert bool(result) is (group not in ("nobody", "g."))


@pytest.mark.long
def test_offsets_of_patterns(broker: Broker, java: Ask, checkpoints: str) -> None:
    props = given(broker, {})
    patterns = [".*", "g", "g.1", "g-?1?", "(?i)GRÖSSE|größe", "console-.*", "x"]
    answers = java([["client", text(props), "pattern", pattern, checkpoints] for pattern in patterns])
    for pattern, theirs in zip(patterns, answers, strict=True):
        result = client.translate_offsets(props, checkpoints, compile_java(pattern), 30)
        assert as_lines(result) == set(theirs), pattern


@pytest.mark.long
def test_a_tombstone_ends_stock_and_not_us(broker: Broker, java: Ask) -> None:
    place = TopicPartition("A.orders", 0)
    one, other = Checkpoint("g", place, 1, 2, ""), Checkpoint("h", place, 3, 4, "")
    topic = create_topic(broker.bootstrap, "T.checkpoints.internal")
    records = [Record(one.value(), key=one.key()), Record(other.value(), key=other.key())]
    produce(broker.bootstrap, topic, [*records, Record(None, key=one.key())])
    props = given(broker, {})
    (theirs,) = java([["client", text(props), "group", "h", "T"]])
    assert theirs[:2] == ["error", "NullPointerException"]
    assert client.translate_offsets(props, "T", re.compile(".*"), 30) == {"h": {place: Committed(4)}}


def test_a_topic_that_is_missing(broker: Broker) -> None:
    """Stock waits a minute for it."""
    with pytest.raises(KafkaFailure, match=r"nowhere\.checkpoints\.internal") as caught:
        client.translate_offsets(given(broker, {}), "nowhere", "g", 30)
    assert caught.value.fault is KafkaFault.UNKNOWN_TOPIC


@pytest.mark.long
def test_a_large_topic_within_the_time(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    checkpoint = Checkpoint("g", TopicPartition("A.orders", 0), 1, 2, "")
    topic = create_topic(broker.bootstrap, "L.checkpoints.internal")
    produce(broker.bootstrap, topic, [Record(checkpoint.value(), key=checkpoint.key())] * 100_000)
    expected = {checkpoint.topic_partition: Committed(2)}
    assert client.translate_offsets(given(broker, {}), "L", "g", 30) == expected
    assert "not read to its end" not in caplog.text
    delete_topic(broker.bootstrap, topic)


# -- consumers -------------------------------------------------------------------------------------------------------


def heartbeat(source: str, at: int) -> Record:
    made = Heartbeat(source, "here", at)
    return Record(made.value(), key=made.key())


@pytest.mark.long
def test_a_consumer_of_all_heartbeats(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    produce(broker.bootstrap, "A.heartbeats", [heartbeat("A", at) for at in range(100)])
    produce(
        broker.bootstrap, "B.A.heartbeats", [heartbeat("B", 7), Record(b"x", key=b"y"), heartbeat("B", 8)]
    )
    props = given(broker, {})
    consumed = list(client.heartbeat_consumer(props, idle_s=1))
    assert [record.value for record in consumed if record.topic == "A.heartbeats"] == [
        Heartbeat("A", "here", at) for at in range(100)
    ]
    assert [(record.offset, record.value) for record in consumed if record.topic == "B.A.heartbeats"] == [
        (0, Heartbeat("B", "here", 7)),
        (2, Heartbeat("B", "here", 8)),
    ]
    assert "B.A.heartbeats at offset 1 is skipped" in caplog.text
    assert not list(client.heartbeat_consumer(props, from_beginning=False, idle_s=0.5))


def test_a_consumer_sees_topics_that_appear_and_go(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    """The new topic is read from its beginning, though those that were there are not."""
    consumer = client.heartbeat_consumer(given(broker, {}), from_beginning=False, idle_s=60)
    topics = ["N.heartbeats", "M.N.heartbeats"]

    def produced() -> None:
        for topic in topics:
            create_topic(broker.bootstrap, topic)
            produce(broker.bootstrap, topic, [heartbeat("N", 1)])

    with closing(consumer), ThreadPoolExecutor() as pool:
        making = pool.submit(produced)
        assert {next(consumer).topic, next(consumer).topic} == set(topics)
        making.result()
        delete_topic(broker.bootstrap, topics[0])
        produce(broker.bootstrap, topics[1], [heartbeat("N", 2)])
        assert next(consumer).value == Heartbeat("N", "here", 2)
    delete_topic(broker.bootstrap, topics[1])


@pytest.mark.long
def test_a_consumer_of_all_checkpoints(broker: Broker, checkpoints: str) -> None:
    place = TopicPartition("A.orders", 0)
    one = Checkpoint("g", place, 1, 2, "")
    topic = create_topic(broker.bootstrap, "D.C.checkpoints.internal")
    produce(broker.bootstrap, topic, [Record(one.value(), key=one.key()), Record(None, key=one.key())])

    async def ours() -> dict[str, list[Checkpoint | None]]:
        values: dict[str, list[Checkpoint | None]] = {}
        async with MirrorClient(given(broker, {})) as mirror:
            async for record in mirror.checkpoint_consumer(idle_s=1):
                values.setdefault(record.topic, []).append(record.value)
        return values

    values = asyncio.run(ours())
    assert values[topic] == [one, None]
    latest = {(each.group, each.topic_partition): each for each in values["E.checkpoints.internal"] if each}
    groups = client.translate_offsets(given(broker, {}), checkpoints, re.compile(".*", re.DOTALL), 30)
    assert {(group, at): offset.offset for group, some in groups.items() for at, offset in some.items()} == {
        key: each.downstream_offset for key, each in latest.items()
    }
    delete_topic(broker.bootstrap, topic)


def test_a_consumer_ends_in_an_error_when_nothing_answers() -> None:
    """Its end means that nothing came, never that nothing could be read."""
    with pytest.raises(KafkaFailure):
        list(client.heartbeat_consumer({"bootstrap.servers": "127.0.0.1:1"}, idle_s=0.5))


# -- configuration ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "props",
    mostly_long(
        [
            {},
            {"bootstrap.servers": ""},
            {"bootstrap.servers": "a:1,,b:2"},
            {"bootstrap.servers": "a:1", "security.protocol": "abc"},
            {"bootstrap.servers": "a:1", "replication.policy.internal.topic.separator.enabled": "yes"},
        ]
    ),
)
def test_errors_of_a_configuration(offline: Oracle, props: dict[str, str]) -> None:
    (theirs,) = asking(offline)([["client", text(props), "hops", "A"]])
    assert theirs[:2] == ["error", "ConfigException"]
    with pytest.raises(ConfigRejected) as caught:
        read_config(props)
    assert [error.message for error in caught.value.errors] == [theirs[2]]


def test_servers_that_are_given_twice(offline: Oracle) -> None:
    """Stock gets as far as its admin client, and names no key."""
    props = {"bootstrap.servers": "a:1,a:1"}
    (theirs,) = asking(offline)([["client", text(props), "hops", "A"]])
    assert theirs[:2] == ["error", "KafkaException"]
    with pytest.raises(ConfigRejected, match=message_pattern("config.repeated", key="bootstrap.servers")):
        read_config(props)


# -- formatters and files --------------------------------------------------------------------------------------------


def test_formatters(offline: Oracle) -> None:
    rng = random.Random(11)
    names = ["group-1", "topic-2", "", "größe", "a\nb", "\0", "🦜"]
    kinds = {"heartbeat": Heartbeat.decode, "checkpoint": Checkpoint.decode, "sync": OffsetSync.decode}
    questions: list[tuple[str, bytes, bytes]] = []
    for _ in range(offline.scaled(2500)):
        place = TopicPartition(rng.choice(names), rng.randrange(-1, 2**31))
        one, two = rng.randrange(-(2**63), 2**63), rng.choice([0, -1, 2**63 - 1])
        heartbeat = Heartbeat(rng.choice(names), rng.choice(names), one)
        sync, checkpoint = OffsetSync(place, one, two), Checkpoint("g", place, one, two, rng.choice(names))
        for kind, made in (("heartbeat", heartbeat), ("sync", sync), ("checkpoint", checkpoint)):
            key, value = made.key(), made.value()
            if rng.random() < 0.2:
                value = value[: rng.randrange(len(value))]
            questions.append((kind, key, value))
    answers = asking(offline)([["format", *question] for question in questions])
    for question, answer in zip(questions, answers, strict=True):
        kind, key, value = question
        if answer[0] == "error":
            assert answer[1] == "SchemaException"
            with pytest.raises(SchemaError):
                kinds[kind](key, value)
        else:
            assert [f"{kinds[kind](key, value)}\n"] == answer


def test_properties_files(offline: Oracle, tmp_path: Path) -> None:
    """As java.util.Properties reads them: thousands of files of the characters that mean something there."""
    rng = random.Random(7)
    pieces = [
        "a",
        "b",
        "=",
        ":",
        " ",
        "\t",
        "\f",
        "\\",
        "\n",
        "\r",
        "\r\n",
        "#",
        "!",
        "\\u00e9",
        "\\n",
        "é",
        "\\\n",
    ]
    files = [
        "",
        "a",
        "a=b\\",
        "\\",
        "\\\n",
        "a\\\n   \nb=c",
        "k : v ",
        "sasl.jaas.config=x \\\n  y;\n",
        "a\\ub=c",
    ]
    files += ["".join(rng.choices(pieces, k=rng.randrange(1, 14))) for _ in range(offline.scaled(3000))]
    path = tmp_path / "client.properties"
    questions: list[list[Field]] = [["properties", file.encode("latin-1")] for file in files]
    for file, answer in zip(files, asking(offline)(questions), strict=True):
        path.write_bytes(file.encode("latin-1"))
        if answer[:2] == ["error", "IllegalArgumentException"]:
            with pytest.raises(PropertiesProblem, match="line 1"):
                load_properties(path)
            continue
        theirs = dict(zip(answer[::2], answer[1::2], strict=True))
        # A lone backslash at the very end is a key without a name, or not, by the kind of line end after it.
        assert load_properties(path) | {"": ""} == theirs | {"": ""}, repr(file)
