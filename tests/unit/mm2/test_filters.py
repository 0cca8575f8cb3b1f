"""Filters of topics, groups and topic configs, and Java's regexes in Python's."""

from __future__ import annotations

import threading
from unittest.mock import patch

import pytest

from bridge.mm2 import filters
from bridge.mm2.filters import (
    DefaultConfigPropertyFilter,
    DefaultGroupFilter,
    DefaultTopicFilter,
    PatternList,
    is_left_to_be_named,
    pattern_list_problem,
    should_replicate_topic,
)
from bridge.mm2.java_regex import PatternProblem, Translator, compile_java, exactly
from bridge.mm2.replication_policy import DefaultReplicationPolicy
from bridge.patterns import JavaPattern, PatternTooSlow
from tests.support.messages import message


def topics(**props: str) -> DefaultTopicFilter:
    result = DefaultTopicFilter()
    result.configure({name.replace("_", "."): value for name, value in props.items()})
    return result


def groups(**props: str) -> DefaultGroupFilter:
    result = DefaultGroupFilter()
    result.configure({name.replace("_", "."): value for name, value in props.items()})
    return result


def test_a_filter_that_was_never_configured_matches_nothing() -> None:
    assert not DefaultTopicFilter().should_replicate_topic("a")
    assert not DefaultGroupFilter().should_replicate_group("a")


def test_defaults_of_4_3_1() -> None:
    result = topics()
    assert all(
        result.should_replicate_topic(topic) for topic in ("orders", "foo.internal", "A.orders", "x-internal")
    )
    excluded = ("mm2-offset-syncs.A.internal", "x.replica", "__consumer_offsets", "mm2-layout.A.internal")
    assert not any(result.should_replicate_topic(topic) for topic in excluded)
    default = groups()
    assert default.should_replicate_group("billing")
    assert not any(map(default.should_replicate_group, ("console-consumer-1", "connect-x", "__g")))


def test_the_whole_name_must_match_and_excludes_win() -> None:
    result = topics(topics="order, pay.*", topics_exclude="payroll")
    assert [result.should_replicate_topic(t) for t in ("order", "orders", "payments", "payroll")] == [
        1,
        0,
        1,
        0,
    ]


@pytest.mark.parametrize(
    ("given", "matching", "other"),
    [
        pytest.param("topic1", ["topic1"], ["topic2"], id="MirrorSourceConfigTest.testTopicMatching"),
        pytest.param("", [], ["topic1", "topic2", ""], id="MirrorSourceConfigTest.testNoTopics"),
        pytest.param(".*", ["topic1", "topic2"], [], id="MirrorSourceConfigTest.testAllTopics"),
        pytest.param(
            "topic1, topic2", ["topic1", "topic2"], ["topic3"], id="MirrorSourceConfigTest.testListOfTopics"
        ),
    ],
)
def test_topics(given: str, matching: list[str], other: list[str]) -> None:
    result = topics(topics=given)
    assert all(map(result.should_replicate_topic, matching))
    assert not any(map(result.should_replicate_topic, other))


CONFIG_DEFAULTS = [
    *("follower.replication.throttled.replicas", "leader.replication.throttled.replicas"),
    *("message.timestamp.difference.max.ms", "message.timestamp.type", "unclean.leader.election.enable"),
    *("log.message.timestamp.before.max.ms", "log.message.timestamp.after.max.ms", "min.insync.replicas"),
]
"""What 4.3.1 excludes."""


@pytest.mark.parametrize(
    ("exclude", "matching", "other"),
    [
        pytest.param("prop2", ["prop1"], ["prop2"], id="MirrorSourceConfigTest.testConfigPropertyMatching"),
        pytest.param(None, ["name-1", "name-2", "cleanup.policy"], CONFIG_DEFAULTS, id="the default"),
        pytest.param(
            None,
            ["message.timestamp.before.max.ms", "message.timestamp.after.max.ms"],
            ["min-insync.replicas"],
            id="the default's dots are any character, and two names are those of brokers (B23)",
        ),
        pytest.param("", CONFIG_DEFAULTS, [], id="an empty list excludes nothing"),
        pytest.param(
            r"min\.insync\.replicas,exclude_param.*",
            ["name-1", "min-insync.replicas"],
            ["exclude_param.param1", "min.insync.replicas"],
            id="regexes",
        ),
    ],
)
def test_config_properties(exclude: str | None, matching: list[str], other: list[str]) -> None:
    result = DefaultConfigPropertyFilter()
    if exclude is not None:
        result.configure({"config.properties.exclude": exclude})
    assert all(map(result.should_replicate_config_property, matching))
    assert not any(map(result.should_replicate_config_property, other))


