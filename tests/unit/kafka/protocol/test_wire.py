"""Requests and answers against bytes of Kafka's own message classes (tests/golden), and the parts of the encoding."""

from __future__ import annotations

import gc
import weakref
from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.admin import inspection
from bridge.kafka.admin.inspection import DescribedTopic, Description
from bridge.kafka.protocol import connection_requests, group_requests, log_requests, produce_requests
from bridge.kafka.protocol.log_requests import FetchPartition, ListedOffset, PartitionMetadata
from bridge.kafka.protocol.produce_requests import ProducerIdAndEpoch
from bridge.kafka.protocol.wire import ApiKeys, Call, Reader, Writer
from bridge.model.values import Committed, GroupListing, GroupState, TopicPartition
from tests.unit.kafka.protocol.golden import MESSAGES, answer, encoded, read_whole

ID = "11223344-5566-7788-99aa-bbccddeeff00"
ORDERS = [TopicPartition("orders", number) for number in range(4)]


@pytest.mark.parametrize("version", [9, 10, 11, 12])
def test_metadata(version: int) -> None:
    assert encoded(log_requests.metadata(["orders", "größe"]), version) == MESSAGES["metadata", version]
    result = log_requests.read_metadata(answer("metadata-answer", version, flexible=True), version)
    topic = result["orders"]
    assert topic.topic_id == (ID if version >= 10 else "")
    assert topic.partitions == {0: PartitionMetadata(0, 1, 5), 1: PartitionMetadata(5, -1, -1)}
    assert (topic.error, result["gone"].error, result["gone"].partitions) == (0, 3, {})
    assert log_requests.read_controller(answer("metadata-answer", version, flexible=True)) == 1
    assert encoded(log_requests.metadata(None), version) == MESSAGES["metadata-all", version]


@pytest.mark.parametrize("version", [4, 5])
def test_list_offsets(version: int) -> None:
    call = log_requests.list_offsets({ORDERS[0]: -1, ORDERS[3]: 1700000000000}, committed_only=True)
    assert encoded(call, version) == MESSAGES["list-offsets", version]
    reader = answer("list-offsets-answer", version, flexible=False)
    assert log_requests.read_listed_offsets(reader) == {
        ORDERS[0]: ListedOffset(0, 42, 5),
        ORDERS[3]: ListedOffset(6, -1, -1),
    }
    assert read_whole(reader)


@pytest.mark.parametrize("version", [11, 12, 13])
def test_fetch(version: int) -> None:
    parts = {ORDERS[0]: FetchPartition(ID, 77, 4096), ORDERS[2]: FetchPartition(ID, 5_000_000_000, 9)}
    call = log_requests.fetch(parts, committed_only=True)
    assert encoded(call, version) == MESSAGES["fetch", version]
    reader = answer("fetch-answer", version, flexible=call.flexible)
    result = log_requests.read_fetched(reader, version, {ID: "orders"})
    assert result[ORDERS[0]] == log_requests.PartitionData(0, 100, 90, 3, [(4000, 80)], b"\1\2\3")
    assert (result[ORDERS[2]].error, result[ORDERS[2]].records) == (1, b"")


@pytest.mark.parametrize("version", [12, 13])
def test_fetch_after_an_epoch(version: int) -> None:
    call = log_requests.fetch({ORDERS[0]: FetchPartition(ID, 77, 4096, last_epoch=5)}, committed_only=False)
    assert encoded(call, version) == MESSAGES["fetch-after-epoch", version]
    reader = answer("fetch-after-epoch-answer", version, flexible=True)
    assert log_requests.read_fetched(reader, version, {ID: "orders"}) == {
        ORDERS[0]: log_requests.PartitionData(0, 100, 90, 3, [], b"", diverged=(4, 60))
    }


@pytest.mark.parametrize("version", [11, 12, 13])
def test_fetch_in_a_session(version: int) -> None:
    part = FetchPartition(ID, 77, 4096, last_epoch=5)
    forgotten = [(ID, ORDERS[2]), (ID, ORDERS[3])]
    params = log_requests.FetchParams(500, 1 << 20, 1234567, 3, forgotten)
    call = log_requests.fetch({ORDERS[0]: part}, committed_only=True, params=params)
    assert encoded(call, version) == MESSAGES["fetch-in-session", version]
    reader = answer("fetch-in-session-answer", version, flexible=call.flexible)
    assert log_requests.read_fetch_response(reader, version, {}) == (71, 1234567, {})


