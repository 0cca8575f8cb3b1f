"""The answers to CreateTopics that stock tells apart (stock §1.8)."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.admin import topic_admin
from bridge.kafka.protocol.errors import failure
from tests.support.messages import message
from tests.unit.kafka.admin.library import Library, done

NAME = "mm2-offset-syncs.B.internal"
TIMED_OUT = (
    f"Timed out while checking for or creating topic '{NAME}'. This could indicate a connectivity issue, unavailable "
    "topic partitions, or if this is your first use of the topic it may have taken too long to create."
)


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    return Library(monkeypatch)


def made(library: Library, answer: int | KafkaFailure) -> KafkaFailure | None:
    def create(_: object) -> dict[str, Future[Any]]:
        if isinstance(answer, KafkaFailure):
            raise answer
        return {NAME: done(KafkaError(answer, "as the broker says") if answer else None)}

    library.answers("create_topics", create)
    return library.run(lambda client: topic_admin.create_compacted(client, NAME, 3))


ASSUMED = "MirrorUtilsTest.testCreateCompactedTopicAssumeTopicAlreadyExistsWith"


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(0, id="MirrorUtilsTest.testCreateCompactedTopic"),
        pytest.param(29, id=f"{ASSUMED}TopicAuthorizationException"),
        pytest.param(31, id=f"{ASSUMED}ClusterAuthorizationException"),
        pytest.param(35, id=f"{ASSUMED}UnsupportedVersionException"),
        pytest.param(36, id="MirrorUtilsTest.testCreateCompactedTopicAlreadyExists"),
    ],
)
def test_made_or_not_ours_to_make(library: Library, code: int) -> None:
    assert made(library, code) is None


@pytest.mark.parametrize(
    ("answer", "text", "fault"),
    [
        pytest.param(
            40,
            f"Unable to create topic '{NAME}': as the broker says",
            KafkaFault.OTHER,
            id="MirrorUtilsTest.testCreateCompactedTopicFailsWithInvalidConfigurationException",
        ),
        pytest.param(
            7,
            TIMED_OUT,
            KafkaFault.TIMEOUT,
            id="MirrorUtilsTest.testCreateCompactedTopicFailsWithTimeoutException",
        ),
        (failure(KafkaFault.UNREACHABLE, "connect", "Connection refused"), TIMED_OUT, KafkaFault.UNREACHABLE),
        (
            38,
            f"Error while attempting to create/find topic '{NAME}': as the broker says",
            KafkaFault.REPLICATION_FACTOR,
        ),
        (
            failure(KafkaFault.CREDENTIALS, "connect", "Authentication failed"),
            f"Error while attempting to create/find topic '{NAME}': Authentication failed (while trying to connect)",
            KafkaFault.CREDENTIALS,
        ),
    ],
)
def test_texts(library: Library, answer: int | KafkaFailure, text: str, fault: KafkaFault) -> None:
    failed = made(library, answer)
    assert failed is not None
    assert (str(failed), failed.fault) == (text, fault)


def test_a_broker_too_old_is_not_asked_again(library: Library) -> None:
    assert made(library, failure(KafkaFault.UNSUPPORTED, "create topic", "too old")) is None


def test_a_controller_that_keeps_moving_is_tried_again_later(library: Library) -> None:
    failed = made(library, 41)
    assert failed is not None
    assert failed.retriable
    assert str(failed).startswith(message("kafka.topic_creation", topic=NAME))


def test_one_partition_and_one_config(library: Library) -> None:
    assert made(library, 0) is None
    ((_, (topic,), how),) = library.asked
    assert (topic.topic, topic.num_partitions, topic.replication_factor) == (NAME, 1, 3)
    assert topic.config == {"cleanup.policy": "compact"}
    assert how == {"operation_timeout": 5.0, "request_timeout": 5.0}