@pytest.mark.parametrize(
    ("defaults_from", "sources"),
    [(None, False), ("target", False), ("source", True), (" source ", True), ("Source", False), ("", False)],
)
def test_defaults_of_the_source_only_by_its_exact_name(defaults_from: str | None, sources: bool) -> None:
    result = DefaultConfigPropertyFilter()
    assert not result.should_replicate_source_default("retention.ms")
    result.configure({"use.defaults.from": defaults_from})
    assert result.should_replicate_source_default("retention.ms") is sources


def test_an_empty_list_matches_nothing() -> None:
    assert not topics(topics="").should_replicate_topic("a")
    assert topics(topics_exclude="").should_replicate_topic("__a")
    assert not groups(groups=" ").should_replicate_group("")


def test_a_regex_with_a_comma_is_joined_again() -> None:
    assert [topics(topics="(a,b)").should_replicate_topic(name) for name in ("a", "b", "a,b")] == [1, 1, 0]


def test_group_ids_of_any_characters() -> None:
    result = groups(groups=r'\Qa"b|c\E.*, grüße-\d+')
    assert [result.should_replicate_group(g) for g in ('a"b|c1', "grüße-7", "a", "grüße-٣")] == [1, 1, 0, 0]


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("(?i)foo|bar", ["FOO", "bAr"], ["foobar"]),
        ("a(?i)b|c", ["aB", "C"], ["AB"]),
        ("(a(?i)b)c", ["aBc"], ["aBC"]),
        ("(?i)a(?-i)b", ["Ab"], ["AB"]),
        ("(?i:a)b", ["Ab"], ["AB"]),
        ("[a-z&&[^b]]+", ["ac"], ["ab"]),
        ("[a-c[x-z]]+", ["ay"], ["d"]),
        ("[^a[bc]]", ["d"], ["a", "b", "dd"]),
        ("[^a-z&&[^q]]", ["q", "A"], ["a"]),
        (r"[\w&&[^\d]]+", ["ab_"], ["a1"]),
        ("[]a]+", ["]a"], ["b"]),
        ("[a-]+", ["a-"], ["b"]),
        ("[a&b]+", ["a&b"], ["c"]),
        (r"\p{Alpha}\P{Digit}[\p{Punct}\p{Upper}]", ["ab!", "aBC"], ["1b!", "a1!"]),
        (r"\Q.*\E+x?", [".***x", ".*"], ["aa"]),
        (r"[\Q^]\E]+", ["^]"], ["a"]),
        (r"(?<n>ab)\k<n>", ["abab"], ["ab"]),
        (r"(a)(b)\2\1", ["abba"], ["abab"]),
        (r"(a)\10", ["aa0"], ["a"]),
        ("a++b|c*+c", ["aab"], ["c"]),
        ("(?>a|ab)c", ["ac"], ["abc"]),
        ("a{2}|b{1,}|c{1,2}", ["aa", "bbb", "cc"], ["a", "ccc"]),
        (r"\x41\u0042\x{43}\0104\t\cA\e", ["ABCD\t\x01\x1b"], []),
        (r"\h\H\v\V\R", [" a\nb\r\n"], ["aa\nb\n"]),
        (r"[\h\H]", ["a", " "], []),
        (r"\Aa\z|b\Z|\bc\B.", ["a", "b", "cd"], ["c"]),
        (".", ["a", "é"], ["\n", "\u2028", "\r"]),
        ("(?s).", ["\n", "a"], []),
        ("(?d).", ["\r", "a"], ["\n"]),
        ("(?s:.)(?-s).", ["\na"], ["a\n"]),
        (r"a\.b\-c\/", ["a.b-c/"], ["axb-c/"]),
        ("a|", ["a", ""], ["b"]),
        ("(?m)^a$", ["a"], ["b"]),
        ("(?=a)a(?!b)c?(?<=a|c)(?<!x)", ["a", "ac"], ["ab"]),
        ("}]", ["}]"], []),
    ],
)
def test_java_regexes(pattern: str, matching: list[str], other: list[str]) -> None:
    regex = compile_java(pattern)
    assert [text for text in matching if not regex.fullmatch(text)] == []
    assert [text for text in other if regex.fullmatch(text)] == []
    limited = JavaPattern(pattern, Translator(pattern).run(), quick=False)
    assert [text for text in (*matching, *other) if limited.fullmatch(text)] == matching


