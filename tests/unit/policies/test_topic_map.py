"""Topic maps: what is mapped where, and that no two topics get one name, by proof and by trying."""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridge.errors import ConfigRejected
from bridge.mm2.replication_policy import counterpart, is_cycle
from bridge.policies import TopicMap
from tests.support.forms import mostly_long
from tests.unit.special_files import SPECIAL_FILES, special_file

MAP, FILE = "replication.policy.topic.map", "replication.policy.topic.map.file"


def topic_map(entries: str, **more: str) -> TopicMap:
    policy = TopicMap()
    policy.configure({"source.cluster.alias": "A", MAP: entries, **more})
    return policy


def errors(entries: str, **more: str) -> list[str]:
    with pytest.raises(ConfigRejected) as raised:
        topic_map(entries, **more)
    assert {error.key for error in raised.value.errors} == {MAP}
    return [error.message for error in raised.value.errors]


@pytest.mark.parametrize(
    ("entries", "topic", "remote"),
    [
        ("a=b,c.*=d.$0", "a", "b"),
        ("a=b,c.*=d.$0", "c", "d.c"),
        ("a=b,c.*=d.$0", "c1", "d.c1"),
        ("a=b,c.*=d.$0", "b", "A.b"),
        ("a=b,c.*=d.$0", "x.y", "A.x.y"),
        ("a=b,c.*=d.$0", "heartbeats", "A.heartbeats"),
        ("prod-(.*)=$1", "prod-orders", "orders"),
        ("(.*)-v1=v1.$1", "orders-v1", "v1.orders"),
        ("orders.v1=orders", "orders.v1", "orders"),
        ("orders.v1=orders", "ordersXv1", "A.ordersXv1"),
        ("a=x.$0", "a", "x.a"),
        ("a=b,b=a", "a", "b"),
        ("orders=bills,.*=copy.$0", "orders", "bills"),
        ("orders=bills,.*=copy.$0", "bills", "copy.bills"),
        ("orders-[0-9]+=$0", "orders-12", "orders-12"),
        ("c.*=d.$0", "c.heartbeats", "A.c.heartbeats"),
        ("prod-(.*)=$1", "prod-heartbeats", "A.prod-heartbeats"),
        ("prod-(.*)=$1", "prod-__x", "A.prod-__x"),
        ("prod-(.*)=$1", "prod-A.x", "A.prod-A.x"),
        ("c.*=d.$0,d.*=e.$0", "d.c", "e.d.c"),
        (".*=d.$0", "checkpoints.internal", "A.checkpoints.internal"),
    ],
)
def test_names_and_back(entries: str, topic: str, remote: str) -> None:
    policy = topic_map(entries)
    assert policy.format_remote_topic("A", topic) == remote
    assert (policy.topic_source(remote), policy.upstream_topic(remote)) == ("A", topic)


def test_a_name_that_nothing_is_mapped_to_is_read_as_by_default() -> None:
    policy = topic_map("a=b,c.*=d.$0")
    assert [policy.topic_source(name) for name in ("a", "d.x", "B.orders", "orders")] == [
        None,
        "d",
        "B",
        None,
    ]
    assert policy.upstream_topic("B.orders") == "orders"


def test_a_map_that_goes_round_ends() -> None:
    policy = topic_map("a=b,b=a")
    assert policy.original_topic("a") in ("a", "b")
    assert not is_cycle(policy, "a", "B")
    assert counterpart(policy, "a", "A", "B", reverse=False) == "b"
    assert policy.is_heartbeats_topic("B.heartbeats")
    assert not policy.is_heartbeats_topic("a")


