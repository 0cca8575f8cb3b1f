"""A login at a broker that may be none: nobody has proved anything yet, and whatever it says ends in an error after
which the next broker is tried."""

from __future__ import annotations

import pytest
from aiokafka.errors import KafkaConnectionError

from tests.support.messages import message_pattern
from tests.unit.kafka.network.login_broker import NONCE, PASSWORD, challenge, handshake, log_in

SALT = "c2FsdA=="


def first(said: str) -> bytes:
    """Returns the broker's first message of SCRAM."""
    return challenge(said.encode())


@pytest.mark.parametrize("iterations", ["1", "4095", "1000001", "-1", "9" * 30])
@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_scram_takes_no_more_time_than_a_broker_can_need_and_no_less_than_keeps_the_password(
    mechanism: str, iterations: str
) -> None:
    """Two thousand million took an hour of a thread for each connection; one lets whoever asks guess the password."""
    said = first(f"r={NONCE}x,s={SALT},i={iterations}")
    with pytest.raises(KafkaConnectionError, match="iterations of SCRAM; 4096 to 1000000"):
        log_in(mechanism, [handshake(mechanism), said])


@pytest.mark.parametrize(
    "said",
    [
        "",
        "\xff",
        "r",
        "i=4096",
        f"r=other,s={SALT},i=4096",
        f"r={NONCE}x,s=x,i=4096",
        f"r={NONCE}x,s={SALT},i=many",
    ],
)
def test_what_is_no_message_of_scram_is_an_error_of_the_connection(said: str) -> None:
    mechanism = "SCRAM-SHA-256"
    with pytest.raises(KafkaConnectionError, match=message_pattern("kafka.login_unreadable")) as caught:
        log_in(mechanism, [handshake(mechanism), first(said)])
    assert PASSWORD not in str(caught.value)


@pytest.mark.parametrize("said", ["", "v=", "v=AAAA", "e=other-error"])
def test_a_broker_that_does_not_know_the_password_is_none(said: str) -> None:
    mechanism = "SCRAM-SHA-256"
    with pytest.raises(KafkaConnectionError, match=message_pattern("kafka.login_unreadable")):
        log_in(
            mechanism,
            [handshake(mechanism), first(f"r={NONCE}x,s={SALT},i=4096"), challenge(said.encode())],
        )


def test_plain_has_no_second_step() -> None:
    with pytest.raises(KafkaConnectionError, match=message_pattern("kafka.login_unreadable")):
        log_in("PLAIN", [handshake("PLAIN"), challenge(b"go on")])
    assert log_in("PLAIN", [handshake("PLAIN"), challenge(b"")]).seconds == 0


@pytest.mark.parametrize(
    "responses", [[b""], [b"\0\0\x7f\xff\xff\xff"], [handshake("PLAIN"), b"\0\0\0\x05a"]]
)
def test_an_answer_that_ends_too_soon_is_an_error_of_the_connection(responses: list[bytes]) -> None:
    """The library tries the next bootstrap server after one of its own errors only."""
    with pytest.raises(KafkaConnectionError, match="can't be read"):
        log_in("PLAIN", responses)