@pytest.mark.parametrize(
    ("pattern", "quick"),
    [
        (".*", True),
        ("orders-.*|payments[.].*,x", True),
        (r"mm2.*\.internal|.*\.replica|__.*", True),
        ("console-consumer-.*|connect-.*|__.*", True),
        ("(eu|us)[.]orders", True),
        ("a{2}b+|c*d?", True),
        ("(a+)+", False),
        ("(?:a|aa)*x", False),
        ("(a|a)(a|a)(a|a)", False),
        ("a?a?a?aaa", False),
        (r"(a)\1", False),
        (r"(?<n>a*)\k<n>", False),
        (r"(?:a{1,9}){9}", False),
    ],
)
def test_what_may_take_long_is_matched_with_a_limit(pattern: str, quick: bool) -> None:
    translator = Translator(pattern)
    translator.run()
    assert translator.quick is quick


@pytest.mark.parametrize(
    "pattern", ["(a|aa)+x", "(.*a)*x", "((a+)b?)+x", "a*" * 30 + "x", "(a|a)" * 30 + "x"]
)
def test_a_pattern_that_takes_too_long_is_an_error_and_others_go_on(pattern: str) -> None:
    """Before, it took for ever, and held the interpreter's lock."""
    patterns = PatternList((pattern,), "topics.exclude")
    turns = 0
    done = threading.Event()

    def others() -> None:
        nonlocal turns
        while not done.wait(0.001):
            turns += 1

    thread = threading.Thread(target=others)
    thread.start()
    try:
        for _ in range(3):
            result = _tried(patterns, "a" * 200)
            assert result is None or "topics.exclude: the pattern" in result
    finally:
        done.set()
        thread.join()
    assert result is None or turns > 0


def _tried(patterns: PatternList, name: str) -> str | None:
    """Why it could not be matched."""
    try:
        assert not patterns.matches(name)
    except PatternTooSlow as problem:
        return str(problem)
    return None


def test_a_long_name_is_matched_with_a_limit_whatever_the_pattern() -> None:
    patterns = PatternList(("a*a*b",), "groups")
    result = _tried(patterns, "a" * 30_000)
    assert result is None or "groups: the pattern" in result


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("*", "nothing to repeat"),
        ("(a", "a group is not closed"),
        ("a)", "unmatched closing )"),
        ("[a", "a character class is not closed"),
        ("[&&]", "a character class is empty"),
        ("[b-a]", "illegal character range"),
        (r"[a-\d]", "illegal character range"),
        ("a{", "illegal repetition"),
        ("a{,3}", "illegal repetition"),
        ("a\\", "it ends in the middle"),
        (r"\p{IsLatin}", r"\p{IsLatin} is not supported"),
        (r"\pL", r"\p{L} is not supported"),
        ("(?x)a", "the flag (?x) is not supported"),
        ("(?u)a", "the flag (?u) is not supported"),
        ("(?P<n>a)", "unknown group construct (?P<n"),
        (r"\y", r"the escape \y is not supported"),
        (r"\G", r"the escape \G is not supported"),
        (r"\b{g}", r"\b{...} is not supported"),
        (r"\k", r"\k wants <name>"),
        (r"\x{110000}", "no such character"),
        (r"\2", "invalid group reference"),
        ("(?<=a*)b", "look-behind requires fixed-width pattern"),
    ],
)
def test_what_is_no_regex_or_can_not_be_had_is_named(pattern: str, why: str) -> None:
    with pytest.raises(PatternProblem) as caught:
        compile_java(pattern)
    assert why in str(caught.value)
    assert pattern in str(caught.value)


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("(((a{1000}){1000}){1000})", "its repetitions come to"),
        ("(((a{1000}){100}){1000})", "its repetitions come to"),
        ("(?:ab|(?i:c)){60000}", "its repetitions come to"),
        ("((a|b){500,}x){500,600}", "its repetitions come to"),
        ("a{9999999999}", "of nine digits at most"),
        ("[" * 3000, "more than 100 deep"),
        ("(" * 3000 + ")" * 3000, "more than 100 deep"),
        ("(?i:" * 3000 + "a" + ")" * 3000, "more than 100 deep"),
    ],
)
def test_what_an_engine_would_write_out_without_end_is_refused_before(pattern: str, why: str) -> None:
    with pytest.raises(PatternProblem, match=why):
        compile_java(pattern)


