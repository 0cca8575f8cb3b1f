"""The answers to CreateTopics that stock tells apart (stock §1.8)."""

from __future__ import annotations

import asyncio

import pytest

from bridge.errors import KafkaFailure, KafkaFault
from bridge.kafka.admin import topic_creation
from bridge.kafka.errors import failure
from bridge.kafka.protocol.wire import Call, Reader, Writer

NAME = "mm2-offset-syncs.B.internal"
TIMED_OUT = (
    f"Timed out while checking for or creating topic '{NAME}'. This could indicate a connectivity issue, unavailable "
    "topic partitions, or if this is your first use of the topic it may have taken too long to create."
)


class ControllerClient:
    """A controller that answers these codes, one for each request."""

    def __init__(self, *answers: int | KafkaFailure, name: str = NAME) -> None:
        self._answers, self._name = list(answers), name
        self.asked: list[int] = []

    async def controller(self, doing: str) -> int:
        return len(self.asked)

    async def send(self, node: int, call: Call, doing: str) -> Reader:
        self.asked.append(node)
        answer = self._answers.pop(0)
        if isinstance(answer, KafkaFailure):
            raise answer
        writer = Writer(flexible=False)
        writer.int32(0)
        writer.array(1)
        writer.string(self._name)
        writer.int16(answer)
        writer.string("as the broker says")
        return Reader(writer.encode(), flexible=False)


def made(client: ControllerClient) -> KafkaFailure | None:
    return asyncio.run(topic_creation.create_compacted(client, NAME, 3, 1000))  # type: ignore[arg-type]


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
def test_made_or_not_ours_to_make(code: int) -> None:
    assert made(ControllerClient(code)) is None


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
            KafkaFault.OTHER,
        ),
        (
            failure(KafkaFault.CREDENTIALS, "connect", "Authentication failed"),
            f"Error while attempting to create/find topic '{NAME}': Authentication failed (while trying to connect)",
            KafkaFault.CREDENTIALS,
        ),
    ],
)
def test_texts(answer: int | KafkaFailure, text: str, fault: KafkaFault) -> None:
    failed = made(ControllerClient(answer))
    assert failed is not None
    assert (str(failed), failed.fault) == (text, fault)


def test_a_broker_too_old_is_not_asked_again() -> None:
    assert made(ControllerClient(failure(KafkaFault.UNSUPPORTED, "create topic", "too old"))) is None


def test_the_controller_is_looked_for_again_when_it_has_moved() -> None:
    client = ControllerClient(41, 41, 0)
    assert made(client) is None
    assert client.asked == [0, 1, 2]
    failed = made(ControllerClient(41, 41, 41))
    assert failed is not None
    assert failed.retriable
    assert str(failed).startswith(f"Error while attempting to create/find topic '{NAME}': ")


def test_an_answer_about_another_topic_is_no_answer() -> None:
    failed = made(ControllerClient(0, name="other"))
    assert failed is not None
    assert str(failed).startswith(f"Error while attempting to create/find topic '{NAME}': ")