def test_epoch_ends() -> None:
    assert encoded(log_requests.epoch_ends({ORDERS[0]: 7}), 3) == MESSAGES["epoch-ends", 3]
    reader = answer("epoch-ends-answer", 3, flexible=False)
    assert log_requests.read_epoch_ends(reader) == {ORDERS[0]: (6, 5, 42)}
    assert read_whole(reader)


@pytest.mark.parametrize("version", [1, 2])
def test_find_transaction_coordinator(version: int) -> None:
    call = produce_requests.find_transaction_coordinator("tx-ö")
    assert encoded(call, version) == MESSAGES["find-transaction-coordinator", version]
    reader = answer("find-transaction-coordinator-answer", version, flexible=False)
    assert produce_requests.read_transaction_coordinator(reader) == (15, 3)


@pytest.mark.parametrize("version", [3, 4])
def test_init_producer_id(version: int) -> None:
    call = produce_requests.init_producer_id("tx-ö", 15_000, ProducerIdAndEpoch(4000, 7))
    assert encoded(call, version) == MESSAGES["init-producer-id", version]
    reader = answer("init-producer-id-answer", version, flexible=True)
    assert produce_requests.read_producer_id(reader) == (51, ProducerIdAndEpoch(4001, 8))


@pytest.mark.parametrize("version", [2, 3])
def test_transactions(version: int) -> None:
    call = produce_requests.add_partitions("tx-ö", ProducerIdAndEpoch(4000, 7), [ORDERS[0], ORDERS[2]])
    assert encoded(call, version) == MESSAGES["add-partitions", version]
    reader = answer("add-partitions-answer", version, flexible=call.flexible)
    assert produce_requests.read_added_partitions(reader) == {ORDERS[0]: 55, ORDERS[2]: 29}
    call = produce_requests.end_transaction("tx-ö", ProducerIdAndEpoch(4000, 7), commit=True)
    assert encoded(call, version) == MESSAGES["end-transaction", version]
    reader = answer("end-transaction-answer", version, flexible=call.flexible)
    assert produce_requests.read_ended_transaction(reader) == 90


def test_produce() -> None:
    batches = {ORDERS[0]: bytearray(b"\1\2\3"), ORDERS[2]: bytearray(b"\4")}
    assert encoded(produce_requests.produce("tx-ö", batches, 15_000), 8) == MESSAGES["produce", 8]
    reader = answer("produce-answer", 8, flexible=False)
    produced, throttle = produce_requests.read_produced(reader)
    assert produced == {
        ORDERS[0]: (0, 42, (), "", 3),
        ORDERS[2]: (87, -1, ((5, "no key"),), "spoilt", -1),
    }
    assert throttle == 0.001
    assert read_whole(reader)


def test_api_versions() -> None:
    assert encoded(connection_requests.api_versions(), 0) == MESSAGES["api-versions", 0]
    reader = answer("api-versions-answer", 0, flexible=False)
    assert connection_requests.read_api_versions(reader) == {3: (0, 12), 60: (0, 1)}
    assert read_whole(reader)


def test_describe_cluster() -> None:
    assert encoded(inspection.describe_cluster(), 0) == MESSAGES["describe-cluster", 0]
    reader = answer("describe-cluster-answer", 0, flexible=True)
    allowed = frozenset({"DESCRIBE", "IDEMPOTENT_WRITE"})
    described = inspection.read_description(reader, "ask")
    assert described == Description("c", {1: "h:9", 2: "größe:9"}, allowed)


def test_sasl_handshake() -> None:
    assert encoded(connection_requests.handshake("SCRAM-SHA-256"), 1) == MESSAGES["sasl-handshake", 1]
    reader = answer("sasl-handshake-answer", 1, flexible=False)
    assert connection_requests.read_handshake(reader) == (33, ("PLAIN", "größe"))
    assert read_whole(reader)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_sasl_authenticate(version: int) -> None:
    call = connection_requests.authenticate(b"\1\2\3")
    assert encoded(call, version) == MESSAGES["sasl-authenticate", version]
    reader = answer("sasl-authenticate-answer", version, flexible=call.flexible)
    lifetime = 3_600_000 if version >= 1 else 0
    assert connection_requests.read_authenticated(reader, version) == (58, "möchte nicht", b"\4\5", lifetime)
    reader.tags()
    assert read_whole(reader)