@pytest.mark.parametrize(
    "pattern",
    ["(a{1,20}-){3}b", "[a-z]{1,249}", "(?:[a-z]{1,30}[.]){1,8}[a-z]{2,10}", "(a{0,9999}b){0,9999}"],
)
def test_repetitions_that_a_name_has_room_for_are_no_matter(pattern: str) -> None:
    assert compile_java(pattern).pattern == pattern


def test_a_list_names_the_element_that_is_wrong() -> None:
    said = message("config.no_pattern", pattern="b(d", why="a group is not closed", position=3)
    assert pattern_list_problem(("fine", "b(d", "x")) == said
    assert pattern_list_problem(("(a", "b)")) is None
    assert pattern_list_problem(()) is None
    assert "redefinition" in str(pattern_list_problem(("(?<n>a)", "(?<n>b)")))


@pytest.mark.parametrize(("bad", "compiled"), [(None, 1), (0, 27), (4_999, 27)])
def test_long_lists_are_not_compiled_one_by_one(bad: int | None, compiled: int) -> None:
    """Before, 5,000 names were compiled one by one, and then joined: 1.9 s instead of 1.0."""
    names = [f"topic-{number:04d}" for number in range(5_000)]
    if bad is not None:
        names[bad] = "b(d"
    with patch.object(filters, "compile_java", wraps=compile_java) as compiling:
        problem = pattern_list_problem(names)
    assert (problem is None) == (bad is None)
    assert problem is None or problem.startswith("b(d is not a regular expression")
    assert len(compiling.mock_calls) <= compiled


@pytest.mark.parametrize("pattern", [compile_java("a.*"), compile_java("abc"), exactly("a.b")])
def test_a_pattern_is_made_again_of_what_another_process_is_told(pattern: JavaPattern) -> None:
    again = exactly(pattern.pattern) if pattern.exact else compile_java(pattern.pattern)
    assert [again.fullmatch(text) for text in ("a.b", "axb", "abc")] == [
        pattern.fullmatch(text) for text in ("a.b", "axb", "abc")
    ]


def test_an_item_of_a_list_may_not_be_too_long() -> None:
    """A megabyte of a name took ten seconds to compile."""
    assert pattern_list_problem(("a" * 10_000,)) is None
    problem = pattern_list_problem(("fine", "a" * 10_001))
    assert problem == message("config.long_name", beginning="a" * 80, characters=10_001, most=10_000)


@pytest.mark.parametrize(
    ("topic", "connects"),
    [
        ("connect-configs", True),
        ("connect-cluster-offsets", True),
        ("my_connect_statuses", True),
        ("_connect-configs", True),
        ("A.connect-status", True),
        ("docker-connect-config-storage-topic", True),
        ("Kafka.Connect.Offsets", True),
        ("connect-orders", False),
        ("reconnect-status", False),
        ("connections-status", False),
        ("connect-status-orders", False),
        ("configs", False),
    ],
)
def test_internal_topics_of_connect_are_copied_where_they_are_named(topic: str, connects: bool) -> None:
    policy = DefaultReplicationPolicy()
    for topics, named in ((".*", False), (f"orders,{topic}", True), (f"{topic[:-1]}.", False)):
        topic_filter = DefaultTopicFilter()
        topic_filter.configure({"topics": topics, "topics.exclude": ""})
        assert topic_filter.should_replicate_topic(topic)
        copied = should_replicate_topic(topic, "B", topic_filter, policy)
        assert copied == (named or not connects), topics
        assert is_left_to_be_named(topic, topic_filter) == (not copied)


def test_a_filter_of_a_users_own_has_the_last_word() -> None:
    class All:
        def should_replicate_topic(self, topic: str) -> bool:
            return True

    assert should_replicate_topic("connect-configs", "B", All(), DefaultReplicationPolicy())
