"""Passwords that are wrong, or become so: named as such, and never shown."""

from __future__ import annotations

import asyncio
import gc
import logging
import traceback

import pytest

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.cluster import KafkaCluster, KafkaClusters
from bridge.kafka.config.settings import client_settings
from bridge.model.values import Committed, Side, TopicPartition
from bridge.spark.options import for_batch
from bridge.spark.pushdown import Limits
from bridge.spark.records import batch_partitions
from tests.support import allow, commit, create_topic, unique
from tests.support.brokers import Secured
from tests.support.forms import mostly_long
from tests.support.messages import message

# aiokafka forgets to close the transport of a connection that was refused.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

SECRET = "wander-7f3a"


BOB = "credentials"
"""Who may do little; root may do all."""


def login_props(secured: Secured, mechanism: str, password: str, user: str) -> dict[str, str]:
    kind = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    login = f'org.apache.kafka.common.security.{kind} required username="{user}" password="{password}";'
    return {
        "source.cluster.bootstrap.servers": secured.address("SASL_PLAINTEXT"),
        "source.cluster.security.protocol": "SASL_PLAINTEXT",
        "source.cluster.sasl.mechanism": mechanism,
        "source.cluster.sasl.jaas.config": login,
        "source.admin.request.timeout.ms": "5000",
        "source.consumer.request.timeout.ms": "5000",
    }


def cluster(secured: Secured, mechanism: str, password: str, user: str = "root") -> KafkaCluster:
    return KafkaCluster(client_settings(Side.SOURCE, login_props(secured, mechanism, password, user)))


@pytest.mark.parametrize("mechanism", mostly_long(["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]))
def test_a_wrong_password_is_named_and_not_shown(
    secured: Secured, mechanism: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever the log level: the library itself logs requests at DEBUG, the password of PLAIN among them."""
    caplog.set_level(logging.DEBUG)

    async def go() -> KafkaFailure:
        clusters = KafkaClusters()
        try:
            await clusters.open(Side.SOURCE, login_props(secured, mechanism, SECRET, "root")).list_groups()
        except KafkaFailure as failure:
            return failure
        finally:
            await clusters.close()
        raise AssertionError("it was let in")

    failure = asyncio.run(go())
    gc.collect()
    assert (failure.fault, failure.retriable) == (KafkaFault.CREDENTIALS, False)
    assert str(failure) == message("kafka.doing", said="Authentication failed", doing="connect")
    chain = "".join(traceback.format_exception(failure))
    assert SECRET not in chain + caplog.text + repr(failure)


def test_sources_of_spark_name_a_wrong_password_and_a_missing_right(secured: Secured) -> None:
    def planned(password: str, user: str) -> str:
        props = login_props(secured, "PLAIN", password, user)
        kafka = {
            key.replace("source.cluster.", "kafka."): value
            for key, value in props.items()
            if key.startswith("source.cluster.")
        }
        with pytest.raises(KafkaFailure) as caught:
            batch_partitions(for_batch({**kafka, "subscribe": topic}), Limits())
        assert password not in str(caught.value)
        return str(caught.value)

    topic = create_topic(secured.bootstrap, unique("guarded"))
    assert planned(SECRET, "root").startswith("Authentication failed (while trying to ")
    assert f"grant DESCRIBE on topic {topic}" in planned("builder", BOB)


def test_a_password_that_becomes_wrong_is_named_too(
    secured: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the first connection too, when the client itself says no more than that the node is not ready."""

    async def go() -> KafkaFault:
        mine = cluster(secured, "SCRAM-SHA-256", "wonder")
        try:
            await mine.list_groups()
            client = mine._client._client
            assert client is not None
            # As after a rotation: connections are made anew, with a password that does not count any more.
            client._sasl_plain_password = SECRET
            sasl = mine._client.settings.sasl
            assert sasl is not None
            object.__setattr__(sasl, "password", SECRET)
            for connection in client._conns.values():
                connection.close()
            with pytest.raises(KafkaFailure) as caught:
                await mine.list_groups()
            assert SECRET not in "".join(traceback.format_exception(caught.value))
            return caught.value.fault
        finally:
            await mine.close()

    assert asyncio.run(go()) is KafkaFault.CREDENTIALS
    gc.collect()


def test_what_is_not_allowed_is_named_one_by_one(secured: Secured) -> None:
    """Bob may see one topic and one group of two."""
    seen, hidden = (create_topic(secured.bootstrap, unique(name)) for name in ("seen", "hidden"))
    mine, other = unique("mine"), unique("other")
    commit(secured.bootstrap, mine, {(seen, 0): 0})
    commit(secured.bootstrap, other, {(seen, 0): 0})
    allow(secured.bootstrap, f"User:{BOB}", seen, "DESCRIBE")
    allow(secured.bootstrap, f"User:{BOB}", mine, "READ", "GROUP")

    async def go() -> None:
        bob = cluster(secured, "PLAIN", "builder", BOB)
        try:
            topics = await bob.topics([seen, hidden])
            assert not isinstance(topics[seen], KafkaFailure)
            denied = topics[hidden]
            assert isinstance(denied, KafkaFailure)
            assert (denied.fault, hidden in str(denied)) == (KafkaFault.NOT_AUTHORIZED, True)
            offsets = await bob.committed([mine, other])
            place = TopicPartition(seen, 0)
            assert offsets[mine] == {place: Committed(0)}
            refused = offsets[other]
            assert isinstance(refused, KafkaFailure)
            assert (refused.fault, other in str(refused)) == (KafkaFault.NOT_AUTHORIZED, True)
            written = (await bob.alter(mine, {place: Committed(0)}))[place]
            assert isinstance(written, KafkaFailure)  # no READ on the topic
            assert written.fault is KafkaFault.NOT_AUTHORIZED
        finally:
            await bob.close()

    asyncio.run(go())
    gc.collect()
