"""Options of the sink."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridge.kafka.record.compression import Compression
from bridge.spark.rejected import SourceRejected
from bridge.spark.writing.options import BATCH_SIZE, COMMITS_TOPIC, read_sink_options
from tests.support.messages import message_pattern

SERVERS = {"kafka.bootstrap.servers": "a:9092"}


def test_defaults() -> None:
    options = read_sink_options({**SERVERS, "queryName": "q", "checkpointLocation": "/c"})
    assert (options.topic, options.commits_topic, options.batch_size) == ("", COMMITS_TOPIC, BATCH_SIZE)
    assert (options.transaction_ms, options.patience, options.saved) == (60_000, 120.0, None)
    assert read_sink_options(SERVERS, stream=True).transaction_ms == 899_000
    assert options.compression == Compression(0)
    assert options.transactional_id("q", 3) == "mirror-records-q-3"


def test_what_is_given() -> None:
    options = read_sink_options(
        {
            **SERVERS,
            "TOPIC": "orders",
            "transactionalidprefix": "mine",
            "kafka.compression.type": "zstd",
            "kafka.compression.zstd.level": "7",
            "kafka.transaction.timeout.ms": "900000",
            "kafka.batch.size": "16384",
            "kafka.acks": "-1",
        }
    )
    assert (options.topic, options.transaction_ms, options.batch_size) == ("orders", 900_000, 16_384)
    assert options.compression == Compression(4, 7)
    assert options.transactional_id("q", 0) == "mine-q-0"


def test_all_that_is_wrong_is_told_at_once() -> None:
    given = {
        **SERVERS,
        "topics": "orders",
        "includeHeaders": "true",
        "acks": "all",
        "kafka.comression.type": "lz4",
        "kafka.group.id": "g",
        "kafka.transactional.id": "x",
        "kafka.acks": "1",
        "kafka.compression.type": "lzma",
        "kafka.batch.size": "many",
        "kafka.compression.gzip.level": "0",
        "kafka.compression.zstd.level": "23",
        "transactionalIdPrefix": "",
        "commitsTopic": "a/b",
    }
    with pytest.raises(SourceRejected) as raised:
        read_sink_options(given)
    text = str(raised.value)
    for part in (
        "there is no option topics of the sink; did you mean topic?",
        "option includeheaders is not supported: a column headers is written",
        "there is no option acks; did you mean kafka.acks?",
        "option kafka.comression.type is no property of Kafka's producer; did you mean kafka.compression.type?",
        "option kafka.group.id is no property of Kafka's producer",
        "option kafka.transactional.id is not supported: use transactionalIdPrefix",
        "option kafka.acks is '1'; it must be all or -1",
        "option kafka.compression.type is 'lzma'; it must be none or gzip or snappy or lz4 or zstd",
        "option kafka.batch.size is 'many'; it must be a number from 1",
        "option kafka.compression.gzip.level is '0'; it must be a number from 1 to 9, or -1",
        "option kafka.compression.zstd.level is '23'; it must be a number from -131072 to 22",
        "option transactionalIdPrefix must not be empty",
        "option commitsTopic is 'a/b'; it must be the name of a topic",
    ):
        assert part in text


def test_a_batch_may_be_saved_as_an_epoch() -> None:
    options = read_sink_options({**SERVERS, "txnAppId": "billing", "txnVersion": "7"})
    assert (options.saved, options.transaction_ms) == (("billing", 7), 899_000)
    with_topic = read_sink_options({**SERVERS, "topic": "orders", "txnappid": "billing", "txnversion": "7"})
    assert with_topic.saved == ("billing/orders", 7)


@pytest.mark.parametrize(
    ("given", "stream", "said"),
    [
        ({"txnAppId": "billing"}, False, "txnVersion is missing"),
        ({"txnVersion": "7"}, False, "txnAppId is missing"),
        (
            {"txnAppId": "billing", "txnVersion": "-1"},
            False,
            "option txnVersion is '-1'; it must be a number from 0",
        ),
        ({"txnAppId": "billing", "txnVersion": "x"}, False, "option txnVersion is 'x'"),
        ({"txnAppId": "", "txnVersion": "1"}, False, "option txnAppId has 0 characters"),
        ({"txnAppId": "billing", "txnVersion": "1"}, True, "are for a batch"),
    ],
)
def test_what_can_not_be_an_epoch_is_an_error(given: dict[str, str], stream: bool, said: str) -> None:
    with pytest.raises(SourceRejected, match=said):
        read_sink_options({**SERVERS, **given}, stream=stream)


def test_bootstrap_servers_are_required() -> None:
    with pytest.raises(SourceRejected, match=r"kafka\.bootstrap\.servers"):
        read_sink_options({"topic": "orders"})


def test_properties_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=b:9092\ncompression.type=lz4\n")
    assert read_sink_options({"commandConfig": str(file)}).compression == Compression(3)
    over = read_sink_options({"commandConfig": str(file), "kafka.compression.type": "gzip"})
    assert over.compression == Compression(1)
    file.write_text("bootstrap.servers=b:9092\nfetch.min.bytes=1\n")
    said = message_pattern("spark.no_property", option="kafka.fetch.min.bytes", client="producer")
    with pytest.raises(SourceRejected, match=said):
        read_sink_options({"commandConfig": str(file)})


def test_a_secret_is_in_no_error_and_no_text() -> None:
    given = {**SERVERS, "kafka.sasl.jaas.config": "planted-s3cr3t", "kafka.security.protocol": "SASL_SSL"}
    with pytest.raises(SourceRejected) as raised:
        read_sink_options(given)
    assert "planted" not in str(raised.value)
    assert "planted" not in repr(read_sink_options({**SERVERS, "kafka.ssl.key.password": "planted"}))