@pytest.mark.parametrize("version", [9, 10])
def test_topics_with_their_operations(version: int) -> None:
    assert encoded(inspection.describe_topics(["orders"]), version) == MESSAGES["describe-topics", version]
    reader = answer("describe-topics-answer", version, flexible=True)
    assert inspection.read_topics(reader, version) == {
        "orders": DescribedTopic(0, 1, frozenset({"READ", "DESCRIBE"})),
        "größe": DescribedTopic(29, 0, None),
    }
    reader = answer("describe-topics-answer", version, flexible=True)
    assert log_requests.read_controller(reader) == 2


def test_a_fetch_without_topic_ids_stays_by_name() -> None:
    call = log_requests.fetch({ORDERS[0]: FetchPartition("", 0, 1)}, committed_only=False)
    assert call.prepare({1: (4, 17)}).API_VERSION == 11


@pytest.mark.parametrize("version", [4, 5])
def test_list_groups(version: int) -> None:
    assert encoded(group_requests.list_groups(), version) == MESSAGES["list-groups", version]
    reader = answer("list-groups-answer", version, flexible=True)
    assert group_requests.read_groups(reader, version) == (
        0,
        [
            GroupListing("g", GroupState.PREPARING_REBALANCE, "classic", "consumer"),
            GroupListing("größe", GroupState.EMPTY, "share" if version >= 5 else "classic", ""),
        ],
    )


def test_group_states_of_the_wire_and_of_the_future() -> None:
    assert [
        group_requests.group_state(name) for name in ("Stable", "CompletingRebalance", "Dead", "Odd", "")
    ] == [
        GroupState.STABLE,
        GroupState.COMPLETING_REBALANCE,
        GroupState.DEAD,
        GroupState.UNKNOWN,
        GroupState.UNKNOWN,
    ]


def test_describe_groups() -> None:
    assert encoded(group_requests.describe_groups(["g", "größe"]), 5) == MESSAGES["describe-groups", 5]
    reader = answer("describe-groups-answer", 5, flexible=True)
    unknown = -(1 << 31)
    assert group_requests.read_described_groups(reader) == {
        "g": (0, GroupState.COMPLETING_REBALANCE, [("c", b"\3"), ("c", b"")], unknown, "consumer"),
        "größe": (16, GroupState.UNKNOWN, [], unknown, ""),
        "none": (0, GroupState.DEAD, [], unknown, ""),
    }


def test_describe_groups_with_operations() -> None:
    """The last byte before the tags."""
    call = group_requests.describe_groups(["g", "größe"], operations=True)
    assert encoded(call, 5) == MESSAGES["describe-groups", 5][:-2] + b"\1\0"


@pytest.mark.parametrize(
    ("assignment", "has_partitions"),
    [
        (b"", False),
        (b"\3", False),
        (b"\0\1\0\0\0\0\xff\xff\xff\xff", False),
        (b"\0\1\0\0\0\1\0\1t\0\0\0\1\0\0\0\0\xff\xff\xff\xff", True),
    ],
    ids=["none", "cut", "no topic", "a topic"],
)
def test_members_that_have_partitions(assignment: bytes, has_partitions: bool) -> None:
    assert group_requests.GroupMember("c", assignment).has_partitions is has_partitions


def test_find_coordinators() -> None:
    assert encoded(group_requests.find_coordinators(["g", "größe"]), 4) == MESSAGES["find-coordinators", 4]
    reader = answer("find-coordinators-answer", 4, flexible=True)
    assert group_requests.read_coordinators(reader) == {"g": (0, 3), "größe": (15, -1)}


def test_fetch_offsets() -> None:
    assert encoded(group_requests.fetch_offsets(["g", "größe"]), 8) == MESSAGES["fetch-offsets", 8]
    reader = answer("fetch-offsets-answer", 8, flexible=True)
    assert group_requests.read_fetched_offsets(reader) == {
        "g": (0, {ORDERS[0]: Committed(42, "möchte", 5), ORDERS[3]: Committed(0, "", -1)}),
        "größe": (30, {}),
    }