@pytest.mark.parametrize(
    ("entries", "why"),
    [
        ("a=x,b=x", ["'a=x' and 'b=x' map to one name: a and b would both come to x"]),
        ("a=b,c.*=$0,cx=cy", ["'cx=cy' is never used: 'c.*=$0', which comes first, fits its topic"]),
        ("cx=cy,c.*=$0", ["'c.*=$0' and 'cx=cy' map to one name: cy and cx would both come to cy"]),
        (
            "c.*=d.$0,dc.*=d.$0,dc1=y",
            ["'dc1=y' is never used: 'dc.*=d.$0', which comes first, fits its topic"],
        ),
        ("(.*)-x=$1,y(.*)=$1", ["'(.*)-x=$1' and 'y(.*)=$1' map to one name: "]),
        ("c.*=d.$0,c1.*=e.$0", ["'c1.*=e.$0' is never used: entries before it fit all of its topics"]),
        ("c.*=d", ["all topics that the pattern fits would get one name; put $0 or $1 into the name"]),
        ("c.*=$0.$0", ["put $0 or $1 into the name on the target, once"]),
        ("c(.*)=$2", ["put $0 or $1 into the name on the target, once"]),
        ("c=$1", ["the name of one topic has no groups; $0 is the whole name"]),
        ("(a*)(b*)=$1", ["$1 stands for the pattern's only group"]),
        ("a.*(b*)=$1", ["$1 stands for the pattern's only group"]),
        (
            "a=A.b",
            ["'a=A.b' and the default names of topics without an entry, <alias>.<topic>, map to one name"],
        ),
        (
            "c(.*)=A.$1",
            ["entries before it fit all of its topics, or it maps to names that begin with A."],
        ),
        ("c.*=d.$0,.*=$0", ["'c.*=d.$0' and '.*=$0' map to one name: c and d.c would both come to d.c"]),
        ("a=heartbeats", ["'a=heartbeats' maps to a name of MirrorMaker's own, a to heartbeats"]),
        ("a=__x", ["maps to a name of MirrorMaker's own, a to __x"]),
        ("c.*=$0,d(c.*)=$1", ["'c.*=$0' and 'd(c.*)=$1' map to one name: c and dc would both come to c"]),
        ("heartbeats=x", ["maps a topic of MirrorMaker's own, which keeps its name"]),
        ("a=b,a=c", ["'a=b' and 'a=c' name one topic"]),
        ("a", ["'a' is no entry; a map is written as a=b,c.*=d.$0"]),
        ("a=", ["'a=' is no entry"]),
        ("a=b c", ["a topic's name on the target has letters"]),
        ("(?!a).*=b.$0", ["(?!…) is not supported"]),
        ("a{1,2}=b", ["'a{1' is no entry", "'2}=b'"]),
        ("a=x,b=x,c.*=d", ["put $0 or $1"]),
        ("(a|b)*a(a|b){30}=x.$0,(a|b)*b(a|b){30}=x.$0", ["can't be proven"]),
    ],
)
def test_what_is_no_map_is_an_error_that_names_the_entries(entries: str, why: list[str]) -> None:
    text = "; ".join(errors(entries))
    assert any(each in text for each in why), text


def test_all_errors_come_at_once() -> None:
    assert len(errors("c.*=d,(=x.$0,a=b c")) == 3
    assert len(errors("a=x,b=x,c=y,d=y")) == 2


@pytest.mark.parametrize(
    ("given", "why"),
    [({}, "none is"), ({MAP: "a=b", FILE: "/x"}, "both are given"), ({MAP: " "}, "none is")],
)
def test_there_is_one_map(given: dict[str, str], why: str) -> None:
    with pytest.raises(ConfigRejected) as raised:
        TopicMap().configure({"source.cluster.alias": "A", **given})
    assert why in str(raised.value)


