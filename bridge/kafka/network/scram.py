"""Logs in by SCRAM, and lets no broker choose how long that takes, or how little guards the password.

The library does as many iterations as a broker asks for, before the broker has proved anything: two thousand million
take a thread for an hour, and of one whoever listens can guess the password.
"""

from __future__ import annotations

import asyncio

from aiokafka.conn import ScramAuthenticator
from aiokafka.errors import KafkaConnectionError

LEAST_ITERATIONS, MOST_ITERATIONS = 4096, 1_000_000
"""As few as Java's client takes; brokers of Kafka store 16,384 at most. The most take about a second."""


class LimitedScramAuthenticator(ScramAuthenticator):
    """The library's authenticator; raises KafkaConnectionError where a broker asks for fewer or more iterations."""

    def __init__(self, mechanism: str, user: str, password: str, loop: asyncio.AbstractEventLoop) -> None:
        ScramAuthenticator.__init__(
            self,
            loop=loop,
            sasl_plain_password=password,
            sasl_plain_username=user,
            sasl_mechanism=mechanism,
        )

    def create_salted_password(self, salt: bytes, iterations: int) -> None:
        if not LEAST_ITERATIONS <= iterations <= MOST_ITERATIONS:
            raise KafkaConnectionError(
                f"The broker asks for {iterations} iterations of SCRAM; {LEAST_ITERATIONS} to {MOST_ITERATIONS} are "
                "done: store the user's credentials again with as many, unless it is no broker of yours"
            )
        ScramAuthenticator.create_salted_password(self, salt, iterations)