@pytest.mark.parametrize("version", [6, 7])
def test_commit_offsets(version: int) -> None:
    offsets = {ORDERS[0]: Committed(42, "möchte", 5), ORDERS[1]: Committed(7)}
    assert (
        encoded(group_requests.commit_offsets("g", offsets), version) == MESSAGES["commit-offsets", version]
    )
    reader = answer("commit-offsets-answer", version, flexible=False)
    assert group_requests.read_committed_offsets(reader) == {ORDERS[0]: 0, ORDERS[1]: 25}
    assert read_whole(reader)


@pytest.mark.parametrize(("flexible_from", "header"), [(13, 1), (9, 2)])
def test_headers(flexible_from: int, header: int) -> None:
    call = Call(
        ApiKeys.METADATA,
        versions=range(9, 13),
        flexible_from=flexible_from,
        write=lambda _writer, _version: None,
    ).prepare({3: (0, 12)})
    assert call.build_request_header(99, "bridge").encode() == MESSAGES["header", header]
    buffer = BytesIO(MESSAGES["answer-header", header - 1] + b"rest")
    assert call.parse_response_header(buffer).correlation_id == 99
    assert buffer.read() == b"rest"
    assert call.decode(BytesIO(b"data")).flexible is (header == 2)


@pytest.mark.parametrize(("offered", "chosen"), [((0, 99), 12), ((10, 11), 11), ((0, 9), 9), ((12, 12), 12)])
def test_the_highest_version_that_both_speak(offered: tuple[int, int], chosen: int) -> None:
    assert chosen == log_requests.metadata([]).prepare({3: offered}).API_VERSION


@pytest.mark.parametrize("offered", [{3: (0, 8)}, {3: (13, 20)}, {}])
def test_a_broker_without_a_common_version_is_named(offered: dict[int, tuple[int, int]]) -> None:
    with pytest.raises(KafkaFailure, match="METADATA v9 to v12 are needed, the broker ") as caught:
        log_requests.metadata([]).prepare(offered)
    assert (caught.value.fault, caught.value.retriable) == (KafkaFault.UNSUPPORTED, False)


fields = st.one_of(
    st.tuples(st.just("int8"), st.integers(-(2**7), 2**7 - 1)),
    st.tuples(st.just("int16"), st.integers(-(2**15), 2**15 - 1)),
    st.tuples(st.just("int32"), st.integers(-(2**31), 2**31 - 1)),
    st.tuples(st.just("int64"), st.integers(-(2**63), 2**63 - 1)),
    st.tuples(st.just("varint"), st.integers(0, 2**32 - 1)),
    st.tuples(st.just("string"), st.text(max_size=300)),
    st.tuples(st.just("uuid"), st.uuids().map(str)),
)


@given(st.booleans(), st.lists(fields))
def test_what_is_written_is_read(flexible: bool, values: list[tuple[str, object]]) -> None:
    writer = Writer(flexible=flexible)
    for kind, value in values:
        getattr(writer, kind)(value)
        writer.tags()
    reader = Reader(writer.encode(), flexible=flexible)
    for kind, value in values:
        if kind == "int8":
            reader.skip(1)
        else:
            assert getattr(reader, kind)() == value
        reader.tags()
    assert read_whole(reader)


@pytest.mark.parametrize("flexible", [False, True])
def test_null_and_empty_are_told_apart_when_written(flexible: bool) -> None:
    def written(value: str | None) -> bytes:
        writer = Writer(flexible=flexible)
        writer.string(value)
        return bytes(writer.encode())

    assert (written(None), written("")) == ((b"\0", b"\1") if flexible else (b"\xff\xff", b"\0\0"))
    for length in (None, 0):
        writer = Writer(flexible=flexible)
        writer.array(length)
        assert len(Reader(writer.encode(), flexible=flexible).array()) == 0


def test_tagged_fields_that_we_do_not_know_are_stepped_over() -> None:
    reader = Reader(b"\x02" + b"\x00\x03abc" + b"\x05\x01z" + b"\x00\x09", flexible=True)
    reader.tags()
    assert reader.int16() == 9


def test_a_call_and_what_it_sends_end_without_the_garbage_collector() -> None:
    gc.disable()
    try:
        call = Call(
            ApiKeys.PRODUCE,
            versions=range(8, 9),
            flexible_from=9,
            write=lambda writer, _version: writer.int8(0),
        )
        assert encoded(call, 8) == b"\0"
        gone = weakref.ref(call)
        del call
        assert gone() is None
    finally:
        gc.enable()