def test_a_file_has_an_entry_a_line(tmp_path: Path) -> None:
    file = tmp_path / "topics.map"
    file.write_text("# ours\norders = bills\n\nc[0-9]{1,2}=d.$0\n")
    policy = TopicMap()
    policy.configure({"source.cluster.alias": "A", FILE: str(file)})
    assert [policy.format_remote_topic("A", name) for name in ("orders", "c12", "c123")] == [
        "bills",
        "d.c12",
        "A.c123",
    ]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("password=hunter2\nuser=hunter2", "line 1 and line 2 map to one name"),
        ("root:x:hunter2", "line 1 is no entry; each line has one entry: source=target"),
        ("hunter2=a b", "line 1: a topic's name on the target has letters"),
        ("x.*=hunter2.$0\n(hunter2)?.*=$0", "line 1 and line 2 map to one name"),
    ],
)
def test_errors_of_a_file_name_lines_and_no_text(tmp_path: Path, text: str, why: str) -> None:
    file = tmp_path / "topics.map"
    file.write_text(text)
    with pytest.raises(ConfigRejected) as raised:
        TopicMap().configure({"source.cluster.alias": "A", FILE: str(file)})
    assert {error.key for error in raised.value.errors} == {FILE}
    assert why in str(raised.value)
    assert "hunter2" not in str(raised.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigRejected) as raised:
        TopicMap().configure({FILE: str(tmp_path / "missing")})
    assert "No such file" in str(raised.value)


@pytest.mark.parametrize("kind", SPECIAL_FILES)
def test_what_is_no_file_is_not_read(tmp_path: Path, kind: str) -> None:
    named = tmp_path / "named"
    special_file(named, kind)
    raised: list[ConfigRejected] = []

    def read() -> None:
        with pytest.raises(ConfigRejected) as rejected:
            TopicMap().configure({FILE: str(named)})
        raised.append(rejected.value)

    # In a thread: one that waits for a FIFO waits for ever.
    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    thread.join(60)
    assert raised, "it hangs"
    assert f"Invalid value {named} for configuration {FILE}: it is no regular file" in str(raised[0])


def test_many_names_are_read_quickly() -> None:
    policy = topic_map(",".join(f"orders-{number}=bills-{number}" for number in range(1000)) + ",x(.*)=y$1")
    assert policy.upstream_topic("bills-999") == "orders-999"
    assert policy.upstream_topic("yz") == "xz"


WORDS = ["".join(each) for count in range(1, 5) for each in itertools.product("ab-", repeat=count)]


def random_map(dice: random.Random) -> str:
    def entry() -> str:
        word = dice.choice(["a", "b", "ab", "a-", "-b"])
        other = dice.choice(["a", "b", "x", "-a", "ba"])
        inner = dice.choice([".*", "a*", "[ab]*", "(?:ab)*", "a|b-", "b+"])
        forms = [
            f"{word}={other}",
            f"{word}(?:{inner})={other}$0",
            f"{word}({inner})={other}$1",
        ]
        return dice.choice([*forms, f"({inner}){word}=$1{other}"])

    return ",".join(entry() for _ in range(dice.randint(1, 4)))


def images(policy: TopicMap) -> Iterator[tuple[str, str]]:
    for word in WORDS:
        if not policy.is_internal_topic(word):
            yield word, policy.format_remote_topic("A", word)


@pytest.mark.parametrize("block", mostly_long(range(10), 2))
def test_an_accepted_map_has_a_reverse_and_a_refused_one_has_two_sources(block: int) -> None:
    accepted = 0
    for seed in range(block * 40, block * 40 + 40):
        entries = random_map(random.Random(seed))
        try:
            policy = topic_map(entries)
        except ConfigRejected as rejected:
            for error in rejected.errors:
                if " would both come to " in error.message:
                    text = error.message.rpartition(": ")[2]
                    sources, _, remote = text.partition(" would both come to ")
                    one, _, other = sources.partition(" and ")
                    assert one != other or "default names" in error.message, error.message
                    assert remote, error.message
            continue
        accepted += 1
        names = list(images(policy))
        assert len({remote for _, remote in names}) == len(names), entries
        for topic, remote in names:
            assert policy.upstream_topic(remote) == topic, (entries, topic, remote)
            assert policy.topic_source(remote) == "A"
    assert accepted > 2
